/* SPDX-License-Identifier: MIT */
/* Makes the panels of gemm_sparse_int8.h. */
#include "avx512/gemm_int8_pack.h"
#include "avx512/gemm_sparse_int8.h"

enum { NR = GEMM_INT8_NR, GROUPS = MXFP_GEMM_CHUNK / 8 };

size_t mxfp_gemm_sparse_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return gemm_int8_count(k, 32) * NR * (1 + 2 * sizeof(uint32_t) * sparse_int8_words(shape->sparsity));
}

void mxfp_gemm_sparse_int8_pack_a(const struct mxfp_gemm_pack_job *job)
{
	uint8_t *codes = (uint8_t *)job->panel + sizeof(struct gemm_int8_head);
	const size_t bytes = gemm_int8_count(job->k, GEMM_INT8_UNIT) * GEMM_INT8_MR * GEMM_INT8_UNIT;

	mxfp_gemm_int8_pack_a(job);
	for (size_t i = 0; i < bytes; i += VECTOR_BYTES)
		_mm512_store_si512(codes + i, _mm512_xor_si512(_mm512_load_si512(codes + i),
		                                               _mm512_set1_epi8((char)SPARSE_INT8_OFFSET)));
}

/* Where panels of A have the elements that a mask of 16 names, 4 bits each; of more than 4 the first. */
ALWAYS_INLINE uint16_t places(uint32_t mask)
{
	const uint64_t order = 0xFBEAD9C873625140; /* of each 8 the even ones come first */
	const uint64_t fields = _pdep_u64(mask, 0x1111111111111111) * 15;

	return (uint16_t)_pext_u64(order, fields);
}

/* Two steps of four half bytes. */
ALWAYS_INLINE uint32_t word_of(uint16_t low, uint16_t high)
{
	return _pdep_u32(low, 0x0F0F0F0F) | _pdep_u32(high, 0xF0F0F0F0);
}

/* Codes and places of a column's groups; groups that it has not are zeros. */
struct column {
	uint16_t codes[GROUPS], places[GROUPS];
};

static void load_column(struct column *column, const struct mxfp_gemm_pack_job *job, size_t row)
{
	const struct mxfp_matrix *w = job->matrix;
	const size_t m = w->sparsity.m, groups = (job->k + m - 1) / m;
	const uint8_t *codes = (const uint8_t *)w->data + row * w->stride + job->k0 / m * sizeof(uint16_t);
	const uint8_t *masks = (const uint8_t *)w->masks + row * w->masks_stride + job->k0 / 8;

	memset(column, 0, sizeof *column);
	memcpy(column->codes, codes, groups * sizeof(uint16_t));
	for (size_t g = 0; g < groups; g++)
		column->places[g] = m == 8 ? places((uint32_t)masks[g] << g % 2 * 8)
		                           : places(masks[2 * g] | (uint32_t)masks[2 * g + 1] << 8);
}

void mxfp_gemm_sparse_int8_pack_w(const struct mxfp_gemm_pack_job *job)
{
	const size_t words = sparse_int8_words(job->shape->sparsity), blocks = gemm_int8_count(job->k, 32);
	const struct mxfp_matrix *w = job->matrix;
	uint8_t *scales = job->panel, *to = scales + blocks * NR;

	for (size_t n = 0; n < NR; n++) {
		uint8_t scale[GEMM_INT8_BLOCKS] = {0}, least;
		uint32_t zero = 0; /* bits of blocks */
		struct column column = {.codes = {0}};

		if (n < job->rows) {
			load_column(&column, job, job->row + n);
			memcpy(scale, (const uint8_t *)w->scales + (job->row + n) * w->scales_stride + job->k0 / 32, blocks);
		}
		for (size_t b = 0; b < blocks; b++) {
			bool is_zero = true;

			for (size_t i = 0; i < words; i++) {
				const size_t g = (b * words + i) * 2;
				const uint32_t tags = word_of(column.places[g], column.places[g + 1]);
				const uint32_t codes = word_of(column.codes[g], column.codes[g + 1]);

				is_zero &= (codes & 0x77777777) == 0;
				memcpy(to + ((b * 2 * words + i) * NR + n) * sizeof tags, &tags, sizeof tags);
				memcpy(to + ((b * 2 * words + words + i) * NR + n) * sizeof codes, &codes, sizeof codes);
			}
			zero |= (uint32_t)is_zero << b;
		}
		even_out(scale, zero, blocks, &least);
		for (size_t b = 0; b < blocks; b++)
			scales[b * NR + n] = scale[b];
	}
}
