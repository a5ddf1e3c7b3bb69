/* SPDX-License-Identifier: MIT */
/* How matrix units of real machines sum products, by the parameters of mma.def. */
#include "mma.h"

#include <string.h>

#include "f32.h"
#include "internal.h"
#include "pack.h"
#include "ref.h"

#define BIT(format) (UINT32_C(1) << MXFP_FORMAT_##format)

_Static_assert(MXFP_N_FORMATS <= 32, "a bit for each format");

static const struct mxfp_mma table[] = {
#define ALIGNED(acc, formats, k, group, term, fraction, lowest, result, nearest, addend, order, subnormal, nan) \
	{MXFP_ACC_##acc, formats, k, group, 1, term, fraction, lowest, result, nearest, MXFP_MMA_##addend, \
	 MXFP_MMA_##order, MXFP_MMA_##subnormal, nan},
#define FMA(acc, formats, k, lanes, addend, order, subnormal) \
	{MXFP_ACC_##acc, formats, k, 0, lanes, 1, 0, 0, 24, true, MXFP_MMA_##addend, MXFP_MMA_##order, \
	 MXFP_MMA_##subnormal, MXFP_F32_NAN},
#include "mma.def"
};

static const struct mxfp_format_info *element_of(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(info->element) : info;
}

static bool takes(const struct mxfp_mma *mma, enum mxfp_format a, enum mxfp_format w)
{
	return (mma->formats >> a & 1) != 0 && (mma->formats >> w & 1) != 0 &&
	       (a == w || (element_of(a)->bits <= 8 && element_of(w)->bits <= 8));
}

const struct mxfp_mma *mxfp_mma_find(enum mxfp_acc acc, enum mxfp_format a, enum mxfp_format w)
{
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].acc == acc && takes(&table[i], a, w))
			return &table[i];
	return NULL;
}

bool mxfp_acc_aligned(struct mxfp_aligned *to, enum mxfp_acc acc, enum mxfp_format a, enum mxfp_format w)
{
	const struct mxfp_mma *m = mxfp_mma_find(acc, a, w);

	if (m == NULL || m->group != m->k || m->term != 1 || m->fraction == MXFP_MMA_ALL || m->nearest || m->addend != MXFP_MMA_SUMMED ||
	    mxfp_format_get_info(a)->kind == MXFP_KIND_BLOCK)
		return false;
	*to = (struct mxfp_aligned){m->k, m->fraction, m->lowest, m->result};
	return true;
}

bool mxfp_mma_is(enum mxfp_acc acc)
{
	return acc != MXFP_ACC_EXACT && acc != MXFP_ACC_CHAIN;
}

int mxfp_mma_fraction(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const struct mxfp_format_info *scale = info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(info->scale) : NULL;

	return (int)element_of(format)->significand_bits + (scale != NULL ? (int)scale->significand_bits : 0);
}

/* The significand and exponent of a finite binary32 number, which a format with these bits and bias holds. */
static void split(struct mxfp_mma_operand *o, uint32_t x, int significand_bits, int least)
{
	const uint32_t field = x >> 23 & 0xFF, fraction = x & 0x7FFFFF;
	uint32_t significand = field != 0 ? fraction | 1U << 23 : fraction;

	o->exponent = field != 0 ? (int)field - 127 : -126;
	if (o->exponent < least) {
		significand = significand != 0 ? significand >> (least - o->exponent) : 0;
		o->exponent = least;
	}
	o->significand = (int32_t)(significand >> (23 - significand_bits));
	if (x & MXFP_F32_SIGN)
		o->significand = -o->significand;
}

/* The least exponent of a format's normal numbers, or that of fixed point. */
static int least_of(const struct mxfp_format_info *element)
{
	return element->kind == MXFP_KIND_FIXED ? 0 : 1 - element->bias;
}

static bool is_subnormal(const struct mxfp_mma_operand *o, int significand_bits)
{
	return o->significand > -(1 << significand_bits) && o->significand < 1 << significand_bits;
}

static void load_element(struct mxfp_mma_operand *to, const struct mxfp_mma *mma, const struct mxfp_format_info *element,
                         uint32_t x)
{
	const int bits = (int)element->significand_bits;

	*to = (struct mxfp_mma_operand){.x = x};
	if (!mxfp_f32_is_finite(x))
		return;
	split(to, x, bits, least_of(element));
	if ((mma->subnormal == MXFP_MMA_FLUSHED || mma->subnormal == MXFP_MMA_DROPPED) && is_subnormal(to, bits))
		*to = (struct mxfp_mma_operand){.x = mma->subnormal == MXFP_MMA_FLUSHED ? x & MXFP_F32_SIGN : 0};
}

