/* SPDX-License-Identifier: MIT */
/* Rows in groups of 16 blocks: loading, exceptional blocks and scales. */
#include "avx512/mx_groups.h"

#include "f32.h"
#include "body/slots.h"
#include "avx512/philox.h"
#include "scale.h"

enum {
	UPSCALE = 96,
	PREFETCH = 6144, /* bytes from the beginning of a group to what is asked for meanwhile */
	LEAST_FIELD = 56 /* of P under stochastic rounding, which divides 2^55 by it (mx_encode.c) */
};

ALWAYS_INLINE __m512 load_numbers(const void *src, enum mxfp_format format, size_t i, __mmask16 lanes)
{
	const uint16_t *halves = (const uint16_t *)src + i;

	switch (format) {
	case MXFP_FORMAT_BF16: {
		/* Word i to the upper half of dword i. */
		const __m512i upper = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5,
		                                       0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
		__m512i x = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(lanes, halves));

		return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAA, upper, x));
	}
	case MXFP_FORMAT_F16:
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, halves));
	default:
		return _mm512_maskz_loadu_ps(lanes, (const float *)src + i);
	}
}

ALWAYS_INLINE __mmask16 lanes_left(size_t i, size_t n)
{
	return i >= n ? 0 : n - i >= LANES ? 0xFFFF : (__mmask16)((1U << (n - i)) - 1);
}

/* The first n numbers at src, and zeros after them up to a multiple of four blocks. */
ALWAYS_INLINE void load_group(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	const __m512i magnitude = _mm512_set1_epi32((int)~F32_SIGN);
	bool direct = format == MXFP_FORMAT_F32 && n == GROUP;
	__m512i least = magnitude, greatest[GROUP_BLOCKS];

	g->n_blocks = (n + BLOCK - 1) / BLOCK;
	if (n != GROUP)
		memset(greatest, 0, sizeof greatest);
	const size_t n_blocks = n == GROUP ? GROUP_BLOCKS : (g->n_blocks + 3) / 4 * 4;
	g->x = direct ? src : g->copy;
#pragma GCC unroll 4
	for (size_t block = 0; block < n_blocks; block++) {
		__m512i m[2];

#pragma GCC unroll 2
		for (size_t h = 0; h < 2; h++) {
			size_t i = block * BLOCK + h * LANES;
			__m512 x = load_numbers(src, format, i, n == GROUP ? 0xFFFF : lanes_left(i, n));

			if (!direct)
				_mm512_store_ps(g->copy + i, x);
			m[h] = _mm512_and_si512(_mm512_castps_si512(x), magnitude);
		}
		greatest[block] = _mm512_max_epu32(m[0], m[1]);
		least = _mm512_min_epu32(least, _mm512_min_epu32(m[0], m[1]));
	}
	g->zeros = _mm512_testn_epi32_mask(least, least) != 0;
	g->amax = reduce_each(greatest, MX_MAX);
	g->upscale = _mm512_setzero_si512();
}

static NOINLINE void load_part(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	switch (format) {
	case MXFP_FORMAT_BF16:
		load_group(g, src, MXFP_FORMAT_BF16, n);
		break;
	case MXFP_FORMAT_F16:
		load_group(g, src, MXFP_FORMAT_F16, n);
		break;
	default:
		load_group(g, src, MXFP_FORMAT_F32, n);
	}
}

/* A whole group; false if there is a zero or a NaN, for which amax may be wrong: of a NaN and a number, vrangeps takes
   the number. vfixupimmps turns 1 into 0 there. */
