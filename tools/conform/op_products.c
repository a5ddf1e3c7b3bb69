/* SPDX-License-Identifier: MIT */
/* Products of two rows, with each way of summing; structured sparsity. */
#include "config.h"

#include <float.h>
#include <stdlib.h>

#include "base/byte_order.h"
#include "base/library.h"
#include "conform/number.h"
#include "conform/products.h"
#include "internal.h"
#include "mxfp/gemm.h"

static const struct {
	enum mxfp_format a, w;
} pairs[] = {
	{MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4}, {MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP4},
	{MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E4M3}, {MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP8_E5M2},
	{MXFP_FORMAT_MXINT8, MXFP_FORMAT_MXINT8}, {MXFP_FORMAT_NVFP4, MXFP_FORMAT_NVFP4},
	{MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4}, {MXFP_FORMAT_BF16, MXFP_FORMAT_BF16}, {MXFP_FORMAT_F16, MXFP_FORMAT_F16},
	{MXFP_FORMAT_TF32, MXFP_FORMAT_TF32}, {MXFP_FORMAT_E4M3, MXFP_FORMAT_E4M3}, {MXFP_FORMAT_E5M2, MXFP_FORMAT_E5M2},
	{MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E4M3FNUZ}, {MXFP_FORMAT_E5M2FNUZ, MXFP_FORMAT_E5M2FNUZ},
};

/* ACCS_MAX is above the number of ways to sum. */
enum { N_PAIRS = sizeof pairs / sizeof pairs[0], ACCS_MAX = 32, PASS = 512, K_MAX = 1024 };

static bool is_blocks(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* The element, of numbers the format itself. */
static const struct mxfp_format_info *element_of(enum mxfp_format format)
{
	return mxfp_format_get_info(mxfp_format_get_info(format)->element);
}

/* The parts of a row of k elements, one after the other. */
static void add_row_parts(struct question *q, enum mxfp_format format, size_t k)
{
	const struct mxfp_format_info *e = element_of(format);

	if (is_blocks(format)) {
		question_in(q, k * e->bits / 8, 1);
		question_in(q, k / mxfp_format_get_info(format)->block_length, 1);
	} else {
		question_in(q, k * e->storage_bytes, e->storage_bytes);
	}
}

void dot_begin(struct question *q, enum mxfp_format a, enum mxfp_format w, const char *acc, size_t k)
{
	question_begin(q, OP_DOT);
	q->format = a;
	q->other = w;
	q->cols = k;
	question_key(q, "a", mxfp_format_get_info(a)->name);
	question_key(q, "w", mxfp_format_get_info(w)->name);
	question_key(q, "acc", acc);
	question_number(q, "k", k);
	add_row_parts(q, a, k);
	add_row_parts(q, w, k);
	question_out(q, 4, 4);
}

static struct mxfp_matrix operand(enum mxfp_format format, size_t k, const void *codes, const void *scales)
{
	struct mxfp_matrix matrix = is_blocks(format) ? mxfp_coded(format, 1, k, codes, scales) : mxfp_numbers(format, 1, k, codes);

	matrix.tensor_scale = 1;
	return matrix;
}

/* The row, in which numbers are little-endian, as the library takes it: numbers are copied to `room`. */
static struct mxfp_matrix native(const struct mxfp_matrix *row, uint32_t room[K_MAX])
{
	const unsigned width = element_of(row->format)->storage_bytes;
	struct mxfp_matrix matrix = *row;

	if (!is_blocks(row->format)) {
		memcpy(room, row->data, row->cols * width);
		little_endian(room, row->cols, width);
		matrix.data = room;
	}
	return matrix;
}

/* Whether the library sums products of these formats in this way. */
static bool multiply(uint32_t *c, const struct mxfp_matrix *a_row, const struct mxfp_matrix *w_row, int acc, unsigned pass)
{
	static uint64_t workspace[1 << 15];
	static uint32_t room[2][K_MAX];
	const struct mxfp_matrix a = native(a_row, room[0]), w = native(w_row, room[1]);
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = (enum mxfp_acc)acc, .pass_k = pass};
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w};

	return mxfp_gemm(&product, &options, workspace, sizeof workspace, REFERENCE) == MXFP_OK;
}

static bool dot_question(struct question *q, size_t i)
{
	static const uint8_t zeros[K_MAX * 4];
	static const size_t lengths[] = {32, K_MAX};
	const size_t pair = i / (2 * ACCS_MAX);
	const int acc = (int)(i / 2 % ACCS_MAX);
	uint32_t c;

	if (mxfp_option_name(MXFP_OPTION_ACC, acc) == NULL)
		return false;
	dot_begin(q, pairs[pair].a, pairs[pair].w, mxfp_option_name(MXFP_OPTION_ACC, acc), lengths[i % 2]);
	q->way.choice[MXFP_OPTION_ACC] = acc;
	const struct mxfp_matrix a = operand(q->format, q->cols, zeros, zeros), w = operand(q->other, q->cols, zeros, zeros);
	/* exact is chain where an operand is in no block format. */
	return (acc != MXFP_ACC_EXACT || (is_blocks(q->format) && is_blocks(q->other))) && multiply(&c, &a, &w, acc, 0);
}

