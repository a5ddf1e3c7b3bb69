/* SPDX-License-Identifier: MIT */
/*
 * NVFP4 blocks from numbers, every recipe, rounding mode and policy: ref/nvfp4.c in vectors. A group of blocks of one
 * row goes through each step as a whole: numbers, largest magnitudes, scales (a block a lane), quotients, codes. The
 * recipes are binary32 operations in a fixed order, written as the reference has them, one operator a rounding. A NaN
 * may have another sign here than in the reference; none reaches the output as more than "NaN", which has one code.
 */
#include "decode_body.h"
#include "encode_body.h"
#include "pack_body.h"
#include "philox_body.h"
#include "store_body.h"

enum {
	BLOCK = 16,
	GROUP_BLOCKS = 64, /* a multiple of LANES */
	GROUP = GROUP_BLOCKS * BLOCK,
	N_CODES = 16,
	SCALE_NAN = 0x7F,
	SCALE_EPS = 0x20 /* 0.125, what compressed-tensors puts for a scale of 0 */
};

#define MAX_FINITE 0x1.FFFFFEp127F
#define MIN_NORMAL_SCALE 0x1p-6F
#define MAX_SCALE 448.0F

struct quantizer {
	const struct mxfp_quantize_job *job;
	const struct mxfp_format_info *element;
	struct encoder elements, scales;
	struct decoder source, element_values, scale_values;
	float tensor_scale; /* as it is stored: g, or gs of compressed-tensors */
	float encode;       /* S_enc of te and 4over6 */
	uint32_t table[N_CODES]; /* values of the element codes */
	struct lane_counts counts;
};