ALWAYS_INLINE bool load_nonzeros(struct mx_group *g, const void *src, enum mxfp_format format)
{
	const __m512i classes = _mm512_set1_epi32(0x00000888); /* quiet NaN, signaling NaN, zero: +0; others: as it was */
	const __m512 one = _mm512_set1_ps(1);
	__m512 special[4] = {one, one, one, one}; /* chains of dependent instructions */
	__m512i greatest[GROUP_BLOCKS];

	g->x = format == MXFP_FORMAT_F32 ? src : g->copy;
#pragma GCC unroll 16
	for (size_t block = 0; block < GROUP_BLOCKS; block++) {
		__m512 x[2];

#pragma GCC unroll 2
		for (size_t h = 0; h < 2; h++) {
			size_t i = block * BLOCK + h * LANES;

			x[h] = load_numbers(src, format, i, 0xFFFF);
			special[i / LANES % 4] = _mm512_fixupimm_ps(special[i / LANES % 4], x[h], classes, 0);
			if (format != MXFP_FORMAT_F32)
				_mm512_store_ps(g->copy + i, x[h]);
		}
		/* The larger magnitude, without sign. */
		greatest[block] = _mm512_castps_si512(_mm512_range_ps(x[0], x[1], 0xB));
	}
	g->n_blocks = GROUP_BLOCKS;
	g->zeros = false;
	g->amax = reduce_each(greatest, MX_MAX);
	g->upscale = _mm512_setzero_si512();
	__m512 ones = _mm512_and_ps(_mm512_and_ps(special[0], special[1]), _mm512_and_ps(special[2], special[3]));
	return _mm512_cmpneq_ps_mask(ones, one) == 0;
}

/* g->zeros still tells of the last group but one: where there were zeros there may be more. */
ALWAYS_INLINE void load_whole(struct mx_group *g, const void *src, enum mxfp_format format)
{
	if (g->zeros || !load_nonzeros(g, src, format))
		load_group(g, src, format, GROUP);
}

static NOINLINE void load_f32(struct mx_group *g, const void *src)
{
	load_whole(g, src, MXFP_FORMAT_F32);
}

static NOINLINE void load_bf16(struct mx_group *g, const void *src)
{
	load_whole(g, src, MXFP_FORMAT_BF16);
}

static NOINLINE void load_f16(struct mx_group *g, const void *src)
{
	load_whole(g, src, MXFP_FORMAT_F16);
}

static void load_any(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	if (n != GROUP)
		load_part(g, src, format, n);
	else if (format == MXFP_FORMAT_F32)
		load_f32(g, src);
	else if (format == MXFP_FORMAT_BF16)
		load_bf16(g, src);
	else
		load_f16(g, src);
}

/* A block with a NaN or Inf: Inf replaced if the policy says so, else all zeros, which have code 0. Gives amax. */
static uint32_t mend_non_finite(const struct mxfp_quantize_job *job, float *block)
{
	const __m512i magnitude = _mm512_set1_epi32((int)~F32_SIGN), inf = _mm512_set1_epi32((int)F32_INF);
	__mmask16 any_left = 0;

	for (int i = 0; i < BLOCK; i += LANES) {
		__m512i x = _mm512_load_si512(block + i), m = _mm512_and_si512(x, magnitude);
		__mmask16 nans = _mm512_cmpgt_epu32_mask(m, inf), infs = _mm512_cmpeq_epi32_mask(m, inf);

		job->counts->nan += (uint64_t)_mm_popcnt_u32(nans);
		job->counts->inf += (uint64_t)_mm_popcnt_u32(infs);
		any_left |= job->saturate_inf ? nans : nans | infs;
		/* The magnitude before that of Inf is the largest finite one. */
		x = _mm512_mask_sub_epi32(x, infs, x, _mm512_set1_epi32(1));
		_mm512_store_si512(block + i, x);
	}
	if (any_left == 0)
		return F32_MAX;
	memset(block, 0, BLOCK * sizeof *block);
	return 0;
}

