/* SPDX-License-Identifier: MIT */
/* Blocks: MX scales, MX blocks both ways, packing. */
#include "config.h"

#include "base/library.h"
#include "conform/number.h"
#include "conform/threshold.h"

static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2,
                                           MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXINT8};

enum { N_FORMATS = sizeof formats / sizeof formats[0], BLOCK = 32, N_RULES = MXFP_RULE_LOG_NEAREST + 1 };

static const struct mxfp_format_info *element_of(const struct question *q)
{
	return mxfp_format_get_info(mxfp_format_get_info(q->format)->element);
}

/* The scale byte of a block whose largest magnitude is that. */
static int rule_scale(enum mxfp_format format, enum mxfp_rule rule, uint32_t amax)
{
	uint32_t x[BLOCK] = {amax};
	uint8_t codes[BLOCK], scale;
	struct mxfp_blocks blocks = mxfp_blocks_at(format, 1, BLOCK, codes, &scale);
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = rule};

	must_succeed(dense_quantize(&blocks, MXFP_FORMAT_F32, x, &options, REFERENCE));
	return scale;
}

/* Whether a magnitude is the largest of the element times a power of two. */
static bool is_exact(const struct mxfp_format_info *e, uint32_t amax)
{
	return (amax & F32_INF) != 0 && (amax & 0x7FFFFF) == (code_decode(e, e->max_code) & 0x7FFFFF);
}

/* Whether a magnitude is the one that a rule compares with, times a power of two. */
static bool is_threshold(const struct mxfp_format_info *e, enum mxfp_rule rule, uint32_t amax, struct threshold *t)
{
	return threshold_of(t, e, rule) && t->is_exact && threshold_significand(amax) == t->significand;
}

static bool scale_quirks(const struct way *way)
{
	for (int quirk = QUIRK_AMAX_BF16; quirk <= QUIRK_ZERO_BLOCK_NAN; quirk++)
		if (has_quirk(way, (enum quirk)quirk))
			return true;
	return has_quirk(way, QUIRK_FLUSH_SOURCE) || has_quirk(way, QUIRK_VIA_BF16) || has_quirk(way, QUIRK_VIA_BF16_CUT);
}

/* The same without its lower end, where a hundred binades more are not past the upper one. */
static int free_scale(enum mxfp_format format, enum mxfp_rule rule, uint32_t amax)
{
	const uint32_t higher = f32_bits(ldexpf(f32_value(amax), 100));

	return higher < F32_INF ? rule_scale(format, rule, higher) - 100 : rule_scale(format, rule, amax);
}

