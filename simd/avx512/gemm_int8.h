/* SPDX-License-Identifier: MIT */
/*
 * The panels and inner loops of exact products of two block formats whose elements are 8-bit integers in a unit of the
 * format: MXFP4 and NVFP4 (halves, to 12), MXFP6_E2M3 (eighths, to 60), MXINT8. gemm_int8.c of avx512 and that of amx
 * share them.
 *
 * vpdpbusd multiplies unsigned bytes by signed ones, four at a time. W's are made unsigned by adding an offset, and
 * each sum starts from minus the offset times the sum of A's elements in the block, computed when A is packed. The
 * start also includes 1.5 * 2^23 as binary32 bits, so that the sum S of a block needs no conversion: its bits are those
 * of 1.5 * 2^23 + S, and fma(that, f, -1.5 * 2^23 f) is S f, exact for a power of two f and for an NVFP4 scale because
 * |S| < 2^22 and S f has at most 24 bits. A second fma multiplies by the scale of W and adds to P, with one rounding.
 * So a block of 32 takes 8 + 2 operations for 16 sums.
 *
 * Panel of W, GEMM_INT8_NR rows ("columns" here: they are columns of C), all of it bytes:
 *   scales  [blocks of W's format][NR]. e8m0: the code, or for a block of zeros another scale of its column; ue4m3:
 *           the code without its spare bit, and 0xFF for NaN.
 *   codes   [words][NR][4 bytes]: a word is 4 bytes of a row. A 4-bit format: 8 elements as stored, element 2 i in the
 *           low half of byte i, so the low halves are the even elements. MXINT8: 4 elements, a byte each, plus the
 *           offset, 128. MXFP6_E2M3: 16 elements in 3 words (store_sixes()), codes.
 * A block of 32 has 4, 6 or 8 words, one of 16 (NVFP4) has 2. A panel of W depends on W's format alone.
 *
 * Panel of A, GEMM_INT8_MR rows:
 *   head    struct gemm_int8_head.
 *   codes   [units of 32][MR][32 bytes]: signed elements in the order of W's: as they are, or for a 4-bit W, of each 8
 *           the 4 even ones before the 4 odd ones.
 *   blocks  [blocks of the pair][MR] struct gemm_int8_block. A pair with NVFP4 has blocks of 16.
 *
 * Folding, if both are MXFP4: if the scales of a row (column) differ by at most 3 binades in a chunk, its elements are
 * multiplied by the ratios to the least one and still fit a byte. If both panels can be folded, all sums of a pass are
 * integers below 2^24 in one unit, so nothing is rounded before the pass ends, and the pass is one sum of integers.
 * Rows of A are folded when they are packed, W when it is multiplied.
 */
#ifndef MXFP_AVX512_GEMM_INT8_H
#define MXFP_AVX512_GEMM_INT8_H

#include "tier.h"

#include "avx512/gemm_elements.h"
#include "body/slots.h"

enum {
	GEMM_INT8_MR = 4,
	GEMM_INT8_VECTORS = 3,
	GEMM_INT8_NR = GEMM_INT8_VECTORS * LANES,
	GEMM_INT8_UNIT = MXFP_MX_BLOCK,
	GEMM_INT8_BLOCKS = MXFP_GEMM_CHUNK / MXFP_NVFP4_BLOCK,
	GEMM_INT8_PASSES = 4,              /* in a chunk, at most */
	GEMM_INT8_BIAS = 0x4B400000,       /* 1.5 * 2^23 */
	GEMM_INT8_OFFSET_FOLDED = 128,
	GEMM_INT8_FOLD_SPREAD = 3,
	/* The range of least scale codes of rows and columns that may be folded: every P is then a normal number. */
	GEMM_INT8_FOLD_LEAST = 67,
	GEMM_INT8_FOLD_MOST = 177
};

struct gemm_int8_block {
	int32_t start;
	float factor, less; /* less = -1.5 * 2^23 factor */
	float excess;       /* the scale over `factor`, if the scale is so large that `less` would overflow; else 1 */
};

