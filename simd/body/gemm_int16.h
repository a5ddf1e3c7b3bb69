/* SPDX-License-Identifier: MIT */
/*
 * What kernels share whose elements are 16-bit integers in a unit of their format: a 32-bit lane adds two products per
 * step, and a block's sum fits it. e4m3, which only A may be, needs 18 bits: the upper 15 are in one plane and the
 * lower 3 in another, which is multiplied only for the few blocks where it is not all zeros.
 *
 * Without e4m3, integers have at most 9 bits and sums at most 24, even times an NVFP4 scale (those of E3M2 in W may be 16 times
 * that, and as exact: gemm_codes.h), so nothing is rounded before the FMA that scales and adds. A sum with e4m3 is rounded to
 * 24 bits when it is converted to binary32.
 *
 * W's plane may be nibbles instead, 4-bit codes that are decoded where they are multiplied (gemm_fp4.c).
 */
#ifndef MXFP_BODY_GEMM_INT16_H
#define MXFP_BODY_GEMM_INT16_H

#include "body/gemm_blocks.h"
#include "body/gemm_pairs.h"
#include "body/slots.h"
#include "cpu.h"

enum {
	INT16_NR = INT16_VECTORS * LANES,
	INT16_WORD = 8,           /* elements in a word of nibbles; pairs are 0 and 4, 2 and 6, 1 and 5, 3 and 7 of each */
	INT16_LOW_BITS = 3,
	SCALE_BITS = 3,           /* of the significand of a scale of NVFP4, without the hidden one */
	INT16_LOW_FLAGS = sizeof(struct blocks_head), /* in the head, a byte per block: it has lower bits */
#ifdef HAS_WIDE_LOOKUP
	BY_CODES_ROWS = INT16_MR /* of a panel of A that can be multiplied by W's codes */
#else
	BY_CODES_ROWS = 4
#endif
};

/* The most rows of a product that are. */
static inline size_t by_codes_most(const struct mxfp_gemm_multiply_job *job)
{
#ifdef HAS_WIDE_LOOKUP
	return job->cpu & MXFP_CPU_FAST_SHUFFLES ? 36 : 20;
#else
	(void)job;
	return BY_CODES_ROWS;
#endif
}

struct int16_panels {
	const float *a_scales;
	const uint8_t *w_scales, *a, *w, *a_flags;
	size_t pairs;              /* in a block */
	size_t a_plane;            /* bytes to A's low plane */
	unsigned low_bits;
	float unit;
};

static inline bool has_low(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP8_E4M3;
}

static inline size_t plane_bytes(const struct mxfp_gemm_shape *shape, size_t k, size_t width)
{
	return blocks_count(shape, k) * blocks_length(shape) * width * sizeof(int16_t);
}

static inline size_t int16_bytes(const struct mxfp_gemm_shape *shape, enum mxfp_format format, size_t k, size_t width)
{
	return blocks_elements(shape, k, width) + plane_bytes(shape, k, width) * (has_low(format) ? 2 : 1);
}

static inline size_t int16_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return panel_align(int16_bytes(shape, shape->a_format, k, INT16_MR));
}

/* Converts a row of n numbers in place to the upper bits of their integers, and stores the lower bits in `low`. Sets
   the flag of each block that has any lower bit. */
static inline void split_row(uint32_t *row, uint32_t *low, size_t n, size_t length, float factor, uint8_t *flags)
{
	for (size_t i = 0; i < n; i += LANES) {
		vs32 x = __builtin_convertvector((vf32)load(row + i) * factor, vs32);
		vu32 lower = (vu32)x & ((1U << INT16_LOW_BITS) - 1);

		store_u16((uint16_t *)row + i, (vu32)(x >> INT16_LOW_BITS) & 0xFFFF);
		store_u16((uint16_t *)low + i, lower);
		flags[i / length] |= any((vs32)lower);
	}
}

