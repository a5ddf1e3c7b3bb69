/* SPDX-License-Identifier: MIT */
/*
 * One row of A by a panel of an MXFP4 W, as fast as W can be read: nothing is expanded in memory. vpermb turns nibbles
 * into bytes of 0 .. 24 (halves plus an offset of 12), whatever is beside them in a byte: its table of 64 repeats. Then
 * vpdpbusd takes 4 elements at once, for each of the two bytes of A's main parts and, in the few blocks that have any,
 * for the rests.
 */
#include "avx512/gemm_e4m3_load.h"

enum {
	GROUPS = GEMM_E4M3_BLOCK / 4,
	BLOCK_BYTES = GEMM_E4M3_BLOCK / 2 * GEMM_E4M3_NR,
	AT_ONCE = 2, /* blocks: a pass has an even number of them, unless it is the last */
	AHEAD = 4096, /* bytes that are asked for before they are needed */
	/* Changing the control word takes as long as some blocks. Instructions that say how to round, and that no exception
	   is wanted, need it only where the caller flushes subnormals. */
	TO_NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC,
	FLUSHES = 0x8040
};

/* acc += the products of 4 elements in each lane. The compiler's intrinsic copies accumulators. */
ALWAYS_INLINE __m512i add_groups(__m512i acc, __m512i w, const int8_t *a)
{
	__asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int32_t __attribute__((may_alias)) *)a));
	return acc;
}

/* Sums of a block: of the two bytes of A's main parts, and of its rests. */
struct sums {
	__m512i high[GEMM_E4M3_VECTORS], low[GEMM_E4M3_VECTORS], rest[GEMM_E4M3_VECTORS];
};

ALWAYS_INLINE void start_sums(struct sums *s, const struct gemm_e4m3_single *a)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		s->high[v] = _mm512_setzero_si512();
		s->low[v] = _mm512_set1_epi32(a->main_start);
		s->rest[v] = _mm512_set1_epi32(a->rest_start);
	}
}

ALWAYS_INLINE void add_group(struct sums *s, const struct gemm_e4m3_single *a, const uint8_t *codes, int g, bool rests)
{
	const __m512i table = _mm512_broadcast_i32x4(_mm_add_epi8(e2m1_halves(), _mm_set1_epi8(GEMM_E4M3_SINGLE_OFFSET)));

#pragma GCC unroll 2
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		const uint8_t *at = codes + (g / 2 * GEMM_E4M3_NR + v * LANES) * 4;
		__m512i x = _mm512_loadu_si512(at);

		if (g % 2 == 0)
			_mm_prefetch((const char *)at + AHEAD, _MM_HINT_T0);
		x = _mm512_permutexvar_epi8(g % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, table);
		s->high[v] = add_groups(s->high[v], x, a->high + 4 * g);
		s->low[v] = add_groups(s->low[v], x, a->low + 4 * g);
		if (rests)
			s->rest[v] = add_groups(s->rest[v], x, a->rest + 4 * g);
	}
}

ALWAYS_INLINE __m512 to_float(__m512i x)
{
	return _mm512_cvt_roundepi32_ps(x, TO_NEAREST);
}

ALWAYS_INLINE __m512 multiply(__m512 a, __m512 b)
{
	return _mm512_mul_round_ps(a, b, TO_NEAREST);
}

/* RN24 of the sum, times W's scale. */
ALWAYS_INLINE __m512 round_sum(const struct sums *s, int v, const uint8_t *scales, bool rests)
{
	__m512i scale = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(scales + v * LANES)));
	__m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS));
	__m512i sum = _mm512_add_epi32(_mm512_slli_epi32(s->high[v], 8), s->low[v]);

	if (!rests)
		return multiply(to_float(sum), factor);
	/* 27 bits. */
	sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 3), s->rest[v]);
	return multiply(multiply(to_float(sum), _mm512_set1_ps(0x1p-3f)), factor);
}