/* Makes a copy of the group in which no block has a NaN, an Inf or an amax close to underflow. */
static NOINLINE __mmask16 mend(const struct mx_plan *plan, struct mx_group *g)
{
	alignas(64) uint32_t amax[GROUP_BLOCKS], upscale[GROUP_BLOCKS] = {0};
	__mmask16 nan_blocks = 0;

	if (g->x != g->copy)
		memcpy(g->copy, g->x, sizeof g->copy);
	g->x = g->copy;
	g->zeros = true;
	_mm512_store_si512(amax, g->amax);
	for (int i = 0; i < GROUP_BLOCKS; i++) {
		float *block = g->copy + i * BLOCK;

		if (amax[i] >= F32_INF) {
			amax[i] = mend_non_finite(plan->job, block);
			nan_blocks |= (__mmask16)((amax[i] == 0) << i);
		} else if (amax[i] != 0 && amax[i] < plan->least_amax) {
			const __m512 factor = _mm512_set1_ps(0x1p96f);

			for (int j = 0; j < BLOCK; j += LANES)
				_mm512_store_ps(block + j, _mm512_mul_ps(_mm512_load_ps(block + j), factor));
			amax[i] = mxfp_f32_scale(amax[i], UPSCALE);
			upscale[i] = UPSCALE;
		}
	}
	g->amax = _mm512_load_si512(amax);
	g->upscale = _mm512_load_si512(upscale);
	return nan_blocks;
}

/* Blocks that mend() must see: NaN, Inf, and what is small but not zero. */
ALWAYS_INLINE __mmask16 exceptional(const struct mx_plan *plan, const struct mx_group *g)
{
	__m512i least = _mm512_set1_epi32((int)plan->least_amax);
	__m512i range = _mm512_set1_epi32((int)(F32_INF - plan->least_amax));

	return _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(g->amax, g->amax), _mm512_sub_epi32(g->amax, least),
	                                    range);
}

/* Chooses the scales. Fills g->scale and gives the scale bytes. */
ALWAYS_INLINE __m512i choose_scales(const struct mx_plan *plan, struct mx_group *g)
{
	const __m512i max = _mm512_set1_epi32(MXFP_SCALE_MAX + MXFP_SCALE_BIAS), one = _mm512_set1_epi32(1);
	const __m512i emax = _mm512_set1_epi32(plan->element->emax);
	__mmask16 nonzero = _mm512_test_epi32_mask(g->amax, g->amax);
	__m512i carried = _mm512_add_epi32(g->amax, _mm512_set1_epi32((int)plan->scale_carry));
	__m512i free = _mm512_sub_epi32(_mm512_srli_epi32(carried, F32_SIGNIFICAND_BITS),
	                                _mm512_add_epi32(g->upscale, emax));
	__m512i byte = _mm512_maskz_min_epi32(nonzero, _mm512_max_epi32(free, _mm512_setzero_si512()), max);

	/* A scale at which zeros are encoded like any number. */
	g->scale = _mm512_mask_add_epi32(_mm512_set1_epi32(MXFP_SCALE_BIAS), nonzero, byte, g->upscale);
	if (plan->job->rule == MXFP_RULE_MSE) {
		/* floor + 1 is a candidate if neither it nor floor is clamped to the other. */
		__mmask16 raisable = _mm512_mask_cmpge_epi32_mask(nonzero, free, _mm512_setzero_si512());

		raisable &= _mm512_cmplt_epi32_mask(byte, max) & mxfp_mx_mse_raises(plan, g);
		byte = _mm512_mask_add_epi32(byte, raisable, byte, one);
		g->scale = _mm512_mask_add_epi32(g->scale, raisable, g->scale, one);
	}
	__m512i field = _mm512_add_epi32(g->scale, _mm512_set1_epi32(plan->emin));
	_mm512_store_si512(g->smallest, _mm512_slli_epi32(field, F32_SIGNIFICAND_BITS));
	/* The exponent field begins at bit 7 of the upper half. */
	_mm512_store_si512(g->offset, _mm512_mullo_epi32(field, _mm512_set1_epi32(-plan->exponent_weight * 128)));
	carried = _mm512_add_epi32(g->amax, _mm512_set1_epi32((int)plan->past_carry));
	g->saturates = _mm512_cmpgt_epi32_mask(_mm512_srli_epi32(carried, F32_SIGNIFICAND_BITS),
	                                       _mm512_add_epi32(g->scale, emax)) != 0;
	return byte;
}

