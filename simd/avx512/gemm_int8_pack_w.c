/* SPDX-License-Identifier: MIT */
/* W into the panels of gemm_int8.h. */
#include "avx512/gemm_int8_pack.h"
#include "avx512/transpose.h"

size_t mxfp_gemm_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return (gemm_int8_count(k, gemm_int8_w_block(shape->w_format)) +
	        gemm_int8_w_words(shape->w_format, k) * sizeof(uint32_t)) * GEMM_INT8_NR;
}

/* Words 16 group, ... of a row of W, as the panel has them: what is past k are zeros. */
ALWAYS_INLINE __m512i load_words(enum mxfp_format format, const uint8_t *codes, size_t group, size_t k)
{
	const size_t elements = gemm_int8_has_nibbles(format) ? 128 : 64, begin = group * elements;
	const size_t n = k <= begin ? 0 : k - begin < elements ? k - begin : elements;
	__m512i x;

	codes += code_bytes(format, begin);
	if (gemm_int8_has_nibbles(format)) {
		x = _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, (unsigned)(n + 1) / 2), codes);
		if (n % 2 != 0)
			x = _mm512_mask_and_epi32(x, (__mmask16)(1U << n / 8), x, _mm512_set1_epi32((1 << n % 8 * 4) - 1));
		return x;
	}
	__m256i low = load_elements(format, codes, n), high = _mm256_setzero_si256();
	if (n > GEMM_INT8_UNIT)
		high = load_elements(format, codes + code_bytes(format, GEMM_INT8_UNIT), n - GEMM_INT8_UNIT);
	x = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
	return _mm512_add_epi8(x, _mm512_set1_epi8((char)gemm_int8_offset(format)));
}

/* The bits of those blocks of 32 in this group of words that are all zeros. */
ALWAYS_INLINE uint32_t zero_blocks(enum mxfp_format format, size_t group, __m512i words)
{
	const bool nibbles = gemm_int8_has_nibbles(format);
	const size_t words_each = nibbles ? 4 : 8, n = LANES / words_each;
	__m512i value = nibbles ? _mm512_and_si512(words, _mm512_set1_epi8(0x77))
	                        : _mm512_sub_epi8(words, _mm512_set1_epi8((char)gemm_int8_offset(format)));
	uint32_t set = _mm512_test_epi32_mask(value, value), zero = 0;

	for (size_t i = 0; i < n; i++, set >>= words_each)
		zero |= (uint32_t)((set & ((1U << words_each) - 1)) == 0) << (group * n + i);
	return zero;
}

/* The codes of 16 columns of the panel, from its column `first` on; and which of their blocks are all zeros. */
ALWAYS_INLINE void pack_codes(const struct mxfp_gemm_pack_job *job, enum mxfp_format format, size_t first,
                              uint32_t zero[LANES])
{
	const struct mxfp_matrix *w = job->matrix;
	const size_t words = gemm_int8_w_words(job->shape->w_format, job->k);
	const size_t blocks = gemm_int8_count(job->k, gemm_int8_w_block(job->shape->w_format));
	uint8_t *to = (uint8_t *)job->panel + blocks * GEMM_INT8_NR + first * sizeof(uint32_t);

	for (size_t group = 0; group * LANES < words; group++) {
		__m512i v[LANES];

		for (size_t i = 0; i < LANES; i++) {
			size_t row = first + i;
			const uint8_t *codes = (const uint8_t *)w->data + code_bytes(format, job->k0);

			v[i] = load_words(format, row < job->rows ? codes + (job->row + row) * w->stride : codes, group,
			                  row < job->rows ? job->k : 0);
			zero[i] |= zero_blocks(format, group, v[i]);
		}
		transpose_16x16((__m512 *)v); /* vector types may alias */
		for (size_t i = 0; i < LANES && group * LANES + i < words; i++)
			_mm512_storeu_si512(to + (group * LANES + i) * GEMM_INT8_NR * sizeof(uint32_t), v[i]);
	}
}

/* The scales of a column, which the matrix may have not. */
static void pack_scales(const struct mxfp_gemm_pack_job *job, size_t column, uint32_t zero)
{
	const struct mxfp_matrix *w = job->matrix;
	const enum mxfp_format format = job->shape->w_format;
	const size_t length = gemm_int8_w_block(format), blocks = gemm_int8_count(job->k, length);
	const uint8_t *from = (const uint8_t *)w->scales + job->k0 / length;
	uint8_t *to = (uint8_t *)job->panel + column, scale[GEMM_INT8_BLOCKS] = {0}, least;

	if (column < job->rows)
		memcpy(scale, from + (job->row + column) * w->scales_stride, blocks);
	if (format != MXFP_FORMAT_NVFP4)
		even_out(scale, zero, blocks, &least);
	for (size_t b = 0; b < blocks; b++) {
		if (format == MXFP_FORMAT_NVFP4)
			scale[b] = (scale[b] & 0x7F) == UE4M3_NAN ? 0xFF : scale[b] & 0x7F;
		to[b * GEMM_INT8_NR] = scale[b];
	}
}

void mxfp_gemm_int8_pack_w(const struct mxfp_gemm_pack_job *job)
{
	for (size_t first = 0; first < GEMM_INT8_NR; first += LANES) {
		uint32_t zero[LANES] = {0};

		switch (job->shape->w_format) {
		case MXFP_FORMAT_MXINT8:
			pack_codes(job, MXFP_FORMAT_MXINT8, first, zero);
			break;
		case MXFP_FORMAT_MXFP6_E2M3:
			pack_codes(job, MXFP_FORMAT_MXFP6_E2M3, first, zero);
			break;
		default:
			pack_codes(job, MXFP_FORMAT_MXFP4, first, zero);
		}
		for (size_t i = 0; i < LANES; i++)
			pack_scales(job, first + i, zero[i]);
	}
}
