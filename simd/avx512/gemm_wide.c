/* SPDX-License-Identifier: MIT */
/* Multiplies panels of gemm_wide.h. */
#include "avx512/gemm_wide.h"

ALWAYS_INLINE __m512i dot(__m512i sum, __m512i w, __m512i a)
{
	/* The intrinsic has gcc spill sums. */
	__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
	return sum;
}

ALWAYS_INLINE __m512i pair_of_a(const uint8_t *at)
{
	int32_t pair;

	memcpy(&pair, at, sizeof pair);
	return _mm512_set1_epi32(pair);
}

/* Sums of one block, by digit. */
ALWAYS_INLINE void wide_block(const uint8_t *a, const uint8_t *w, size_t w_bytes, const struct wide_kind *kind,
                              size_t rows, __m512i sum[WIDE_MR][WIDE_VECTORS][2])
{
	for (size_t pair = 0; pair < kind->length / 2; pair++) {
		__m512i x[WIDE_VECTORS][2];

#pragma GCC unroll 4
		for (size_t i = 0; i < WIDE_VECTORS * kind->w_digits; i++)
			x[i / kind->w_digits][i % kind->w_digits] = _mm512_loadu_si512(
				w + i / kind->w_digits * w_bytes + (pair * kind->w_digits + i % kind->w_digits) * WIDE_LINE_BYTES);
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * kind->a_digits; i++) {
			size_t r = i / kind->a_digits, digit = i % kind->a_digits;
			__m512i y = pair_of_a(a + ((pair * kind->a_digits + digit) * WIDE_MR + r) * WIDE_PAIR_BYTES);

#pragma GCC unroll 4
			for (size_t j = 0; j < WIDE_VECTORS * kind->w_digits; j++) {
				size_t v = j / kind->w_digits, to = digit + j % kind->w_digits;

				sum[r][v][to] = dot(sum[r][v][to], x[v][j % kind->w_digits], y);
			}
		}
	}
}

ALWAYS_INLINE vf32 to_f32(__m512i sum)
{
	return (vf32)_mm512_cvtepi32_ps(sum);
}

/* P after one block. */
ALWAYS_INLINE vf32 wide_add(vf32 p, const __m512i sum[2], vf32 a_scale, vf32 w_scale, vf32 digit,
                            const struct wide_kind *kind)
{
	if (kind->a_splits_scale)
		return fma_f32(fma_f32(to_f32(sum[0]), a_scale * digit, to_f32(sum[1]) * a_scale), w_scale, p);
	if (kind->w_splits_scale)
		return fma_f32(fma_f32(to_f32(sum[0]), w_scale * digit, to_f32(sum[1]) * w_scale), a_scale, p);
	return fma_f32(fma_f32(to_f32(sum[0]), digit, to_f32(sum[1])), w_scale * a_scale, p);
}

/* One pass, blocks `first` to `end`. */
ALWAYS_INLINE void wide_pass(const struct wide_panels *panels, size_t first, size_t end, const struct wide_kind *kind,
                             size_t rows, float *c)
{
	const struct wide_panels copy = *panels, *t = &copy;
	size_t a_block = kind->length / 2 * kind->a_digits * WIDE_MR * WIDE_PAIR_BYTES;
	size_t w_block = kind->length / 2 * kind->w_digits * WIDE_LINE_BYTES;
	vf32 digit = splat_f32(power_of_two((int)t->d));
	vf32 p[WIDE_MR][WIDE_VECTORS] = {0};

	for (size_t b = first; b < end; b++) {
		__m512i sum[WIDE_MR][WIDE_VECTORS][2] = {0};

		wide_block(t->a + b * a_block, t->w + b * w_block, t->w_bytes, kind, rows, sum);
#pragma GCC unroll 16
		for (size_t i = 0; i < rows * WIDE_VECTORS; i++) {
			size_t r = i / WIDE_VECTORS, v = i % WIDE_VECTORS;
			vf32 w_scale = (vf32)load(t->w_scales + v * t->w_bytes + b * WIDE_LINE_BYTES);
			float a_scale;

			memcpy(&a_scale, t->a_scales + (b * WIDE_MR + r) * sizeof a_scale, sizeof a_scale);
			p[r][v] = wide_add(p[r][v], sum[r][v], splat_f32(a_scale), w_scale, digit, kind);
		}
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * WIDE_VECTORS; i++) {
		float *at = c + i / WIDE_VECTORS * WIDE_NR + i % WIDE_VECTORS * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / WIDE_VECTORS][i % WIDE_VECTORS]));
	}
}

