/* SPDX-License-Identifier: MIT */
/*
 * Multiplies panels of gemm_e4m3.h. A block of 32 is 16 vpdpwssd for 16 sums; then the sum is converted and
 * added to the pass by one FMA. Sums with rests leave that path one row at a time. One body, compiled for each kind of
 * pair, for the fast and the general loop, and for few rows.
 */
#include "avx512/gemm_e4m3.h"
#include "body/slots.h"

enum rests { RESTS_A, RESTS_W, RESTS_BOTH };

/* A block of both panels. */
struct place {
	const struct gemm_e4m3_rows *a;
	const struct gemm_e4m3_rest *a_rest;
	const struct gemm_e4m3_columns *w;
	const int16_t (*w_rest)[GEMM_E4M3_NR][2];
};

/* A panel of A times the expanded one of W. */
struct panels {
	const struct gemm_e4m3_head *head;
	const struct gemm_e4m3_expanded *w;
	float *c;
	size_t blocks, pass_blocks;
};

/* acc += a0 w0 + a1 w1 in each lane. The compiler's intrinsic copies accumulators. */
ALWAYS_INLINE __m512i add_pairs(__m512i acc, __m512i w, __m512i a)
{
	__asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(a));
	return acc;
}

ALWAYS_INLINE __m512i splat_pair(const int16_t *words, int pair)
{
	int32_t x;

	memcpy(&x, words + 2 * pair, sizeof x);
	return _mm512_set1_epi32(x);
}

/* Sums of main parts. */
ALWAYS_INLINE void sum_block(__m512i sum[][GEMM_E4M3_VECTORS], const struct place *at, int rows)
{
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 16
	for (int p = 0; p < GEMM_E4M3_PAIRS; p++) {
		__m512i w0 = _mm512_load_si512(at->w->main[p]), w1 = _mm512_load_si512(at->w->main[p][LANES]);

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++) {
			__m512i a = splat_pair(at->a->main[r], p);

			sum[r][0] = add_pairs(sum[r][0], w0, a);
			sum[r][1] = add_pairs(sum[r][1], w1, a);
		}
	}
}

/* The lanes of rows whose sums may have overflowed; by the Cauchy-Schwarz inequality no sum of the others has. */
ALWAYS_INLINE uint32_t may_overflow(__m256 a_norms, const struct gemm_e4m3_columns *w)
{
	return _mm256_cmp_ps_mask(_mm256_mul_ps(a_norms, _mm256_set1_ps(w->norm)), _mm256_set1_ps(0x1p31f), _CMP_NLT_UQ);
}

/* Bit r: the sums of row r are not just sum_block()'s. */
ALWAYS_INLINE uint32_t special_rows(const struct place *at, enum rests rests)
{
	__m128i a_rests = _mm_load_si128((const __m128i *)at->a->rests);
	uint32_t rows = _mm_test_epi16_mask(a_rests, a_rests);

	if (rests != RESTS_A && at->w->rests != 0)
		rows = UINT8_MAX;
	if (rests == RESTS_BOTH)
		rows |= may_overflow(_mm256_load_ps(at->a->norm), at->w);
	return rows;
}

/* Products of a main part and a rest. */
ALWAYS_INLINE void sum_rests(__m512i sum[GEMM_E4M3_VECTORS], const struct place *at, int r, enum rests rests)
{
	sum[0] = sum[1] = _mm512_setzero_si512();
	if (rests != RESTS_W)
		for (uint32_t set = at->a->rests[r]; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);
			__m512i a = splat_pair(at->a_rest->rest[r], p);

			sum[0] = add_pairs(sum[0], _mm512_load_si512(at->w->main[p]), a);
			sum[1] = add_pairs(sum[1], _mm512_load_si512(at->w->main[p][LANES]), a);
		}
	if (rests != RESTS_A)
		for (uint32_t set = at->w->rests; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);
			__m512i a = splat_pair(at->a->main[r], p);

			sum[0] = add_pairs(sum[0], _mm512_load_si512(at->w_rest[p]), a);
			sum[1] = add_pairs(sum[1], _mm512_load_si512(at->w_rest[p][LANES]), a);
		}
}

