/* SPDX-License-Identifier: MIT */
/*
 * MX blocks of which 32 in a column, a square, share a scale: doc/numerics.md, section 3. The largest magnitudes of squares
 * are found first, in rows read once for all squares beside each other; then the kernels of mx_nearest.c and mx.c encode
 * the rows, which are in the caches by then, with the scales given.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/nearest.h"
#include "body/slots.h"
#include "scale.h"

enum {
	BLOCK = MXFP_MX_BLOCK,
	GROUP_BLOCKS = 32, /* squares beside each other whose magnitudes are found at once */
	GROUP = GROUP_BLOCKS * BLOCK,
	LINE_BYTES = 64,
	STRIP_BLOCKS = 64, /* and those encoded at once: 32 rows of 2048 binary32 numbers are in L2 */
	/* Exponent fields of amax for which the errors of rule mse stay in range in every format, as in mx_nearest.c. */
	LEAST_FIELD = 64,
	LARGEST_FIELD = 190
};

struct squares {
	const struct mxfp_quantize_job *job;
	const struct mxfp_format_info *element;
	struct nearest nearest;
	struct decoder source;
	size_t source_bytes;
};

ALWAYS_INLINE const uint8_t *source_at(const struct squares *q, size_t row, size_t col)
{
	return (const uint8_t *)q->job->src + (row * q->job->src_stride + col) * q->source_bytes;
}

/* The bits of the sum of squares of 32 x 32 differences, in the order of section 3. Lanes past a row's h numbers hold what
   no later step reads. */
static NOINLINE uint32_t square_error(float e[BLOCK][BLOCK])
{
	for (int h = BLOCK / 2; h != 0; h /= 2)
		for (int i = 0; i < h; i++)
			for (int j = 0; j < h; j += LANES) {
				vf32 kept = (vf32)load(&e[i][j]) + (vf32)load(&e[i + h][j + h]);
				vf32 swapped = (vf32)load(&e[i][j + h]) + (vf32)load(&e[i + h][j]);

				store(&e[i][j], (vu32)(kept + swapped));
			}
	return load(e[0])[0];
}

/* The squared error of a square at scale 2^(s + up) in units of 2^s; x are its numbers. */
static NOINLINE uint32_t error_at(const struct nearest *n, uint32_t x[BLOCK][BLOCK], int s, uint32_t up)
{
	float e[BLOCK][BLOCK];
	vf32 to_units = (vf32)splat((uint32_t)(F32_BIAS - s) << F32_SIGNIFICAND_BITS);

	for (int i = 0; i < BLOCK; i++)
		for (int j = 0; j < BLOCK; j += LANES) {
			vu32 y = (vu32)((vf32)(load(&x[i][j]) & ~F32_SIGN) * to_units);
			vf32 d = nearest_error(n, y, n->max + (up << F32_SIGNIFICAND_BITS), n->normal_field + up);

			store(&e[i][j], (vu32)(d * d));
		}
	return square_error(e);
}

/* Under rule mse, with s from `floor`: s or s + 1, as an increment. */
static NOINLINE int choose(const struct squares *q, size_t row, size_t rows, size_t block, int s)
{
	uint32_t x[BLOCK][BLOCK];
	const size_t left = q->job->cols - block * BLOCK, n = left < BLOCK ? left : BLOCK;

	memset(x, 0, sizeof x);
	for (size_t i = 0; i < rows; i++) {
		decode_array(&q->source, source_at(q, row + i, block * BLOCK), n, x[i]);
		for (int j = 0; q->job->via_bf16 && j < BLOCK; j += LANES)
			store(&x[i][j], rounded_top_bits(load(&x[i][j]), 16) & 0xFFFF0000);
	}
	return error_at(&q->nearest, x, s, 1) <= error_at(&q->nearest, x, s, 0);
}

/* The scale byte of a square with this largest magnitude, of which the source's Inf and NaN are the largest. */
static uint8_t scale_of(const struct squares *q, size_t row, size_t rows, size_t block, uint32_t amax)
{
	if (q->job->via_bf16 && amax < F32_INF)
		amax = (amax + 0x7FFF + (amax >> 16 & 1)) & 0xFFFF0000;
	if (amax == F32_INF && q->job->saturate_inf)
		amax = F32_MAX;
	if (amax >= F32_INF)
		return MXFP_SCALE_NAN;
	if (amax == 0)
		return 0;
	int s = mxfp_ref_scale(q->job->rule, q->element, amax);
	const uint32_t field = amax >> F32_SIGNIFICAND_BITS;
	if (q->job->rule != MXFP_RULE_MSE)
		return (uint8_t)(s + MXFP_SCALE_BIAS);
	if (field >= LEAST_FIELD && field <= LARGEST_FIELD)
		return (uint8_t)(s + choose(q, row, rows, block, s) + MXFP_SCALE_BIAS);
	struct mxfp_quantize_job job = *q->job;

	job.rows = rows;
	job.src = source_at(q, row, 0);
	return mxfp_ref_square_scale(&job, block);
}