static inline void narrow_row(uint32_t *row, size_t n, float factor)
{
	for (size_t i = 0; i < n; i += LANES) {
		vs32 x = __builtin_convertvector((vf32)load(row + i) * factor, vs32);

		store_u16((uint16_t *)row + i, (vu32)x & 0xFFFF);
	}
}

/* Puts the elements of n / INT16_WORD words into the order of pairs. */
static inline void order_pairs(uint32_t *row, size_t n)
{
	for (size_t i = 0; i < n; i += INT16_WORD) {
		const uint32_t x[INT16_WORD] = {row[i], row[i + 4], row[i + 2], row[i + 6],
		                                row[i + 1], row[i + 5], row[i + 3], row[i + 7]};

		memcpy(row + i, x, sizeof x);
	}
}

/* Multiplies n elements of a row by the significand of their block's scale, which becomes its power of two; NaN stays. */
static inline void multiply_scale(uint8_t *at, uint32_t *x, size_t n)
{
	uint32_t scale;

	memcpy(&scale, at, sizeof scale);
	if (scale > F32_INF)
		return;
	const vs32 significand = (vs32)splat(1 << SCALE_BITS | (scale >> (F32_SIGNIFICAND_BITS - SCALE_BITS) & ((1 << SCALE_BITS) - 1)));
	for (size_t i = 0; i < n; i += LANES)
		store(x + i, (vu32)((vf32)load(x + i) * __builtin_convertvector(significand, vf32)));
	scale &= F32_INF;
	memcpy(at, &scale, sizeof scale);
}

/* Packs columns k, k + 1, ... of the chunk; a word of a plane is a pair of elements: neighbors, or if `by_words`, which is a
   constant, in the order of words of nibbles. */
ALWAYS_INLINE void int16_pack_slice(const struct mxfp_gemm_pack_job *job, size_t k, size_t width, bool by_words,
                                    struct blocks_range *range)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const size_t length = blocks_length(job->shape), n = blocks_count(job->shape, slice.k) * length;
	const bool low = has_low(job->matrix->format);
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	uint8_t *panel = job->panel, *plane = panel + blocks_elements(job->shape, job->k, width) + k * width * 2;
	uint32_t low_rows[PANEL_MAX_ROWS][PANEL_SLICE / 2];
	panel_rows rows;

	load_elements(&slice, rows);
	pack_blocks(&slice, k, false, true, width, rows, range);
	for (size_t r = 0; r < width && by_words; r++)
		order_pairs(rows[r], n);
	for (size_t r = 0; r < width; r++)
		if (low)
			split_row(rows[r], low_rows[r], n, length, factor, panel + INT16_LOW_FLAGS + k / length);
		else
			narrow_row(rows[r], n, factor);
	store_columns(plane, rows[0], PANEL_SLICE, width, n / 2);
	if (low) {
		memset(low_rows + width, 0, (PANEL_MAX_ROWS - width) * sizeof low_rows[0]);
		store_columns(plane + plane_bytes(job->shape, job->k, width), low_rows[0], PANEL_SLICE / 2, width, n / 2);
	}
}

/* width is a constant where this is inlined. */
ALWAYS_INLINE void int16_pack(const struct mxfp_gemm_pack_job *job, size_t width, bool by_words)
{
	struct blocks_range range = blocks_begin();

	memset(job->panel, 0, BLOCKS_HEAD_BYTES);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE)
		int16_pack_slice(job, k, width, by_words, &range);
	const struct blocks_head head = blocks_end(&range);
	memcpy(job->panel, &head, sizeof head);
}

/* A pair of each row of a panel of A. */
struct pair_line {
#ifdef HAS_LANE_PRODUCTS
	vs16 x[(INT16_MR + LANES - 1) / LANES];
#else
	const uint32_t *at;
#endif
};

