/* SPDX-License-Identifier: MIT */
/* A block of the panels of gemm_int8.h: what multiplying many rows and few share. */
#ifndef MXFP_AVX512_GEMM_INT8_BLOCK_H
#define MXFP_AVX512_GEMM_INT8_BLOCK_H

#include "avx512/gemm_int8.h"

enum { VECTORS = GEMM_INT8_VECTORS, MR = GEMM_INT8_MR, NR = GEMM_INT8_NR };

/* A panel of A. */
struct rows {
	const struct gemm_int8_head *head;
	const int8_t *codes;
	const struct gemm_int8_block *blocks;
	size_t bytes; /* from one to the next */
};

/* How W's elements and scales are read: of one kind of pair, and constants where it matters. */
struct kind {
	bool nibbles;  /* elements: of 4 bits, else bytes */
	bool ue4m3;    /* scales; else e8m0 */
	int block;     /* of the pair */
	bool excess;   /* A has scales that need it */
};

/* The first panel of the job. */
ALWAYS_INLINE struct rows first_rows(const struct mxfp_gemm_multiply_job *job)
{
	struct rows a = {.head = job->a, .bytes = mxfp_gemm_int8_a_bytes(job->shape, job->k)};

	a.codes = (const int8_t *)(a.head + 1);
	a.blocks = (const void *)(a.codes + gemm_int8_count(job->k, GEMM_INT8_UNIT) * MR * GEMM_INT8_UNIT);
	return a;
}

/* The panel that comes n later. */
ALWAYS_INLINE struct rows later_rows(const struct rows *a, size_t n)
{
	const size_t step = n * a->bytes;
	struct rows later = {.codes = a->codes + step, .bytes = a->bytes};

	later.head = (const void *)((const uint8_t *)a->head + step);
	later.blocks = (const void *)((const uint8_t *)a->blocks + step);
	return later;
}

ALWAYS_INLINE __m512i dot(__m512i sum, __m512i unsigned_bytes, __m512i signed_bytes)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
	return sum;
}

/* Keeps x in a register where the compiler would rather load it again for each use. */
ALWAYS_INLINE __m512i pin(__m512i x)
{
	__asm__("" : "+v"(x));
	return x;
}

ALWAYS_INLINE __m512i broadcast(const void *at)
{
	int32_t x;

	memcpy(&x, at, sizeof x);
	return _mm512_set1_epi32(x);
}

/* Bytes to binary32: see the panel's description for what they mean. */
ALWAYS_INLINE __m512 load_scales(bool ue4m3, const uint8_t *bytes)
{
	const __m128i b = _mm_loadu_si128((const __m128i *)bytes);

	if (ue4m3) /* as binary16 they are 2^-8 of themselves */
		return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepi8_epi16(b), 7));
	/* The exponent alone, but 2^-127 for 0 and NaN for Inf. */
	__m512 power = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(b), F32_SIGNIFICAND_BITS));
	return _mm512_fixupimm_ps(_mm512_set1_ps(0x1p-127f), power, _mm512_set1_epi32(0x11301000), 0);
}

ALWAYS_INLINE __m512i nibble_table(void)
{
	return _mm512_broadcast_i32x4(gemm_int8_e2m1(12));
}

/* The 16 columns of vector v, 4 elements of each: number `four` in the panel's order. */
ALWAYS_INLINE __m512i load_elements(bool nibbles, const uint8_t *codes, size_t four, int v)
{
	if (!nibbles)
		return _mm512_loadu_si512(codes + (four * VECTORS + v) * VECTOR_BYTES);
	__m512i pair = _mm512_loadu_si512(codes + (four / 2 * VECTORS + v) * VECTOR_BYTES);
	/* The table repeats every 16: what is above the half does not matter. */
	return _mm512_permutexvar_epi8(four % 2 != 0 ? _mm512_srli_epi16(pair, 4) : pair, nibble_table());
}

