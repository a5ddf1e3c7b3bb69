/* SPDX-License-Identifier: MIT */
/*
 * A fast path before mx.c: stochastic quantization to MX, for every rule. A group's scales come first, in the state of
 * fp_enter(), which the errors of rule mse need; then its random words; then its codes, in the state of fp_enter_down().
 * No magnitude reaches 2^(emax + 1) times its scale, so that codes, as if they continued past the largest, have 8 bits.
 */
#include "tier.h"

#include "body/mx_blocks.h"
#include "body/philox.h"
#include "body/stochastic.h"

/* A group whose scales are known. */
struct group {
	const uint8_t *x;
	const uint32_t *random;
	size_t n_blocks;
	bool general[GROUP_BLOCKS]; /* the block is left to mx.c */
	int s[GROUP_BLOCKS];
	uint8_t *codes;
};

/* Counts of a group. Flushed numbers are the zero codes minus the zeros; numbers not kept saturate. */
struct tally {
	vs32 zeros;
	vu8 zero_codes, kept; /* at most 2 * GROUP_BLOCKS in each byte */
};

static NOINLINE void find_scales(const struct quantizer *quantizer, struct group *g, const uint8_t *given, uint8_t *scales)
{
	const struct quantizer q = *quantizer; /* a copy that no store can alias */

	for (size_t b = 0; b < g->n_blocks; b++)
		g->general[b] = !choose_scale(&q, g->x + 4 * BLOCK * b, given != NULL ? given + b : NULL, &scales[b], &g->s[b]);
}

ALWAYS_INLINE void encode_block(const struct nearest *e, struct shape shape, const uint8_t *x, const uint32_t *random,
                                uint32_t s, struct tally *t, uint8_t *to)
{
	const uint32_t field = e->normal_field + s;

	for (size_t i = 0; i < BLOCK; i += UNIT) {
		vu32 v[4], rounded[4];

#pragma GCC unroll 4
		for (size_t k = 0; k < 4; k++) {
			v[k] = load(x + 4 * (i + k * LANES));
			t->zeros -= (v[k] & ~F32_SIGN) == 0;
			rounded[k] = round_stochastically(e, v[k] & ~F32_SIGN, field, load(random + i + k * LANES));
		}
		const vu8 codes = join_codes(rounded, e->significand_bits, field);
		const vu8 clamped = min_u8(codes, (vu8){0} + e->max_code);

		t->kept -= (vu8)(codes == clamped);
		t->zero_codes -= (vu8)(codes == 0);
		store_unit(shape, to + i / 8 * shape.bits, signed_bytes(e, shape.negate, clamped, sign_bytes(v)));
	}
}

ALWAYS_INLINE void encode_blocks(const struct nearest *element, struct shape shape, const struct group *g,
                                 struct mxfp_counts *counts)
{
	const struct nearest e = *element; /* a copy that no store can alias */
	struct tally t = {0};
	uint64_t zero_codes = 0, dropped = 0;

	for (size_t b = 0; b < g->n_blocks; b++)
		if (!g->general[b]) {
			encode_block(&e, shape, g->x + 4 * BLOCK * b, g->random + BLOCK * b, (uint32_t)g->s[b], &t,
			             g->codes + BLOCK / 8 * shape.bits * b);
			dropped += BLOCK;
		}
	for (size_t i = 0; i < VECTOR_BYTES; i++) {
		zero_codes += t.zero_codes[i];
		dropped -= t.kept[i];
	}
	counts->flushed += zero_codes - sum_lanes((vu32)t.zeros);
	counts->saturated += dropped;
}

static NOINLINE void encode_group(const struct nearest *e, struct shape shape, const struct group *g,
                                  struct mxfp_counts *counts)
{
	if (shape.negate)
		encode_blocks(e, (struct shape){8, true}, g, counts);
	else if (shape.bits == 8)
		encode_blocks(e, (struct shape){8, false}, g, counts);
	else if (shape.bits == 6)
		encode_blocks(e, (struct shape){6, false}, g, counts);
	else
		encode_blocks(e, (struct shape){4, false}, g, counts);
}

static NOINLINE void quantize_stochastically(const struct quantizer *q, struct shape shape, const uint8_t *x, size_t row,
                                             size_t first_block, size_t n_blocks)
{
	const struct mxfp_quantize_job *job = q->job;
	const struct mxfp_rounding *r = &job->rounding;
	uint32_t words[GROUP + PHILOX_SLACK];
	struct group g = {
		.x = x,
		.n_blocks = n_blocks,
		.codes = job->codes + row * job->codes_stride + first_block * (BLOCK / 8) * shape.bits,
	};

	find_scales(q, &g, job->given != NULL ? job->given + first_block : NULL,
	            job->scales + row * job->scales_stride + first_block);
	g.random = philox_fill(words, r->seed, r->stream, job->first_index + row * job->cols + first_block * BLOCK,
	                       n_blocks * BLOCK);
	struct fp_state state = fp_enter_down();

	encode_group(&q->element, shape, &g, job->counts);
	fp_leave(state);
	for (size_t b = 0; b < n_blocks; b++)
		if (g.general[b])
			quantize_block_generally(job, row, first_block + b);
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	quantize_by(job, quantize_stochastically);
}

void TIER(quantize_mx_stochastic)(const struct mxfp_quantize_job *job)
{
	if (job->rounding.no_negative_zero || job->via_bf16) {
		TIER(quantize_mx)(job);
		return;
	}
	struct fp_state state = fp_enter();

	quantize(job);
	fp_leave(state);
}
