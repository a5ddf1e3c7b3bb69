/* SPDX-License-Identifier: MIT */
/*
 * What the fast paths of quantization to MX share: mx_nearest.c and mx_stochastic.c. mx.c gets whole calls with
 * options that they do not take, and single blocks with a NaN, an Inf, or an amax for which a scale or a field could leave
 * its range. The scale of a block in a square is given (mx_squares.c).
 */
#ifndef MXFP_BODY_MX_BLOCKS_H
#define MXFP_BODY_MX_BLOCKS_H

#include "body/decode.h"
#include "body/nearest.h"
#include "body/pack.h"
#include "body/slots.h"
#include "body/squares.h"
#include "scale.h"

enum {
	BLOCK = MXFP_MX_BLOCK,
	GROUP_BLOCKS = 64,
	GROUP = GROUP_BLOCKS * BLOCK,
	UNIT = 4 * LANES,
	/* Exponent fields of amax for which the scale and the fields stay in range in every format. */
	LEAST_FIELD = 64,
	LARGEST_FIELD = 190,
	/* Scale bytes that an amax with such a field has in any format and under any rule lie around these. */
	LEAST_GIVEN = LEAST_FIELD,
	LARGEST_GIVEN = LARGEST_FIELD
};

struct quantizer {
	const struct mxfp_quantize_job *job;
	struct nearest element;
	int emax;
	uint32_t scale_carry; /* mxfp_ref_scale_carry() */
	struct decoder source;
};

ALWAYS_INLINE vu32 load_magnitude(const uint8_t *x, size_t i)
{
	return load(x + 4 * i) & ~F32_SIGN;
}

ALWAYS_INLINE uint32_t block_amax(const uint8_t *x)
{
	vu32 max = {0};

	for (size_t i = 0; i < BLOCK; i += LANES)
		max = max_u32(max, load_magnitude(x, i));
	return max_across(max);
}

/* The squared error at scale 2^(s + up) in units of 2^s. */
ALWAYS_INLINE uint32_t error_at(const struct nearest *e, const uint8_t *x, int s, uint32_t up)
{
	float d[BLOCK];
	vf32 to_units = (vf32)splat((uint32_t)(F32_BIAS - s) << F32_SIGNIFICAND_BITS);

	for (size_t i = 0; i < BLOCK; i += LANES) {
		vu32 y = (vu32)((vf32)load_magnitude(x, i) * to_units);

		store(d + i, (vu32)nearest_error(e, y, e->max + (up << F32_SIGNIFICAND_BITS), e->normal_field + up));
	}
	return sum_of_squares(d, BLOCK);
}

/* The exponent s of the scale of a block with this amax. */
ALWAYS_INLINE int find_scale(const struct quantizer *q, const uint8_t *x, uint32_t amax)
{
	int s = (int)((amax + q->scale_carry) >> F32_SIGNIFICAND_BITS) - F32_BIAS - q->emax;

	if (q->job->rule != MXFP_RULE_MSE)
		return s;
	return s + (error_at(&q->element, x, s, 1) <= error_at(&q->element, x, s, 0));
}

/* Quantizes one block of a row by mx.c. */
static NOINLINE void quantize_block_generally(const struct mxfp_quantize_job *whole, size_t row, size_t block)
{
	struct mxfp_quantize_job job = *whole;
	const struct mxfp_format_info *format = mxfp_format_get_info(job.format);
	size_t start = block * BLOCK;

	job.rows = 1;
	job.first_index += row * job.cols + start;
	job.cols = job.cols - start < BLOCK ? job.cols - start : BLOCK;
	job.src = (const uint8_t *)job.src +
	          (row * job.src_stride + start) * mxfp_format_get_info(job.src_format)->storage_bytes;
	job.codes += row * job.codes_stride + block * (BLOCK / 8) * mxfp_format_get_info(format->element)->bits;
	job.scales += row * job.scales_stride + block;
	if (job.given != NULL)
		job.given += block;
	TIER(quantize_mx)(&job);
}

/* Finds the scale byte of a block, and the exponent s that its numbers are encoded with. Returns false if mx.c must quantize it. */
ALWAYS_INLINE bool choose_scale(const struct quantizer *q, const uint8_t *x, const uint8_t *given, uint8_t *scale, int *s)
{
	if (given != NULL && *given >= LEAST_GIVEN && *given <= LARGEST_GIVEN) {
		*scale = *given;
		*s = *given - MXFP_SCALE_BIAS;
		return true;
	}
	const uint32_t amax = block_amax(x), field = amax >> F32_SIGNIFICAND_BITS;
	*s = 0;
	if (amax == 0) {
		*scale = 0;
		return given == NULL || *given == 0;
	}
	if (given != NULL || field < LEAST_FIELD || field > LARGEST_FIELD)
		return false;
	*s = find_scale(q, x, amax);
	*scale = (uint8_t)(*s + MXFP_SCALE_BIAS);
	return true;
}

/* How codes are stored: constants where the functions below are inlined. */
struct shape {
	unsigned bits;
	bool negate;
};

ALWAYS_INLINE void store_unit(struct shape shape, uint8_t *to, vu8 unit)
{
	uint8_t bytes[UNIT];

	if (shape.bits == 4) {
		store_nibbles(to, unit);
		return;
	}
	if (shape.bits == 8) {
		store(to, (vu32)unit);
		return;
	}
	store(bytes, (vu32)unit);
	pack_codes(to, bytes, UNIT, shape.bits);
}

/* Quantizes n_blocks blocks of a row from first_block on; their numbers are at x. */
typedef void quantize_group(const struct quantizer *q, struct shape shape, const uint8_t *x, size_t row, size_t first_block,
                            size_t n_blocks);

ALWAYS_INLINE void quantize_rows(const struct quantizer *q, struct shape shape, quantize_group *group)
{
	const struct mxfp_quantize_job *job = q->job;
	size_t source_bytes = mxfp_format_get_info(job->src_format)->storage_bytes;
	uint32_t buffer[GROUP];

	for (size_t row = 0; row < job->rows; row++)
		for (size_t start = 0; start < job->cols; start += GROUP) {
			size_t n = job->cols - start < GROUP ? job->cols - start : GROUP;
			const uint8_t *x = (const uint8_t *)job->src + (row * job->src_stride + start) * source_bytes;

			if (job->src_format != MXFP_FORMAT_F32 || n % BLOCK != 0) {
				decode_array(&q->source, x, n, buffer);
				memset(buffer + n, 0, (GROUP - n) * sizeof buffer[0]);
				x = (const uint8_t *)buffer;
			}
			group(q, shape, x, row, start / BLOCK, n / BLOCK + (n % BLOCK != 0));
		}
}

/* Quantizes all rows. */
ALWAYS_INLINE void quantize_by(const struct mxfp_quantize_job *job, quantize_group *group)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(job->format)->element);
	struct quantizer q = {
		.job = job,
		.emax = element->emax,
		.scale_carry = mxfp_ref_scale_carry(job->rule, element),
	};

	nearest_init(&q.element, element, MXFP_OVERFLOW_SAT);
	decoder_init(&q.source, mxfp_format_get_info(job->src_format));
	if (element->kind == MXFP_KIND_FIXED)
		quantize_rows(&q, (struct shape){8, true}, group);
	else if (element->bits == 8)
		quantize_rows(&q, (struct shape){8, false}, group);
	else if (element->bits == 6)
		quantize_rows(&q, (struct shape){6, false}, group);
	else
		quantize_rows(&q, (struct shape){4, false}, group);
}

#endif
