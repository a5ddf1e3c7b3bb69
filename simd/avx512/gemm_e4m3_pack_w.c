/* SPDX-License-Identifier: MIT */
/* Panels of W: gemm_e4m3.h. */
#include "avx512/gemm_e4m3_load.h"

size_t mxfp_gemm_e4m3_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return gemm_e4m3_blocks(k) * (1 + gemm_e4m3_code_bytes(shape->w_format)) * GEMM_E4M3_NR;
}

/* A row of W on its way into column `column` of a panel. */
struct column {
	const struct mxfp_gemm_pack_job *job;
	size_t column, n_blocks;
	uint8_t scale[GEMM_E4M3_BLOCKS];
	bool zero[GEMM_E4M3_BLOCKS];
};

/* Where block b of the panel has its codes. */
static uint8_t *codes_of(const struct column *c, size_t b)
{
	const size_t block = gemm_e4m3_code_bytes(c->job->shape->w_format) * GEMM_E4M3_NR;

	return (uint8_t *)c->job->panel + c->n_blocks * GEMM_E4M3_NR + b * block;
}

/* Of each 8 elements the even ones, then the odd ones. */
ALWAYS_INLINE __m256i in_words(__m256i x)
{
	return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9,
	                                                                        11, 13, 15)));
}

ALWAYS_INLINE void store_words(const struct column *c, size_t b, const uint8_t *words, size_t bytes)
{
	uint8_t *to = codes_of(c, b) + c->column * 4;

	for (size_t i = 0; i < bytes; i += 4, to += GEMM_E4M3_NR * 4)
		memcpy(to, words + i, 4);
}

static NOINLINE void pack_column(struct column *c)
{
	const struct mxfp_gemm_pack_job *job = c->job;
	const enum mxfp_format format = job->shape->w_format;
	const uint8_t *scales = scales_at(job->matrix, job->row + c->column, job->k0);
	_Alignas(32) uint8_t words[GEMM_E4M3_BLOCK];

	for (size_t b = 0; b < c->n_blocks; b++) {
		const size_t k = b * GEMM_E4M3_BLOCK, n = job->k - k;
		const uint8_t *codes = codes_at(job->matrix, job->row + c->column, job->k0 + k);
		__m256i x = load_block(format, codes, n);

		c->scale[b] = format == MXFP_FORMAT_MXFP8_E4M3 && has_nan(x) ? E8M0_NAN : scales[b];
		c->zero[b] = all_zero(format, x);
		if (format == MXFP_FORMAT_MXFP4) {
			_mm_store_si128((__m128i *)words, _mm_maskz_loadu_epi8((__mmask16)low_mask((n + 1) / 2), codes));
			if (n < GEMM_E4M3_BLOCK && n % 2 != 0)
				words[n / 2] &= 0x0F;
		} else {
			_mm256_store_si256((__m256i *)words, in_words(x));
		}
		store_words(c, b, words, gemm_e4m3_code_bytes(format));
	}
}

/* A column that the matrix has not. */
static void clear_column(struct column *c)
{
	const uint8_t zeros[GEMM_E4M3_BLOCK] = {0};

	for (size_t b = 0; b < c->n_blocks; b++) {
		c->scale[b] = E8M0_BIAS;
		c->zero[b] = true;
		store_words(c, b, zeros, gemm_e4m3_code_bytes(c->job->shape->w_format));
	}
}

void mxfp_gemm_e4m3_pack_w(const struct mxfp_gemm_pack_job *job)
{
	struct column c = {.job = job, .n_blocks = gemm_e4m3_blocks(job->k)};

	for (c.column = 0; c.column < GEMM_E4M3_NR; c.column++) {
		if (c.column < job->rows)
			pack_column(&c);
		else
			clear_column(&c);
		(void)even_out(c.scale, c.zero, c.n_blocks);
		for (size_t b = 0; b < c.n_blocks; b++)
			((uint8_t *)job->panel)[b * GEMM_E4M3_NR + c.column] = c.scale[b];
	}
}
