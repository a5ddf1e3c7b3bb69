/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of W in MXFP4, which stays in its codes (body/gemm_fp4.h), and A as bytes.
 *
 * vpmaddubsw multiplies unsigned bytes by signed ones, adds neighbors, and saturates. W's bytes are 12 more than twice the
 * number of a code, 0 to 24, A's are integers, so two products are at most 2 * 24 * 128 = 6144. A 16-bit lane adds eight of
 * these pairs, half of a block, modulo 2^16, from a start that takes the twelves back: -12 times the sum of A's bytes. What
 * it ends with is the sum of 16 products of at most 12 and 128, which 16 bits hold: no step loses anything.
 *
 * Elements of up to 8 bits, of MXINT8, MXFP4 and MXFP6_E2M3, are one byte. Wider ones, in their unit at most 2^18, are two, h and
 * l, and the `drop` lowest bits, r: x = (256 h + l) 2^drop + r with l from -128 to 127 and |h| <= 112. Few rows have any r that
 * is not 0: one e4m3 in 2^11 of its block's greatest. A block's sum of these is below 2^27, and is rounded when it is
 * converted to binary32.
 *
 * A panel of A is a head, the scales [block][row], and for each block [limb][start, 8 words of bytes][row], where limbs are
 * h, l, r. Word 2 i of a block has the elements 0, 2, 4 and 6 of its eight of number i, word 2 i + 1 the odd ones: the nibbles of
 * W's words, low and high.
 */
#ifndef MXFP_AVX2_FP4_BYTES_H
#define MXFP_AVX2_FP4_BYTES_H

#include "tier.h"

#include "body/gemm_fp4.h"

enum {
	BYTES_MR = INT16_MR,
	BYTES_WORDS = MXFP_MX_BLOCK / 4,
	BYTES_LIMB = 1 + BYTES_WORDS, /* words of a row */
	BYTES_WIDE = 3,               /* limbs of wide elements, the last of which is for few blocks */
	BYTES_FEW_ROWS = 4,
	BYTES_SOME_ROWS = 24,         /* of a product, that gemm_fp4_bytes.c multiplies by codes */
	LINE_BYTES = 64,
	BYTES_MORE = 12,
	BYTES_HIGH = 8,               /* bits of l */
	BYTES_REST = INT16_LOW_FLAGS  /* in the head, a byte per block: bit i says that row i has some r */
};

/* BYTES_MORE more than twice the numbers of E2M1 codes. */
static const int8_t twice_e2m1_more[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* Both operands have blocks of this length, so that sizes need no tables: few rows take few hundred cycles a panel. */
static inline size_t mx_blocks(size_t k)
{
	return (k + MXFP_MX_BLOCK - 1) / MXFP_MX_BLOCK;
}

/* The offset of the words in a panel of A. */
static inline size_t words_offset(size_t blocks)
{
	return BLOCKS_HEAD_BYTES + blocks * BYTES_MR * sizeof(float);
}

static inline size_t bytes_panel_bytes(size_t k, size_t limbs)
{
	return panel_align(words_offset(mx_blocks(k)) + mx_blocks(k) * limbs * BYTES_LIMB * BYTES_MR * sizeof(uint32_t));
}

/* The bits of elements of A that are apart. */
static inline unsigned dropped_bits(enum mxfp_format format)
{
	return has_low(format) ? INT16_LOW_BITS : 0;
}

/* The bytes of a block's elements become a limb. */
static inline void pack_bytes(vu8 elements, uint32_t *to)
{
	const __m256i by_parity = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
	const __m256i bytes = _mm256_shuffle_epi8((__m256i)elements, by_parity);
	const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(BYTES_MORE), bytes);
	__m128i sum = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
	sum = _mm_add_epi16(sum, _mm_unpackhi_epi64(sum, sum));
	sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 1));
	to[0] = (uint32_t)_mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), sum));
	store(to + 1, (vu32)bytes);
}

/* The low bytes of a block's lanes become a limb. */
static inline void pack_limb(vu32 v[4], uint32_t *to)
{
	for (size_t i = 0; i < 4; i++)
		v[i] &= 0xFF;
	pack_bytes(low_bytes(v), to);
}

/* Elements of a block, in units of 1 / factor, become its limbs. Returns whether it has some r. */
ALWAYS_INLINE bool pack_limbs(const uint32_t *x, float factor, size_t limbs, unsigned drop, uint32_t *to)
{
	vu32 v[BYTES_WIDE][4], rests = {0};

	for (size_t i = 0; i < 4; i++) {
		const vs32 n = __builtin_convertvector((vf32)load(x + i * LANES) * factor, vs32), q = n >> (int)drop;
		const vs32 h = (q + (1 << (BYTES_HIGH - 1))) >> BYTES_HIGH;

		v[0][i] = (vu32)(limbs == 1 ? n : h);
		v[1][i] = (vu32)q - ((vu32)h << BYTES_HIGH);
		v[2][i] = (vu32)n & ((1U << drop) - 1);
		rests |= v[2][i];
	}
	for (size_t limb = 0; limb < limbs; limb++)
		pack_limb(v[limb], to + limb * BYTES_LIMB);
	return limbs > 1 && any((vs32)(rests != 0));
}