/* RN24(main + rest / 2^low_bits): one FMA of two halves that are exact. |rest| is below 2^24 - 2^12. */
ALWAYS_INLINE __m512 round_sum(__m512i main, __m512i rest, int low_bits)
{
	const __m512i low = _mm512_set1_epi32(0xFF);
	__m512i lower = _mm512_add_epi32(_mm512_slli_epi32(_mm512_and_si512(main, low), (unsigned)low_bits), rest);
	__m512 upper = _mm512_cvtepi32_ps(_mm512_andnot_si512(low, main));

	return _mm512_fmadd_ps(_mm512_cvtepi32_ps(lower), _mm512_set1_ps(low_bits == 4 ? 0x1p-4f : 0x1p-3f), upper);
}

/* Two vectors of 8 sums, of 64 bits. */
struct wide {
	__m512i low, high;
};

ALWAYS_INLINE void add_wide(struct wide *to, __m512i x, unsigned shift)
{
	__m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
	__m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));

	to->low = _mm512_add_epi64(to->low, _mm512_slli_epi64(low, shift));
	to->high = _mm512_add_epi64(to->high, _mm512_slli_epi64(high, shift));
}

/* The sums of row r where both sides are e4m3, whatever it holds: those of 4 pairs of main parts stay below 2^31. */
static NOINLINE void sum_wide(__m512 sum[GEMM_E4M3_VECTORS], const struct place *at, int r)
{
	__m512i rests[GEMM_E4M3_VECTORS];

	sum_rests(rests, at, r, RESTS_BOTH);
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		struct wide wide = {_mm512_setzero_si512(), _mm512_setzero_si512()};
		__m512i both = _mm512_setzero_si512();

		for (int p = 0; p < GEMM_E4M3_PAIRS; p += 4) {
			__m512i x = _mm512_setzero_si512();

			for (int i = p; i < p + 4; i++)
				x = add_pairs(x, _mm512_load_si512(at->w->main[i][v * LANES]), splat_pair(at->a->main[r], i));
			add_wide(&wide, x, 8);
		}
		for (uint32_t set = at->a->rests[r] & at->w->rests; set != 0; set &= set - 1) {
			int p = __builtin_ctz(set);

			both = add_pairs(both, _mm512_load_si512(at->w_rest[p][v * LANES]), splat_pair(at->a_rest->rest[r], p));
		}
		add_wide(&wide, rests[v], 4);
		add_wide(&wide, both, 0);
		__m512 t = _mm512_castps256_ps512(_mm512_cvtepi64_ps(wide.low));
		t = _mm512_insertf32x8(t, _mm512_cvtepi64_ps(wide.high), 1);
		sum[v] = _mm512_mul_ps(t, _mm512_set1_ps(0x1p-8f));
	}
}

ALWAYS_INLINE void special_sum(__m512 t[GEMM_E4M3_VECTORS], const __m512i sum[GEMM_E4M3_VECTORS],
                               const struct place *at, int r, enum rests rests)
{
	__m512i rest[GEMM_E4M3_VECTORS];

	if (rests == RESTS_BOTH) {
		bool overflows = may_overflow(_mm256_set1_ps(at->a->norm[r]), at->w) != 0;

		if (overflows || (at->a->rests[r] & at->w->rests) != 0) {
			sum_wide(t, at, r);
			return;
		}
	}
	sum_rests(rest, at, r, rests);
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++)
		t[v] = round_sum(sum[v], rest[v], rests == RESTS_BOTH ? 4 : 3);
}

ALWAYS_INLINE __m512 power(__m512i exponent)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(exponent, _mm512_set1_epi32(F32_BIAS)),
	                                             F32_SIGNIFICAND_BITS));
}

ALWAYS_INLINE __m512i clamp(__m512i x, int least, int most)
{
	return _mm512_min_epi32(_mm512_max_epi32(x, _mm512_set1_epi32(least)), _mm512_set1_epi32(most));
}

/* fl32(p + t 2^exponent) for any exponent: past -190 and 180 nothing changes any more, and what a factor cannot hold
   goes into t first. */
ALWAYS_INLINE __m512 add_general(__m512 p, __m512 t, __m512i exponent)
{
	exponent = clamp(exponent, -190, 180);
	__m512i held = clamp(exponent, 1 - F32_BIAS, F32_BIAS);
	return _mm512_fmadd_ps(_mm512_mul_ps(t, power(_mm512_sub_epi32(exponent, held))), power(held), p);
}

