/* SPDX-License-Identifier: MIT */
/*
 * Quantization to NVFP4, every recipe, rounding mode and policy: ref/nvfp4.c in vectors. A group of blocks of one row
 * goes through each step as a whole: numbers, largest magnitudes, scales (one block per lane), codes. Rounding to
 * nearest even is one loop, stochastic rounding two, in two floating-point states; other modes, ggml's table and quotients that
 * are not finite take one step after the other.
 */
#include "tier.h"

#include "body/decode.h"
#include "body/encode.h"
#include "body/nearest.h"
#include "body/nvfp4_recipe.h"
#include "body/pack.h"
#include "body/philox.h"
#include "body/slots.h"
#include "body/squares.h"
#include "body/store.h"
#ifdef HAS_STOCHASTIC
#include "body/stochastic.h"
#endif

enum {
	BLOCK = MXFP_NVFP4_BLOCK,
	UNIT = 4 * LANES,
	GROUP_BLOCKS = 32, /* a multiple of LANES */
	GROUP = GROUP_BLOCKS * BLOCK,
	N_CODES = 16
};

struct quantizer {
	const struct mxfp_quantize_job *job;
	const struct mxfp_format_info *element;
	struct encoder elements;
	struct nearest nearest; /* for the elements */
	struct decoder source;
	struct recipe recipe;
	uint32_t table[N_CODES]; /* the values of the element codes */
	struct lane_counts counts;
};

/* One candidate for the scales of a group's blocks. */
struct scales {
	uint32_t codes[GROUP_BLOCKS];
	float values[GROUP_BLOCKS];
	float factors[GROUP_BLOCKS]; /* numbers are multiplied by them, or divided by them in some recipes */
};

struct group {
	size_t n_blocks;
	uint32_t x[GROUP];
	uint32_t amax[GROUP_BLOCKS];
	struct scales scales;
	uint32_t codes[GROUP];
};

ALWAYS_INLINE vf32 load_f32(const void *at)
{
	return (vf32)load(at);
}

/* Computes the scales from the largest magnitudes: see unrounded_scales(). */
static void find_scales(const struct quantizer *q, const struct group *g, float grow, struct scales *to)
{
	for (size_t i = 0; i < g->n_blocks; i += LANES) {
		vu32 code = round_scales(&q->recipe, unrounded_scales(&q->recipe, load_f32(g->amax + i), grow));
		vu32 value = decode_lanes(&q->recipe.values, DECODER_FLOAT, code);

		store(to->codes + i, code);
		store(to->values + i, value);
		store(to->factors + i, (vu32)scale_factors(&q->recipe, (vf32)value));
	}
}

/* The squared error of block b at a candidate scale, computed from magnitudes: of 4over6 in units of 1/S_enc, of
   modelopt-4over6, which divides, as it is. */
ALWAYS_INLINE uint32_t error_at(const struct quantizer *q, const struct group *g, size_t b, const struct scales *s, bool divide)
{
	const struct nearest *e = &q->nearest;
	const float to_code = power_of_two(F32_SIGNIFICAND_BITS - (int)e->significand_bits);
	vf32 quantum = splat_f32(s->values[b]) * to_code;
	float d[BLOCK + LANES] = {0}, factor = s->factors[b];

	for (int i = 0; i < BLOCK; i += LANES) {
		vf32 x = (vf32)(load(g->x + b * BLOCK + i) & ~F32_SIGN);
		vu32 quotient = min_u32((vu32)(divide ? x / factor : x * factor), splat(e->max));
		vu32 power = power_below(quotient, e->normal_field);
		vf32 n = (vf32)round_at(e, quotient, power) - (vf32)power;

		/* n * to_code is the code's number, and n * quantum that times the scale, both exactly. */
		store(d + i, (vu32)(divide ? x - n * to_code * factor : x * q->recipe.tensor.encode - n * quantum));
	}
	return sum_of_squares(d, BLOCK);
}

