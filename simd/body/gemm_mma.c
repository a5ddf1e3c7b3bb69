/* SPDX-License-Identifier: MIT */
/*
 * What machines make of products (ref/mma.c), COLS columns of C at a time, in binary64, where nothing that counts is rounded. An
 * element is a binary32, and a product of two has at most 24 bits. Cut to a multiple of 2^(E - F) it is an integer below 2^(F + 2) in
 * that unit, and at most 65 are summed; 16 products of four bits with scales of four, one term, are below 2^(F + 11), of which there
 * are 4. F is at most MOST_FRACTION. Exponents are powers of two: those of products are products, and the largest needs no integers.
 * A zero has 0.
 *
 * ref/ does what is rare: the instructions of a row and columns with a NaN or Inf, and what comments below leave to it.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/gemm_panel.h"
#include "f32.h"
#include "f64.h"
#include "mma.h"

enum {
	COLS = LANES / 2,
	ROWS = MXFP_MMA_ROWS,
	FEW = 4,    /* rows that are multiplied together; the last ones one by one */
	SLICE = 32, /* elements of K that are loaded together; for an instruction that takes more, its own */
	TERM = 16,  /* elements with one scale */
	TERMS = MXFP_MMA_MOST / TERM,
	CODE_BYTES = 4,
	ROUNDED_LANES = 4, /* the most lanes of machines that round each product */
	LOWEST = -600, /* an exponent below any product's */
	MOST_FRACTION = 35,
	LINES = COLS < 4 ? 4 : COLS /* store_columns() reads four */
};

_Static_assert(MXFP_MMA_COLS % COLS == 0 && (int)COLS <= (int)ROWS, "a row of a tile and scales have room for a vector");

/* The scales of a term of each row: the number, and the power of two of its exponent, 0 of a zero. */
struct scales {
	double number[TERMS][ROWS], power[TERMS][ROWS];
	uint64_t nonzero[TERMS][ROWS]; /* where a term is several elements: a bit in four for each that is not zero */
};

_Static_assert((int)MXFP_MMA_MOST == 2 * SLICE, "elements of the longest instruction, or those of a slice and their powers");

/* Columns of W: elements, and where products are aligned one by one, the powers of two of their exponents. */
struct columns {
	union {
		uint32_t x[MXFP_MMA_MOST][COLS];
		struct {
			uint32_t sliced[SLICE][COLS], power[SLICE][COLS];
		};
	};
	struct scales scales;
	bool special; /* an element or a scale is NaN or Inf */
};

struct row {
	union {
		double x[MXFP_MMA_MOST];
		struct {
			double sliced[SLICE], power[SLICE];
		};
		float number[SLICE]; /* for machines that round to binary32 */
	};
	bool special;
};

struct rows {
	struct row row[ROWS];
	struct scales scales;
};

/* A pass. */
struct pass {
	const struct mxfp_gemm_ref_job *job;
	const struct mxfp_mma *mma;
	struct mxfp_mma_tile *tile;
	int fraction;                 /* as mxfp_mma_sum() has it */
	uint8_t order[MXFP_MMA_MOST]; /* of products */
	size_t slice;                 /* elements */
	bool blocks, wants_powers;
	int lowest;
};

/* The bits of 2^exponent in binary64. */
static inline uint64_t f64_power(int exponent)
{
	return (uint64_t)(exponent + 1023) << 52;
}

static inline double f64_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

ALWAYS_INLINE vf64 power_f64(int exponent)
{
	return splat_f64(f64_of(f64_power(exponent)));
}

ALWAYS_INLINE vs64 magnitude_f64(vf64 v)
{
	return (vs64)v & INT64_MAX;
}

ALWAYS_INLINE vf64 blend_f64(vs64 mask, vf64 a, vf64 b)
{
	return (vf64)((mask & (vs64)a) | (~mask & (vs64)b));
}

#define F64_INF ((int64_t)MXFP_F64_INF)

/* A part of some rows of a matrix, of which `k` elements are left. */
struct part {
	const struct mxfp_matrix *matrix;
	const struct mxfp_format_info *info, *element;
	size_t row, rows, k0, k;
};