/* The scale in a way, of which the low byte is stored; under `mse` the first candidate. */
static int way_scale(const struct question *q, const struct way *way, uint32_t amax)
{
	const struct mxfp_format_info *e = element_of(q);
	const enum mxfp_rule chosen = (enum mxfp_rule)way->choice[MXFP_OPTION_RULE], rule = chosen == MXFP_RULE_MSE ? MXFP_RULE_FLOOR : chosen;
	struct threshold t;

	if (amax == F32_INF && has_quirk(way, QUIRK_INF_LARGE)) {
		const int half = way_scale(q, way, UINT32_C(0x7F000000)); /* 2^127 */

		return half < 254 ? half + 1 : half;
	}
	if (!scale_quirks(way) || amax > F32_INF)
		return rule_scale(q->format, rule, amax);
	if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (amax & F32_INF) == 0)
		amax = 0;
	if (has_quirk(way, QUIRK_VIA_BF16) || has_quirk(way, QUIRK_AMAX_BF16)) {
		const struct mxfp_format_info *bf16 = mxfp_format_get_info(MXFP_FORMAT_BF16);

		amax = code_decode(bf16, number_encode(bf16, amax, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT));
	}
	if (has_quirk(way, QUIRK_VIA_BF16_CUT) || has_quirk(way, QUIRK_AMAX_BF16_CUT))
		amax &= UINT32_C(0xFFFF0000);
	if (has_quirk(way, QUIRK_AMAX_CUT_8) && amax != 0 && amax < F32_INF) {
		const int unit = ilogbf(f32_value(amax)) - 7;

		amax = f32_bits(ldexpf(truncf(ldexpf(f32_value(amax), -unit)), unit));
	}
	if (amax == F32_INF)
		amax = F32_MAX;
	if (has_quirk(way, QUIRK_FIELD_WRAPS))
		return ((int)(amax >> 23) - e->emax) & 0xFF;
	if (amax == 0) {
		if (has_quirk(way, QUIRK_SCALE_AT_LEAST_1))
			return 0x01;
		if (has_quirk(way, QUIRK_ZERO_BLOCK_ONE))
			return 0x7F;
		if (has_quirk(way, QUIRK_ZERO_BLOCK_LEAST))
			return 0x01;
		if (has_quirk(way, QUIRK_ZERO_BLOCK_NAN))
			return 0xFF;
		return has_quirk(way, QUIRK_SCALE_UNBIASED) ? -127 : 0;
	}
	const float largest = f32_value(code_decode(e, e->max_code));
	if (has_quirk(way, QUIRK_THRESHOLD_OTHER) && is_threshold(e, rule, amax, &t))
		amax = t.is_reached ? amax - 1 : amax + 1;
	int scale = rule_scale(q->format, rule, amax);
	if (has_quirk(way, QUIRK_QUOTIENT_FLOOR))
		scale = (int)(f32_bits(f32_value(amax) / largest) >> 23);
	if (has_quirk(way, QUIRK_QUOTIENT_LOG2)) {
		const float log = ceilf(log2f(f32_value(amax) / largest));

		scale = log < -127 ? 0 : (int)log + 127;
	}
	if (has_quirk(way, QUIRK_LOG2_FLOAT) || has_quirk(way, QUIRK_LOG2_NAN) || has_quirk(way, QUIRK_LOG2_TOWARD_ZERO)) {
		const float v = f32_value(amax);
		const double log = has_quirk(way, QUIRK_LOG2_TOWARD_ZERO) ? log2((double)v) : (double)log2f(v);

		scale = (int)(has_quirk(way, QUIRK_LOG2_TOWARD_ZERO) ? log : floor(log)) - e->emax + 127;
		scale = scale < 0 ? 0 : scale > 254 && !has_quirk(way, QUIRK_LOG2_NAN) ? 254 : scale;
	}
	if (has_quirk(way, QUIRK_SCALE_WRAPS) || has_quirk(way, QUIRK_SCALE_WRAPS_LATE))
		scale = free_scale(q->format, rule, amax);
	if (has_quirk(way, QUIRK_SCALE_NO_EMAX))
		scale = (int)(amax >> 23);
	if (has_quirk(way, QUIRK_SCALE_EXACT_PLUS) && is_exact(e, amax))
		scale = free_scale(q->format, rule, amax) < 0 ? 0 : scale + 1;
	if (has_quirk(way, QUIRK_SCALE_BIAS_125))
		scale = scale > 2 ? scale - 2 : 0;
	if (has_quirk(way, QUIRK_SCALE_PLUS))
		scale++;
	if (has_quirk(way, QUIRK_SCALE_MINUS))
		scale = scale > 0 || has_quirk(way, QUIRK_SCALE_WRAPS) ? scale - 1 : 0;
	if ((has_quirk(way, QUIRK_SCALE_AT_LEAST_1) || has_quirk(way, QUIRK_SCALE_1_UNLESS_ZERO)) && scale < 1)
		scale = 1;
	if (has_quirk(way, QUIRK_SCALE_UNBIASED))
		scale -= 127;
	return has_quirk(way, QUIRK_SCALE_WRAPS) ? scale & 0xFF : scale;
}

/* Scales. */

/* Rules by largest magnitude alone: all but mse. */
static bool scale_question(struct question *q, size_t i)
{
	const enum mxfp_rule rule = (enum mxfp_rule)(1 + i % (N_RULES - 1));
	question_begin(q, OP_SCALE);
	q->format = formats[i / (N_RULES - 1)];
	question_key(q, "format", mxfp_format_get_info(q->format)->name);
	question_choice(q, "rule", MXFP_OPTION_RULE, (int)rule);
	question_in(q, 4, 4);
	question_out(q, 1, 1);
	return true;
}

static void add_f32(struct items *items, uint32_t x)
{
	uint8_t bytes[4];

	store_f32(bytes, x);
	items_add(items, bytes);
}

/* Significands that are asked at every exponent: all multiples of 1/32, what rules compare with, and the first that has more. */
static size_t significands(const struct mxfp_format_info *e, uint32_t list[64])
{
	struct threshold t;
	size_t n = 0;

	for (uint32_t part = 0; part < 32; part++)
		list[n++] = part << 18;
	for (int rule = 0; rule < N_RULES; rule++)
		for (uint32_t more = 0; threshold_of(&t, e, (enum mxfp_rule)rule) && more <= !t.is_reached; more++)
			if ((t.significand + more) % (1 << 18) != 0)
				list[n++] = t.significand + more;
	return n;
}