/* Kinds of rows: ordinary numbers; scales far apart; any code; zeros; what cancels, so that small terms are left; tiny numbers, whose
   products are about the least normal number, and tinier ones; products whose sum is beside 2^-126, where formats have them. */
enum row_kind { ORDINARY, SPREAD, ANY, ZEROS, CANCELS, TINY, TINIER, BESIDE };

/* A number of a row that has no scales. */
static uint32_t random_element(struct items *items, const struct mxfp_format_info *e, enum row_kind kind)
{
	/* Of formats that have none so tiny, numbers about their own least. */
	const int tiny = kind == TINY ? -64 : -70, least = 1 - e->bias > tiny ? 1 - e->bias : tiny;
	const uint32_t x = kind == TINY || kind == TINIER ? number_random(items, least, kind == TINY ? 8 : 2) :
	                   number_random(items, 0, kind == ORDINARY ? 2 : kind == ANY ? 20 : 6);

	return kind == ZEROS ? 0 : number_encode(e, x, MXFP_ROUND_RNE, MXFP_OVERFLOW_SAT);
}

/* The scale byte of block i. */
static uint8_t random_scale(struct items *items, enum mxfp_format format, size_t i, enum row_kind kind)
{
	static const struct {
		uint8_t first, n;
	} e8m0[] = {{125, 5}, {112, 30}, {112, 30}, {112, 30}, {120, 16}, {58, 12}, {44, 8}},
	  ue4m3[] = {{0x20, 0x40}, {0x20, 0x40}, {0, 0x80}, {0x20, 0x40}, {0x78, 6}, {0, 8}, {0, 8}};
	const uint64_t word = items_random(items);
	const bool nvfp4 = format == MXFP_FORMAT_NVFP4;

	if (kind == CANCELS && i % 4 == 3)
		return (uint8_t)(nvfp4 ? word & 7 : 112 + word % 8);
	if (kind == ANY && !nvfp4 && word % 64 == 0)
		return (uint8_t)(word >> 8);
	return (uint8_t)(nvfp4 ? ue4m3[kind].first + word % ue4m3[kind].n : e8m0[kind].first + word % e8m0[kind].n);
}

/* A row of codes and scales. Returns what follows. */
static uint8_t *add_row(struct items *items, enum mxfp_format format, size_t k, uint8_t *at, enum row_kind kind)
{
	const struct mxfp_format_info *e = element_of(format);
	const size_t n_codes = is_blocks(format) ? k * e->bits / 8 : 0;

	for (size_t i = 0; i < n_codes; i++) {
		*at = kind == ZEROS ? 0 : (uint8_t)items_random(items);
		/* No Inf or NaN, which would be all that is seen of a row. */
		if (e->bits == 8 && kind != ANY && (*at & code_mask(e)) > e->max_code)
			*at = (uint8_t)e->max_code;
		at++;
	}
	for (size_t i = 0; n_codes == 0 && i < k; i++) {
		code_store(e, at, random_element(items, e, kind));
		at += e->storage_bytes;
	}
	for (size_t i = 0; n_codes > 0 && i < k / mxfp_format_get_info(format)->block_length; i++)
		*at++ = random_scale(items, format, i, kind);
	return at;
}

/* Element i of a row, of any size but 6 bits. */
static uint32_t element_get(const struct mxfp_format_info *e, const uint8_t *row, size_t i)
{
	return e->bits == 4 ? row[i / 2] >> 4 * (i % 2) & 15 : code_load(e, row + i * e->storage_bytes);
}

static void element_set(const struct mxfp_format_info *e, uint8_t *row, size_t i, uint32_t code)
{
	const unsigned shift = 4 * (i % 2);

	if (e->bits == 4)
		row[i / 2] = (uint8_t)((row[i / 2] & ~(15 << shift)) | code << shift);
	else
		code_store(e, row + i * e->storage_bytes, code);
}

/* Makes every product the negative of the one before, but for two of 16: of all blocks if there are few, else of those whose scales
   are small. Two more are a zero times the largest number. */
static void cancel(const struct question *q, uint8_t *a, uint8_t *w)
{
	const struct mxfp_format_info *left = element_of(q->format), *right = element_of(q->other);
	const bool has_blocks = is_blocks(q->format) || is_blocks(q->other);
	const size_t length = q->format == MXFP_FORMAT_NVFP4 ? 16 : 32;

	for (size_t i = 0; i < q->cols; i += 2) {
		const uint32_t code = element_get(right, w, i);

		if (i % 16 == 14 && (!has_blocks || q->cols < 4 * length || i / length % 4 == 3))
			continue;
		if (i % 16 == 12) {
			element_set(left, a, i, 0);
			element_set(right, w, i, right->max_code);
		}
		element_set(left, a, i + 1, element_get(left, a, i));
		element_set(right, w, i + 1, code_negated(right, code));
	}
}