static struct part part_of(const struct mxfp_matrix *matrix, size_t row, size_t rows, size_t k0, size_t n)
{
	struct part p = {.matrix = matrix, .info = mxfp_format_get_info(matrix->format), .row = row, .rows = rows, .k0 = k0};

	p.element = p.info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(p.info->element) : p.info;
	p.k = matrix->cols - k0 < n ? matrix->cols - k0 : n;
	return p;
}

/* Elements without their scales, in rows `stride` apart. */
static void load_blocks(const struct part *p, uint32_t *to, size_t stride)
{
	const struct mxfp_format_info *scale = mxfp_format_get_info(p->info->scale);
	const struct mxfp_gemm_pack_job job = {.matrix = p->matrix, .row = p->row, .rows = p->rows, .k0 = p->k0, .k = p->k};
	uint8_t ones[TERMS];

	memset(ones, scale->bias << scale->significand_bits, sizeof ones);
	dequantize_rows(&job, ones, 1, to, stride);
}

/* `lines` lines of `width` numbers in memory, from number `at` on, in lines of `stride`, zeros behind them. */
static void load_numbers(const struct part *p, size_t at, size_t lines, size_t width, uint32_t *to, size_t stride)
{
	const size_t bytes = p->element->storage_bytes;
	uint8_t codes[ROWS * SLICE * CODE_BYTES];
	struct decoder decoder;

	memset(codes, 0, lines * stride * bytes);
	for (size_t i = 0; i < lines; i++)
		memcpy(codes + i * stride * bytes, (const uint8_t *)p->matrix->data + (at + i * p->matrix->stride) * bytes, width * bytes);
	decoder_init(&decoder, p->element);
	decode_array(&decoder, codes, lines * stride, to);
}

/* Loads rows of `stride` elements. */
static void load_rows(const struct part *p, uint32_t *to, size_t stride)
{
	if (p->info->kind == MXFP_KIND_BLOCK)
		load_blocks(p, to, stride);
	else
		load_numbers(p, p->row * p->matrix->stride + p->k0, p->rows, p->k, to, stride);
}

/* The power of two of the exponent of a number in a format whose least is that of `least`; 0 of a zero. */
ALWAYS_INLINE vu32 power_of(vu32 x, uint32_t least)
{
	return max_u32(x & F32_INF, splat(least)) & (vu32)((x & ~F32_SIGN) != 0);
}

/* Scales of blocks by terms; behind a row's last element they are the least. Returns whether one is NaN. */
static bool load_scales(const struct part *p, size_t terms, struct scales *s)
{
	const struct mxfp_format_info *scale = mxfp_format_get_info(p->info->scale);
	const uint32_t least = (uint32_t)(1 - scale->bias + F32_BIAS) << F32_SIGNIFICAND_BITS;
	uint8_t codes[TERMS * ROWS];
	uint32_t x[TERMS * ROWS];
	double *const numbers = s->number[0], *const exponents = s->power[0];
	bool special = false;
	struct decoder decoder;

	memset(codes, 0, sizeof codes);
	for (size_t i = 0; i < terms * ROWS; i++)
		if (i % ROWS < p->rows && i / ROWS * TERM < p->k)
			codes[i] = ((const uint8_t *)p->matrix->scales)[(p->row + i % ROWS) * p->matrix->scales_stride +
			                                                (p->k0 + i / ROWS * TERM) / p->info->block_length];
	decoder_init(&decoder, scale);
	decode_array(&decoder, codes, terms * ROWS, x);
	for (size_t i = 0; i < terms * ROWS; i += COLS) {
		const vu32 v = load_first(x + i, COLS);
		uint32_t powers[LANES];

		special |= any((v & ~F32_SIGN) > F32_INF);
		store(powers, scale->kind == MXFP_KIND_EXPONENT ? v : power_of(v, least));
		store(numbers + i, (vu32)widen_f32(x + i));
		store(exponents + i, (vu32)widen_f32(powers));
	}
	return special;
}