ALWAYS_INLINE __m512 add_term(__m512 p, __m512 t, const struct place *at, int r, int v, enum rests rests)
{
	const __m512 a = _mm512_set1_ps(at->a->factor[r]), w = _mm512_load_ps(at->w->factor + v * LANES);

	switch (rests) {
	case RESTS_A:
		return _mm512_fmadd_ps(t, a, p);
	case RESTS_W:
		return _mm512_fmadd_ps(t, w, p);
	default:
		return _mm512_fmadd_ps(_mm512_mul_ps(t, w), a, p);
	}
}

ALWAYS_INLINE void add_block(__m512 p[][GEMM_E4M3_VECTORS], const struct place *at, enum rests rests, bool general,
                             int rows)
{
	__m512i sum[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];
	const uint32_t special = special_rows(at, rests);

	sum_block(sum, at, rows);
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++) {
		__m512 t[GEMM_E4M3_VECTORS] = {_mm512_cvtepi32_ps(sum[r][0]), _mm512_cvtepi32_ps(sum[r][1])};

		if (__builtin_expect(special >> r & 1, 0))
			special_sum(t, sum[r], at, r, rests);
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			__m512i exponent = _mm512_load_si512(at->w->exponent + v * LANES);

			exponent = _mm512_add_epi32(exponent, _mm512_set1_epi32(at->a->exponent[r]));
			p[r][v] = general ? add_general(p[r][v], t[v], exponent) : add_term(p[r][v], t[v], at, r, v, rests);
		}
	}
}

ALWAYS_INLINE void add_pass(float *c, __m512 p[][GEMM_E4M3_VECTORS], const float *a_last, const float *w_last, int rows)
{
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			float *at = c + r * GEMM_E4M3_NR + v * LANES;
			__m512 last = _mm512_mul_ps(_mm512_set1_ps(a_last[r]), _mm512_load_ps(w_last + v * LANES));

			_mm512_store_ps(at, _mm512_fmadd_ps(p[r][v], last, _mm512_load_ps(at)));
		}
}

ALWAYS_INLINE void multiply_panels(const struct panels *panels, enum rests rests, bool general, int rows)
{
	const struct gemm_e4m3_head *head = panels->head;
	const struct gemm_e4m3_expanded *w = panels->w;
	const struct gemm_e4m3_rows *a = (const struct gemm_e4m3_rows *)(head + 1);
	const struct gemm_e4m3_rest *a_rest = (const struct gemm_e4m3_rest *)(a + panels->blocks);

	for (size_t first = 0; first < panels->blocks; first += panels->pass_blocks) {
		size_t end = first + panels->pass_blocks < panels->blocks ? first + panels->pass_blocks : panels->blocks;
		__m512 p[GEMM_E4M3_MR][GEMM_E4M3_VECTORS];

#pragma GCC unroll 8
		for (int r = 0; r < rows; r++)
			p[r][0] = p[r][1] = _mm512_setzero_ps();
		for (size_t b = first; b < end; b++) {
			const struct place at = {a + b, a_rest + b, &w->block[b], w->rest[b]};

			add_block(p, &at, rests, general, rows);
		}
		add_pass(panels->c, p, general ? head->one : head->last, general ? w->one : w->last, rows);
	}
}

static NOINLINE void multiply_a(const struct panels *panels)
{
	multiply_panels(panels, RESTS_A, false, GEMM_E4M3_MR);
}

static NOINLINE void multiply_a_general(const struct panels *panels)
{
	multiply_panels(panels, RESTS_A, true, GEMM_E4M3_MR);
}

static NOINLINE void multiply_a_4(const struct panels *panels)
{
	multiply_panels(panels, RESTS_A, false, 4);
}

static NOINLINE void multiply_a_1(const struct panels *panels)
{
	multiply_panels(panels, RESTS_A, false, 1);
}

static NOINLINE void multiply_w(const struct panels *panels)
{
	multiply_panels(panels, RESTS_W, false, GEMM_E4M3_MR);
}

static NOINLINE void multiply_w_general(const struct panels *panels)
{
	multiply_panels(panels, RESTS_W, true, GEMM_E4M3_MR);
}