/* A magnitude and its neighbours. */
static void add_beside(struct items *items, uint32_t x)
{
	if (x > 1)
		add_f32(items, x - 1);
	add_f32(items, x);
	add_f32(items, x + 1);
}

static void scale_items(const struct question *q, struct items *items)
{
	uint32_t list[64];
	const size_t n = significands(element_of(q), list);

	add_f32(items, 0);
	for (uint32_t x = 1; x < 20; x++)
		add_f32(items, x);
	add_f32(items, F32_MAX);
	for (uint32_t field = 0; field < 255; field += items->quick && field > 12 && field < 240 ? 7 : 1)
		for (size_t i = 0; i < n; i++)
			add_beside(items, field << 23 | list[i]);
	for (unsigned shift = 1; shift < 24; shift++) /* subnormal */
		for (size_t i = 0; i < n; i++)
			add_beside(items, (UINT32_C(1) << 23 | list[i]) >> shift);
	for (int i = 0; i < (items->quick ? 1000 : 20000); i++)
		add_f32(items, (uint32_t)items_random(items) % F32_INF);
}

static void scale_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                         uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)way_scale(q, way, load_f32(in + 4 * i));
}

static const char *amax_class(const struct question *q, uint32_t amax)
{
	const struct mxfp_format_info *e = element_of(q);
	struct threshold t;

	if (amax == 0)
		return "zero";
	if ((amax & F32_INF) == 0)
		return "subnormal";
	const int exponent = (int)(amax >> 23) - 127;
	if (exponent - e->emax < -127)
		return "scale below the least";
	if (exponent - e->emax < -126)
		return "scale the least";
	if ((amax & 0x7FFFFF) == 0)
		return "power of two";
	if (is_exact(e, amax))
		return "the largest times a power of two";
	if (is_threshold(e, (enum mxfp_rule)q->way.choice[MXFP_OPTION_RULE], amax, &t))
		return "where the rule decides";
	return (amax & 0x7FFFFF) == 0x7FFFFF ? "just below a power of two" : "number";
}

static const char *scale_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	(void)expected;
	return amax_class(q, load_f32(in));
}

const struct operation operation_scale = {
	scale_question, N_FORMATS * (N_RULES - 1), scale_items, scale_answer, scale_class, NULL,
};

/* MX blocks. */

static bool mx_question(struct question *q, size_t i)
{
	const size_t n_rounds = 4; /* rne, rna, rhz, rtz */

	const size_t format = i / (N_RULES * n_rounds), rule = i / n_rounds % N_RULES, round = i % n_rounds;
	/* Other modes than rne with one rule: they have nothing to do with each other. */
	if (round != MXFP_ROUND_RNE && rule != MXFP_RULE_FLOOR)
		return false;
	question_begin(q, OP_MX);
	q->format = formats[format];
	question_key(q, "format", mxfp_format_get_info(q->format)->name);
	question_choice(q, "rule", MXFP_OPTION_RULE, (int)rule);
	question_choice(q, "round", MXFP_OPTION_ROUND, (int)round);
	question_in(q, BLOCK * 4, 4);
	question_out(q, BLOCK * element_of(q)->bits / 8, 1);
	question_out(q, 1, 1);
	return true;
}

static void add_block(struct items *items, const uint32_t x[BLOCK])
{
	uint8_t bytes[BLOCK * 4];

	for (int i = 0; i < BLOCK; i++)
		store_f32(bytes + 4 * i, x[i]);
	items_add(items, bytes);
}

/* A block of numbers below amax, one of which is amax. */
static void add_random_block(struct items *items, uint32_t amax, int spread)
{
	const int exponent = (int)(amax >> 23) - 127;
	uint32_t x[BLOCK];

	for (int i = 0; i < BLOCK; i++) {
		x[i] = number_random(items, exponent - spread, spread);
		if ((x[i] & ~F32_SIGN) > amax)
			x[i] = (x[i] & F32_SIGN) | (amax >> 1);
	}
	const uint64_t word = items_random(items);
	x[word % BLOCK] = amax | (uint32_t)(word >> 32 & 1) << 31;
	add_block(items, x);
}