struct gemm_int8_head {
	_Alignas(MXFP_GEMM_ALIGN) int32_t folded_start[GEMM_INT8_PASSES][GEMM_INT8_MR];
	float folded_factor[GEMM_INT8_MR];
	uint32_t folded; /* every row is folded */
	uint32_t excess; /* the excess of some block is not 1 */
};

ALWAYS_INLINE size_t gemm_int8_block_of(enum mxfp_format format)
{
	return format == MXFP_FORMAT_NVFP4 ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK;
}

ALWAYS_INLINE size_t gemm_int8_pair_block(const struct mxfp_gemm_shape *shape)
{
	return gemm_int8_block_of(shape->a_format == MXFP_FORMAT_NVFP4 ? shape->a_format : shape->w_format);
}

ALWAYS_INLINE bool gemm_int8_has_nibbles(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP4 || format == MXFP_FORMAT_NVFP4;
}

ALWAYS_INLINE bool gemm_int8_has_sixes(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP6_E2M3;
}

/* The offset that is added to the elements of W. */
ALWAYS_INLINE int gemm_int8_offset(enum mxfp_format format)
{
	if (gemm_int8_has_nibbles(format))
		return E2M1_OFFSET;
	return format == MXFP_FORMAT_MXINT8 ? 128 : 60;
}

/* The number of blocks of n in k elements. */
ALWAYS_INLINE size_t gemm_int8_count(size_t k, size_t n)
{
	return (k + n - 1) / n;
}

ALWAYS_INLINE size_t gemm_int8_w_words(enum mxfp_format format, size_t k)
{
	const size_t block = gemm_int8_block_of(format), bits = gemm_int8_has_nibbles(format) ? 4 : gemm_int8_has_sixes(format) ? 6 : 8;

	return gemm_int8_count(k, block) * block * bits / 32;
}

size_t mxfp_gemm_int8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k);
size_t mxfp_gemm_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k);
void mxfp_gemm_int8_pack_a(const struct mxfp_gemm_pack_job *job);
void mxfp_gemm_int8_pack_w(const struct mxfp_gemm_pack_job *job);

/* Multiplying blocks of these panels. */

enum { VECTORS = GEMM_INT8_VECTORS, MR = GEMM_INT8_MR, NR = GEMM_INT8_NR };

/* A panel of A and its parts. */
struct rows {
	const struct gemm_int8_head *head;
	const int8_t *codes;
	const struct gemm_int8_block *blocks;
	size_t bytes; /* from one panel to the next */
};

/* How W's elements and scales are read: constants in the inner loops. */
struct kind {
	bool nibbles;  /* W's elements are packed in 4 bits */
	bool sixes;    /* in 6 bits */
	bool ue4m3;    /* W's scales are ue4m3, not e8m0 */
	int block;     /* elements in a block of the pair */
	bool excess;   /* the panel of A has an excess */
};

/* The first panel of the job. */
ALWAYS_INLINE struct rows first_rows(const struct mxfp_gemm_multiply_job *job)
{
	struct rows a = {.head = job->a, .bytes = mxfp_gemm_int8_a_bytes(job->shape, job->k)};

	a.codes = (const int8_t *)(a.head + 1);
	a.blocks = (const void *)(a.codes + gemm_int8_count(job->k, GEMM_INT8_UNIT) * MR * GEMM_INT8_UNIT);
	return a;
}

/* The panel n places later. */
ALWAYS_INLINE struct rows later_rows(const struct rows *a, size_t n)
{
	const size_t step = n * a->bytes;
	struct rows later = {.codes = a->codes + step, .bytes = a->bytes};

	later.head = (const void *)((const uint8_t *)a->head + step);
	later.blocks = (const void *)((const uint8_t *)a->blocks + step);
	return later;
}