/* Replaces the scale of each block that has a smaller error if its largest magnitude is scaled to 4. */
ALWAYS_INLINE void choose_scales(const struct quantizer *q, struct group *g, bool divide)
{
	struct scales four;

	find_scales(q, g, 1.5F, &four);
	for (size_t b = 0; b < g->n_blocks; b++)
		if (error_at(q, g, b, &four, divide) < error_at(q, g, b, &g->scales, divide)) {
			g->scales.codes[b] = four.codes[b];
			g->scales.values[b] = four.values[b];
			g->scales.factors[b] = four.factors[b];
		}
}

static NOINLINE void choose_te(const struct quantizer *q, struct group *g)
{
	choose_scales(q, g, false);
}

static NOINLINE void choose_modelopt(const struct quantizer *q, struct group *g)
{
	choose_scales(q, g, true);
}

static uint32_t largest(const uint32_t *x)
{
	vu32 max = {0};

	for (int i = 0; i < BLOCK; i += LANES)
		max = max_u32(max, load(x + i) & ~F32_SIGN);
	return max_across(max);
}

/* Applies the policies to a block with a NaN or an Inf and returns its largest magnitude. The numbers of a block that
   becomes NaN as a whole become 0, so that they are not counted again. */
static NOINLINE uint32_t prepare_non_finite(struct quantizer *q, uint32_t *x)
{
	for (int i = 0; i < BLOCK; i += LANES) {
		vu32 v = load(x + i), magnitude = v & ~F32_SIGN;

		q->counts.nan += (vs32)magnitude > (int32_t)F32_INF;
		q->counts.inf += magnitude == F32_INF;
		if (q->job->saturate_inf)
			store(x + i, v - ((vu32)(magnitude == F32_INF) & 1)); /* FLT_MAX is the pattern before Inf */
	}
	uint32_t amax = largest(x);
	if (amax >= F32_INF)
		memset(x, 0, BLOCK * sizeof x[0]);
	return amax;
}

static void prepare_blocks(struct quantizer *q, struct group *g)
{
	memset(g->amax, 0, sizeof g->amax);
	for (size_t b = 0; b < g->n_blocks; b++) {
		g->amax[b] = largest(g->x + b * BLOCK);
		if (g->amax[b] >= F32_INF)
			g->amax[b] = prepare_non_finite(q, g->x + b * BLOCK);
	}
}

static void count_flushed(struct quantizer *q, const struct group *g)
{
	for (size_t i = 0; i < g->n_blocks * BLOCK; i += LANES)
		q->counts.flushed += ((load(g->x + i) & ~F32_SIGN) != 0) & ((load(g->codes + i) & ~q->elements.sign_code) == 0);
}

/* ggml's code: the first in its table, positive half first, whose product with the scale is nearest. */
static void round_as_ggml(struct quantizer *q, struct group *g)
{
	for (size_t i = 0; i < g->n_blocks * BLOCK; i += LANES) {
		float scale = g->scales.values[i / BLOCK];
		vf32 x = load_f32(g->x + i);
		vu32 best = splat(0), least = splat(F32_INF);

		for (uint32_t code = 0; code < N_CODES; code++) {
			vu32 distance = (vu32)((vf32)splat(q->table[code]) * scale - x) & ~F32_SIGN;

			best = blend((vs32)distance < (vs32)least, splat(code), best);
			least = min_u32(least, distance);
		}
		store(g->codes + i, best);
	}
	count_flushed(q, g);
}

/* Numbers divided by their scales; where a recipe divides, a quotient of -0 becomes +0. */
ALWAYS_INLINE vu32 quotients_of(vf32 x, float factor, bool divide)
{
	vu32 quotient = (vu32)(divide ? x / factor : x * factor);

	return divide ? quotient & (vu32)((quotient & ~F32_SIGN) != 0) : quotient;
}

/* The largest quotient and the counts of rounding to nearest even. */
struct tally {
	vu32 max;
	vs32 saturated, zeros;
	vu8 zero_codes; /* at most GROUP / UNIT in each byte */
};