/* Finds the largest magnitudes of n_blocks squares. */
static NOINLINE void find_amax(const struct squares *q, size_t row, size_t rows, size_t first_block, size_t n_blocks,
                               uint32_t *amax)
{
	const size_t start = first_block * BLOCK, left = q->job->cols - start;
	const size_t n = left < n_blocks * BLOCK ? left : n_blocks * BLOCK;
	const bool in_place = q->job->src_format == MXFP_FORMAT_F32 && n % BLOCK == 0;
	vu32 max[GROUP_BLOCKS] = {{0}};
	uint32_t buffer[GROUP];

	memset(buffer + n, 0, (GROUP - n) * sizeof buffer[0]);
	for (size_t i = 0; i < rows; i++) {
		const uint8_t *x = source_at(q, row + i, start);
		const uint8_t *next = source_at(q, row + (i + 1 < rows ? i + 1 : i), start);

		if (!in_place) {
			decode_array(&q->source, x, n, buffer);
			x = (const uint8_t *)buffer;
		}
		for (size_t b = 0; b < n_blocks; b++) {
			/* A row's part is a page, at whose end hardware stops prefetching. */
			for (size_t at = 0; at < BLOCK * q->source_bytes; at += LINE_BYTES)
				__builtin_prefetch((const void *)((uintptr_t)next + b * BLOCK * q->source_bytes + at), 0, 2);
			for (size_t j = 0; j < BLOCK; j += LANES)
				max[b] = max_u32(max[b], load(x + 4 * (b * BLOCK + j)) & ~F32_SIGN);
		}
	}
	for (size_t b = 0; b < n_blocks; b++)
		amax[b] = max_across(max[b]);
}

/* Encodes rows of a strip with the scales given. Random words ask for the index of a row's first element. */
static void encode(const struct squares *q, size_t row, size_t rows, size_t first_block, size_t n_blocks,
                   const uint8_t *given)
{
	const size_t start = first_block * BLOCK, left = q->job->cols - start;
	struct mxfp_quantize_job job = *q->job;
	const size_t at_once = job.rounding.mode == MXFP_ROUND_SR ? 1 : rows;

	job.cols = left < n_blocks * BLOCK ? left : n_blocks * BLOCK;
	job.rows = at_once;
	job.given = given;
	for (size_t i = row; i < row + rows; i += at_once) {
		job.src = source_at(q, i, start);
		job.codes = q->job->codes + i * job.codes_stride + first_block * (BLOCK / 8) * q->element->bits;
		job.scales = q->job->scales + i * job.scales_stride + first_block;
		job.first_index = q->job->first_index + i * job.index_stride + start;
		TIER(quantize_mx_nearest)(&job);
	}
}

static NOINLINE void find_scales(const struct squares *q, size_t row, size_t rows, size_t first_block, size_t n_blocks,
                                 uint8_t *scales)
{
	struct fp_state state = fp_enter();
	uint32_t amax[GROUP_BLOCKS];

	for (size_t done = 0, part; done < n_blocks; done += part) {
		part = n_blocks - done < GROUP_BLOCKS ? n_blocks - done : GROUP_BLOCKS;
		find_amax(q, row, rows, first_block + done, part, amax);
		for (size_t b = 0; b < part; b++)
			scales[done + b] = scale_of(q, row, rows, first_block + done + b, amax[b]);
	}
	fp_leave(state);
}

void TIER(quantize_squares)(const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(job->format)->element);
	const size_t blocks = job->cols / BLOCK + (job->cols % BLOCK != 0);
	struct squares q = {
		.job = job,
		.element = element,
		.source_bytes = mxfp_format_get_info(job->src_format)->storage_bytes,
	};
	uint8_t given[STRIP_BLOCKS];

	nearest_init(&q.nearest, element, MXFP_OVERFLOW_SAT);
	decoder_init(&q.source, mxfp_format_get_info(job->src_format));
	for (size_t row = 0; row < job->rows; row += BLOCK)
		for (size_t block = 0; block < blocks; block += STRIP_BLOCKS) {
			const size_t rows = job->rows - row < BLOCK ? job->rows - row : BLOCK;
			const size_t n = blocks - block < STRIP_BLOCKS ? blocks - block : STRIP_BLOCKS;

			find_scales(&q, row, rows, block, n, given);
			encode(&q, row, rows, block, n, given);
		}
}