/* Finds which elements are not zero, of four bits each. */
static void find_nonzero(const struct part *p, size_t terms, struct scales *s)
{
	memset(s->nonzero, 0, sizeof s->nonzero);
	for (size_t t = 0; t < terms && t * TERM < p->k; t++) {
		const size_t left = p->k - t * TERM, n = left < TERM ? left : TERM;
		const uint64_t counted = UINT64_C(0x1111111111111111) >> 4 * (TERM - n);
		const uint8_t *codes = (const uint8_t *)p->matrix->data + p->row * p->matrix->stride + (p->k0 + t * TERM) / 2;

		for (size_t r = 0; r < p->rows; r++, codes += p->matrix->stride) {
			uint64_t x = 0;

			if (n == TERM)
				memcpy(&x, codes, sizeof x);
			else
				memcpy(&x, codes, (n + 1) / 2);
			s->nonzero[t][r] = (x | x >> 1 | x >> 2) & counted;
		}
	}
}

/* Scales of the terms of an instruction, of blocks. Returns whether one is NaN. */
static bool load_terms(const struct pass *pass, const struct part *p, struct scales *s)
{
	const size_t terms = pass->mma->term > 1 ? pass->mma->k / pass->mma->term : 1;

	if (!pass->blocks)
		return false;
	if (pass->mma->term > 1)
		find_nonzero(p, terms, s);
	return load_scales(p, terms, s);
}

/* Flushes n elements as the machine does, n a multiple of LANES, and finds the powers of their exponents, unless `powers` is NULL.
   Returns whether one is NaN or Inf. */
static bool prepare(const struct pass *p, const struct mxfp_format_info *element, uint32_t *x, size_t n, uint32_t *powers)
{
	const uint32_t least = (uint32_t)(1 - element->bias + F32_BIAS) << F32_SIGNIFICAND_BITS;
	const vu32 kept = splat(p->mma->subnormal == MXFP_MMA_FLUSHED ? F32_SIGN : 0);
	vs32 special = {0};

	for (size_t i = 0; i < n; i += LANES) {
		vu32 v = load(x + i);
		const vu32 magnitude = v & ~F32_SIGN;

		special |= (vs32)(magnitude >= F32_INF);
		if (p->mma->subnormal != MXFP_MMA_KEPT) {
			v = blend((vs32)(magnitude < least), v & kept, v);
			store(x + i, v);
		}
		if (powers != NULL)
			store(powers + i, power_of(v, least));
	}
	return any(special);
}

static NOINLINE void load_a(const struct pass *p, size_t k, struct rows *a)
{
	const struct part part = part_of(p->job->a, p->job->row + p->tile->row, p->tile->rows, k, p->slice);
	uint32_t x[ROWS * MXFP_MMA_MOST] = {0}, powers[MXFP_MMA_MOST];
	const bool special = load_terms(p, &part, &a->scales);

	load_rows(&part, x, p->slice);
	for (size_t r = 0; r < part.rows; r++) {
		struct row *row = &a->row[r];

		row->special = prepare(p, part.element, x + r * p->slice, p->slice, p->wants_powers ? powers : NULL) || special;
		if (p->mma->group == 0)
			memcpy(row->number, x + r * p->slice, sizeof row->number);
		for (size_t i = 0; i < p->slice && p->mma->group != 0; i += COLS)
			store(row->x + i, (vu32)widen_f32(x + r * p->slice + i));
		for (size_t i = 0; i < p->slice && p->wants_powers; i += COLS)
			store(row->power + i, (vu32)widen_f32(powers + i));
	}
}

static NOINLINE void load_w(const struct pass *p, size_t col, size_t k, struct columns *w)
{
	const size_t cols = p->tile->cols - col < COLS ? p->tile->cols - col : COLS;
	const struct part part = part_of(p->job->w, p->job->col + p->tile->col + col, cols, k, p->slice);
	uint32_t x[LINES * MXFP_MMA_MOST] = {0};

	w->special = load_terms(p, &part, &w->scales);
	if (part.matrix->transposed) {
		memset(w->x, 0, sizeof w->x);
		load_numbers(&part, k * part.matrix->stride + part.row, part.k, cols, w->x[0], COLS);
	} else {
		load_rows(&part, x, p->slice);
		store_columns((uint8_t *)w->x, x, p->slice, COLS, p->slice);
	}
	w->special |= prepare(p, part.element, w->x[0], p->slice * COLS, p->wants_powers ? w->power[0] : NULL);
}