ALWAYS_INLINE vu32 nearest_code(const struct nearest *e, vf32 x, float factor, bool divide, struct tally *t)
{
	vu32 quotient = quotients_of(x, factor, divide), magnitude = quotient & ~F32_SIGN;
	vu32 code = nearest_codes(e, min_u32(magnitude, splat(e->max)), e->normal_field);

	t->max = max_u32(t->max, magnitude);
	t->saturated -= (vs32)magnitude >= (int32_t)e->past;
	t->zeros -= ((vu32)x & ~F32_SIGN) == 0;
	return code | (quotient >> 28 & e->sign_code);
}

/* Rounds a group to nearest even, packs and counts. Returns false, with no effect, if a quotient is not finite. */
ALWAYS_INLINE bool round_nearest(struct quantizer *q, const struct group *g, bool divide, uint8_t *to)
{
	const struct nearest local = q->nearest, *e = &local; /* a copy that no store can alias */
	size_t n = g->n_blocks * BLOCK;
	uint8_t packed[GROUP / 2];
	struct tally t = {0};
	uint64_t zero_codes = 0;

	for (size_t i = 0; i < n; i += UNIT) {
		const uint32_t *x = g->x + i;
		const float *low = g->scales.factors + i / BLOCK, *high = g->scales.factors + (i + 2 * LANES) / BLOCK;
		const vu32 codes[4] = {
			nearest_code(e, load_f32(x), low[0], divide, &t),
			nearest_code(e, load_f32(x + LANES), low[LANES / BLOCK], divide, &t),
			nearest_code(e, load_f32(x + 2 * LANES), high[0], divide, &t),
			nearest_code(e, load_f32(x + 3 * LANES), high[LANES / BLOCK], divide, &t),
		};
		vu8 bytes = low_bytes(codes);

		t.zero_codes -= (vu8)((bytes & (uint8_t)~e->sign_code) == 0);
		store_nibbles(packed + i / 2, bytes);
	}
	if (any((vs32)t.max >= (int32_t)F32_INF))
		return false;
	for (size_t i = 0; i < VECTOR_BYTES; i++)
		zero_codes += t.zero_codes[i];
	q->job->counts->flushed += zero_codes - sum_lanes((vu32)t.zeros);
	q->job->counts->saturated += sum_lanes((vu32)t.saturated);
	memcpy(to, packed, n / 2);
	return true;
}

#ifdef HAS_STOCHASTIC

/* Stores the quotients of a group in the state of fp_enter(). Returns false if one is not finite. */
ALWAYS_INLINE bool divide_group(const struct group *g, bool divide, uint32_t *quotients, uint64_t *n_zeros)
{
	vs32 zeros = {0};
	vu32 max = {0};

	for (size_t i = 0; i < g->n_blocks * BLOCK; i += LANES) {
		const vf32 x = load_f32(g->x + i);
		const vu32 quotient = quotients_of(x, g->scales.factors[i / BLOCK], divide);

		zeros -= ((vu32)x & ~F32_SIGN) == 0;
		max = max_u32(max, quotient & ~F32_SIGN);
		store(quotients + i, quotient);
	}
	*n_zeros = sum_lanes((vu32)zeros);
	return !any((vs32)max >= (int32_t)F32_INF);
}

static NOINLINE bool find_quotients(const struct group *g, bool divide, uint32_t *quotients, uint64_t *n_zeros)
{
	return divide ? divide_group(g, true, quotients, n_zeros) : divide_group(g, false, quotients, n_zeros);
}