/* Values of the element and what lies between, under a scale of 2^exponent. */
static void add_tie_block(struct items *items, const struct mxfp_format_info *e, int exponent)
{
	uint32_t x[BLOCK];

	for (int i = 0; i < BLOCK; i++) {
		const uint32_t code = (uint32_t)(items_random(items) % e->max_code);
		const double low = (double)f32_value(code_decode(e, code)), high = (double)f32_value(code_decode(e, code + 1));

		x[i] = f32_bits((float)ldexp(i % 2 ? low : low + (high - low) / 2, exponent)) | (items_random(items) & 1 ? F32_SIGN : 0);
	}
	x[items_random(items) % BLOCK] = f32_bits((float)ldexp((double)f32_value(code_decode(e, e->max_code)), exponent));
	add_block(items, x);
}

/* Numbers past a tie by one bit of any weight, every other one of the codes below the least normal one, where the bit may leave the
   significand before it is looked at. */
static void add_sticky_block(struct items *items, const struct mxfp_format_info *e, int exponent)
{
	uint32_t x[BLOCK];

	for (int i = 0; i < BLOCK; i++) {
		const uint64_t word = items_random(items);
		const uint32_t code = (uint32_t)(word >> 32) % (i % 2 == 0 || e->exponent_bits == 0 ? e->max_code : UINT32_C(1) << e->significand_bits);
		const double low = (double)f32_value(code_decode(e, code)), high = (double)f32_value(code_decode(e, code + 1));
		const unsigned bit = (unsigned)(word & 4 ? word >> 8 & 3 : (word >> 8) % 20);

		x[i] = (f32_bits((float)ldexp(low + (high - low) / 2, exponent)) + (UINT32_C(1) << bit)) | (word & 1 ? F32_SIGN : 0);
	}
	x[items_random(items) % BLOCK] = f32_bits((float)ldexp((double)f32_value(code_decode(e, e->max_code)), exponent));
	add_block(items, x);
}

static void mx_items(const struct question *q, struct items *items)
{
	const struct mxfp_format_info *e = element_of(q);
	uint32_t x[BLOCK] = {0}, list[64];
	const size_t n = significands(e, list);
	struct threshold t;

	add_block(items, x);
	x[3] = x[20] = F32_SIGN;
	add_block(items, x);
	static const uint32_t odd[] = {F32_NAN, 0x7F800001, F32_NAN | F32_SIGN, F32_INF, F32_INF | F32_SIGN};
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		for (int k = 0; k < BLOCK; k++)
			x[k] = number_random(items, 0, 3);
		x[5 + 4 * i] = odd[i];
		add_block(items, x);
	}
	for (int k = 0; k < BLOCK; k++) /* subnormals */
		x[k] = (uint32_t)items_random(items) & 0x807FFFFF;
	add_block(items, x);
	for (int k = 0; k < BLOCK; k++)
		x[k] = 1;
	add_block(items, x);
	/* The largest number in the second half alone, and alone at each place. */
	for (int k = 0; k < BLOCK; k++)
		x[k] = number_random(items, k < BLOCK / 2 ? -6 : 0, 2);
	add_block(items, x);
	for (int place = 0; place < BLOCK; place++) {
		for (int k = 0; k < BLOCK; k++)
			x[k] = number_random(items, k == place ? 3 : -2, 1);
		add_block(items, x);
	}
	add_random_block(items, F32_MAX, 3);
	static const uint32_t fields[] = {1, 2, 3, 100, 127, 130, 200, 252, 253, 254};
	for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f += items->quick ? 2 : 1)
		for (size_t i = 0; i < n; i += items->quick ? 3 : 1)
			add_random_block(items, (fields[f] << 23 | list[i]) + (uint32_t)(items_random(items) % 3) - 1, 3);
	if (threshold_of(&t, e, (enum mxfp_rule)q->way.choice[MXFP_OPTION_RULE]))
		for (size_t f = 0; f < 4 * (sizeof fields / sizeof fields[0]); f++)
			add_random_block(items, (fields[f / 4] << 23 | t.significand) + (uint32_t)(f % 4) - 1, 3);
	for (int i = 0; i < (items->quick ? 60 : 400); i++)
		add_tie_block(items, e, (int)(items_random(items) % 40) - 20);
	for (int i = 0; i < (items->quick ? 30 : 100); i++)
		add_sticky_block(items, e, (int)(items_random(items) % 40) - 20);
	for (int i = 0; i < (items->quick ? 60 : 2868); i++)
		add_random_block(items, (uint32_t)items_random(items) % F32_INF | 0x00800000, 1 + i % 8);
}