/* Where the rows of an item are. */
struct rows {
	const struct mxfp_format_info *element[2];
	uint8_t *codes[2], *scales[2]; /* NULL: it has none */
};

static struct rows rows_of(const struct question *q, uint8_t *item)
{
	const size_t w_part = is_blocks(q->format) ? 2 : 1;
	uint8_t *w = item + q->in[0] + (w_part == 2 ? q->in[1] : 0);

	return (struct rows){{element_of(q->format), element_of(q->other)}, {item, w},
	                     {w_part == 2 ? item + q->in[0] : NULL, is_blocks(q->other) ? w + q->in[w_part] : NULL}};
}

/* Whether a format has a normal number of this value; *code is it. */
static bool is_normal(const struct mxfp_format_info *e, double v, uint32_t *code)
{
	*code = number_encode(e, f32_bits((float)v), MXFP_ROUND_RTZ, MXFP_OVERFLOW_SAT);
	return (double)f32_value(code_decode(e, *code)) == v && (e->kind == MXFP_KIND_FIXED || v >= ldexp(1, 1 - e->bias));
}

/* Makes product i significand * 2^exponent, a significand of few bits; the scales of its blocks are chosen if they are still those of
   2^0, so that this is their largest product. False: formats have no such products. */
static bool set_product(const struct rows *r, size_t i, double significand, int exponent, bool negative)
{
	const int most = r->element[0]->emax + r->element[1]->emax;
	uint32_t codes[2] = {0};
	bool found = false;

	for (int side = 0; side < 2; side++)
		if (r->scales[side] != NULL) {
			uint8_t *scale = &r->scales[side][i / 32];
			const int other = side == 0 && r->scales[1] != NULL ? (exponent - most) / 2 : exponent - most;

			if (*scale == 127)
				*scale = (uint8_t)(127 + (other < -126 ? -126 : other));
			exponent -= *scale - 127;
		}
	for (int right = r->element[1]->emax; right >= -126 && !found; right--)
		found = is_normal(r->element[1], ldexp(1, right), &codes[1]) &&
		        is_normal(r->element[0], ldexp(significand, exponent - right), &codes[0]);
	for (int side = 0; side < 2 && found; side++)
		element_set(r->element[side], r->codes[side], i, negative && side == 1 ? code_negated(r->element[1], codes[1]) : codes[side]);
	return found;
}

/* The same in its block, or in one that is so many further on. */
static void set_later(const struct question *q, const struct rows *r, size_t i, size_t blocks, double significand, int exponent, bool negative)
{
	if (!set_product(r, i, significand, exponent, negative) && i + 32 * blocks < q->cols)
		set_product(r, i + 32 * blocks, significand, exponent, negative);
}

/* Rows of zeros but for 2^-126, of half of them 2^-149, and about 2^-150 of the other sign, in this order. False: the formats have
   none such. */
static bool beside_item(const struct question *q, struct items *items, uint8_t *item)
{
	static const struct {
		double significand;
		int exponent;
	} least[] = {{1.5, -151}, {1, -150}, {1.5, -151}, {1, -150}, {1.5, -150}, {1, -151}, {1.5, -149}, {1.5, -152}};
	const uint64_t word = items_random(items);
	const struct rows r = rows_of(q, item);
	const size_t place = word % (q->cols / 8) * 4 + (word >> 32 & 1);
	const size_t last = place + 2 + (q->cols > 512 && word >> 33 & 1 ? 64 + 32 * (word >> 40 & 7) : 0);
	const bool negative = word >> 34 & 1;

	if (q->format == MXFP_FORMAT_NVFP4)
		return false;
	memset(item, 0, q->in_bytes);
	for (int side = 0; side < 2; side++)
		if (r.scales[side] != NULL)
			memset(r.scales[side], 127, q->cols / 32);
	if (!set_product(&r, place, 1, -126, negative))
		return false;
	if (word >> 35 & 1)
		set_later(q, &r, place ^ 1, 1, 1, -149, word >> 36 & 1);
	set_later(q, &r, last, 2, least[word >> 37 & 7].significand, least[word >> 37 & 7].exponent, !negative);
	return true;
}