static NOINLINE void multiply_w_4(const struct panels *panels)
{
	multiply_panels(panels, RESTS_W, false, 4);
}

static NOINLINE void multiply_w_1(const struct panels *panels)
{
	multiply_panels(panels, RESTS_W, false, 1);
}

static NOINLINE void multiply_both(const struct panels *panels)
{
	multiply_panels(panels, RESTS_BOTH, false, GEMM_E4M3_MR);
}

static NOINLINE void multiply_both_general(const struct panels *panels)
{
	multiply_panels(panels, RESTS_BOTH, true, GEMM_E4M3_MR);
}

static NOINLINE void multiply_both_4(const struct panels *panels)
{
	multiply_panels(panels, RESTS_BOTH, false, 4);
}

static NOINLINE void multiply_both_1(const struct panels *panels)
{
	multiply_panels(panels, RESTS_BOTH, false, 1);
}

typedef void multiply_function(const struct panels *panels);

/* For a panel with so many rows. */
static multiply_function *find(const struct mxfp_gemm_shape *shape, size_t rows, bool general)
{
	static multiply_function *const functions[][4] = {
		[RESTS_A] = {multiply_a_1, multiply_a_4, multiply_a, multiply_a_general},
		[RESTS_W] = {multiply_w_1, multiply_w_4, multiply_w, multiply_w_general},
		[RESTS_BOTH] = {multiply_both_1, multiply_both_4, multiply_both, multiply_both_general},
	};
	enum rests rests = shape->a_format == MXFP_FORMAT_MXFP8_E4M3 ? RESTS_A : RESTS_W;

	if (shape->a_format == shape->w_format)
		rests = RESTS_BOTH;
	return functions[rests][general ? 3 : rows > 4 ? 2 : rows > 1];
}

static NOINLINE void multiply_expanded(const struct mxfp_gemm_multiply_job *job)
{
	const size_t bytes = mxfp_gemm_e4m3_a_bytes(job->shape, job->k);
	struct gemm_e4m3_expanded w;
	struct panels panels = {.w = &w, .c = job->c, .blocks = gemm_e4m3_blocks(job->k)};
	const uint8_t *a = job->a;

	panels.pass_blocks = job->shape->pass / GEMM_E4M3_BLOCK;
	mxfp_gemm_e4m3_expand(&w, job->shape, job->w, panels.blocks);
	for (size_t row = 0; row < job->rows; row += GEMM_E4M3_MR, a += bytes, panels.c += GEMM_E4M3_MR * GEMM_E4M3_NR) {
		panels.head = (const struct gemm_e4m3_head *)a;
		find(job->shape, job->rows - row, w.general || panels.head->general)(&panels);
	}
}

/* For an MXFP4 W the single row of a panel has a form of its own, after the others. */
static bool multiply_single(const struct mxfp_gemm_multiply_job *job)
{
	const struct gemm_e4m3_head *head = job->a;
	const struct gemm_e4m3_rows *rows = (const struct gemm_e4m3_rows *)(head + 1);
	const struct gemm_e4m3_rest *rests = (const struct gemm_e4m3_rest *)(rows + gemm_e4m3_blocks(job->k));

	return job->rows == 1 && job->shape->w_format == MXFP_FORMAT_MXFP4 &&
	       mxfp_gemm_e4m3_multiply_single(job, head,
	                                      (const struct gemm_e4m3_single *)(rests + gemm_e4m3_blocks(job->k)));
}

static void multiply(const struct mxfp_gemm_multiply_job *job)
{
	if (multiply_single(job))
		return;
	struct fp_state state = fp_enter();
	multiply_expanded(job);
	fp_leave(state);
}

const struct mxfp_gemm_kernel TIER(gemm_e4m3) = {
	.id = 0x0200,
	.name = "exact-e4m3-avx512",
	.mr = GEMM_E4M3_MR,
	.nr = GEMM_E4M3_NR,
	.a_panel_bytes = mxfp_gemm_e4m3_a_bytes,
	.w_panel_bytes = mxfp_gemm_e4m3_w_bytes,
	.pack_a = mxfp_gemm_e4m3_pack_a,
	.pack_w = mxfp_gemm_e4m3_pack_w,
	.multiply = multiply,
};