/* The numbers of a block as a way sees them; returns the largest magnitude, and whether the block is to be NaN. */
static uint32_t see(const struct way *way, uint32_t x[BLOCK], bool *non_finite)
{
	const struct mxfp_format_info *bf16 = mxfp_format_get_info(MXFP_FORMAT_BF16), *f16 = mxfp_format_get_info(MXFP_FORMAT_F16);
	const int n = has_quirk(way, QUIRK_FIRST_HALF) ? BLOCK / 2 : has_quirk(way, QUIRK_LAST_OUT) ? BLOCK - 1 : BLOCK;
	uint32_t amax = 0, any = 0;

	*non_finite = false;
	for (int i = 0; i < BLOCK; i++) {
		uint32_t m = x[i] & ~F32_SIGN;

		if (m == F32_INF && has_quirk(way, QUIRK_INF_LARGE)) {
			amax = F32_INF;
			continue;
		}
		if (m == F32_INF && has_quirk(way, QUIRK_INF_COUNTS)) {
			amax = F32_MAX;
			continue;
		}
		if (m > F32_INF ? has_quirk(way, QUIRK_NAN_DROPPED) || has_quirk(way, QUIRK_INF_DROPPED) :
		                  m == F32_INF && has_quirk(way, QUIRK_INF_DROPPED))
			x[i] = m = 0;
		if (m == F32_INF && has_quirk(way, QUIRK_INF_LARGEST))
			x[i] = m = F32_MAX | (x[i] & F32_SIGN);
		if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (m & F32_INF) == 0)
			x[i] &= F32_SIGN;
		if (has_quirk(way, QUIRK_VIA_BF16))
			x[i] = code_decode(bf16, number_encode(bf16, x[i], MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF));
		if (has_quirk(way, QUIRK_VIA_BF16_CUT) && m <= F32_INF)
			x[i] &= UINT32_C(0xFFFF0000);
		if (has_quirk(way, QUIRK_VIA_F16))
			x[i] = code_decode(f16, number_encode(f16, x[i], MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF));
		m = x[i] & ~F32_SIGN;
		*non_finite |= m >= F32_INF;
		if (i >= n || m >= F32_INF || (has_quirk(way, QUIRK_SIGNED_MAX) && x[i] >> 31))
			continue;
		amax = m > amax ? m : amax;
		any |= m;
	}
	if (has_quirk(way, QUIRK_MAX_BY_OR))
		return any > F32_MAX ? F32_MAX : any;
	return amax;
}