/* n blocks at once, so that there are enough independent sums. */
ALWAYS_INLINE void add_blocks(__m512 p[GEMM_E4M3_VECTORS], const struct gemm_e4m3_single *a, const uint8_t *scales,
                              const uint8_t *codes, int n, bool rests)
{
	struct sums s[AT_ONCE];

#pragma GCC unroll 2
	for (int b = 0; b < n; b++)
		start_sums(&s[b], &a[b]);
#pragma GCC unroll 8
	for (int g = 0; g < GROUPS; g++)
#pragma GCC unroll 2
		for (int b = 0; b < n; b++)
			add_group(&s[b], &a[b], codes + b * BLOCK_BYTES, g, rests);
#pragma GCC unroll 2
	for (int b = 0; b < n; b++)
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			__m512 sum = round_sum(&s[b], v, scales + b * GEMM_E4M3_NR, rests);

			p[v] = _mm512_fmadd_round_ps(sum, _mm512_set1_ps(a[b].factor), p[v], TO_NEAREST);
		}
}

/* Not inlined: the compiler would pull what the variants have in common before the choice, and run out of registers. */
static NOINLINE void add_two(__m512 p[GEMM_E4M3_VECTORS], const struct gemm_e4m3_single *a, const uint8_t *scales,
                             const uint8_t *codes)
{
	add_blocks(p, a, scales, codes, 2, false);
}

static NOINLINE void add_two_with_rests(__m512 p[GEMM_E4M3_VECTORS], const struct gemm_e4m3_single *a,
                                        const uint8_t *scales, const uint8_t *codes)
{
	add_blocks(p, a, scales, codes, 2, true);
}

static NOINLINE void add_one(__m512 p[GEMM_E4M3_VECTORS], const struct gemm_e4m3_single *a, const uint8_t *scales,
                             const uint8_t *codes)
{
	add_blocks(p, a, scales, codes, 1, true);
}

/* A NaN counts as too large. */
ALWAYS_INLINE bool are_moderate(const uint8_t *scales, size_t blocks)
{
	const __m256i first = _mm256_set1_epi8(GEMM_E4M3_SCALE_LEAST);
	__m256i most = _mm256_setzero_si256();

	for (size_t b = 0; b < blocks; b++) {
		__m256i x = _mm256_loadu_si256((const __m256i *)(scales + b * GEMM_E4M3_NR));

		most = _mm256_max_epu8(most, _mm256_sub_epi8(x, first)); /* what is below wraps round */
	}
	return _mm256_cmpgt_epu8_mask(most, _mm256_set1_epi8(GEMM_E4M3_SCALE_MOST - GEMM_E4M3_SCALE_LEAST)) == 0;
}

/* Adds what a pass has summed, and starts the next. */
ALWAYS_INLINE void end_pass(float *c, __m512 p[GEMM_E4M3_VECTORS], float last)
{
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++, c += LANES) {
		_mm512_store_ps(c, _mm512_fmadd_round_ps(p[v], _mm512_set1_ps(last), _mm512_load_ps(c), TO_NEAREST));
		p[v] = _mm512_setzero_ps();
	}
}

static NOINLINE void multiply_panel(const struct mxfp_gemm_multiply_job *job, const struct gemm_e4m3_head *head,
                                    const struct gemm_e4m3_single *a)
{
	const size_t blocks = gemm_e4m3_blocks(job->k), pass_blocks = job->shape->pass / GEMM_E4M3_BLOCK;
	const uint8_t *scales = job->w, *codes = scales + blocks * GEMM_E4M3_NR;
	__m512 p[GEMM_E4M3_VECTORS] = {_mm512_setzero_ps(), _mm512_setzero_ps()};

	for (size_t b = 0, n; b < blocks; b += n, a += n, scales += n * GEMM_E4M3_NR, codes += n * BLOCK_BYTES) {
		n = blocks - b < AT_ONCE ? blocks - b : AT_ONCE;
		if (n == 1)
			add_one(p, a, scales, codes);
		else if ((a[0].has_rest | a[1].has_rest) != 0)
			add_two_with_rests(p, a, scales, codes);
		else
			add_two(p, a, scales, codes);
		if (((b + n) & (pass_blocks - 1)) == 0 || b + n == blocks)
			end_pass(job->c, p, head->last[0]);
	}
}

bool mxfp_gemm_e4m3_multiply_single(const struct mxfp_gemm_multiply_job *job, const struct gemm_e4m3_head *head,
                                    const struct gemm_e4m3_single *a)
{
	if (head->general || !are_moderate(job->w, gemm_e4m3_blocks(job->k)))
		return false;
	if ((_mm_getcsr() & FLUSHES) == 0) {
		multiply_panel(job, head, a);
		return true;
	}
	struct fp_state state = fp_enter();
	multiply_panel(job, head, a);
	fp_leave(state);
	return true;
}