/* Packs columns k, k + 1, ... of the chunk. */
ALWAYS_INLINE void bytes_pack_slice(const struct mxfp_gemm_pack_job *job, size_t k, size_t limbs, struct blocks_range *range)
{
	const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const size_t blocks = mx_blocks(slice.k), first = k / MXFP_MX_BLOCK;
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	const unsigned drop = dropped_bits(job->matrix->format);
	uint8_t *panel = job->panel, *words = panel + words_offset(mx_blocks(job->k)) + first * limbs * BYTES_LIMB * BYTES_MR * 4;
	panel_rows rows;

	load_elements(&slice, rows);
	pack_blocks(&slice, k, false, true, BYTES_MR, rows, range);
	for (size_t r = 0; r < BYTES_MR; r++)
		for (size_t b = 0; b < blocks; b++) /* in place: what is stored lies before what is read next */
			panel[BYTES_REST + first + b] |= (uint8_t)(
				pack_limbs(rows[r] + b * MXFP_MX_BLOCK, factor, limbs, drop, rows[r] + b * limbs * BYTES_LIMB) << r);
	store_columns(words, rows[0], PANEL_SLICE, BYTES_MR, blocks * limbs * BYTES_LIMB);
}

/* Stores n words of one row at their places in a panel. */
static inline void store_row(uint8_t *panel, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		memcpy(panel + i * BYTES_MR * sizeof(uint32_t), &words[i], sizeof words[i]);
}

_Static_assert((int)MXFP_GEMM_CHUNK <= (int)PANEL_MAX_ROWS * (int)PANEL_SLICE, "a row of a chunk fits where rows of slices do");

/* Packs a panel of one row, of a product that waits for it: the whole chunk at once. */
ALWAYS_INLINE void bytes_pack_row(const struct mxfp_gemm_pack_job *job, size_t limbs, struct blocks_range *range)
{
	const size_t blocks = mx_blocks(job->k);
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	const unsigned drop = dropped_bits(job->matrix->format);
	uint8_t *panel = job->panel, *words = panel + words_offset(blocks), scales[BLOCKS_HEAD_BYTES + BLOCKS_MAX * sizeof(float)];
	struct mxfp_gemm_pack_job one = *job;
	panel_rows rows;
	const uint32_t *row = rows[0];

	one.panel = scales;
	load_elements(&one, rows);
	pack_blocks(&one, 0, false, true, 1, rows, range);
	for (size_t b = 0; b < blocks; b++) {
		uint32_t packed[BYTES_WIDE * BYTES_LIMB];

		panel[BYTES_REST + b] |= pack_limbs(row + b * MXFP_MX_BLOCK, factor, limbs, drop, packed);
		store_row(words + b * limbs * BYTES_LIMB * BYTES_MR * sizeof(uint32_t), packed, limbs * BYTES_LIMB);
		memcpy(panel + BLOCKS_HEAD_BYTES + b * BYTES_MR * sizeof(float), scales + BLOCKS_HEAD_BYTES + b * sizeof(float), sizeof(float));
	}
}

/* The same of whole blocks of MXINT8, whose codes are the bytes. The head's ranges of elements have no reader here. */
static inline void bytes_pack_codes(const struct mxfp_gemm_pack_job *job)
{
	const struct mxfp_matrix *m = job->matrix;
	const uint8_t *codes = (const uint8_t *)m->data + mxfp_codes_offset(m->format, m->stride, job->row, job->k0);
	const uint8_t *from = (const uint8_t *)m->scales + mxfp_scales_offset(m->format, m->scales_stride, job->row, job->k0);
	const size_t blocks = job->k / MXFP_MX_BLOCK;
	uint8_t *panel = job->panel, *words = panel + words_offset(blocks);
	struct blocks_head head = {UINT32_MAX, 0, F32_ONE, F32_ONE};

	for (size_t b = 0; b < blocks; b++, codes += MXFP_MX_BLOCK, words += BYTES_LIMB * BYTES_MR * sizeof(uint32_t)) {
		const vu8 elements = (vu8)load(codes);
		const bool zero = !any((vs32)elements != 0);
		const uint32_t scale = zero && from[b] != MXFP_SCALE_NAN ? F32_ONE : fp4_scale(from[b]);
		uint32_t packed[BYTES_LIMB];

		pack_bytes(elements, packed);
		store_row(words, packed, BYTES_LIMB);
		memcpy(panel + BLOCKS_HEAD_BYTES + b * BYTES_MR * sizeof scale, &scale, sizeof scale);
		head.least_scale = scale < head.least_scale ? scale : head.least_scale;
		head.greatest_scale = scale > head.greatest_scale ? scale : head.greatest_scale;
	}
	memcpy(panel, &head, sizeof head);
}