/* The squared error of a block at the scale 2^s, in units of 2^s0, of the codes that a way makes. */
static float squared_error(const struct mxfp_format_info *e, const struct way *element, const uint32_t x[BLOCK], int s, int s0)
{
	struct way rne = *element;
	float d[BLOCK];

	rne.choice[MXFP_OPTION_ROUND] = MXFP_ROUND_RNE;
	for (int i = 0; i < BLOCK; i++) {
		const uint32_t code = number_encode_way(e, f32_bits(ldexpf(f32_value(x[i]), -s)), &rne, 0, 0, 0);

		d[i] = ldexpf(f32_value(x[i]), -s0) - ldexpf(f32_value(code_decode(e, code)), s - s0);
	}
	for (int i = 0; i < BLOCK / 2; i++)
		d[i] = fmaf(d[i + BLOCK / 2], d[i + BLOCK / 2], d[i] * d[i]);
	for (int n = BLOCK / 4; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			d[i] += d[i + n];
	return d[0];
}

/* The scale byte by `mse`, of `floor`'s and the next. */
static int mse_scale(const struct question *q, const struct way *way, const struct way *element, const uint32_t x[BLOCK], uint32_t amax,
                     int scale)
{
	const struct mxfp_format_info *e = element_of(q);

	if (amax == 0 || scale < 0 || scale >= 254 || (scale == 0 && rule_scale(q->format, MXFP_RULE_TRN3, amax) == 0))
		return scale;
	const float less = squared_error(e, element, x, scale - 127, scale - 127), more = squared_error(e, element, x, scale - 126, scale - 127);
	return more < less || (more == less && !has_quirk(way, QUIRK_EQUAL_ERRORS_LESS)) ? scale + 1 : scale;
}

/* The numbers of block i, and their scale in a way; false: they are not all finite. */
static bool block_scale(const struct question *q, const struct way *way, const uint8_t *in, uint32_t x[BLOCK], int *scale)
{
	const struct way element = number_element_way(way);
	bool non_finite;

	for (int k = 0; k < BLOCK; k++)
		x[k] = load_f32(in + 4 * k);
	const uint32_t amax = see(way, x, &non_finite);
	*scale = way_scale(q, way, amax);
	if (way->choice[MXFP_OPTION_RULE] == MXFP_RULE_MSE && !non_finite)
		*scale = mse_scale(q, way, &element, x, amax, *scale);
	return !non_finite;
}

/* Quantizes block i, which is at `in` after those before it, with quirks: the scale, then each element by itself. */
static void quantize_by_hand(const struct question *q, const struct way *way, const uint8_t *in, uint64_t i, uint8_t *out)
{
	const struct mxfp_format_info *e = element_of(q);
	const struct way element = number_element_way(way);
	uint32_t x[BLOCK], others[BLOCK];
	uint8_t codes[BLOCK];
	int scale, before;

	memset(out, 0, q->out_bytes);
	if (!block_scale(q, way, in, x, &scale) && !way->has_scale) {
		out[q->out[0]] = 0xFF;
		return;
	}
	if (way->has_scale && (uint8_t)scale != way->scale)
		scale = has_quirk(way, QUIRK_SCALE_UNBIASED) ? (int8_t)way->scale : way->scale;
	int exponent = has_quirk(way, QUIRK_SCALE_UNBIASED) ? scale : scale - 127;
	if (scale == 0 && has_quirk(way, QUIRK_LEAST_SCALE_126))
		exponent = -126;
	if (scale == 0 && has_quirk(way, QUIRK_LEAST_SCALE_NONE))
		exponent = 0;
	/* A block that is NaN leaves the scale of the one before it. */
	for (bool found = !has_quirk(way, QUIRK_SCALE_BEFORE); !found && i > 0; i--) {
		in -= q->in_bytes;
		found = block_scale(q, way, in, others, &before);
		if (found)
			exponent = before - 127;
	}
	for (int k = 0; k < BLOCK; k++)
		codes[k] = (uint8_t)number_encode_way(e, f32_bits(ldexpf(f32_value(x[k]), -exponent)), &element, 0, 0, 0);
	codes_pack(out, codes, BLOCK, e->bits, way);
	out[q->out[0]] = (uint8_t)scale;
}

/* Quirks of the order of codes alone, which need no arithmetic of ours. */
static bool only_order(const struct way *way)
{
	for (int quirk = 0; quirk < N_QUIRKS; quirk++)
		if (has_quirk(way, (enum quirk)quirk) && (quirk < QUIRK_HIGH_FIRST || quirk > QUIRK_NIBBLE_SIGN))
			return false;
	return true;
}

static void mx_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n, uint8_t *out)
{
	static const struct way plain;
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = (enum mxfp_rule)way->choice[MXFP_OPTION_RULE],
		.round = (enum mxfp_round)way->choice[MXFP_OPTION_ROUND],
	};

	for (size_t i = 0; i < n; i++) {
		uint32_t x[BLOCK];
		uint8_t codes[BLOCK], *result = out + i * q->out_bytes;
		struct mxfp_blocks blocks = mxfp_blocks_at(q->format, 1, BLOCK, result, result + q->out[0]);

		if (!only_order(way) || way->has_scale) {
			quantize_by_hand(q, way, in + i * q->in_bytes, indices[i], result);
			continue;
		}
		for (int k = 0; k < BLOCK; k++)
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
		must_succeed(dense_quantize(&blocks, MXFP_FORMAT_F32, x, &options, REFERENCE));
		if (memcmp(way->quirks, plain.quirks, sizeof plain.quirks) == 0)
			continue;
		codes_unpack(codes, result, BLOCK, element_of(q)->bits, &plain);
		codes_pack(result, codes, BLOCK, element_of(q)->bits, way);
	}
}