/* Rows of A that are multiplied together by columns of W, from an instruction's first element in their slice on. */
struct group {
	const struct pass *p;
	const struct row *a;
	const struct scales *a_scales;
	size_t row; /* the first, in a_scales */
	const struct columns *w;
	size_t at;
};

/* The product of numbers, or of powers, of two terms' scales. */
ALWAYS_INLINE vf64 times(const double a[TERMS][ROWS], const double w[TERMS][ROWS], size_t term, size_t row)
{
	return (vf64)load(w[term]) * splat_f64(a[term][row]);
}

/* All bits where a term has a product that is not zero. */
ALWAYS_INLINE vs64 has_products(const struct group *g, size_t term, size_t row)
{
	return (vs64)((vs64)load(g->w->scales.nonzero[term]) & (int64_t)g->a_scales->nonzero[term][row]) != 0;
}

/* The largest power of two of terms, or 0. */
ALWAYS_INLINE void find_most(const struct group *g, const uint8_t *order, size_t rows, vf64 most[FEW])
{
	const struct mxfp_mma *mma = g->p->mma;

	for (size_t r = 0; r < rows; r++)
		most[r] = (vf64){0};
	if (mma->term > 1) {
		for (size_t t = 0; t < mma->group / (size_t)TERM; t++)
			for (size_t r = 0; r < rows; r++)
				most[r] = max_f64(most[r], (vf64)((vs64)times(g->a_scales->power, g->w->scales.power, t, g->row + r) &
				                                  has_products(g, t, g->row + r)));
		return;
	}
	for (size_t i = 0; i < mma->group; i++) {
		const vf64 power = widen_f32(g->w->power[g->at + order[i]]);

#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++)
			most[r] = max_f64(most[r], power * splat_f64(g->a[r].power[g->at + order[i]]));
	}
	for (size_t r = 0; r < rows && g->p->blocks; r++)
		most[r] *= times(g->a_scales->power, g->w->scales.power, 0, g->row + r);
}

/* Adds terms times factor, cut to integers. */
ALWAYS_INLINE void add_terms(const struct group *g, const uint8_t *order, size_t rows, const vf64 factor[FEW], vf64 sum[FEW])
{
	const struct mxfp_mma *mma = g->p->mma;
	vf64 unit[FEW];

	for (size_t t = 0; mma->term > 1 && t < mma->group / (size_t)TERM; t++) {
		vf64 term[FEW] = {{0}};

		for (size_t i = t * TERM; i < (t + 1) * TERM; i++) {
			const vf64 x = widen_f32(g->w->x[g->at + order[i]]);

#pragma GCC unroll 4
			for (size_t r = 0; r < rows; r++)
				term[r] = fma_f64(x, splat_f64(g->a[r].x[g->at + order[i]]), term[r]);
		}
		for (size_t r = 0; r < rows; r++)
			sum[r] += truncate_f64(term[r] * times(g->a_scales->number, g->w->scales.number, t, g->row + r) * factor[r]);
	}
	for (size_t r = 0; r < rows; r++)
		unit[r] = g->p->blocks ? factor[r] * times(g->a_scales->number, g->w->scales.number, 0, g->row + r) : factor[r];
	for (size_t i = 0; mma->term == 1 && i < mma->group; i++) {
		const vf64 x = widen_f32(g->w->x[g->at + order[i]]);

#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++)
			sum[r] += truncate_f64(x * splat_f64(g->a[r].x[g->at + order[i]]) * unit[r]);
	}
}

/* 2^bits / power. */
ALWAYS_INLINE vf64 inverse(vf64 power, int bits)
{
	return (vf64)((vs64)splat_f64(f64_of(UINT64_C(2046) << 52)) - (vs64)power + ((int64_t)bits << 52));
}

/* Cut toward zero to so many bits of a binary32. A zero becomes +0. */
ALWAYS_INLINE vf64 cut_result(vf64 v, int bits)
{
	const int least = 1 - F32_BIAS - (bits - 1);
	const vf64 subnormal = truncate_f64(v * power_f64(-least)) * power_f64(least);
	const vs64 normal = magnitude_f64(v) >= (int64_t)f64_power(1 - F32_BIAS);

	return blend_f64(normal, (vf64)((vs64)v & -(INT64_C(1) << (53 - bits))), subnormal) + splat_f64(0);
}

