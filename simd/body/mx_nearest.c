/* SPDX-License-Identifier: MIT */
/* A fast path before mx.c: quantization to MX to nearest even, for every rule. */
#include "tier.h"

#include "body/mx_blocks.h"

/* Counts of a group. Flushed numbers are the zero codes minus the zeros. */
struct tally {
	vs32 saturated, zeros;
	vu8 zero_codes; /* at most 2 * GROUP_BLOCKS in each byte */
};

ALWAYS_INLINE vu32 encode_vector(const struct nearest *e, vu32 x, uint32_t s, struct tally *t)
{
	vu32 magnitude = x & ~F32_SIGN, clamped = min_u32(magnitude, splat(e->max + (s << F32_SIGNIFICAND_BITS)));

	t->saturated -= (vs32)magnitude >= (int32_t)(e->past + (s << F32_SIGNIFICAND_BITS));
	t->zeros -= magnitude == 0;
	return nearest_codes(e, clamped, e->normal_field + s);
}

ALWAYS_INLINE void encode_block(const struct nearest *e, struct shape shape, const uint8_t *x, uint32_t s,
                                struct tally *t, uint8_t *to)
{
	for (size_t i = 0; i < BLOCK; i += UNIT) {
		const uint8_t *at = x + 4 * i;
		const vu32 v[4] = {load(at), load(at + VECTOR_BYTES), load(at + 2 * VECTOR_BYTES), load(at + 3 * VECTOR_BYTES)};
		const vu32 codes[4] = {encode_vector(e, v[0], s, t), encode_vector(e, v[1], s, t), encode_vector(e, v[2], s, t),
		                       encode_vector(e, v[3], s, t)};
		vu8 unit = signed_bytes(e, shape.negate, low_bytes(codes), sign_bytes(v));

		t->zero_codes -= (vu8)((unit & (uint8_t)~e->sign_code) == 0);
		store_unit(shape, to + i / 8 * shape.bits, unit);
	}
}

ALWAYS_INLINE void quantize_to_nearest(const struct quantizer *quantizer, struct shape shape, const uint8_t *x, size_t row,
                                       size_t first_block, size_t n_blocks)
{
	const struct quantizer q = *quantizer; /* a copy that no store can alias */
	const struct mxfp_quantize_job *job = quantizer->job;
	size_t block_bytes = BLOCK / 8 * shape.bits;
	uint8_t *scales = job->scales + row * job->scales_stride + first_block;
	uint8_t *codes = job->codes + row * job->codes_stride + first_block * block_bytes;
	const uint8_t *given = job->given != NULL ? job->given + first_block : NULL;
	struct tally t = {0};
	uint64_t flushed = 0;

	for (size_t b = 0; b < n_blocks; b++) {
		const uint8_t *block = x + 4 * BLOCK * b;
		int s;

		if (choose_scale(&q, block, given != NULL ? given + b : NULL, &scales[b], &s))
			encode_block(&q.element, shape, block, (uint32_t)s, &t, codes + b * block_bytes);
		else
			quantize_block_generally(job, row, first_block + b);
	}
	for (size_t i = 0; i < VECTOR_BYTES; i++)
		flushed += t.zero_codes[i];
	job->counts->flushed += flushed - sum_lanes((vu32)t.zeros);
	job->counts->saturated += sum_lanes((vu32)t.saturated);
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	quantize_by(job, quantize_to_nearest);
}

void TIER(quantize_mx_nearest)(const struct mxfp_quantize_job *job)
{
	if (job->rounding.mode == MXFP_ROUND_SR) {
		TIER(quantize_mx_stochastic)(job);
		return;
	}
	if (job->rounding.mode != MXFP_ROUND_RNE || job->rounding.no_negative_zero || job->via_bf16) {
		TIER(quantize_mx)(job);
		return;
	}
	struct fp_state state = fp_enter();

	quantize(job);
	fp_leave(state);
}