ALWAYS_INLINE struct pair_line pair_line(const uint32_t *a)
{
#ifdef HAS_LANE_PRODUCTS
	struct pair_line line;

#pragma GCC unroll 4
	for (size_t i = 0; i < INT16_MR; i += LANES)
		line.x[i / LANES] = (vs16)whole(INT16_MR - i < LANES ? load_half(a + i) : load(a + i));
	return line;
#else
	return (struct pair_line){a};
#endif
}

/* Adds the products of row r, a constant, and a vector of columns. */
ALWAYS_INLINE vs32 dot_row(vs32 sum, const struct pair_line *line, size_t r, vs16 w)
{
#ifdef HAS_LANE_PRODUCTS
	const vs16 x = line->x[r / LANES];

	return dot_split(sum, x[r % LANES * 2], x[r % LANES * 2 + 1], w);
#else
	return dot_pairs(sum, (vs16)splat(line->at[r]), w);
#endif
}

/* Adds the products of one block of two planes for the first `rows` rows, a constant where this is inlined. */
ALWAYS_INLINE void add_planes(const uint8_t *a_plane, const uint8_t *w, size_t pairs, size_t rows,
                              vs32 sum[INT16_MR][INT16_VECTORS])
{
	const uint32_t *a = (const uint32_t *)a_plane;

	for (size_t i = 0; i < pairs; i++, a += INT16_MR, w += INT16_VECTORS * VECTOR_BYTES) {
		const struct pair_line line = pair_line(a);
		vs16 x[INT16_VECTORS];

#pragma GCC unroll 4
		for (size_t v = 0; v < INT16_VECTORS; v++)
			x[v] = (vs16)load(w + v * VECTOR_BYTES);
#pragma GCC unroll 16
		for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
			for (size_t v = 0; v < INT16_VECTORS; v++)
				sum[r][v] = dot_row(sum[r][v], &line, r, x[v]);
	}
}

/* The pairs of a word of nibbles of each column. */
ALWAYS_INLINE void decode_nibbles(vu8 codes, vs16 pairs[INT16_WORD / 2])
{
	const vu8 low = (vu8)splat(0x0F0F0F0F), ordered = order_bytes(codes);

	widen_pairs(lookup(twice_e2m1, ordered & low), pairs);
	widen_pairs(lookup(twice_e2m1, (vu8)((vu16)ordered >> 4) & low), pairs + 2);
}

/* The same of a block of nibbles. */
ALWAYS_INLINE void add_nibbles(const uint8_t *a_plane, const uint8_t *w, size_t pairs, size_t rows,
                               vs32 sum[INT16_MR][INT16_VECTORS])
{
	const uint32_t *a = (const uint32_t *)a_plane;

	for (size_t i = 0; i < pairs; i += INT16_WORD / 2, a += INT16_WORD / 2 * INT16_MR)
#pragma GCC unroll 4
		for (size_t v = 0; v < INT16_VECTORS; v++, w += VECTOR_BYTES) {
			vs16 x[INT16_WORD / 2];

			decode_nibbles((vu8)load(w), x);
#pragma GCC unroll 4
			for (size_t p = 0; p < INT16_WORD / 2; p++) {
				const struct pair_line line = pair_line(a + p * INT16_MR);

#pragma GCC unroll 16
				for (size_t r = 0; r < rows; r++)
					sum[r][v] = dot_row(sum[r][v], &line, r, x[p]);
			}
		}
}

/* nibbles, a constant: W's plane is of that kind, and has no lower bits. */
ALWAYS_INLINE void add_block(const uint8_t *a, const uint8_t *w, size_t pairs, size_t rows, bool nibbles,
                             vs32 sum[INT16_MR][INT16_VECTORS])
{
	if (nibbles)
		add_nibbles(a, w, pairs, rows, sum);
	else
		add_planes(a, w, pairs, rows, sum);
}