/* The power of the exponent of a binary32; of a zero that of a subnormal. */
ALWAYS_INLINE vf64 addend_power(vf64 c)
{
	return max_f64((vf64)((vs64)c & F64_INF), power_f64(1 - F32_BIAS));
}

/* CDNA3: the sum, in units of most / 2^fraction, and c, each rounded down, added, and rounded down. */
ALWAYS_INLINE vf64 add_cut(vf64 sum, vf64 most, int fraction, vf64 c)
{
	const vf64 all = max_f64(most, addend_power(c)), up = inverse(all, 32);
	const vf64 s = floor_f64(sum * (most * power_f64(-fraction)) * up);
	const vf64 d = (s + floor_f64(c * (up * power_f64(24 - 32))) * power_f64(32 - 24)) * (all * power_f64(-32));
	const vf64 top = addend_power(d);

	return floor_f64(d * inverse(top, 31)) * (top * power_f64(-31));
}

/* A step: c becomes the result of its products and c; NaN and Inf stay what they are. Lanes that are `bad` are the reference's: an
   earlier step overflowed, or a product of CDNA3 may. */
ALWAYS_INLINE void aligned_step(const struct group *g, size_t step, size_t rows, vf64 c[FEW], vs64 bad[FEW])
{
	const struct mxfp_mma *mma = g->p->mma;
	const uint8_t *order = g->p->order + step * mma->group;
	const bool cdna3 = mma->addend == MXFP_MMA_CUT;
	vf64 most[FEW], factor[FEW], sum[FEW];

	find_most(g, order, rows, most);
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++) {
		if (step > 0)
			bad[r] |= magnitude_f64(c[r]) >= (int64_t)f64_power(F32_BIAS + 1);
		most[r] = max_f64(most[r], power_f64(g->p->lowest));
		if (cdna3)
			bad[r] |= most[r] >= power_f64(126);
		else
			most[r] = max_f64(most[r], (vf64)((vs64)addend_power(c[r]) & (c[r] != 0)));
		factor[r] = inverse(most[r], mma->fraction);
		sum[r] = cdna3 ? (vf64){0} : truncate_f64(c[r] * factor[r]) + splat_f64(0);
	}
	add_terms(g, order, rows, factor, sum);
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++) {
		if (cdna3)
			c[r] = add_cut(sum[r], most[r], mma->fraction, c[r]);
		else
			c[r] = cut_result(sum[r] * (most[r] * power_f64(-mma->fraction)), mma->result);
	}
}

struct two_sum {
	vf64 sum, error;
};

ALWAYS_INLINE struct two_sum two_sum(vf64 a, vf64 b)
{
	const vf64 sum = a + b, b_part = sum - a;

	return (struct two_sum){sum, (a - (sum - b_part)) + (b - b_part)};
}

/* FMMLA: products of FP8, whose integer parts and fractions are summed exactly, and c, to odd: rounding that rounds all once. The
   errors' sum is not exact only beside a c of 2^74, which products do not change. */
ALWAYS_INLINE void exact_step(const struct group *g, size_t rows, vf64 c[FEW], vs64 bad[FEW])
{
	vf64 whole[FEW] = {{0}}, rest[FEW] = {{0}};

	for (size_t i = 0; i < g->p->mma->k; i++) {
		const vf64 x = widen_f32(g->w->x[g->at + i]);

#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++) {
			const vf64 product = x * splat_f64(g->a[r].x[g->at + i]), integer = truncate_f64(product);

			whole[r] += integer;
			rest[r] += product - integer;
		}
	}
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++) {
		const struct two_sum low = two_sum(rest[r], c[r]), high = two_sum(whole[r], low.sum);

		bad[r] |= magnitude_f64(c[r]) == F64_INF; /* whose error would be NaN */
		c[r] = add_to_odd(high.sum, high.error + low.error);
	}
}