/* A code as binary32; the top exponent is one of numbers where the machine takes it so. */
static uint32_t decode(const struct mxfp_mma *mma, const struct mxfp_format_info *element, uint32_t code)
{
	const uint32_t x = mxfp_minifloat_decode(element, code), low = code & ((UINT32_C(1) << (element->bits - 1)) - 1);
	const unsigned bits = element->significand_bits;

	if (mma->subnormal != MXFP_MMA_NUMBERS || mxfp_f32_is_finite(x))
		return x;
	return (code >> (element->bits - 1)) << 31 | ((low >> bits) + 127 - (uint32_t)element->bias) << 23 |
	       (low & ((UINT32_C(1) << bits) - 1)) << (23 - bits);
}

/* Number i of a matrix of numbers. */
static uint32_t load_number(const struct mxfp_mma *mma, const struct mxfp_matrix *matrix, size_t i)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(matrix->format);

	return info->bits == 8 ? decode(mma, info, ((const uint8_t *)matrix->data)[i]) : mxfp_ref_load(info, matrix->data, i);
}

/* Multiplies an element by the scale of its block. */
static void scale(struct mxfp_mma_operand *o, const struct mxfp_mma *mma, const struct mxfp_format_info *info, uint8_t code)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(info->scale);
	const uint32_t x = mxfp_minifloat_decode(format, code);
	struct mxfp_mma_operand s = {.significand = 1};

	if (mxfp_f32_is_nan(x))
		o->x = MXFP_F32_NAN;
	else if (format->kind == MXFP_KIND_EXPONENT)
		s.exponent = code - format->bias;
	else
		split(&s, x, (int)format->significand_bits, least_of(format));
	if (mma->term > 1) { /* the exponents of elements, 0 to 2, are no exponents for alignment */
		o->significand *= 1 << o->exponent;
		o->exponent = 0;
	}
	o->significand *= s.significand;
	o->exponent += s.exponent;
}

void mxfp_mma_load(struct mxfp_mma_operand *to, const struct mxfp_mma *mma, const struct mxfp_matrix *matrix, size_t row,
                   size_t k, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(matrix->format), *element = element_of(matrix->format);
	const size_t end = matrix->cols - k < n ? matrix->cols - k : n;
	uint8_t codes[MXFP_MMA_MOST];

	memset(to, 0, n * sizeof *to);
	if (info->kind != MXFP_KIND_BLOCK) {
		for (size_t i = 0; i < end; i++)
			load_element(&to[i], mma, element, load_number(mma, matrix, matrix->transposed ? (k + i) * matrix->stride + row
			                                                                              : row * matrix->stride + k + i));
		return;
	}
	mxfp_ref_unpack(codes, (const uint8_t *)matrix->data + row * matrix->stride + k * element->bits / 8, end, element->bits);
	for (size_t i = 0; i < end; i++) {
		load_element(&to[i], mma, element, decode(mma, element, codes[i]));
		scale(&to[i], mma, info, ((const uint8_t *)matrix->scales)[row * matrix->scales_stride + (k + i) / info->block_length]);
	}
}

unsigned mxfp_mma_place(const struct mxfp_mma *mma, unsigned i)
{
	if (mma->order == MXFP_MMA_SWAPPED)
		return i ^ 1;
	if (mma->order == MXFP_MMA_PAIRS)
		return i % mma->group / 2 * 4 + i / mma->group * 2 + i % 2;
	if (mma->order == MXFP_MMA_PARITY)
		return i % mma->group * 2 + i / mma->group;
	return i;
}

/* NaN and Inf of a sum. */
struct special {
	bool nan, positive, negative; /* an Inf of that sign */
};

static void add_inf(struct special *s, bool negative)
{
	s->positive |= !negative;
	s->negative |= negative;
}

static void add_special(struct special *s, const struct mxfp_mma *mma, const struct mxfp_mma_operand *a,
                        const struct mxfp_mma_operand *w)
{
	const uint32_t product = mxfp_f32_mul(a->x, w->x);

	if (mxfp_f32_is_nan(product))
		s->nan = true;
	else if (mxfp_f32_is_inf(a->x) || mxfp_f32_is_inf(w->x) ||
	         (mma->addend == MXFP_MMA_CUT && mxfp_f32_is_inf(product)))
		add_inf(s, product & MXFP_F32_SIGN);
}