/* A row of -0 and one of ordinary numbers, as far as formats have -0. */
static void minus_zeros(const struct question *q, struct items *items, uint8_t *item)
{
	const struct rows r = rows_of(q, item);
	uint8_t *w = add_row(items, q->format, q->cols, item, ORDINARY);

	add_row(items, q->other, q->cols, w, ORDINARY);
	for (size_t i = 0; i < q->cols; i++) {
		element_set(r.element[0], r.codes[0], i, is_fnuz(r.element[0]) || r.element[0]->kind == MXFP_KIND_FIXED ? 0 : code_sign(r.element[0]));
		element_set(r.element[1], r.codes[1], i, element_get(r.element[1], r.codes[1], i) & code_mask(r.element[1]));
	}
}

static void dot_items(const struct question *q, struct items *items)
{
	static const enum row_kind kinds[] = {ORDINARY, SPREAD, CANCELS, TINY, TINIER, BESIDE, CANCELS, ANY,
	                                      ORDINARY, SPREAD, BESIDE, TINY, TINIER, BESIDE, CANCELS, ANY};
	uint8_t *item = malloc(q->in_bytes);

	for (int i = 0; item != NULL && i < (items->quick ? 60 : 600) && !items_full(items); i++) {
		const enum row_kind wanted = i == 0 ? ZEROS : kinds[i % 16], kind = wanted == BESIDE ? SPREAD : wanted;

		if (i == 8) {
			minus_zeros(q, items, item);
		} else if (wanted != BESIDE || !beside_item(q, items, item)) {
			uint8_t *w = add_row(items, q->format, q->cols, item, kind);

			add_row(items, q->other, q->cols, w, kind);
			if (kind == CANCELS)
				cancel(q, item, w);
		}
		items_add(items, item);
	}
	items->out_of_memory |= item == NULL;
	free(item);
}

/* The exponent of a number, of a subnormal that of the least normal. */
static int exponent_of(double v, int least)
{
	const int exponent = ilogb(v);

	return exponent < least ? least : exponent;
}

/* One instruction of a machine that is so and so. */
static float sum_aligned(const struct question *q, const struct mxfp_aligned *m, const struct way *way, const float *a, const float *w, float c)
{
	const int fraction = m->fraction + has_quirk(way, QUIRK_FRACTION_PLUS) - has_quirk(way, QUIRK_FRACTION_MINUS);
	const int least_a = 1 - element_of(q->format)->bias, least_w = 1 - element_of(q->other)->bias;
	int top = has_quirk(way, QUIRK_LOWEST_126) ? -126 : m->lowest;
	double plain = (double)c, sum;

	for (int i = 0; i < m->k; i++) {
		const double product = (double)a[i] * (double)w[i];

		plain += product;
		if (product == 0 || !isfinite(product))
			continue;
		const int exponent = has_quirk(way, QUIRK_ALIGN_NORMALIZED) ? ilogb(product) :
		                     exponent_of((double)a[i], least_a) + exponent_of((double)w[i], least_w);
		top = exponent > top ? exponent : top;
	}
	if (!isfinite(plain))
		return (float)plain;
	if (c != 0 && !has_quirk(way, QUIRK_ALIGN_PRODUCTS) && exponent_of((double)c, -126) > top)
		top = exponent_of((double)c, -126);
	sum = trunc(ldexp((double)c, fraction - top));
	for (int i = 0; i < m->k; i++)
		sum += trunc(ldexp((double)a[i] * (double)w[i], fraction - top));
	if (sum == 0)
		return 0;
	sum = ldexp(sum, top - fraction);
	const int unit = exponent_of(sum, has_quirk(way, QUIRK_CUT_NEAREST) ? -200 : -126) - m->bits + 1;
	return (float)ldexp(trunc(ldexp(sum, -unit)), unit);
}

static bool is_machine_quirk(const struct way *way)
{
	for (int quirk = QUIRK_FRACTION_MINUS; quirk <= QUIRK_ALIGN_NORMALIZED; quirk++)
		if (has_quirk(way, (enum quirk)quirk))
			return true;
	return false;
}

/* The sum rounded to odd, as binary64, so that it may be rounded once more. */
static double add_odd(double p, double t)
{
	const double sum = p + t;
	uint64_t bits;

	if (!isfinite(sum))
		return sum;
	const double back = sum - p, rest = (p - (sum - back)) + (t - back);
	memcpy(&bits, &sum, sizeof bits);
	return rest != 0 && (bits & 1) == 0 ? nextafter(sum, rest > 0 ? (double)INFINITY : -(double)INFINITY) : sum;
}

static float add_once(float p, double t)
{
	return (float)add_odd((double)p, t);
}

/* The products of a pass in a way, of so many without it. */
static size_t pass_of(const struct way *way, size_t k, size_t whole)
{
	if (has_quirk(way, QUIRK_ONE_PASS))
		return k;
	return whole / (has_quirk(way, QUIRK_PASS_128) ? 4 : has_quirk(way, QUIRK_PASS_256) ? 2 : 1);
}