/* The passes of a chunk for one panel of A, whose first `rows` rows count. */
ALWAYS_INLINE void wide_chunk(const struct wide_panels *t, const struct wide_kind *kind, size_t pass, size_t rows,
                              float *c)
{
	/* What another function is given the address of is no constant here. */
	const struct wide_kind general = *kind;

	for (size_t first = 0; first < t->blocks; first += pass) {
		size_t end = t->blocks - first < pass ? t->blocks : first + pass;

		if (t->ordinary && rows == 1)
			wide_pass(t, first, end, kind, 1, c);
		else if (t->ordinary)
			wide_pass(t, first, end, kind, WIDE_MR, c);
		else
			for (size_t v = 0; v < WIDE_VECTORS; v++)
				TIER(gemm_wide_general)(t, first, end, &general, v, c);
	}
}

/* One panel of A after the other. */
ALWAYS_INLINE void wide_rows(const struct mxfp_gemm_multiply_job *job, const struct wide_kind *kind)
{
	size_t a_bytes = TIER(gemm_wide_a_bytes)(job->shape, job->k), pass = job->shape->pass / kind->length;
	const uint8_t *a = job->a;
	float *c = job->c;

	for (size_t row = 0; row < job->rows; row += WIDE_MR, a += a_bytes, c += WIDE_MR * WIDE_NR) {
		const struct wide_panels t = TIER(gemm_wide_panels)(job, a);

		wide_chunk(&t, kind, pass, job->rows - row, c);
	}
}

static NOINLINE void wide_a_32(const struct mxfp_gemm_multiply_job *job)
{
	wide_rows(job, &(const struct wide_kind){.a_digits = 2, .w_digits = 1, .length = 32});
}

static NOINLINE void wide_a_16(const struct mxfp_gemm_multiply_job *job)
{
	wide_rows(job, &(const struct wide_kind){.a_digits = 2, .w_digits = 1, .length = 16, .w_splits_scale = true});
}

static NOINLINE void wide_w_32(const struct mxfp_gemm_multiply_job *job)
{
	wide_rows(job, &(const struct wide_kind){.a_digits = 1, .w_digits = 2, .length = 32});
}

static NOINLINE void wide_w_16(const struct mxfp_gemm_multiply_job *job)
{
	wide_rows(job, &(const struct wide_kind){.a_digits = 1, .w_digits = 2, .length = 16, .a_splits_scale = true});
}

static void wide_multiply(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	struct fp_state state = fp_enter();
	bool short_blocks = shape->a_format == MXFP_FORMAT_NVFP4 || shape->w_format == MXFP_FORMAT_NVFP4;

	if (shape->a_format == MXFP_FORMAT_MXFP8_E4M3 || shape->a_format == MXFP_FORMAT_MXFP8_E5M2)
		(short_blocks ? wide_a_16 : wide_a_32)(job);
	else
		(short_blocks ? wide_w_16 : wide_w_32)(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_wide) = {
	.id = 0x0300,
	.name = "exact-wide-avx512",
	.mr = WIDE_MR,
	.nr = WIDE_NR,
	.a_panel_bytes = TIER(gemm_wide_a_bytes),
	.w_panel_bytes = TIER(gemm_wide_w_bytes),
	.pack_a = TIER(gemm_wide_pack_a),
	.pack_w = TIER(gemm_wide_pack_w),
	.multiply = wide_multiply,
};