/* Whether a product of finite numbers, or of others, may be special: then add_special() looks. */
static bool is_suspect(const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w)
{
	return !mxfp_f32_is_finite(a->x) || !mxfp_f32_is_finite(w->x) || a->exponent + w->exponent >= 126;
}

/* Whether the result is NaN or Inf because an operand is, or C; *result is that. */
static bool is_special(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                       uint32_t c, uint32_t *result)
{
	struct special s = {.nan = mxfp_f32_is_nan(c)};

	if (mxfp_f32_is_inf(c))
		add_inf(&s, c & MXFP_F32_SIGN);
	for (unsigned i = 0; i < mma->k; i++)
		if (is_suspect(&a[i], &w[i]))
			add_special(&s, mma, &a[i], &w[i]);
	*result = s.nan || (s.positive && s.negative) ? mma->nan : s.negative ? MXFP_F32_SIGN | MXFP_F32_INF : MXFP_F32_INF;
	return s.nan || s.positive || s.negative;
}

static uint64_t magnitude_of(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* value * 2^shift, toward zero; what is left of a shift to the left fits. A zero may be shifted by any number. */
static int64_t shift_cut(int64_t value, int shift)
{
	if (value == 0)
		return 0;
	const uint64_t magnitude = magnitude_of(value);
	const int64_t cut = shift >= 0 ? (int64_t)(magnitude << shift) : shift > -64 ? (int64_t)(magnitude >> -shift) : 0;

	return value < 0 ? -cut : cut;
}

/* The same toward -Inf. */
static int64_t shift_down(int64_t value, int shift)
{
	const int64_t cut = shift_cut(value, shift);

	return value < 0 && shift < 0 && (shift <= -64 || shift_cut(cut, -shift) != value) ? cut - 1 : cut;
}

/* The exponent of magnitude * 2^exponent as a binary32. */
static int top_of(uint64_t magnitude, int exponent)
{
	for (; magnitude > 1; magnitude >>= 1)
		exponent++;
	return exponent > -126 ? exponent : -126;
}

/* Rounds value * 2^exponent to the significand bits of a result. A zero is +0, also one that was cut. */
static uint32_t round_result(const struct mxfp_mma *mma, int64_t value, int exponent)
{
	uint64_t magnitude = magnitude_of(value);

	if (magnitude == 0)
		return 0;
	if (!mma->nearest) {
		const int drop = top_of(magnitude, exponent) - (mma->result - 1) - exponent;
		if (drop > 63)
			return 0;
		if (drop > 0)
			magnitude = magnitude >> drop << drop;
		if (magnitude == 0)
			return 0;
	}
	return mxfp_f32_round((struct mxfp_exact){.negative = value < 0, .exponent = exponent, .significand = magnitude});
}

/* Terms of a sum: value * 2^(exponent - fraction bits). */
struct terms {
	unsigned n;
	int most; /* the largest exponent */
	int64_t value[MXFP_MMA_MOST + 1];
	int exponent[MXFP_MMA_MOST + 1];
};

static void add_term(struct terms *t, int64_t value, int exponent, bool counts)
{
	if (!counts)
		return;
	t->value[t->n] = value;
	t->exponent[t->n++] = exponent;
	if (exponent > t->most)
		t->most = exponent;
}

/* The terms of step `step`, without C. A zero has no exponent, but a term of several products has unless each of them is a zero. */
static void find_terms(struct terms *t, const struct mxfp_mma *mma, const struct mxfp_mma_operand *a,
                       const struct mxfp_mma_operand *w, unsigned step)
{
	t->n = 0;
	t->most = mma->lowest;
	for (unsigned i = step * mma->group; i < (step + 1U) * mma->group; i += mma->term) {
		const unsigned first = mxfp_mma_place(mma, i);
		int64_t value = 0;
		bool counts = false;

		for (unsigned j = 0; j < mma->term; j++) {
			const unsigned at = mxfp_mma_place(mma, i + j);
			const int64_t product = (int64_t)a[at].significand * w[at].significand;

			value += product;
			counts |= product != 0;
		}
		add_term(t, value, a[first].exponent + w[first].exponent, counts);
	}
}

/* Sums the terms, cut, in units of 2^(most - fraction bits of the machine). */
static int64_t sum_terms(const struct terms *t, int kept, int fraction)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < t->n; i++)
		sum += shift_cut(t->value[i], kept - fraction + t->exponent[i] - t->most);
	return sum;
}

enum { DIGITS = 20, LOWEST = -288, C_FRACTION = 23 };

