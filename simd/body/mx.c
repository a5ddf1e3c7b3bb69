/* SPDX-License-Identifier: MIT */
/*
 * The general quantization to MX: every format, rule, rounding mode and policy. It is ref/mx.c with vectors inside a
 * block. A block whose largest magnitude is below 2^-60 is first multiplied by 2^64, exactly, and encoded with s + 64,
 * so that every binary32 subnormal is subnormal in the element format too, as encode.h requires. Only that product and
 * the errors of rule mse use floating point.
 *
 * A block whose scale is given belongs to a square (mx_squares.c). What decides for it is s: below LEAST_GIVEN all of the
 * square is below 2^(s + emax + 2) <= 2^-45, so the product does not overflow; from there on the fields stay in range
 * without it, because s + emin > -127 in every format.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/encode.h"
#include "body/pack.h"
#include "body/philox.h"
#include "body/slots.h"
#include "body/squares.h"
#include "scale.h"

enum {
	BLOCK = MXFP_MX_BLOCK,
	GROUP_BLOCKS = 16, /* blocks decoded at once */
	GROUP = GROUP_BLOCKS * BLOCK,
	TINY_FIELD = F32_BIAS - 60,
	LEAST_GIVEN = -62,
	UPSCALE = 64
};

struct quantizer {
	const struct mxfp_quantize_job *job;
	const struct mxfp_format_info *element;
	struct encoder encoder;
	struct decoder source, codes;
	struct lane_counts counts;
};

/* A block's numbers times 2^upscale, and its largest magnitude before that product, or Inf if the block is NaN. */
struct block {
	uint32_t x[BLOCK];
	int upscale;
	uint32_t amax;
};

/* The largest lane. */
ALWAYS_INLINE uint32_t max_lane(vu32 v)
{
	uint32_t max = 0;

	for (int i = 0; i < LANES; i++)
		max = v[i] > max ? v[i] : max;
	return max;
}

/* Rounds to bf16 (rne) and converts back. */
ALWAYS_INLINE vu32 through_bf16(vu32 x)
{
	vs32 nan = (vs32)(x & ~F32_SIGN) > (int32_t)F32_INF;

	return blend(nan, x | F32_QUIET, x + 0x7FFF + (x >> 16 & 1)) & 0xFFFF0000;
}

/* Applies the policies to the block in b->x. Counts NaN and Inf, numbers that rounding to bf16 made Inf, and those that
   it made 0 unless the whole block becomes NaN. */
static void load_block(struct quantizer *q, struct block *b, const uint8_t *given)
{
	vs32 flushed = {0};
	vu32 amax = {0};

	for (int i = 0; i < BLOCK; i += LANES) {
		vu32 x = load(b->x + i), magnitude = x & ~F32_SIGN;

		q->counts.nan += (vs32)magnitude > (int32_t)F32_INF;
		q->counts.inf += magnitude == F32_INF;
		if (q->job->via_bf16) {
			x = through_bf16(x);
			q->counts.overflowed += (magnitude < F32_INF) & ((x & ~F32_SIGN) == F32_INF);
			flushed += (magnitude != 0) & ((x & ~F32_SIGN) == 0);
		}
		if (q->job->saturate_inf)
			x = blend((x & ~F32_SIGN) == F32_INF, (x & F32_SIGN) | F32_MAX, x);
		store(b->x + i, x);
		amax = max_u32(amax, x & ~F32_SIGN);
	}
	b->amax = given != NULL && *given == MXFP_SCALE_NAN ? F32_INF : max_lane(amax);
	if (b->amax < F32_INF)
		q->counts.flushed += flushed;
	b->upscale = 0;
	if (given != NULL ? *given >= LEAST_GIVEN + MXFP_SCALE_BIAS : b->amax >> F32_SIGNIFICAND_BITS >= TINY_FIELD)
		return;
	b->upscale = UPSCALE;
	for (int i = 0; i < BLOCK; i += LANES)
		store(b->x + i, (vu32)((vf32)load(b->x + i) * power_of_two(UPSCALE)));
}

static void encode_block(const struct quantizer *q, enum mxfp_round mode, const struct block *b, int s,
                         struct encode_span *span, struct lane_counts *counts)
{
	span->n = BLOCK;
	span->x = b->x;
	encode_array(&q->encoder, mode, span, q->encoder.normal_field + (uint32_t)(s + b->upscale), counts);
}