/* One candidate for the scales of a group's blocks. */
struct scales {
	uint32_t codes[GROUP_BLOCKS];
	float values[GROUP_BLOCKS];
	float factors[GROUP_BLOCKS]; /* by which numbers are multiplied, or divided in some recipes */
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

/* min(x, limit); NaN stays. */
ALWAYS_INLINE vf32 at_most(vf32 x, float limit)
{
	return (vf32)blend(x > limit, (vu32)splat_f32(limit), (vu32)x);
}

ALWAYS_INLINE vf32 torchao_clamp(vf32 x)
{
	return at_most((vf32)blend(x < MIN_NORMAL_SCALE, (vu32)splat_f32(MIN_NORMAL_SCALE), (vu32)x), MAX_SCALE);
}

/* Scales of blocks before rounding. */
static inline vf32 unrounded_scales(const struct quantizer *q, vf32 amax)
{
	vf32 u;

	switch (q->job->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return amax * (q->encode * (1.0F / 6.0F));
	case MXFP_RECIPE_TORCHAO:
		return torchao_clamp(amax / 6.0F / q->tensor_scale);
	case MXFP_RECIPE_TORCHAO_1:
		return torchao_clamp(amax / 6.0F);
	case MXFP_RECIPE_CT:
		return q->tensor_scale * (amax / 6.0F);
	case MXFP_RECIPE_MODELOPT:
		u = amax / (6.0F * q->tensor_scale);
		return (vf32)blend(u == 0.0F, (vu32)splat_f32(1.0F), (vu32)u);
	case MXFP_RECIPE_GGML:
		return amax / 6.0F;
	}
	return amax;
}

ALWAYS_INLINE vu32 encode_scales(const struct quantizer *q, enum mxfp_round mode, vf32 u)
{
	struct lane_counts unused = {0};

	return encode_lanes(&q->scales, false, mode, (vu32)u, splat(q->scales.normal_field), splat(0), &unused);
}

/* 448 from 248 on, a rounding of its own for subnormals, ties up between. */
static inline vu32 ggml_scales(const struct quantizer *q, vf32 v)
{
	vu32 subnormal = (vu32)__builtin_convertvector(at_most(v * 512.0F + 0.5F, 7.0F), vs32);
	vu32 code = blend(v < MIN_NORMAL_SCALE, subnormal, encode_scales(q, MXFP_ROUND_RNA, v));

	return blend(v >= 248.0F, splat(q->scales.max_code), code);
}

static inline vu32 round_scales(const struct quantizer *q, vf32 u)
{
	vu32 code;

	if (q->job->recipe == MXFP_RECIPE_GGML)
		return ggml_scales(q, u);
	code = encode_scales(q, MXFP_ROUND_RNE, u);
	return q->job->recipe == MXFP_RECIPE_CT ? blend(code == 0, splat(SCALE_EPS), code) : code;
}

static inline vf32 factors(const struct quantizer *q, vf32 scale)
{
	switch (q->job->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return at_most(1.0F / (scale * (1.0F / q->encode)), MAX_FINITE);
	case MXFP_RECIPE_TORCHAO:
		return 1.0F / q->tensor_scale / scale;
	case MXFP_RECIPE_TORCHAO_1:
		return 1.0F / scale;
	case MXFP_RECIPE_CT:
		return scale / q->tensor_scale;
	case MXFP_RECIPE_MODELOPT:
		return scale * q->tensor_scale;
	case MXFP_RECIPE_GGML:
		break;
	}
	return scale;
}

/* Numbers are divided, and a zero quotient loses its sign: compressed-tensors multiplies by sign(quotient), Model
   Optimizer asks quotient < 0. */
static inline bool divides(const struct quantizer *q)
{
	return q->job->recipe == MXFP_RECIPE_CT || q->job->recipe == MXFP_RECIPE_MODELOPT;
}

/* The scales that follow from the largest magnitudes; `grow` multiplies them before they are rounded. */
static void find_scales(const struct quantizer *q, const struct group *g, float grow, struct scales *to)
{
	for (size_t i = 0; i < g->n_blocks; i += LANES) {
		vu32 code = round_scales(q, grow * unrounded_scales(q, load_f32(g->amax + i)));
		vu32 value = decode_lanes(&q->scale_values, DECODER_FLOAT, code);

		store(to->codes + i, code);
		store(to->values + i, value);
		store(to->factors + i, (vu32)factors(q, (vf32)value));
	}
}

/* The squared error of block `b` at a candidate scale, in units of 1/S_enc. */
static float error_at(const struct quantizer *q, const struct group *g, size_t b, const struct scales *s)
{
	float d[BLOCK + LANES] = {0}, lane[BLOCK / 2 + LANES];
	struct lane_counts unused = {0};

	for (int i = 0; i < BLOCK; i += LANES) {
		vf32 x = load_f32(g->x + b * BLOCK + i);
		vu32 code = encode_lanes(&q->elements, false, MXFP_ROUND_RNE, (vu32)(x * s->factors[b]),
		                         splat(q->elements.normal_field), splat(0), &unused);
		vf32 value = (vf32)decode_lanes(&q->element_values, DECODER_FLOAT, code);

		store(d + i, (vu32)(x * q->encode - value * s->values[b]));
	}
	for (int j = 0; j < BLOCK / 2; j += LANES) {
		vf32 low = load_f32(d + j), high = load_f32(d + BLOCK / 2 + j);

		store(lane + j, (vu32)fma_f32(high, high, low * low));
	}
	for (int width = BLOCK / 4; width > 0; width /= 2)
		for (int j = 0; j < width; j++)
			lane[j] += lane[j + width];
	return lane[0];
}

/* Takes the scales that put a block's largest magnitude at 4 where they err less. */
static void choose_scales(const struct quantizer *q, struct group *g)
{
	struct scales four;

	find_scales(q, g, 1.5F, &four);
	for (size_t b = 0; b < g->n_blocks; b++)
		if (error_at(q, g, b, &four) < error_at(q, g, b, &g->scales)) {
			g->scales.codes[b] = four.codes[b];
			g->scales.values[b] = four.values[b];
			g->scales.factors[b] = four.factors[b];
		}
}

/* Applies the policies to the numbers of a group and finds the largest magnitudes. A block that becomes NaN as a whole
   has 0 for numbers, so that it counts no more. */
static void prepare_blocks(struct quantizer *q, struct group *g)
{
	memset(g->amax, 0, sizeof g->amax);
	for (size_t b = 0; b < g->n_blocks; b++) {
		uint32_t *x = g->x + b * BLOCK;
		vu32 amax = {0};

		for (int i = 0; i < BLOCK; i += LANES) {
			vu32 v = load(x + i), magnitude = v & ~F32_SIGN;

			q->counts.nan += (vs32)magnitude > (int32_t)F32_INF;
			q->counts.inf += magnitude == F32_INF;
			if (q->job->saturate_inf) {
				v -= (vu32)(magnitude == F32_INF) & 1; /* the largest finite number is the pattern below */
				store(x + i, v);
			}
			amax = max_u32(amax, v & ~F32_SIGN);
		}
		for (int lane = 0; lane < LANES; lane++)
			g->amax[b] = amax[lane] > g->amax[b] ? amax[lane] : g->amax[b];
		if (g->amax[b] >= F32_INF)
			memset(x, 0, BLOCK * sizeof x[0]);
	}
}

/* The first code of the table whose product with the scale is nearest, positive half first. */
static void ggml_codes(const struct quantizer *q, struct group *g)
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
}

/* Numbers divided by their scales and rounded; `first` is the index of the first in the tensor. */
static void round_quotients(struct quantizer *q, struct group *g, uint64_t first)
{
	const struct mxfp_rounding *r = &q->job->rounding;
	uint32_t quotients[GROUP], words[GROUP + PHILOX_SLACK];
	struct lane_counts counts = {0};
	struct encode_span span = {.n = g->n_blocks * BLOCK, .x = quotients, .codes = g->codes};

	for (size_t i = 0; i < span.n; i += LANES) {
		float factor = g->scales.factors[i / BLOCK];
		vf32 x = load_f32(g->x + i);
		vu32 quotient = (vu32)(divides(q) ? x / factor : x * factor);

		if (divides(q))
			quotient &= (vu32)((quotient & ~F32_SIGN) != 0);
		store(quotients + i, quotient);
	}
	if (r->mode == MXFP_ROUND_SR)
		span.random = philox_fill(words, r->seed, r->stream, first, span.n);
	encode_array(&q->elements, r->mode, &span, q->elements.normal_field, &counts);
	q->counts.saturated += counts.saturated;
}