/* An instruction of machines that align, without what is added to its result. */
ALWAYS_INLINE void aligned(const struct group *g, size_t rows, vf64 c[FEW], vs64 bad[FEW])
{
	const struct mxfp_mma *mma = g->p->mma;

	if (mma->fraction == MXFP_MMA_ALL) {
		exact_step(g, rows, c, bad);
		return;
	}
	for (size_t step = 0; step < mma->k / mma->group; step++)
		aligned_step(g, step, rows, c, bad);
}

/* Does an instruction for the first of the rows. Returns which of them it left to the reference, a bit each. */
typedef unsigned instruction(const struct group *g, size_t rows, uint32_t (*sums)[MXFP_MMA_COLS]);

ALWAYS_INLINE unsigned sum_aligned(const struct group *g, size_t rows, uint32_t (*sums)[MXFP_MMA_COLS])
{
	const bool added = g->p->mma->addend == MXFP_MMA_ADDED;
	vf64 c[FEW], d[FEW];
	vs64 bad[FEW];
	unsigned left = 0;

	if (g->w->special)
		return ~0U;
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++) {
		c[r] = widen_f32(sums[r]);
		d[r] = added ? (vf64){0} : c[r];
		bad[r] = (vs64){0};
	}
	aligned(g, rows, d, bad);
#pragma GCC unroll 4
	for (size_t r = 0; r < rows; r++) {
		vf32 result = narrow_f64(d[r], d[r]);

		if (added)
			result += narrow_f64(c[r], c[r]);
		if (g->a[r].special || any((vs32)bad[r]))
			left |= 1U << r;
		else
			memcpy(sums[r], &result, COLS * sizeof sums[r][0]);
	}
	return left;
}

/* CDNA3's FP8: both steps by themselves, each sum rounded down beside the other, then c, unless it is too small to count. */
ALWAYS_INLINE unsigned sum_apart(const struct group *g, size_t rows, uint32_t (*sums)[MXFP_MMA_COLS])
{
	const struct mxfp_mma *mma = g->p->mma;
	vf64 most[2][FEW], sum[2][FEW];
	unsigned left = 0;

	if (g->w->special)
		return ~0U;
	for (size_t step = 0; step < 2; step++) {
		const uint8_t *order = g->p->order + step * mma->group;
		vf64 factor[FEW];

		find_most(g, order, rows, most[step]);
		for (size_t r = 0; r < rows; r++) {
			most[step][r] = max_f64(most[step][r], power_f64(g->p->lowest));
			factor[r] = inverse(most[step][r], mma->fraction);
			sum[step][r] = (vf64){0};
		}
		add_terms(g, order, rows, factor, sum[step]);
	}
	for (size_t r = 0; r < rows; r++) {
		const vf64 c = widen_f32(sums[r]), all = max_f64(most[0][r], most[1][r]), down = inverse(all, 0);
		const vf64 total = floor_f64(sum[0][r] * (most[0][r] * down)) + floor_f64(sum[1][r] * (most[1][r] * down));
		const vs64 counts = addend_power(c) * power_f64(25) >= all;
		const vf64 d = add_cut(total, all, mma->fraction, blend_f64(counts, c, (vf64){0}));
		const vf32 result = narrow_f64(d, d);

		if (g->a[r].special)
			left |= 1U << r;
		else
			memcpy(sums[r], &result, COLS * sizeof sums[r][0]);
	}
	return left;
}

/* What a machine makes of the result of an operation. *doubt: it may have been rounded to 2^-126 from what is flushed. */
ALWAYS_INLINE vf32 flush(const struct mxfp_mma *mma, vf32 v, vs32 *doubt)
{
	const vu32 magnitude = (vu32)v & ~F32_SIGN;

	if (mma->subnormal == MXFP_MMA_KEPT)
		return v;
	*doubt |= (vs32)(magnitude == F32_HIDDEN);
	return (vf32)blend((vs32)(magnitude < F32_HIDDEN), (vu32)v & F32_SIGN, (vu32)v);
}

/* An addend, where subnormals are not kept. */
ALWAYS_INLINE vf32 flush_addend(const struct mxfp_mma *mma, vu32 c)
{
	const vs32 small = (vs32)((c & ~F32_SIGN) < F32_HIDDEN);

	if (mma->subnormal == MXFP_MMA_KEPT)
		return (vf32)c;
	return (vf32)blend(small, mma->subnormal == MXFP_MMA_FLUSHED ? c & F32_SIGN : splat(0), c);
}