/* limbs, a constant: 1 or BYTES_WIDE. */
ALWAYS_INLINE void bytes_pack(const struct mxfp_gemm_pack_job *job, size_t limbs)
{
	struct blocks_range range = blocks_begin();

	memset(job->panel, 0, job->rows == 1 ? bytes_panel_bytes(job->k, limbs) : BLOCKS_HEAD_BYTES);
	if (job->rows == 1 && job->matrix->format == MXFP_FORMAT_MXINT8 && job->k % MXFP_MX_BLOCK == 0) {
		bytes_pack_codes(job);
		return;
	}
	if (job->rows == 1)
		bytes_pack_row(job, limbs, &range);
	for (size_t k = 0; k < job->k && job->rows > 1; k += PANEL_SLICE)
		bytes_pack_slice(job, k, limbs, &range);
	const struct blocks_head head = blocks_end(&range);
	memcpy(job->panel, &head, sizeof head);
}

/* Asks for bytes `from` to end - 1 of a panel that comes next, or of what lies behind the last one. */
static inline void fetch(uintptr_t panel, size_t from, size_t end)
{
	for (size_t i = from; i < end; i += LINE_BYTES)
		__builtin_prefetch((const void *)(panel + i));
}

/* Asks for part i of `parts` of the panel of W after the job's, which would be waited for when it is expanded. */
static inline void fetch_next_w(const struct mxfp_gemm_multiply_job *job, size_t i, size_t parts)
{
	fetch((uintptr_t)job->w + job->w_bytes, job->w_bytes * i / parts, job->w_bytes * (i + 1) / parts);
}

struct bytes_panels {
	const float *a_scales;
	const uint8_t *a_rest;              /* which rows have some r in a block */
	const uint32_t *a;
	const uint8_t *scale_codes, *codes; /* of W */
	const float *w_scales;              /* for scales that are not ordinary */
	float unit;
	unsigned drop;
};

static inline struct bytes_panels bytes_begin(const struct mxfp_gemm_multiply_job *job)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const uint8_t *w = job->w;

	return (struct bytes_panels){
		.scale_codes = w + BLOCKS_HEAD_BYTES,
		.codes = w + BLOCKS_HEAD_BYTES + mx_blocks(job->k) * INT16_NR,
		.unit = power_of_two(-(fraction_bits(shape->a_format) + fraction_bits(shape->w_format))),
		.drop = dropped_bits(shape->a_format),
	};
}

static inline void bytes_take(struct bytes_panels *t, const uint8_t *a, size_t k)
{
	t->a_scales = (const float *)(a + BLOCKS_HEAD_BYTES);
	t->a_rest = a + BYTES_REST;
	t->a = (const uint32_t *)(a + words_offset(mx_blocks(k)));
}

/* The bytes of a word of codes of each column: those of its low and of its high nibbles. */
ALWAYS_INLINE void decode_word(vu8 codes, vu8 bytes[2])
{
	const vu8 low = (vu8)splat(0x0F0F0F0F);

	IN_REGISTER(codes);
	bytes[0] = lookup(twice_e2m1_more, codes & low);
	bytes[1] = lookup(twice_e2m1_more, (vu8)((vu16)codes >> 4) & low);
}

/* Adds four products to each 32-bit lane, two to each half. */
ALWAYS_INLINE vu16 add_products(vu16 sum, vu8 w, uint32_t a)
{
	sum += (vu16)_mm256_maddubs_epi16((__m256i)w, (__m256i)splat(a));
	IN_REGISTER(sum);
	return sum;
}

/* `times` times the sum of the halves of each lane. */
ALWAYS_INLINE vs32 add_halves(vu16 halves, short times)
{
	return (vs32)_mm256_madd_epi16((__m256i)halves, _mm256_set1_epi16(times));
}