/* Stores a group's codes and scales; `n` numbers of it are in the row. */
static void store_group(struct quantizer *q, struct group *g, size_t n, uint8_t *packed, uint8_t *scales)
{
	uint8_t bytes[GROUP];

	for (size_t b = 0; b < g->n_blocks; b++) {
		bool all_nan = g->amax[b] >= F32_INF;

		scales[b] = (uint8_t)(all_nan ? SCALE_NAN : g->scales.codes[b]);
		if (all_nan)
			memset(g->codes + b * BLOCK, 0, BLOCK * sizeof g->codes[0]);
	}
	/* The padding may have become NaN, whose code is not 0. */
	memset(g->codes + n, 0, (g->n_blocks * BLOCK - n) * sizeof g->codes[0]);
	for (size_t i = 0; i < g->n_blocks * BLOCK; i += LANES)
		q->counts.flushed += ((load(g->x + i) & ~F32_SIGN) != 0) & ((load(g->codes + i) & ~q->elements.sign_code) == 0);
	store_codes(q->element, bytes, g->codes, g->n_blocks * BLOCK);
	pack_codes(packed, bytes, g->n_blocks * BLOCK, q->element->bits);
}

/* Blocks first_block ... of a row, n_blocks of them. */
static void quantize_group(struct quantizer *q, size_t row, size_t first_block, size_t n_blocks)
{
	const struct mxfp_quantize_job *job = q->job;
	size_t start = first_block * BLOCK, n = job->cols - start < n_blocks * BLOCK ? job->cols - start : n_blocks * BLOCK;
	size_t source_bytes = mxfp_format_info(job->src_format)->storage_bytes;
	struct group g;

	g.n_blocks = n_blocks;
	decode_array(&q->source, (const uint8_t *)job->src + (row * job->src_stride + start) * source_bytes, n, g.x);
	memset(g.x + n, 0, (n_blocks * BLOCK - n) * sizeof g.x[0]);
	prepare_blocks(q, &g);
	find_scales(q, &g, 1.0F, &g.scales);
	if (job->recipe == MXFP_RECIPE_4OVER6)
		choose_scales(q, &g);
	if (job->recipe == MXFP_RECIPE_GGML)
		ggml_codes(q, &g);
	else
		round_quotients(q, &g, job->first_index + row * job->cols + start);
	store_group(q, &g, n, job->codes + row * job->codes_stride + start / 2,
	            job->scales + row * job->scales_stride + first_block);
}

/* What a recipe makes of the tensor's amax once, for all blocks. */
static void tensor_scales(struct quantizer *q)
{
	enum mxfp_recipe recipe = q->job->recipe;
	uint32_t bits = mxfp_nvfp4_tensor_scale_ref(recipe, q->job->tensor_amax, &(bool){false});
	float amax;

	memcpy(&q->tensor_scale, &bits, sizeof bits);
	memcpy(&amax, &q->job->tensor_amax, sizeof amax);
	q->encode = (recipe == MXFP_RECIPE_4OVER6 ? 6.0F * 256.0F : 6.0F * 448.0F) / amax;
	if (q->encode > MAX_FINITE)
		q->encode = MAX_FINITE;
	if (amax == 0.0F)
		q->encode = 1.0F;
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	static const struct mxfp_rounding nearest = {.mode = MXFP_ROUND_RNE};
	const struct mxfp_format_info *block = mxfp_format_info(job->format);
	size_t blocks = job->cols / BLOCK + (job->cols % BLOCK != 0);
	struct quantizer q = {.job = job, .element = mxfp_format_info(block->element)};
	uint8_t codes[N_CODES];

	encoder_init(&q.elements, q.element, &job->rounding);
	encoder_init(&q.scales, mxfp_format_info(block->scale), &nearest);
	decoder_init(&q.source, mxfp_format_info(job->src_format));
	decoder_init(&q.element_values, q.element);
	decoder_init(&q.scale_values, mxfp_format_info(block->scale));
	for (uint8_t i = 0; i < N_CODES; i++)
		codes[i] = i;
	decode_array(&q.element_values, codes, N_CODES, q.table);
	tensor_scales(&q);
	for (size_t row = 0; row < job->rows; row++)
		for (size_t b = 0; b < blocks; b += GROUP_BLOCKS)
			quantize_group(&q, row, b, blocks - b < GROUP_BLOCKS ? blocks - b : GROUP_BLOCKS);
	lane_counts_add(job->counts, &q.counts);
}

void TIER_NAME(quantize_nvfp4)(const struct mxfp_quantize_job *job)
{
	struct fp_state state = fp_enter();

	quantize(job);
	fp_leave(state);
}