/* Keeps x in a register; the compiler would load it again for each use. */
ALWAYS_INLINE __m512i pin(__m512i x)
{
	__asm__("" : "+v"(x));
	return x;
}

ALWAYS_INLINE __m512i nibble_table(void)
{
	return _mm512_broadcast_i32x4(e2m1_integers(E2M1_OFFSET));
}

/* Loads 4 elements of each of the 16 columns of vector v: the fours with this number in the panel's order. */
ALWAYS_INLINE __m512i load_elements(const struct kind *kind, const uint8_t *codes, size_t four, int v)
{
	if (kind->sixes) { /* the table has 64 entries, so the high bits do not matter */
		__m512i x = load_sixes(codes + (four / 4 * 3 * VECTORS + v) * VECTOR_BYTES, VECTORS * VECTOR_BYTES, (int)(four % 4));

		return _mm512_permutexvar_epi8(x, e2m3_table(60));
	}
	if (!kind->nibbles)
		return _mm512_loadu_si512(codes + (four * VECTORS + v) * VECTOR_BYTES);
	__m512i pair = _mm512_loadu_si512(codes + (four / 2 * VECTORS + v) * VECTOR_BYTES);
	/* The table repeats every 16, so the high half of a byte does not matter. */
	return _mm512_permutexvar_epi8(four % 2 != 0 ? _mm512_srli_epi16(pair, 4) : pair, nibble_table());
}

/* Finds the least scale of each column. Returns whether all columns can be folded. */
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

/* Adds the sums of a block, times A's scale and W's, to p. */
ALWAYS_INLINE void add_block(__m512 p[VECTORS], const __m512i sum[VECTORS], const struct gemm_int8_block *block,
                             const __m512 scale[VECTORS], bool excess)
{
	const __m512 factor = _mm512_set1_ps(block->factor), less = _mm512_set1_ps(block->less);

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++) {
		__m512 term = _mm512_fmadd_ps(_mm512_castsi512_ps(sum[v]), factor, less), s = scale[v];

		if (excess) /* a product past 2^127 is Inf or NaN; with a factor of 2^100, any nonzero sum then overflows */
			s = _mm512_min_ps(_mm512_set1_ps(0x1p127f), _mm512_mul_ps(s, _mm512_set1_ps(block->excess)));
		p[v] = _mm512_fmadd_ps(term, s, p[v]);
	}
}

/* Starts the sums of one row from *x. */
ALWAYS_INLINE void start_sums(__m512i sum[VECTORS], const int32_t *x)
{
	const __m512i start = broadcast(x);

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++)
		sum[v] = start;
}

/* Adds the products of one four of all columns, at `codes`, and of n rows, at elements[] in each panel of A. */
ALWAYS_INLINE void add_four(__m512i sum[][VECTORS], const int8_t *const elements[], const struct kind *kind, const uint8_t *codes,
                            int four, int n)
{
	__m512i w[VECTORS];

#pragma GCC unroll 3
	for (int v = 0; v < VECTORS; v++)
		w[v] = pin(load_elements(kind, codes, (size_t)four, v));
#pragma GCC unroll 8
	for (int r = 0; r < n; r++) {
		const __m512i x = broadcast(elements[r / MR] + r % MR * GEMM_INT8_UNIT + four * 4);

#pragma GCC unroll 3
		for (int v = 0; v < VECTORS; v++)
			sum[r][v] = dot_bytes(sum[r][v], w[v], x);
	}
}

/* Multiplies block b of n rows. */
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
		add_four(sum, &elements, kind, codes, four, n);
#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
		add_block(p[r], sum[r], &blocks[r], scale, kind->excess);
}

/* C += P for the sums of a pass if both panels are folded; scales: of the columns. */
ALWAYS_INLINE void end_folded(float *c, __m512i sum[][VECTORS], const float *factor, const float *scales)
{
#pragma GCC unroll 12
	for (int i = 0; i < MR * VECTORS; i++) {
		const int r = i / VECTORS, v = i % VECTORS;
		__m512 p = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][v]), _mm512_set1_ps(factor[r]));
		float *at = c + i * LANES;

		_mm512_store_ps(at, _mm512_fmadd_ps(p, _mm512_load_ps(scales + v * LANES), _mm512_load_ps(at)));
	}
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

