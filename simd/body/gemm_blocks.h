/* SPDX-License-Identifier: MIT */
/*
 * What kernels with exact block sums share (doc/numerics.md, section 5). A panel is a head, the scales of the blocks as
 * binary32 [block][row], and the elements in the kernel's own form. The head tells whether every product of scales is a
 * normal binary32. If so, one FMA does steps 2 and 3; otherwise add_scaled() does them in binary64, where nothing
 * overflows. The bytes of the head after struct blocks_head belong to the kernel.
 */
#ifndef MXFP_BODY_GEMM_BLOCKS_H
#define MXFP_BODY_GEMM_BLOCKS_H

#include "body/decode.h"
#include "body/gemm_panel.h"
#include "scale.h"

/* Ranges over the panel, as binary32 bits: of the scales, and of the magnitudes of nonzero elements. Inf and NaN
   compare greater than any number. */
struct blocks_head {
	uint32_t least_scale, greatest_scale, least, greatest;
};

enum {
	BLOCKS_HEAD_BYTES = MXFP_GEMM_ALIGN,
	BLOCKS_MAX = MXFP_GEMM_CHUNK / MXFP_NVFP4_BLOCK /* blocks of a row of a chunk, if they are the shortest */
};

/* Twice the numbers of E2M1 codes: those of the second half have the sign. */
static const int8_t twice_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Elements of a format are integers times 2^-fraction_bits(format). */
static inline int fraction_bits(enum mxfp_format format)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(format)->element);

	return (int)element->significand_bits + (element->kind == MXFP_KIND_FIXED ? 0 : element->bias - 1);
}

/* Elements in a block of the product: the shorter of the two block lengths. */
static size_t blocks_length(const struct mxfp_gemm_shape *shape)
{
	size_t a = mxfp_format_get_info(shape->a_format)->block_length, w = mxfp_format_get_info(shape->w_format)->block_length;

	return a < w ? a : w;
}

static size_t blocks_count(const struct mxfp_gemm_shape *shape, size_t k)
{
	size_t length = blocks_length(shape);

	return (k + length - 1) / length;
}

/* The offset of the elements in a panel of `width` rows. */
static inline size_t blocks_elements(const struct mxfp_gemm_shape *shape, size_t k, size_t width)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * width * sizeof(float);
}

/* Loads elements without their scales, by dequantizing with the scale 1. */
static inline void load_elements(const struct mxfp_gemm_pack_job *job, panel_rows rows)
{
	const struct mxfp_format_info *scale = mxfp_format_get_info(mxfp_format_get_info(job->matrix->format)->scale);
	uint8_t ones[BLOCKS_MAX];

	memset(ones, scale->bias << scale->significand_bits, sizeof ones);
	dequantize_rows(job, ones, 1, rows, PANEL_SLICE);
}

/* The scales and greatest magnitudes of the blocks of one row. */
struct blocks_row {
	uint32_t scales[BLOCKS_MAX + LANES], greatest[BLOCKS_MAX];
};

/* Loads the scales of row r, one for each block of the product. */
static void load_scales(const struct mxfp_gemm_pack_job *job, size_t r, struct blocks_row *row)
{
	const struct mxfp_matrix *m = job->matrix;
	size_t own_length = mxfp_format_get_info(m->format)->block_length, length = blocks_length(job->shape);
	size_t first = mxfp_scales_offset(m->format, m->scales_stride, job->row + r, job->k0);
	struct decoder decoder;

	decoder_init(&decoder, mxfp_format_get_info(mxfp_format_get_info(m->format)->scale));
	decode_array(&decoder, (const uint8_t *)m->scales + first, (job->k + own_length - 1) / own_length, row->scales);
	if (own_length != length)
		for (size_t b = blocks_count(job->shape, job->k); b-- > 0;)
			row->scales[b] = row->scales[b * length / own_length];
}

/* Finds the greatest magnitude of each block of a row. *least becomes the least nonzero magnitude minus 1, which makes
   zeros the greatest. */
static void scan_row(const uint32_t *x, size_t length, size_t blocks, struct blocks_row *row, vu32 *least)
{
	for (size_t b = 0; b < blocks; b++) {
		vu32 greatest = {0};

		for (size_t i = 0; i < length; i += LANES) {
			vu32 magnitude = load(x + b * length + i) & ~F32_SIGN;

			greatest = max_u32(greatest, magnitude);
			*least = min_u32(*least, magnitude - 1);
		}
		row->greatest[b] = max_across(greatest);
	}
}

/* The ranges of a panel's head while it is packed. */
struct blocks_range {
	uint32_t least_scale, greatest_scale, greatest;
	vu32 least; /* minus 1 */
};