/* Sums of limbs `limb` to limb + limbs - 1 of block b for the first `rows` rows and `vectors` vectors of columns from v on. */
ALWAYS_INLINE void sum_limbs(const struct bytes_panels *t, size_t b, size_t all, size_t limb, size_t limbs, size_t rows, size_t v,
                             size_t vectors, vu16 sum[2][BYTES_MR][INT16_VECTORS])
{
	const uint32_t *a = t->a + (b * all + limb) * BYTES_LIMB * BYTES_MR;
	const uint8_t *codes = t->codes + (b * FP4_WORDS * INT16_VECTORS + v) * VECTOR_BYTES;

	HIDE_ORIGIN(a);
#pragma GCC unroll 2
	for (size_t l = 0; l < limbs; l++)
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
			for (size_t i = 0; i < vectors; i++)
				sum[l][r][i] = (vu16)splat(a[l * BYTES_LIMB * BYTES_MR + r]);
#pragma GCC unroll 4
	for (size_t word = 0; word < FP4_WORDS; word++, codes += INT16_VECTORS * VECTOR_BYTES) {
		vu8 w[INT16_VECTORS][2];

#pragma GCC unroll 2
		for (size_t i = 0; i < vectors; i++)
			decode_word((vu8)load(codes + i * VECTOR_BYTES), w[i]);
#pragma GCC unroll 2
		for (size_t odd = 0; odd < 2; odd++)
#pragma GCC unroll 2
			for (size_t l = 0; l < limbs; l++)
#pragma GCC unroll 8
				for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
					for (size_t i = 0; i < vectors; i++)
						sum[l][r][i] = add_products(sum[l][r][i], w[i][odd],
						                            a[(l * BYTES_LIMB + 1 + 2 * word + odd) * BYTES_MR + r]);
	}
}

/* Adds the sums of r of a row, which few have. */
static NOINLINE vs32 add_rest(const struct bytes_panels *t, size_t b, size_t r, size_t v, vs32 sum)
{
	struct bytes_panels row = *t;
	vu16 rest[2][BYTES_MR][INT16_VECTORS];

	row.a += r;
	sum_limbs(&row, b, BYTES_WIDE, BYTES_WIDE - 1, 1, 1, v, 1, rest);
	return sum + add_halves(rest[0][0][0], 1);
}

/* One pass over blocks first to end - 1, by codes, for the first `rows` rows, `vectors` vectors of columns at once. Those and
   limbs, of A, are constants, and so is general: the scales are not ordinary. */
ALWAYS_INLINE void few_pass(const struct bytes_panels *t, size_t first, size_t end, size_t limbs, size_t rows, size_t vectors,
                            bool general, float *c)
{
	vf32 p[BYTES_MR][INT16_VECTORS] = {0};

	for (size_t b = first; b < end; b++)
		for (size_t v = 0; v < INT16_VECTORS; v += vectors) {
			vu16 sum[2][BYTES_MR][INT16_VECTORS];
			vs32 whole[BYTES_MR * INT16_VECTORS];

			sum_limbs(t, b, limbs, 0, limbs > 1 ? 2 : 1, rows, v, vectors, sum);
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++) {
				const size_t r = i / vectors, at = i % vectors;

				whole[i] = limbs == 1 ? add_halves(sum[0][r][at], 1)
				                      : add_halves(sum[0][r][at], (short)(1 << (BYTES_HIGH + t->drop))) + add_halves(sum[1][r][at], (short)(1 << t->drop));
			}
			if (limbs > 1 && t->a_rest[b] != 0)
#pragma GCC unroll 16
				for (size_t i = 0; i < rows * vectors; i++)
					if ((t->a_rest[b] >> i / vectors & 1) != 0)
						whole[i] = add_rest(t, b, i / vectors, v + i % vectors, whole[i]);
#pragma GCC unroll 16
			for (size_t i = 0; i < rows * vectors; i++) {
				const size_t r = i / vectors, at = v + i % vectors;
				const vf32 term = __builtin_convertvector(whole[i], vf32);
				const float a_scale = t->a_scales[b * BYTES_MR + r];

				if (general) {
					float sums[LANES], part[LANES];

					store(sums, (vu32)p[r][at]);
					store(part, (vu32)(term * t->unit));
					add_scaled(sums, part, a_scale, (const uint8_t *)(t->w_scales + b * INT16_NR + at * LANES));
					p[r][at] = (vf32)load(sums);
				} else {
					const vu32 scale = load_u8(t->scale_codes + b * INT16_NR + at * LANES) << F32_SIGNIFICAND_BITS;

					p[r][at] = fma_f32(term, (vf32)scale * t->unit * splat_f32(a_scale), p[r][at]);
				}
			}
		}
#pragma GCC unroll 16
	for (size_t i = 0; i < rows * INT16_VECTORS; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / INT16_VECTORS][i % INT16_VECTORS]));
	}
}

typedef void bytes_pass(const struct bytes_panels *t, size_t first, size_t end, float *c);

/* Defines a pass as few_pass() does it, after `static`. */
#define BYTES_PASS(name, limbs, rows, vectors, general) \
	__attribute__((noinline)) void name(const struct bytes_panels *t, size_t first, size_t end, float *c) \
	{ \
		few_pass(t, first, end, limbs, rows, vectors, general, c); \
	}

#endif