/* `exact` in other ways: the sums of blocks, of which the scales of MX are left for then. */
static uint32_t sum_blocks(const struct question *q, const struct way *way, const struct mxfp_matrix *a, const struct mxfp_matrix *w)
{
	const uint8_t *scales[] = {a->scales, w->scales};
	const bool nvfp4 = q->format == MXFP_FORMAT_NVFP4;
	const size_t length = nvfp4 ? 16 : 32;
	static const uint8_t one = 127;
	const size_t pass = pass_of(way, q->cols, PASS);
	float total = 0, sum = 0;

	for (size_t i = 0; i < q->cols / length; i++) {
		const uint8_t *codes[] = {(const uint8_t *)a->data + i * length * element_of(q->format)->bits / 8,
		                          (const uint8_t *)w->data + i * length * element_of(q->other)->bits / 8};
		const struct mxfp_matrix left = operand(q->format, length, codes[0], nvfp4 ? scales[0] + i : &one);
		const struct mxfp_matrix right = operand(q->other, length, codes[1], nvfp4 ? scales[1] + i : &one);
		uint32_t block;

		if (!multiply(&block, &left, &right, MXFP_ACC_EXACT, 0))
			return F32_NO_ANSWER;
		if (!nvfp4 && (scales[0][i] == 0xFF || scales[1][i] == 0xFF))
			block = F32_NAN;
		const double scaled = ldexp((double)f32_value(block), nvfp4 ? 0 : scales[0][i] + scales[1][i] - 254);
		sum = has_quirk(way, QUIRK_BLOCK_SUMS_F32) ? sum + (float)scaled : add_once(sum, scaled);
		if ((i + 1) * length % pass == 0 || (i + 1) * length == q->cols) {
			total += sum;
			sum = 0;
		}
	}
	return f32_bits(total);
}