/* Rounds n quotients in the state of fp_enter_down(), packs and counts: zero codes as flushed. */
static NOINLINE void encode_quotients(const struct nearest *element, const uint32_t *quotients, const uint32_t *random, size_t n,
                                      uint8_t *to, struct mxfp_counts *counts)
{
	const struct nearest local = *element, *e = &local; /* a copy that no store can alias */
	const uint32_t after_max = number_after_max(e);
	vu8 zero_codes = {0}, kept = {0}; /* at most GROUP / UNIT in each byte */

	for (size_t i = 0; i < n; i += UNIT) {
		vu32 v[4], rounded[4];

#pragma GCC unroll 4
		for (size_t k = 0; k < 4; k++) {
			v[k] = load(quotients + i + k * LANES);
			rounded[k] = round_stochastically(e, min_u32(v[k] & ~F32_SIGN, splat(after_max)), e->normal_field,
			                                  load(random + i + k * LANES));
		}
		const vu8 codes = join_codes(rounded, e->significand_bits, e->normal_field);
		const vu8 clamped = min_u8(codes, (vu8){0} + e->max_code);

		kept -= (vu8)(codes == clamped);
		zero_codes -= (vu8)(codes == 0);
		store_nibbles(to + i / 2, signed_bytes(e, false, clamped, sign_bytes(v)));
	}
	counts->saturated += (n + UNIT - 1) / UNIT * UNIT;
	for (size_t i = 0; i < VECTOR_BYTES; i++) {
		counts->flushed += zero_codes[i];
		counts->saturated -= kept[i];
	}
}

/* Rounds a group stochastically, packs and counts. Returns false, with no effect, if a quotient is not finite. */
static bool round_stochastic(struct quantizer *q, const struct group *g, uint64_t first, uint8_t *to)
{
	const struct mxfp_rounding *r = &q->job->rounding;
	const size_t n = g->n_blocks * BLOCK;
	uint32_t quotients[GROUP], words[GROUP + PHILOX_SLACK];
	uint8_t packed[GROUP / 2];
	uint64_t zeros;

	memset(quotients + n / UNIT * UNIT, 0, (n % UNIT != 0 ? UNIT : 0) * sizeof quotients[0]);
	if (!find_quotients(g, mxfp_nvfp4_divides(q->job->recipe), quotients, &zeros))
		return false;
	const uint32_t *random = philox_fill(words, r->seed, r->stream, first, n);
	struct fp_state state = fp_enter_down();

	encode_quotients(&q->nearest, quotients, random, n, packed, q->job->counts);
	fp_leave(state);
	q->job->counts->flushed -= zeros + (UNIT - n % UNIT) % UNIT;
	memcpy(to, packed, n / 2);
	return true;
}

#endif

/* Rounds in any mode and counts; `first` is the index of the group's first number in the tensor. */
static void round_quotients(struct quantizer *q, struct group *g, uint64_t first)
{
	const struct mxfp_rounding *r = &q->job->rounding;
	uint32_t quotients[GROUP], words[GROUP + PHILOX_SLACK];
	struct lane_counts counts = {0};
	struct encode_span span = {.n = g->n_blocks * BLOCK, .x = quotients, .codes = g->codes};

	for (size_t i = 0; i < span.n; i += LANES)
		store(quotients + i, quotients_of(load_f32(g->x + i), g->scales.factors[i / BLOCK],
		                                  mxfp_nvfp4_divides(q->job->recipe)));
	if (r->mode == MXFP_ROUND_SR)
		span.random = philox_fill(words, r->seed, r->stream, first, span.n);
	encode_array(&q->elements, r->mode, &span, q->elements.normal_field, &counts);
	q->counts.saturated += counts.saturated;
	count_flushed(q, g);
}

/* Rounds a group in any mode and packs it; the row ends after n of its numbers. */
static void round_generally(struct quantizer *q, struct group *g, size_t n, uint64_t first, uint8_t *to)
{
	uint8_t bytes[GROUP];

	if (q->recipe.recipe == MXFP_RECIPE_GGML)
		round_as_ggml(q, g);
	else
		round_quotients(q, g, first);
	/* The zeros of padding and of NaN blocks may have become NaN quotients, whose code is not 0. */
	for (size_t b = 0; b < g->n_blocks; b++)
		if (g->amax[b] >= F32_INF)
			memset(g->codes + b * BLOCK, 0, BLOCK * sizeof g->codes[0]);
	memset(g->codes + n, 0, (g->n_blocks * BLOCK - n) * sizeof g->codes[0]);
	store_codes(q->element, bytes, g->codes, g->n_blocks * BLOCK);
	pack_codes(to, bytes, g->n_blocks * BLOCK, q->element->bits);
}