ALWAYS_INLINE uint8_t least_byte(__m256i x)
{
	__m128i y = _mm_min_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	y = _mm_min_epu8(y, _mm_srli_epi16(y, 8));
	return (uint8_t)_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_and_si128(y, _mm_set1_epi16(0xFF))));
}

/* Replaces the scale of each block of zeros (bits of `zero`), unless it is NaN, by the least of the others: it has no
   effect, but a subnormal scale would be slow, and an outlier would prevent folding. Returns whether the row can be
   folded. */
ALWAYS_INLINE bool even_out(uint8_t scale[GEMM_INT8_BLOCKS], uint32_t zero, size_t n_blocks, uint8_t *least)
{
	const __m256i ones = _mm256_set1_epi8(-1);
	__m256i x = _mm256_loadu_si256((const __m256i *)scale);
	__mmask32 idle = zero & ~_mm256_cmpeq_epi8_mask(x, ones), counts = low_mask(n_blocks) & ~idle;
	uint8_t most = (uint8_t)~least_byte(_mm256_xor_si256(_mm256_maskz_mov_epi8(counts, x), ones));

	*least = least_byte(_mm256_mask_mov_epi8(ones, counts, x));
	if (counts == 0)
		*least = most = MXFP_SCALE_BIAS;
	_mm256_storeu_si256((__m256i *)scale, _mm256_mask_mov_epi8(x, idle, _mm256_set1_epi8((char)*least)));
	return most - *least <= GEMM_INT8_FOLD_SPREAD && *least >= GEMM_INT8_FOLD_LEAST && *least <= GEMM_INT8_FOLD_MOST;
}

/* Expanding panels of W for many rows. */

/* An expanded panel of W; folded: elements are multiplied so that a column has one scale, its least. */
struct gemm_int8_columns {
	_Alignas(VECTOR_BYTES) uint8_t codes[MXFP_GEMM_CHUNK * NR];
	_Alignas(VECTOR_BYTES) float scales[GEMM_INT8_BLOCKS * NR];
};

/* A panel of W, expanded on demand in one way or both. */
struct gemm_int8_source {
	const uint8_t *scales, *codes;
	size_t block, n_blocks; /* of W's format */
	const struct kind *kind;
	bool foldable, has_plain, has_folded;
	uint8_t least[NR];      /* least scale of each column */
	struct gemm_int8_columns plain, folded;
};

ALWAYS_INLINE struct kind kind_of(const struct mxfp_gemm_shape *shape)
{
	return (struct kind){
		.nibbles = gemm_int8_has_nibbles(shape->w_format),
		.sixes = gemm_int8_has_sixes(shape->w_format),
		.ue4m3 = shape->w_format == MXFP_FORMAT_NVFP4,
		.block = (int)gemm_int8_pair_block(shape),
	};
}

ALWAYS_INLINE void gemm_int8_source_begin(struct gemm_int8_source *w, const struct mxfp_gemm_multiply_job *job,
                                          const struct kind *kind)
{
	w->kind = kind;
	w->block = gemm_int8_block_of(job->shape->w_format);
	w->n_blocks = gemm_int8_count(job->k, w->block);
	w->scales = job->w;
	w->codes = w->scales + w->n_blocks * NR;
	w->has_plain = w->has_folded = false;
	w->foldable = job->shape->w_format == MXFP_FORMAT_MXFP4 && find_foldable(w->scales, w->n_blocks, w->least);
}

const struct gemm_int8_columns *mxfp_gemm_int8_expand_plain(struct gemm_int8_source *w);
const struct gemm_int8_columns *mxfp_gemm_int8_expand_folded(struct gemm_int8_source *w);

#endif