/* From the numbers at column k of the row on to all that encode() needs, and the scales. */
static void prepare(const struct mx_plan *plan, struct mx_group *g, size_t row, size_t k)
{
	const struct mxfp_quantize_job *job = plan->job;
	const uint8_t *src = (const uint8_t *)job->src + (row * job->src_stride + k) * plan->number_bytes;
	__mmask16 nan_blocks = 0;

	load_any(g, src, job->src_format, plan->cols - k < GROUP ? plan->cols - k : GROUP);
	g->index = job->first_index + row * job->cols + k;
	g->ahead = src + PREFETCH;
	g->codes = job->codes + row * job->codes_stride + k / BLOCK * plan->block_bytes;
	if (exceptional(plan, g) != 0)
		nan_blocks = mend(plan, g);
	__m512i byte = choose_scales(plan, g);
	byte = _mm512_mask_mov_epi32(byte, nan_blocks, _mm512_set1_epi32(MXFP_SCALE_NAN));
	_mm_mask_storeu_epi8(job->scales + row * job->scales_stride + k / BLOCK, lanes_left(0, g->n_blocks),
	                     _mm512_cvtepi32_epi8(byte));
}

static void encode(const struct mx_plan *plan, const struct mx_group *g)
{
	const struct mxfp_rounding *rounding = &plan->job->rounding;
	alignas(64) uint32_t words[GROUP + PHILOX_SLACK];
	const uint32_t *random = words;

	if (rounding->mode == MXFP_ROUND_SR)
		random = philox_array(words, rounding->seed, rounding->stream, g->index, g->n_blocks * BLOCK);
	if (plan->job->format == MXFP_FORMAT_MXFP4)
		mxfp_mx_encode_e2m1(plan, g, random);
	else
		mxfp_mx_encode(plan, g, random);
}

static struct mx_plan make_plan(const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *element = mxfp_format_info(mxfp_format_info(job->format)->element);
	int emin = element->kind == MXFP_KIND_FIXED ? element->emax : 1 - element->bias;
	int least_field = job->rounding.mode == MXFP_ROUND_SR ? LEAST_FIELD : 1;
	struct mx_plan plan = {
		.job = job,
		.rows = job->rows,
		.cols = job->cols,
		.number_bytes = mxfp_format_info(job->src_format)->storage_bytes,
		.element = element,
		.emin = emin,
		.scale_carry = 2 * F32_HIDDEN - mxfp_ref_scale_threshold(job->rule, element),
		.past_carry = 2 * F32_HIDDEN - mxfp_ref_scale_threshold(MXFP_RULE_FIT, element),
		.least_amax = (uint32_t)(least_field + element->emax - emin) << F32_SIGNIFICAND_BITS,
		.exponent_weight = job->format == MXFP_FORMAT_MXFP4 ? MX_E2M1_WEIGHT : MX_PAIR_WEIGHT,
		.block_bytes = BLOCK / 8 * element->bits,
	};

	/* Rows without gaps are one row. */
	if (job->cols % BLOCK == 0 && job->src_stride == job->cols && job->scales_stride == job->cols / BLOCK &&
	    job->codes_stride == job->cols / BLOCK * plan.block_bytes) {
		plan.cols *= plan.rows;
		plan.rows = 1;
	}
	return plan;
}

/* A group is encoded after the next one has been prepared: scales come out of a long chain of instructions, whose
   latency the other group's work fills. */
static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	const struct mx_plan plan = make_plan(job);
	struct mx_group groups[2], *previous = NULL;
	unsigned next = 0;

	groups[0].zeros = groups[1].zeros = false;
	for (size_t row = 0; row < plan.rows; row++)
		for (size_t k = 0; k < plan.cols; k += GROUP) {
			prepare(&plan, &groups[next], row, k);
			if (previous != NULL)
				encode(&plan, previous);
			previous = &groups[next];
			next ^= 1;
		}
	if (previous != NULL)
		encode(&plan, previous);
}

void TIER(quantize_mx_groups)(const struct mxfp_quantize_job *job)
{
	enum mxfp_round mode = job->rounding.mode;

	if ((mode != MXFP_ROUND_RNE && mode != MXFP_ROUND_SR) || job->via_bf16) {
		TIER(quantize_mx)(job);
		return;
	}
	struct fp_state state = fp_enter();
	quantize(job);
	fp_leave(state);
}