static inline struct blocks_range blocks_begin(void)
{
	return (struct blocks_range){.least_scale = UINT32_MAX, .least = splat(UINT32_MAX)};
}

/*
 * Packs the scales of a slice that begins at column k of the chunk and whose elements are in `rows`, and extends the
 * ranges. Missing rows and elements become zeros. scaled: elements are already multiplied by their scales. A block of
 * zeros gets the scale 1, because its sum is +0 with any scale and the ranges stay narrow; so does a block of scale 0,
 * whose elements become zeros. nan_to_scale: a block with a NaN becomes zeros with the scale NaN, for the same sum.
 */
static inline void pack_blocks(const struct mxfp_gemm_pack_job *slice, size_t k, bool scaled, bool nan_to_scale, size_t width,
                        panel_rows rows, struct blocks_range *range)
{
	size_t length = blocks_length(slice->shape), blocks = blocks_count(slice->shape, slice->k);
	const size_t stored = width == 1 ? 1 : PANEL_MAX_ROWS; /* store_columns() takes several rows at once */
	uint8_t *to = (uint8_t *)slice->panel + BLOCKS_HEAD_BYTES + k / length * width * sizeof(float);
	struct blocks_row row;

	if (slice->rows < stored)
		memset(rows + slice->rows, 0, (stored - slice->rows) * sizeof rows[0]);
	for (size_t r = 0; r < width; r++) {
		uint32_t *const numbers = rows[r]; /* one row alone may be longer than those of several */

		memset(numbers + slice->k, 0, (blocks * length - slice->k) * sizeof numbers[0]);
		scan_row(numbers, length, blocks, &row, &range->least);
		if (r < slice->rows && !scaled)
			load_scales(slice, r, &row);
		for (size_t b = 0; b < blocks; b++) {
			uint32_t scale = r < slice->rows && !scaled ? row.scales[b] : F32_ONE;
			bool nan = nan_to_scale && row.greatest[b] > F32_INF;

			if (nan || scale == 0)
				memset(numbers + b * length, 0, length * sizeof numbers[0]);
			if (nan)
				scale = F32_NAN;
			else if (scale == 0 || (row.greatest[b] == 0 && scale != F32_NAN))
				scale = F32_ONE;
			memcpy(to + (b * width + r) * sizeof scale, &scale, sizeof scale);
			range->least_scale = scale < range->least_scale ? scale : range->least_scale;
			range->greatest_scale = scale > range->greatest_scale ? scale : range->greatest_scale;
			range->greatest = row.greatest[b] > range->greatest ? row.greatest[b] : range->greatest;
		}
	}
}

static inline struct blocks_head blocks_end(const struct blocks_range *range)
{
	struct blocks_head head = {range->least_scale, range->greatest_scale, ~max_across(~range->least) + 1,
	                           range->greatest};

	if (range->greatest == 0)
		head.least = head.greatest = F32_ONE;
	return head;
}

/* The exponent of a positive normal number; 128 for Inf and NaN. */
static int exponent_of(uint32_t bits)
{
	return (int)(bits >> F32_SIGNIFICAND_BITS) - F32_BIAS;
}

/* Whether every product of a scale of A and a scale of W is a normal number, even times the unit of a kernel's sums:
   such products are at least 2^-100 and below 2^127. */
static inline bool scales_are_ordinary(const struct blocks_head *a, const struct blocks_head *w)
{
	return a->least_scale >= F32_HIDDEN && w->least_scale >= F32_HIDDEN &&
	       exponent_of(a->least_scale) + exponent_of(w->least_scale) >= -100 &&
	       exponent_of(a->greatest_scale) + exponent_of(w->greatest_scale) + 2 <= F32_BIAS;
}

/* Whether scales are ordinary and W has no NaN among them, whose code would be taken for Inf's where W is multiplied by codes:
   beside a small scale of A, scales_are_ordinary() lets a NaN pass, since as binary32 it stays one. */
static inline bool codes_are_ordinary(const struct blocks_head *a, const struct blocks_head *w)
{
	return scales_are_ordinary(a, w) && w->greatest_scale < F32_INF;
}

/* p = fl32(p + t * a_scale * w_scale) for LANES columns, rounded once. */
static inline void add_scaled(float *p, const float *t, float a_scale, const uint8_t *w_scales)
{
	vf64 sum[2];

	for (size_t i = 0; i < 2; i++) {
		size_t first = i * LANES / 2;
		vf64 scale = widen_f32(w_scales + first * sizeof(float)) * (double)a_scale; /* exact: 48 bits */

		sum[i] = add_to_odd(widen_f32(p + first), widen_f32(t + first) * scale);
	}
	store(p, (vu32)narrow_f64(sum[0], sum[1]));
}

#endif