/* The first COLS lanes count. `lanes` is a constant where this is inlined. */
ALWAYS_INLINE vf32 rounded_row(const struct group *g, size_t r, size_t lanes, vu32 addend, vs32 *doubt)
{
	const struct mxfp_mma *mma = g->p->mma;
	const bool summed = mma->addend == MXFP_MMA_SUMMED;
	const vf32 c = flush_addend(mma, addend);
	vf32 sum[ROUNDED_LANES] = {{0}};

	if (summed)
		sum[0] = c;
	for (size_t i = 0; i < mma->k; i += lanes)
#pragma GCC unroll 4
		for (size_t j = 0; j < lanes; j++) {
			const size_t place = g->at + g->p->order[i + j];
			const vf32 x = (vf32)load(g->w->x[place]); /* the line and the next, of which there is one */

			sum[j] = flush(mma, fma_f32(x, splat_f32(g->a[r].number[place]), sum[j]), doubt);
		}
#pragma GCC unroll 4
	for (size_t n = lanes; n > 1; n /= 2)
#pragma GCC unroll 4
		for (size_t i = 0; i < n / 2; i++)
			sum[i] = flush(mma, sum[2 * i] + sum[2 * i + 1], doubt);
	return summed ? sum[0] : flush(mma, c + sum[0], doubt);
}

ALWAYS_INLINE unsigned sum_rounded(const struct group *g, size_t rows, uint32_t (*sums)[MXFP_MMA_COLS])
{
	unsigned left = 0;

	for (size_t r = 0; r < rows; r++) {
		const vf64 wide = widen_f32(sums[r]);
		const vu32 c = (vu32)narrow_f64(wide, wide);
		vs32 doubt = {0};
		const vf32 result = g->p->mma->lanes == 1   ? rounded_row(g, r, 1, c, &doubt)
		                    : g->p->mma->lanes == 2 ? rounded_row(g, r, 2, c, &doubt)
		                                            : rounded_row(g, r, 4, c, &doubt);

		if (g->p->mma->subnormal == MXFP_MMA_FLUSHED && any(doubt & (vs32)(lane_numbers() < COLS)))
			left |= 1U << r;
		else
			memcpy(sums[r], &result, COLS * sizeof sums[r][0]);
	}
	return left;
}

/* An instruction at element k of row `row` of the tile and of the columns from `col` on. A NaN stays one. */
static NOINLINE void sum_by_reference(const struct pass *p, size_t row, size_t col, size_t k)
{
	const size_t cols = p->tile->cols - col < COLS ? p->tile->cols - col : COLS;
	struct mxfp_mma_operand a[MXFP_MMA_MOST], w[MXFP_MMA_MOST];
	uint32_t *sums = p->tile->sum[row] + col;

	mxfp_mma_load(a, p->mma, p->job->a, p->job->row + p->tile->row + row, k, p->mma->k);
	for (size_t i = 0; i < cols; i++) {
		if (mxfp_f32_is_nan(sums[i]))
			continue;
		mxfp_mma_load(w, p->mma, p->job->w, p->job->col + p->tile->col + col + i, k, p->mma->k);
		sums[i] = mxfp_mma_sum(p->mma, a, w, p->fraction, sums[i]);
	}
}

/* Multiplies the rows of a slice that begins at element k by the columns from `col` on. */
ALWAYS_INLINE void multiply_slice(const struct pass *p, const struct rows *a, const struct columns *w, size_t col, size_t k, size_t n,
                                  instruction *sum)
{
	struct group g = {.p = p, .a_scales = &a->scales, .w = w};

	for (size_t rows; g.row < p->tile->rows; g.row += rows) {
		rows = p->tile->rows - g.row < FEW ? 1 : FEW;
		g.a = a->row + g.row;
		for (g.at = 0; g.at < n; g.at += p->mma->k) {
			uint32_t (*sums)[MXFP_MMA_COLS] = (uint32_t (*)[MXFP_MMA_COLS])(p->tile->sum[g.row] + col);
			const unsigned left = rows == FEW ? sum(&g, FEW, sums) : sum(&g, 1, sums);

			for (size_t r = 0; __builtin_expect(left != 0, 0) && r < rows; r++)
				if (left >> r & 1)
					sum_by_reference(p, g.row + r, col, k + g.at);
		}
	}
}