static const char *mx_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const struct mxfp_format_info *e = element_of(q);
	uint32_t amax = 0;
	bool nan = false, inf = false, tie = false;

	for (int i = 0; i < BLOCK; i++) {
		const uint32_t m = load_f32(in + 4 * i) & ~F32_SIGN;

		nan |= m > F32_INF;
		inf |= m == F32_INF;
		amax = m > amax ? m : amax;
	}
	if (nan || inf)
		return nan ? "block with NaN" : "block with Inf";
	if (amax == 0)
		return "block of zeros";
	if ((amax & F32_INF) == 0)
		return "subnormal block";
	const char *name = amax_class(q, amax);
	if (strncmp(name, "scale", 5) == 0 || strncmp(name, "just below", 10) == 0)
		return name;
	for (int i = 0; i < BLOCK; i++) {
		const char *class = number_class(e, f32_bits(ldexpf(f32_value(load_f32(in + 4 * i)), 127 - expected[q->out[0]])));

		tie |= strstr(class, "tie") != NULL;
	}
	return tie ? "block with ties" : "block";
}

/* Codes of a block that is NaN as a whole are nobody's matter, nor is a NaN's code in a block that should be. */
static bool mx_same(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got)
{
	static const struct way plain;
	const struct mxfp_format_info *e = element_of(q);
	uint8_t codes[2][BLOCK];

	if (memcmp(expected, got, q->out_bytes) == 0 || (expected[q->out[0]] == 0xFF && got[q->out[0]] == 0xFF))
		return true;
	bool nan = false;
	for (int i = 0; i < BLOCK; i++)
		nan |= f32_is_nan(load_f32(in + 4 * i));
	if (!nan || expected[q->out[0]] != got[q->out[0]])
		return false;
	codes_unpack(codes[0], expected, BLOCK, e->bits, &plain);
	codes_unpack(codes[1], got, BLOCK, e->bits, &plain);
	for (int i = 0; i < BLOCK; i++)
		if (codes[0][i] != codes[1][i] && !f32_is_nan(load_f32(in + 4 * i)))
			return false;
	return true;
}

const struct operation operation_mx = {mx_question, N_FORMATS * N_RULES * 4, mx_items, mx_answer, mx_class, mx_same};

/* Decoding. */

static bool mx_decode_question(struct question *q, size_t i)
{
	question_begin(q, OP_MX_DECODE);
	q->format = formats[i];
	question_key(q, "format", mxfp_format_get_info(q->format)->name);
	question_in(q, BLOCK * element_of(q)->bits / 8, 1);
	question_in(q, 1, 1);
	question_out(q, BLOCK * 4, 4);
	return true;
}

/* Every code with every scale. */
static void mx_decode_items(const struct question *q, struct items *items)
{
	static const struct way plain;
	const struct mxfp_format_info *e = element_of(q);
	uint8_t item[BLOCK + 1], codes[BLOCK];

	for (int scale = 0; scale < 256; scale++)
		for (int first = 0; first < 1 << e->bits; first += BLOCK) {
			if (items->quick && scale > 2 && scale < 250 && first + BLOCK != 1 << e->bits && (scale + first / BLOCK) % 8 != 0)
				continue;
			for (int i = 0; i < BLOCK; i++)
				codes[i] = (uint8_t)((first + i) % (1 << e->bits));
			if (e->bits == 4) /* else i and i + 16 were the same */
				for (int i = BLOCK / 2; i < BLOCK; i++)
					codes[i] = (uint8_t)(items_random(items) & 15);
			codes_pack(item, codes, BLOCK, e->bits, &plain);
			item[q->in[0]] = (uint8_t)scale;
			items_add(items, item);
		}
}

static uint32_t scaled_value(const struct mxfp_format_info *e, uint8_t code, uint8_t scale, const struct way *way)
{
	const uint32_t x = code_decode_way(e, code, way);

	if (has_quirk(way, QUIRK_FLUSH_RESULT)) {
		struct way rest = *way;

		rest.quirks[QUIRK_FLUSH_RESULT / 64] &= ~(UINT64_C(1) << QUIRK_FLUSH_RESULT % 64);
		const uint32_t y = scaled_value(e, code, scale, &rest);
		return (y & F32_INF) == 0 ? y & F32_SIGN : y;
	}
	if (has_quirk(way, QUIRK_SCALE_BYTE_NUMBER))
		return f32_bits(f32_value(x) * (float)scale);
	if (has_quirk(way, QUIRK_SCALE_LEAST_ZERO) && scale == 0)
		return f32_bits(f32_value(x) * 0.0F);
	if (scale == 0xFF && has_quirk(way, QUIRK_SCALE_INF_ZERO))
		return f32_bits(f32_value(x) * INFINITY);
	if (scale == 0xFF && !has_quirk(way, QUIRK_SCALE_INF) && !has_quirk(way, QUIRK_SCALE_UNBIASED))
		return F32_NAN;
	const int exponent = has_quirk(way, QUIRK_SCALE_UNBIASED) ? (int8_t)scale : scale - 127;
	if (has_quirk(way, QUIRK_SCALE_ADDED)) {
		const int field = (int)(x >> 23 & 0xFF) + exponent;

		if ((x & ~F32_SIGN) == 0 || f32_is_nan(x))
			return x;
		return (x & UINT32_C(0x807FFFFF)) | (uint32_t)(field & 0xFF) << 23;
	}
	return f32_is_nan(x) ? x : f32_bits((float)ldexp((double)f32_value(x), exponent));
}