/* Adds value * 2^exponent to a number of 32-bit digits that have not been carried; |value| < 2^31. */
static void deposit(int64_t digits[DIGITS], int64_t value, int exponent)
{
	const unsigned at = (unsigned)(exponent - LOWEST);
	const uint64_t magnitude = (uint64_t)(value < 0 ? -value : value) << at % 32;
	const int64_t low = (int64_t)(magnitude & UINT32_MAX), high = (int64_t)(magnitude >> 32);

	digits[at / 32] += value < 0 ? -low : low;
	digits[at / 32 + 1] += value < 0 ? -high : high;
}

/* Makes all digits but the highest 0 to 2^32 - 1. */
static void carry(int64_t digits[DIGITS])
{
	for (unsigned i = 0; i + 1 < DIGITS; i++) {
		const int64_t low = digits[i] & UINT32_MAX;

		digits[i + 1] += (digits[i] - low) / (INT64_C(1) << 32);
		digits[i] = low;
	}
}

#define SMALLEST_NORMAL UINT32_C(0x00800000)
#define ONE UINT32_C(0x3F800000)

static bool is_small(uint32_t x, uint32_t below)
{
	return (x & ~MXFP_F32_SIGN) < below;
}

/* Whether results and C that are small are zeros of their sign. */
static bool is_flushing(const struct mxfp_mma *mma)
{
	return mma->subnormal == MXFP_MMA_FLUSHED || mma->subnormal == MXFP_MMA_NUMBERS;
}

/* As round_result(). What is flushed is rounded 2^64 times as large, where exponents have no limit below. */
static uint32_t flush_rounded(const struct mxfp_mma *mma, int64_t value, int exponent)
{
	const uint32_t r = round_result(mma, value, exponent);

	if (is_flushing(mma) && is_small(r, SMALLEST_NORMAL + 1) &&
	    is_small(round_result(mma, value, exponent + 64), SMALLEST_NORMAL + (64U << 23)))
		return r & MXFP_F32_SIGN;
	return r;
}

/* The exact sum of all terms and C, rounded once. */
static uint32_t sum_exact(const struct mxfp_mma *mma, const struct terms *t, int fraction, const struct mxfp_mma_operand *c)
{
	int64_t digits[DIGITS] = {0};
	unsigned top = DIGITS - 1;
	bool rest = false;

	for (unsigned i = 0; i < t->n; i++)
		deposit(digits, t->value[i], t->exponent[i] - fraction);
	deposit(digits, c->significand, c->exponent - C_FRACTION);
	carry(digits);
	const bool negative = digits[top] < 0;
	if (negative) {
		for (unsigned i = 0; i < DIGITS; i++)
			digits[i] = -digits[i];
		carry(digits);
	}
	while (top > 1 && digits[top] == 0)
		top--;
	for (unsigned i = 0; i + 1 < top; i++)
		rest |= digits[i] != 0;
	/* The highest digit has a bit and the next 32: what is below them is a jammed bit. */
	int64_t value = digits[top] * (INT64_C(1) << 30) + digits[top - 1] / 4;
	value |= rest || digits[top - 1] % 4 != 0;
	return flush_rounded(mma, negative ? -value : value, LOWEST + 32 * (int)(top - 1) + 2);
}

/* CDNA3: the sum of products, in units of 2^(most - fraction bits of the machine), and C, each rounded down, added, and that rounded
   down to 31 fraction bits. A C of zero has the exponent of a subnormal. */
static uint32_t add_cut(const struct mxfp_mma *mma, int64_t sum, int most, const struct mxfp_mma_operand *c)
{
	const int all = most > c->exponent ? most : c->exponent, unit = all - 32;

	sum = shift_down(sum, 32 - mma->fraction + most - all);
	if (mma->addend == MXFP_MMA_CUT || c->exponent >= all - 25)
		sum += shift_down(c->significand, 24 - C_FRACTION + c->exponent - all) * (1 << (32 - 24));
	const int last = top_of(magnitude_of(sum), unit) - 31;
	return round_result(mma, shift_down(sum, unit - last), last);
}

/* The steps apart, then C. */
static uint32_t sum_apart(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                          int fraction, uint32_t c)
{
	struct mxfp_mma_operand addend;
	struct terms even, odd;

	find_terms(&even, mma, a, w, 0);
	find_terms(&odd, mma, a, w, 1);
	split(&addend, c, C_FRACTION, -126);
	const int most = even.most > odd.most ? even.most : odd.most;
	const int64_t sum = shift_down(sum_terms(&even, mma->fraction, fraction), even.most - most) +
	                    shift_down(sum_terms(&odd, mma->fraction, fraction), odd.most - most);
	return add_cut(mma, sum, most, &addend);
}