static float flushed(float x)
{
	return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* The sum of the products of a step of ACE, rounded once: those from 1 on, and the rest, are exact. */
static float sum_four(const float *a, const float *w, int scale)
{
	double high = 0, low = 0;

	for (int i = 0; i < 4; i++) {
		const double product = (double)a[i] * (double)w[i];

		*(fabs(product) >= 1 ? &high : &low) += product;
	}
	return (float)ldexp(add_odd(high, low), scale);
}

/* Machines that flush, but look at what is below 2^-126 after it was rounded among the subnormals. */
static uint32_t sum_vdpbf16ps(const float *a, const float *w, size_t k)
{
	float c = 0;

	for (size_t i = 0; i < k; i++)
		c = flushed(fmaf(flushed(a[i ^ 1]), flushed(w[i ^ 1]), c));
	return f32_bits(c);
}

static uint32_t sum_tdpbf16ps(const float *a, const float *w, size_t k)
{
	float c = 0;

	for (size_t i = 0; i < k; i += 32) {
		float sums[2] = {0, 0};

		for (size_t j = i; j < i + 32; j++)
			sums[j % 2] = flushed(fmaf(flushed(a[j]), flushed(w[j]), sums[j % 2]));
		c = flushed(c + flushed(sums[0] + sums[1]));
	}
	return f32_bits(c);
}

/* The scales of blocks, NULL if operands have none, are left for the sum of a step. */
static uint32_t sum_ace(const float *a, const float *w, size_t k, const uint8_t *a_scales, const uint8_t *w_scales)
{
	float c = 0;

	for (size_t i = 0; i < k; i += 4) {
		const int left = a_scales != NULL ? a_scales[i / 32] : 127, right = a_scales != NULL ? w_scales[i / 32] : 127;

		if (left == 0xFF || right == 0xFF)
			return F32_NAN;
		c = flushed(c + flushed(sum_four(a + i, w + i, left + right - 254)));
	}
	return f32_bits(c);
}

/* Sums of decoded numbers in other ways, in the processor's arithmetic. */
static uint32_t sum_by_hand(const struct way *way, const float *a, const float *w, size_t k, size_t whole)
{
	if (has_quirk(way, QUIRK_SUM_F64)) {
		double sum = 0;

		for (size_t i = 0; i < k; i++)
			sum += (double)a[i] * (double)w[i];
		return f32_bits((float)sum);
	}
	if (has_quirk(way, QUIRK_PAIRWISE)) {
		float tree[K_MAX];

		for (size_t i = 0; i < k; i++)
			tree[i] = a[i] * w[i];
		for (size_t n = k; n > 1; n /= 2)
			for (size_t i = 0; i < n / 2; i++)
				tree[i] = tree[2 * i] + tree[2 * i + 1];
		return f32_bits(tree[0]);
	}
	const size_t pass = pass_of(way, k, whole);
	const float zero = has_quirk(way, QUIRK_MINUS_SUM) ? -0.0F : 0;
	float total = zero;
	for (size_t start = 0; start < k; start += pass) {
		float sum = zero;

		for (size_t i = start; i < start + pass && i < k; i++) {
			const size_t at = has_quirk(way, QUIRK_REVERSED) ? k - 1 - i : i;

			sum = has_quirk(way, QUIRK_ROUNDED_PRODUCTS) ? sum + a[at] * w[at] : fmaf(a[at], w[at], sum);
			if (has_quirk(way, QUIRK_FLUSH_SUM) && fabsf(sum) < FLT_MIN)
				sum = copysignf(0, sum);
			if (has_quirk(way, QUIRK_SUM_BF16)) {
				const struct mxfp_format_info *bf16 = mxfp_format_get_info(MXFP_FORMAT_BF16);

				sum = f32_value(code_decode(bf16, number_encode(bf16, f32_bits(sum), MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF)));
			}
		}
		total += sum;
	}
	return f32_bits(total);
}

/* Whether codes of NaN or Inf are numbers. */
static bool takes_codes(const struct way *way)
{
	return has_quirk(way, QUIRK_NAN_AS_NUMBER) || has_quirk(way, QUIRK_INF_AS_NUMBER) || has_quirk(way, QUIRK_MINUS_INF_NUMBER);
}

static void decode_row(enum mxfp_format format, const struct mxfp_matrix *matrix, const struct way *way, float *x)
{
	const struct mxfp_format_info *e = element_of(format);

	if (is_blocks(format))
		must_succeed(dense_dequantize(x, MXFP_FORMAT_F32, matrix, REFERENCE));
	for (size_t i = 0; is_blocks(format) && e->bits == 8 && takes_codes(way) && i < matrix->cols; i++) {
		const uint8_t scale = ((const uint8_t *)matrix->scales)[i / 32];

		if (scale != 0xFF)
			x[i] = ldexpf(f32_value(code_decode_way(e, ((const uint8_t *)matrix->data)[i], way)), scale - 127);
	}
	for (size_t i = 0; !is_blocks(format) && i < matrix->cols; i++)
		x[i] = f32_value(code_decode_way(e, code_load(e, (const uint8_t *)matrix->data + i * e->storage_bytes), way));
}

static void operands_of(const struct question *q, const uint8_t *item, struct mxfp_matrix *a, struct mxfp_matrix *w)
{
	const uint8_t *w_item = item + q->in[0] + (is_blocks(q->format) ? q->in[1] : 0);

	*a = operand(q->format, q->cols, item, item + q->in[0]);
	*w = operand(q->other, q->cols, w_item, w_item + (is_blocks(q->format) ? q->in[2] : q->in[1]));
}

bool dot_item(uint32_t *c, const struct question *q, const uint8_t *item, enum mxfp_acc acc, unsigned pass)
{
	struct mxfp_matrix a, w;

	operands_of(q, item, &a, &w);
	return multiply(c, &a, &w, acc, pass);
}

/* Whether a way has a quirk of machines that flush, or of the sums of blocks; *c is the sum then. */
static bool sum_low(uint32_t *c, const struct question *q, const struct way *way, const struct mxfp_matrix *a, const struct mxfp_matrix *w)
{
	const int acc = way->choice[MXFP_OPTION_ACC];
	const bool blocks = is_blocks(q->format) && is_blocks(q->other), is_ace = acc == MXFP_ACC_ACE;
	struct mxfp_matrix left = *a, right = *w;
	struct way numbers = *way;
	uint8_t ones[K_MAX / 16];
	float x[2][K_MAX];

	if (has_quirk(way, QUIRK_BLOCK_SUMS_F32) && blocks && acc == MXFP_ACC_EXACT) {
		*c = sum_blocks(q, way, a, w);
		return true;
	}
	if (!has_quirk(way, QUIRK_FLUSH_ROUNDED) || (acc != MXFP_ACC_VDPBF16PS && acc != MXFP_ACC_TDPBF16PS && !is_ace))
		return false;
	memset(ones, 127, sizeof ones);
	left.scales = right.scales = ones;
	if (is_ace) /* codes of NaN and Inf are numbers */
		numbers.quirks[QUIRK_NAN_AS_NUMBER / 64] |= UINT64_C(1) << QUIRK_NAN_AS_NUMBER % 64;
	decode_row(q->format, &left, &numbers, x[0]);
	decode_row(q->other, &right, &numbers, x[1]);
	*c = is_ace ? sum_ace(x[0], x[1], q->cols, blocks ? a->scales : NULL, w->scales) :
	     acc == MXFP_ACC_VDPBF16PS ? sum_vdpbf16ps(x[0], x[1], q->cols) : sum_tdpbf16ps(x[0], x[1], q->cols);
	return true;
}

/* Whether every product is -0. */
static bool is_minus_zero(const struct question *q, const uint8_t *item)
{
	struct mxfp_matrix a, w;
	float x[2][K_MAX];
	bool all = true;

	operands_of(q, item, &a, &w);
	decode_row(q->format, &a, &q->way, x[0]);
	decode_row(q->other, &w, &q->way, x[1]);
	for (size_t i = 0; i < q->cols; i++)
		all &= f32_bits(x[0][i] * x[1][i]) == F32_SIGN;
	return all;
}

static uint32_t dot_sum(const struct question *q, const struct way *way, const uint8_t *item)
{
	uint8_t ones[K_MAX / 16];
	struct mxfp_matrix a, w;
	const unsigned pass = has_quirk(way, QUIRK_PASS_256) ? 256 : has_quirk(way, QUIRK_PASS_128) ? 128 : 0;
	const bool codes = takes_codes(way);
	struct mxfp_aligned machine;
	const bool is_machine = (codes || is_machine_quirk(way)) &&
	                        mxfp_acc_aligned(&machine, (enum mxfp_acc)way->choice[MXFP_OPTION_ACC], q->format, q->other);
	float x[2][K_MAX];
	bool by_hand = is_machine || (codes && way->choice[MXFP_OPTION_ACC] == MXFP_ACC_CHAIN);
	uint32_t c;

	operands_of(q, item, &a, &w);
	if (has_quirk(way, QUIRK_NO_SCALES)) {
		memset(ones, q->format == MXFP_FORMAT_NVFP4 ? 0x38 : 127, sizeof ones);
		a.scales = w.scales = ones;
	}
	if (sum_low(&c, q, way, &a, &w))
		return c;
	by_hand |= has_quirk(way, QUIRK_MINUS_SUM) && way->choice[MXFP_OPTION_ACC] == MXFP_ACC_CHAIN;
	for (int quirk = QUIRK_FLUSH_SUM; quirk <= QUIRK_SUM_BF16; quirk++)
		by_hand |= has_quirk(way, (enum quirk)quirk);
	if (!by_hand && has_quirk(way, QUIRK_ONE_PASS)) { /* exact is chain where an operand is in no block format */
		const bool is_exact = way->choice[MXFP_OPTION_ACC] == MXFP_ACC_EXACT;

		if (is_exact && is_blocks(q->format) && is_blocks(q->other))
			return sum_blocks(q, way, &a, &w);
		by_hand = is_exact || way->choice[MXFP_OPTION_ACC] == MXFP_ACC_CHAIN;
	}
	if (!by_hand)
		return multiply(&c, &a, &w, way->choice[MXFP_OPTION_ACC], pass) ? c : F32_NO_ANSWER;
	decode_row(q->format, &a, way, x[0]);
	decode_row(q->other, &w, way, x[1]);
	if (is_machine) {
		float sum = 0;

		for (size_t i = 0; i < q->cols; i += (size_t)machine.k)
			sum = sum_aligned(q, &machine, way, x[0] + i, x[1] + i, sum);
		return f32_bits(sum);
	}
	return sum_by_hand(way, x[0], x[1], q->cols, is_blocks(q->format) && is_blocks(q->other) ? PASS : PASS / 4);
}

static void dot_one(const struct question *q, const struct way *way, const uint8_t *item, uint8_t *out)
{
	uint32_t c = dot_sum(q, way, item);

	if (c == 0 && has_quirk(way, QUIRK_MINUS_SUM) && is_minus_zero(q, item))
		c = F32_SIGN;
	c = f32_result_way(c, way);
	if ((c & F32_INF) == 0 && has_quirk(way, QUIRK_FLUSH_PLUS))
		c = 0;
	store_f32(out, c);
}

static void dot_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n, uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++)
		dot_one(q, way, in + i * q->in_bytes, out + 4 * i);
}