static NOINLINE void multiply_aligned(const struct pass *p, const struct rows *a, const struct columns *w, size_t col, size_t k, size_t n)
{
	multiply_slice(p, a, w, col, k, n, sum_aligned);
}

static NOINLINE void multiply_apart(const struct pass *p, const struct rows *a, const struct columns *w, size_t col, size_t k, size_t n)
{
	multiply_slice(p, a, w, col, k, n, sum_apart);
}

static NOINLINE void multiply_rounded(const struct pass *p, const struct rows *a, const struct columns *w, size_t col, size_t k, size_t n)
{
	multiply_slice(p, a, w, col, k, n, sum_rounded);
}

/* Whether a machine is one of those above for elements of A of so many bits; another is the reference's. */
static bool is_known(const struct mxfp_mma *mma, bool blocks, unsigned bits)
{
	const bool summed = mma->addend == MXFP_MMA_SUMMED, added = mma->addend == MXFP_MMA_ADDED;
	const bool sliced = SLICE % mma->k == 0;

	if (mma->group == 0)
		return (summed || added) && sliced && !blocks && (mma->lanes == 1 || mma->lanes == 2 || mma->lanes == ROUNDED_LANES);
	if (mma->subnormal != MXFP_MMA_KEPT)
		return false;
	if (mma->fraction == MXFP_MMA_ALL)
		return summed && sliced && !blocks && mma->k == mma->group && mma->order == MXFP_MMA_ASCENDING;
	if (mma->addend == MXFP_MMA_CUT)
		return sliced && mma->nearest && mma->k == mma->group && mma->term == 1;
	if (mma->addend == MXFP_MMA_APART)
		return sliced && !blocks && mma->nearest && mma->k == 2 * mma->group && mma->term == 1;
	return (summed || added) && !mma->nearest && mma->fraction <= MOST_FRACTION && (mma->term == 1 ? sliced : mma->term == TERM && blocks && bits == 4);
}

static void pass(const struct mxfp_gemm_ref_job *job, const struct mxfp_mma *mma, size_t k, size_t end, struct mxfp_mma_tile *t)
{
	struct pass p = {
		.job = job,
		.mma = mma,
		.tile = t,
		.fraction = mxfp_mma_fraction(job->a->format) + mxfp_mma_fraction(job->w->format),
		.slice = mma->k > SLICE ? mma->k : SLICE,
		.blocks = mxfp_format_get_info(job->a->format)->kind == MXFP_KIND_BLOCK,
		.wants_powers = mma->group != 0 && mma->term == 1,
		.lowest = mma->lowest < LOWEST ? LOWEST : mma->lowest,
	};
	void (*const multiply)(const struct pass *, const struct rows *, const struct columns *, size_t, size_t, size_t) =
		mma->group == 0                  ? multiply_rounded
		: mma->addend == MXFP_MMA_APART ? multiply_apart
		                                 : multiply_aligned;
	struct columns w;
	struct rows a;

	if (!is_known(mma, p.blocks, part_of(job->a, 0, 0, 0, 0).element->bits)) {
		mxfp_mma_pass_ref(job, mma, k, end, t);
		return;
	}
	for (unsigned i = 0; i < mma->k; i++)
		p.order[i] = (uint8_t)mxfp_mma_place(mma, i);
	for (size_t r = 0; r < t->rows; r++)
		memset(t->sum[r] + t->cols, 0, (MXFP_MMA_COLS - t->cols) * sizeof t->sum[r][0]);
	for (; k < end; k += p.slice) {
		const size_t n = end - k < p.slice ? end - k : p.slice;

		load_a(&p, k, &a);
		for (size_t col = 0; col < t->cols; col += COLS) {
			load_w(&p, col, k, &w);
			multiply(&p, &a, &w, col, k, n);
		}
	}
}

static NOINLINE void machine(const struct mxfp_gemm_ref_job *job)
{
	mxfp_mma_run(job, pass);
}

FP_KERNEL(TIER(gemm_mma), mxfp_gemm_ref_job, machine)