/* One step: the result of its products and c. */
static uint32_t aligned_step(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                             int fraction, unsigned step, uint32_t c)
{
	struct mxfp_mma_operand addend;
	struct terms t;

	find_terms(&t, mma, a, w, step);
	split(&addend, c, C_FRACTION, -126);
	if (mma->fraction == MXFP_MMA_ALL)
		return sum_exact(mma, &t, fraction, &addend);
	if (mma->addend == MXFP_MMA_CUT)
		return add_cut(mma, sum_terms(&t, mma->fraction, fraction), t.most, &addend);
	if (addend.significand != 0 && addend.exponent > t.most)
		t.most = addend.exponent;
	return round_result(mma, sum_terms(&t, mma->fraction, fraction) +
	                             shift_cut(addend.significand, mma->fraction - C_FRACTION + addend.exponent - t.most),
	                    t.most - mma->fraction);
}

static uint32_t flush_addend(const struct mxfp_mma *mma, uint32_t c)
{
	if (mma->subnormal != MXFP_MMA_KEPT && is_small(c, SMALLEST_NORMAL))
		return is_flushing(mma) ? c & MXFP_F32_SIGN : 0;
	return c;
}

/* a * w + c, rounded and flushed as the machine does. */
static uint32_t multiply_add(const struct mxfp_mma *mma, uint32_t a, uint32_t w, uint32_t c)
{
	const uint32_t r = w == ONE ? mxfp_f32_add(a, c) : mxfp_f32_fma(a, w, c);
	uint32_t rounded = r;

	/* Without limit of exponent 2^-126 can come of less, by half a unit there: the same 2^32 times as large tells. */
	if (is_flushing(mma) && (r & ~MXFP_F32_SIGN) == SMALLEST_NORMAL) {
		const bool a_less = (a & ~MXFP_F32_SIGN) < (w & ~MXFP_F32_SIGN);

		rounded = mxfp_f32_fma(a_less ? mxfp_f32_scale(a, 32) : a, a_less ? w : mxfp_f32_scale(w, 32), mxfp_f32_scale(c, 32));
		return is_small(rounded, SMALLEST_NORMAL + (32U << 23)) ? r & MXFP_F32_SIGN : r;
	}
	return mma->subnormal != MXFP_MMA_KEPT && is_small(r, SMALLEST_NORMAL) ? r & MXFP_F32_SIGN : r;
}

static uint32_t rounded_sum(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                            uint32_t c)
{
	uint32_t sum[MXFP_MMA_MOST] = {0};

	c = flush_addend(mma, c);
	if (mma->addend == MXFP_MMA_SUMMED)
		sum[0] = c;
	for (unsigned i = 0; i < mma->k; i++)
		sum[i % mma->lanes] = multiply_add(mma, a[mxfp_mma_place(mma, i)].x, w[mxfp_mma_place(mma, i)].x, sum[i % mma->lanes]);
	for (unsigned n = mma->lanes; n > 1; n /= 2)
		for (unsigned i = 0; i < n / 2; i++)
			sum[i] = multiply_add(mma, sum[2 * i], ONE, sum[2 * i + 1]);
	return mma->addend == MXFP_MMA_SUMMED ? sum[0] : multiply_add(mma, c, ONE, sum[0]);
}

/* ACE: scales alone are NaN. The sum of the products may be Inf. */
static uint32_t sum_numbers(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                            int fraction, uint32_t c)
{
	uint32_t p;

	if (is_special(mma, a, w, 0, &p))
		return p;
	return multiply_add(mma, aligned_step(mma, a, w, fraction, 0, 0), ONE, flush_addend(mma, c));
}

uint32_t mxfp_mma_sum(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a, const struct mxfp_mma_operand *w,
                      int fraction, uint32_t c)
{
	uint32_t p;

	if (mma->group == 0)
		return rounded_sum(mma, a, w, c);
	if (mma->subnormal == MXFP_MMA_NUMBERS)
		return sum_numbers(mma, a, w, fraction, c);
	if (is_special(mma, a, w, c, &p))
		return p;
	if (mma->addend == MXFP_MMA_APART)
		return sum_apart(mma, a, w, fraction, c);
	p = mma->addend == MXFP_MMA_ADDED ? 0 : c;
	for (unsigned step = 0; step < mma->k / mma->group; step++)
		p = aligned_step(mma, a, w, fraction, step, p);
	return mma->addend == MXFP_MMA_ADDED ? mxfp_f32_add(c, p) : p;
}