static const char *dot_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const uint32_t c = load_f32(expected);
	struct mxfp_matrix a, w;
	float x[2][K_MAX], largest = 0;

	if (f32_is_nan(c) || (c & ~F32_SIGN) == F32_INF)
		return f32_is_nan(c) ? "NaN" : "Inf";
	if ((c & F32_INF) == 0)
		return (c & ~F32_SIGN) == 0 ? "zero" : "subnormal";
	operands_of(q, in, &a, &w);
	decode_row(q->format, &a, &q->way, x[0]);
	decode_row(q->other, &w, &q->way, x[1]);
	for (size_t i = 0; i < q->cols; i++)
		largest = fmaxf(largest, fabsf(x[0][i] * x[1][i]));
	return fabsf(f32_value(c)) < largest / 256 ? "what cancels" : "number";
}

const struct operation operation_dot = {
	dot_question, N_PAIRS * ACCS_MAX * 2, dot_items, dot_answer, dot_class, f32_results_same,
};

/* Sparsity. */

static const struct mxfp_sparsity sparsities[] = {{2, 4}, {1, 2}, {1, 4}, {2, 8}, {4, 8}, {4, 12}, {4, 16}};

enum { N_SPARSITIES = sizeof sparsities / sizeof sparsities[0], GROUP_MAX = 16 };