/* The squared error at scale 2^s in units of 2^s0. */
static uint32_t error_at(const struct quantizer *q, const struct block *b, int s, int s0)
{
	float to_units = power_of_two(-(s0 + b->upscale)), from_units = power_of_two(s - s0);
	uint32_t codes[BLOCK];
	float d[BLOCK];
	struct lane_counts unused = {0};
	struct encode_span span = {.codes = codes};

	encode_block(q, MXFP_ROUND_RNE, b, s, &span, &unused);
	decode_words(&q->codes, codes, BLOCK);
	for (int i = 0; i < BLOCK; i += LANES)
		store(d + i, (vu32)((vf32)load(b->x + i) * to_units - (vf32)load(codes + i) * from_units));
	return sum_of_squares(d, BLOCK);
}

static int choose_scale(const struct quantizer *q, const struct block *b)
{
	int s = b->amax == 0 ? MXFP_SCALE_MIN : mxfp_ref_scale(q->job->rule, q->element, b->amax);

	if (b->amax == 0 || q->job->rule != MXFP_RULE_MSE || s == MXFP_SCALE_MAX)
		return s;
	/* Before clamping, floor may be below -128; then floor + 1 also clamps to -127. */
	if (s == MXFP_SCALE_MIN && mxfp_ref_scale(MXFP_RULE_TRN3, q->element, b->amax) == MXFP_SCALE_MIN)
		return s;
	return error_at(q, b, s + 1, s) <= error_at(q, b, s, s) ? s + 1 : s;
}

/* Quantizes n_blocks blocks of a row from first_block on. */
static void quantize_group(struct quantizer *q, size_t row, size_t first_block, size_t n_blocks)
{
	const struct mxfp_quantize_job *job = q->job;
	const struct mxfp_rounding *r = &job->rounding;
	size_t start = first_block * BLOCK, n = job->cols - start < n_blocks * BLOCK ? job->cols - start : n_blocks * BLOCK;
	size_t source_bytes = mxfp_format_get_info(job->src_format)->storage_bytes, block_bytes = BLOCK / 8 * q->element->bits;
	uint32_t x[GROUP] = {0}, codes[BLOCK], words[GROUP + PHILOX_SLACK];
	const uint32_t *random = words;
	uint8_t bytes[BLOCK];
	struct block b;

	decode_array(&q->source, (const uint8_t *)job->src + (row * job->src_stride + start) * source_bytes, n, x);
	if (r->mode == MXFP_ROUND_SR)
		random = philox_fill(words, r->seed, r->stream, job->first_index + row * job->cols + start, n);
	for (size_t i = 0; i < n_blocks; i++) {
		struct encode_span span = {.random = random + i * BLOCK, .codes = codes};
		uint8_t *scale = job->scales + row * job->scales_stride + first_block + i;

		memcpy(b.x, x + i * BLOCK, sizeof b.x);
		const uint8_t *given = job->given != NULL ? &job->given[first_block + i] : NULL;

		load_block(q, &b, given);
		if (b.amax >= F32_INF) {
			*scale = MXFP_SCALE_NAN;
			memset(bytes, 0, sizeof bytes);
		} else {
			int s = given != NULL ? *given - MXFP_SCALE_BIAS : choose_scale(q, &b);
			*scale = (uint8_t)(s + MXFP_SCALE_BIAS);
			encode_block(q, r->mode, &b, s, &span, &q->counts);
			for (int k = 0; k < BLOCK; k += LANES)
				store_u8(bytes + k, load(codes + k));
		}
		pack_codes(job->codes + row * job->codes_stride + (first_block + i) * block_bytes, bytes, BLOCK,
		           q->element->bits);
	}
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	size_t blocks = job->cols / BLOCK + (job->cols % BLOCK != 0);
	struct quantizer q = {.job = job, .element = mxfp_format_get_info(mxfp_format_get_info(job->format)->element)};

	encoder_init(&q.encoder, q.element, &job->rounding);
	decoder_init(&q.source, mxfp_format_get_info(job->src_format));
	decoder_init(&q.codes, q.element);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t block = 0; block < blocks; block += GROUP_BLOCKS)
			quantize_group(&q, row, block, blocks - block < GROUP_BLOCKS ? blocks - block : GROUP_BLOCKS);
	lane_counts_add(job->counts, &q.counts);
}

FP_KERNEL(TIER(quantize_mx), mxfp_quantize_job, quantize)