static void mx_decode_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                             uint8_t *out)
{
	static const struct way plain;
	const struct mxfp_format_info *e = element_of(q);
	const bool is_plain = memcmp(way->quirks, plain.quirks, sizeof plain.quirks) == 0;

	(void)indices;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *item = in + i * q->in_bytes;
		uint8_t codes[BLOCK], *result = out + i * q->out_bytes;
		uint32_t x[BLOCK];

		if (is_plain) {
			const struct mxfp_matrix matrix = mxfp_coded(q->format, 1, BLOCK, item, item + q->in[0]);

			must_succeed(dense_dequantize(x, MXFP_FORMAT_F32, &matrix, REFERENCE));
		} else {
			codes_unpack(codes, item, BLOCK, e->bits, way);
			for (int k = 0; k < BLOCK; k++)
				x[k] = scaled_value(e, codes[k], item[q->in[0]], way);
		}
		for (int k = 0; k < BLOCK; k++)
			store_f32(result + 4 * k, x[k]);
	}
}

static const char *mx_decode_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const uint8_t scale = in[q->in[0]];
	bool nan = false, inf = false, subnormal = false;

	if (scale == 0xFF)
		return "scale FF";
	if (scale == 0)
		return "scale 00";
	for (int i = 0; i < BLOCK; i++) {
		const uint32_t m = load_f32(expected + 4 * i) & ~F32_SIGN;

		nan |= m > F32_INF;
		inf |= m == F32_INF;
		subnormal |= m != 0 && (m & F32_INF) == 0;
	}
	return nan ? "codes of NaN" : inf ? "results of Inf" : subnormal ? "subnormal results" : "block";
}

const struct operation operation_mx_decode = {
	mx_decode_question, N_FORMATS, mx_decode_items, mx_decode_answer, mx_decode_class, f32_results_same,
};

/* Packing. */

static bool order_question(struct question *q, size_t i, enum op op)
{
	const unsigned bits = i == 0 ? 4 : 6;

	question_begin(q, op);
	q->cols = bits;
	question_number(q, "bits", bits);
	question_in(q, op == OP_PACK ? BLOCK : BLOCK * bits / 8, 1);
	question_out(q, op == OP_PACK ? BLOCK * bits / 8 : BLOCK, 1);
	return true;
}

static bool pack_question(struct question *q, size_t i)
{
	return order_question(q, i, OP_PACK);
}

static bool unpack_question(struct question *q, size_t i)
{
	return order_question(q, i, OP_UNPACK);
}

static void order_items(const struct question *q, struct items *items)
{
	const uint8_t mask = q->op == OP_PACK ? (uint8_t)((1 << q->cols) - 1) : 0xFF;

	for (int k = 0; k < (items->quick ? 100 : 1000); k++) {
		uint8_t item[BLOCK];

		for (size_t i = 0; i < q->in_bytes; i++)
			item[i] = k < BLOCK ? (i == (size_t)k ? mask : 0) : (uint8_t)(items_random(items) & mask);
		items_add(items, item);
	}
}

static void pack_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                        uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++)
		codes_pack(out + i * q->out_bytes, in + i * q->in_bytes, BLOCK, (unsigned)q->cols, way);
}

static void unpack_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                          uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++)
		codes_unpack(out + i * q->out_bytes, in + i * q->in_bytes, BLOCK, (unsigned)q->cols, way);
}

static const char *order_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	(void)q;
	(void)in;
	(void)expected;
	return "codes";
}

const struct operation operation_pack = {pack_question, 2, order_items, pack_answer, order_class, NULL};
const struct operation operation_unpack = {unpack_question, 2, order_items, unpack_answer, order_class, NULL};