static bool prune_question(struct question *q, size_t i)
{
	char pattern[48];

	question_begin(q, OP_PRUNE);
	q->n_keep = sparsities[i].n;
	q->cols = sparsities[i].m;
	snprintf(pattern, sizeof pattern, "%zu:%zu", q->n_keep, q->cols);
	question_key(q, "sparsity", pattern);
	question_in(q, q->cols * 4, 4);
	question_out(q, (q->cols + 7) / 8, 1);
	question_out(q, q->n_keep * 4, 4);
	return true;
}

static void prune_items(const struct question *q, struct items *items)
{
	for (int k = 0; k < (items->quick ? 500 : 5000); k++) {
		uint8_t item[GROUP_MAX * 4];

		for (size_t i = 0; i < q->cols; i++) {
			uint32_t x = number_random(items, 0, 3);

			if (k % 4 == 1) /* few magnitudes, so that many are equal */
				x = (x & F32_SIGN) | (127 + (x >> 2 & 3)) << 23;
			if (k % 4 == 2) /* zeros */
				x = (x & 12) != 0 ? x & F32_SIGN : x;
			if (k % 16 == 3 && (x & 3) == 0)
				x = (x & F32_SIGN) | ((x & 4) != 0 ? F32_INF : F32_NAN);
			store_f32(item + 4 * i, x);
		}
		items_add(items, item);
	}
}

/* Whether element i goes before element k when elements to keep are chosen in a way. */
static bool goes_before(const struct way *way, const uint32_t *x, size_t i, size_t k)
{
	int64_t a = x[i] & ~F32_SIGN, b = x[k] & ~F32_SIGN;

	if (has_quirk(way, QUIRK_SIGNED_ORDER)) {
		a = x[i] >> 31 ? -a : a;
		b = x[k] >> 31 ? -b : b;
	}
	if (has_quirk(way, QUIRK_NAN_LEAST)) {
		a = f32_is_nan(x[i]) ? INT32_MIN : a;
		b = f32_is_nan(x[k]) ? INT32_MIN : b;
	}
	return a != b ? a > b : has_quirk(way, QUIRK_LAST_OF_EQUAL) ? i > k : i < k;
}

static void prune_one(const struct question *q, const struct way *way, const uint8_t *in, uint8_t *out)
{
	static const struct way plain;
	const struct mxfp_sparsity sparsity = {(unsigned)q->n_keep, (unsigned)q->cols};
	uint32_t x[GROUP_MAX], pruned[GROUP_MAX];
	uint8_t mask[2] = {0, 0}, *kept = out + q->out[0];
	const bool is_plain = memcmp(way->quirks, plain.quirks, sizeof plain.quirks) == 0;

	for (size_t i = 0; i < q->cols; i++)
		x[i] = load_f32(in + 4 * i);
	const struct mxfp_sparse masks = {.size = sizeof masks, .sparsity = sparsity, .rows = 1, .cols = q->cols, .masks = mask};
	if (is_plain)
		must_succeed(dense_prune(&masks, pruned, MXFP_FORMAT_F32, x, REFERENCE));
	for (size_t i = 0; i < q->cols && !is_plain; i++) {
		size_t n_before = 0;

		for (size_t k = 0; k < q->cols; k++)
			n_before += k != i && goes_before(way, x, k, i);
		mask[i / 8] |= (uint8_t)((n_before < q->n_keep) << i % 8);
	}
	for (size_t i = 0; i < q->cols; i++)
		if (mask[i / 8] >> i % 8 & 1) {
			store_f32(kept, x[i]);
			kept += 4;
		}
	if (has_quirk(way, QUIRK_MASK_REVERSED)) {
		const unsigned bits = (unsigned)mask[0] | (unsigned)mask[1] << 8;
		unsigned reversed = 0;

		for (size_t i = 0; i < q->cols; i++)
			reversed |= (bits >> i & 1) << (q->cols - 1 - i);
		mask[0] = (uint8_t)reversed;
		mask[1] = (uint8_t)(reversed >> 8);
	}
	memcpy(out, mask, q->out[0]);
}

static void prune_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n, uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++)
		prune_one(q, way, in + i * q->in_bytes, out + i * q->out_bytes);
}

static const char *prune_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	bool equal = false, odd = false;

	(void)expected;
	for (size_t i = 0; i < q->cols; i++) {
		const uint32_t m = load_f32(in + 4 * i) & ~F32_SIGN;

		odd |= m >= F32_INF;
		for (size_t k = 0; k < i; k++)
			equal |= m == (load_f32(in + 4 * k) & ~F32_SIGN);
	}
	return odd ? "group with NaN or Inf" : equal ? "group with equal magnitudes" : "group";
}

const struct operation operation_prune = {prune_question, N_SPARSITIES, prune_items, prune_answer, prune_class, NULL};