ALWAYS_INLINE void sum_block(const struct int16_panels *t, size_t b, size_t rows, bool nibbles,
                             vs32 sum[INT16_MR][INT16_VECTORS])
{
	const uint8_t *a = t->a + b * t->pairs * INT16_MR * sizeof(uint32_t);
	const uint8_t *w = t->w + b * t->pairs * INT16_VECTORS * VECTOR_BYTES / (nibbles ? 4 : 1);

	add_block(a, w, t->pairs, rows, nibbles, sum);
	if (t->low_bits == 0)
		return;
#pragma GCC unroll 16
	for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (size_t v = 0; v < INT16_VECTORS; v++)
			sum[r][v] = (vs32)((vu32)sum[r][v] << INT16_LOW_BITS);
	if (t->a_flags[b])
		add_block(a + t->a_plane, w, t->pairs, rows, nibbles, sum);
}

/* One pass over blocks first to end - 1. general, a constant: the scales are not ordinary. */
ALWAYS_INLINE void int16_pass(const struct int16_panels *t, size_t first, size_t end, size_t rows, bool general,
                              bool nibbles, float *c)
{
	float p[INT16_MR * INT16_NR] = {0};

	for (size_t b = first; b < end; b++) {
		vs32 sum[INT16_MR][INT16_VECTORS] = {0};

		sum_block(t, b, rows, nibbles, sum);
#pragma GCC unroll 64
		for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
			size_t r = i / INT16_VECTORS, v = i % INT16_VECTORS;
			const uint8_t *w_scales = t->w_scales + (b * INT16_VECTORS + v) * VECTOR_BYTES;
			vf32 a_scale = splat_f32(t->a_scales[b * INT16_MR + r]) * t->unit;
			vf32 term = __builtin_convertvector(sum[r][v], vf32);
			float *at = p + i * LANES, part[LANES];

			if (general) {
				store(part, (vu32)(term * t->unit));
				add_scaled(at, part, t->a_scales[b * INT16_MR + r], w_scales);
			} else {
				store(at, (vu32)fma_f32(term, (vf32)load(w_scales) * a_scale, (vf32)load(at)));
			}
		}
	}
	for (size_t i = 0; i < rows * INT16_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

static NOINLINE void int16_general_pass(const struct int16_panels *t, size_t first, size_t end, float *c)
{
	int16_pass(t, first, end, INT16_MR, true, false, c);
}

/* What a panel of A says of itself, and the unit of the products; W's own follow. */
ALWAYS_INLINE struct int16_panels int16_begin(const struct mxfp_gemm_multiply_job *job, const uint8_t *a)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const bool a_low = has_low(shape->a_format);

	return (struct int16_panels){
		.a_scales = (const float *)(a + BLOCKS_HEAD_BYTES),
		.a = a + blocks_elements(shape, job->k, INT16_MR),
		.a_flags = a + INT16_LOW_FLAGS,
		.pairs = blocks_length(shape) / 2,
		.a_plane = a_low ? plane_bytes(shape, job->k, INT16_MR) : 0,
		.low_bits = a_low ? INT16_LOW_BITS : 0,
		.unit = power_of_two(-(fraction_bits(shape->a_format) + fraction_bits(shape->w_format))),
	};
}

/* All passes of a panel of A over a chunk. */
ALWAYS_INLINE void int16_passes(const struct mxfp_gemm_multiply_job *job, const struct int16_panels *t, bool ordinary,
                                size_t rows, float *c)
{
	const size_t blocks = blocks_count(job->shape, job->k), pass = job->shape->pass / blocks_length(job->shape);

	for (size_t first = 0; first < blocks; first += pass) {
		size_t end = blocks - first < pass ? blocks : first + pass;

		if (!ordinary)
			int16_general_pass(t, first, end, c);
		else if (rows == 1)
			int16_pass(t, first, end, 1, false, false, c);
		else if (rows <= INT16_MR / 2)
			int16_pass(t, first, end, INT16_MR / 2, false, false, c);
		else
			int16_pass(t, first, end, INT16_MR, false, false, c);
	}
}

#endif