/* Rounds a group where there is a loop for it. Returns false, with no effect, if there is none. */
static bool try_loops(struct quantizer *q, const struct group *g, uint64_t first, uint8_t *to)
{
	const struct mxfp_rounding *r = &q->job->rounding;

	if (r->no_negative_zero || q->recipe.recipe == MXFP_RECIPE_GGML)
		return false;
#ifdef HAS_STOCHASTIC
	if (r->mode == MXFP_ROUND_SR)
		return round_stochastic(q, g, first, to);
#endif
	(void)first;
	if (r->mode != MXFP_ROUND_RNE)
		return false;
	return mxfp_nvfp4_divides(q->job->recipe) ? round_nearest(q, g, true, to) : round_nearest(q, g, false, to);
}

/* Quantizes n_blocks blocks of a row from first_block on. */
static void quantize_group(struct quantizer *q, size_t row, size_t first_block, size_t n_blocks)
{
	const struct mxfp_quantize_job *job = q->job;
	size_t start = first_block * BLOCK, n = job->cols - start < n_blocks * BLOCK ? job->cols - start : n_blocks * BLOCK;
	size_t source_bytes = mxfp_format_get_info(job->src_format)->storage_bytes;
	uint8_t *codes = job->codes + row * job->codes_stride + start / 2;
	uint8_t *scales = job->scales + row * job->scales_stride + first_block;
	struct group g;

	g.n_blocks = n_blocks;
	const uint8_t *src = (const uint8_t *)job->src + (row * job->src_stride + start) * source_bytes;
	if (job->src_format == MXFP_FORMAT_F32)
		memcpy(g.x, src, n * sizeof g.x[0]);
	else
		decode_array(&q->source, src, n, g.x);
	memset(g.x + n, 0, ((n + UNIT - 1) / UNIT * UNIT - n) * sizeof g.x[0]);
	prepare_blocks(q, &g);
	find_scales(q, &g, 1.0F, &g.scales);
	if (job->recipe == MXFP_RECIPE_4OVER6)
		choose_te(q, &g);
	else if (job->recipe == MXFP_RECIPE_MODELOPT_4OVER6)
		choose_modelopt(q, &g);
	for (size_t b = 0; b < n_blocks; b++)
		scales[b] = (uint8_t)(g.amax[b] >= F32_INF ? MXFP_UE4M3_NAN : g.scales.codes[b]);
	const uint64_t first = job->first_index + row * job->cols + start;
	if (!try_loops(q, &g, first, codes))
		round_generally(q, &g, n, first, codes);
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *block = mxfp_format_get_info(job->format);
	size_t blocks = job->cols / BLOCK + (job->cols % BLOCK != 0);
	struct quantizer q = {.job = job, .element = mxfp_format_get_info(block->element)};
	struct decoder elements;
	uint8_t codes[N_CODES];

	encoder_init(&q.elements, q.element, &job->rounding);
	decoder_init(&q.source, mxfp_format_get_info(job->src_format));
	decoder_init(&elements, q.element);
	nearest_init(&q.nearest, q.element, MXFP_OVERFLOW_SAT);
	for (uint8_t i = 0; i < N_CODES; i++)
		codes[i] = i;
	decode_array(&elements, codes, N_CODES, q.table);
	recipe_init(&q.recipe, job);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t b = 0; b < blocks; b += GROUP_BLOCKS)
			quantize_group(&q, row, b, blocks - b < GROUP_BLOCKS ? blocks - b : GROUP_BLOCKS);
	lane_counts_add(job->counts, &q.counts);
}

FP_KERNEL(TIER(quantize_nvfp4), mxfp_quantize_job, quantize)