/* The least scale of each column, and whether all columns can be folded. */
ALWAYS_INLINE bool find_foldable(const uint8_t *scales, size_t n_blocks, uint8_t columns[NR])
{
	bool foldable = true;

	for (size_t i = 0; i < NR; i += 16) {
		__m128i least = _mm_set1_epi8(-1), most = _mm_setzero_si128();

		for (size_t b = 0; b < n_blocks; b++) {
			__m128i scale = _mm_loadu_si128((const __m128i *)(scales + b * NR + i));

			least = _mm_min_epu8(least, scale);
			most = _mm_max_epu8(most, scale);
		}
		_mm_storeu_si128((__m128i *)(columns + i), least);
		foldable &= (_mm_cmpgt_epu8_mask(_mm_sub_epi8(most, least), _mm_set1_epi8(GEMM_INT8_FOLD_SPREAD)) |
		             _mm_cmplt_epu8_mask(least, _mm_set1_epi8(GEMM_INT8_FOLD_LEAST)) |
		             _mm_cmpgt_epu8_mask(least, _mm_set1_epi8((char)GEMM_INT8_FOLD_MOST))) == 0;
	}
	return foldable;
}

/* Sums of a block times A's scale, then W's, to p. */
ALWAYS_INLINE void add_block(__m512 p[VECTORS], const __m512i sum[VECTORS], const struct gemm_int8_block *block,
                             const __m512 scale[VECTORS], bool excess)
{
	const __m512 factor = _mm512_set1_ps(block->factor), less = _mm512_set1_ps(block->less);

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++) {
		__m512 term = _mm512_fmadd_ps(_mm512_castsi512_ps(sum[v]), factor, less), s = scale[v];

		if (excess) /* a factor past 2^127 is Inf or NaN; beside 2^100 any sum but 0 is then past all numbers */
			s = _mm512_min_ps(_mm512_set1_ps(0x1p127f), _mm512_mul_ps(s, _mm512_set1_ps(block->excess)));
		p[v] = _mm512_fmadd_ps(term, s, p[v]);
	}
}

/* One row's sums start from x. */
ALWAYS_INLINE void start_sums(__m512i sum[VECTORS], const int32_t *x)
{
	const __m512i start = broadcast(x);

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++)
		sum[v] = start;
}

/* 4 elements of n rows and all columns: number `four` of those at `codes` and, in each panel of A, at elements[]. */
ALWAYS_INLINE void add_four(__m512i sum[][VECTORS], const int8_t *const elements[], bool nibbles, const uint8_t *codes,
                            int four, int n)
{
	__m512i w[VECTORS];

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++)
		w[v] = pin(load_elements(nibbles, codes, (size_t)four, v));
#pragma GCC unroll 8
	for (int r = 0; r < n; r++) {
		const __m512i x = broadcast(elements[r / MR] + r % MR * GEMM_INT8_UNIT + four * 4);

#pragma GCC unroll 3
		for (int v = 0; v < VECTORS; v++)
			sum[r][v] = dot(sum[r][v], w[v], x);
	}
}

/* Block b of n rows. */
ALWAYS_INLINE void multiply_block(__m512 p[][VECTORS], const struct rows *a, const struct kind *kind,
                                  const uint8_t *codes, const __m512 scale[VECTORS], size_t b, int n)
{
	const int8_t *elements = a->codes + b * kind->block / GEMM_INT8_UNIT * GEMM_INT8_UNIT * MR +
	                         b * kind->block % GEMM_INT8_UNIT;
	const struct gemm_int8_block *blocks = a->blocks + b * MR;
	__m512i sum[MR][VECTORS];

#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
		start_sums(sum[r], &blocks[r].start);
#pragma GCC unroll 8
	for (int four = 0; four < kind->block / 4; four++)
		add_four(sum, &elements, kind->nibbles, codes, four, n);
#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
		add_block(p[r], sum[r], &blocks[r], scale, kind->excess);
}

/* C += P. */
ALWAYS_INLINE void end_pass(float *c, __m512 p[][VECTORS], int n)
{
#pragma GCC unroll 12
	for (int i = 0; i < n * VECTORS; i++) {
		float *at = c + i * LANES;

		_mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), p[i / VECTORS][i % VECTORS]));
	}
}

#endif
