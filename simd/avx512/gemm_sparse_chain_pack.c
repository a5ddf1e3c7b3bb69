/* SPDX-License-Identifier: MIT */
/* Makes the panels of gemm_sparse_chain.h. */
#include "avx512/gemm_chain.h"
#include "avx512/gemm_sparse_chain.h"
#include "avx512/transpose.h"

enum {
	MR = SPARSE_CHAIN_MR,
	NR = SPARSE_CHAIN_NR,
	UNIT = SPARSE_CHAIN_UNIT,
	STRIDE = MXFP_GEMM_CHUNK + LANES /* not a power of two, so that rows do not share the sets of L1 */
};

size_t TIER(gemm_sparse_chain_a_bytes)(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return sizeof(struct sparse_chain_head) + sparse_chain_units(k) * UNIT * MR * sizeof(float);
}

size_t TIER(gemm_sparse_chain_w_bytes)(const struct mxfp_gemm_shape *shape, size_t k)
{
	return sparse_chain_units(k) * sparse_chain_unit_bytes(sparse_chain_tags(shape->sparsity));
}

static bool has_non_finite(const float *x, size_t n)
{
	enum { INF_OR_NAN = 0x99 };
	unsigned found = 0;

	for (size_t i = 0; i < n; i += LANES)
		found |= _mm512_fpclass_ps_mask(_mm512_loadu_ps(x + i), INF_OR_NAN);
	return found != 0;
}

/* Numbers n to `end` of rows become -0. */
static void pad(float *to, size_t rows, size_t stride, size_t n, size_t end)
{
	for (size_t row = 0; row < rows; row++)
		for (size_t k = n; k < end; k++)
			to[row * stride + k] = -0.0F;
}

/* Sixteen rows to columns of the panel; those that are not there are zeros. */
static bool pack_columns(const struct mxfp_gemm_pack_job *job, size_t first, float *to)
{
	const size_t left = job->rows > first ? job->rows - first : 0, n = left < LANES ? left : LANES;
	const size_t end = sparse_chain_units(job->k) * UNIT;
	float rows[LANES][STRIDE];

	if (n < LANES)
		memset(rows, 0, sizeof rows);
	if (n != 0)
		TIER(gemm_chain_decode)(job, job->row + first, n, rows[0], STRIDE);
	pad(rows[0], n, STRIDE, job->k, end);
	for (size_t k = 0; k < end; k += LANES) {
		__m512 x[LANES];

#pragma GCC unroll 16
		for (size_t i = 0; i < LANES; i++)
			x[i] = _mm512_loadu_ps(&rows[i][k]);
		transpose_16x16(x);
#pragma GCC unroll 16
		for (size_t i = 0; i < LANES; i++)
			_mm512_storeu_ps(to + (k + i) * MR + first, x[i]);
	}
	bool found = false;
	for (size_t row = 0; row < n; row++)
		found |= has_non_finite(rows[row], end);
	return found;
}

void TIER(gemm_sparse_chain_pack_a)(const struct mxfp_gemm_pack_job *job)
{
	const size_t end = sparse_chain_units(job->k) * UNIT;
	struct sparse_chain_head *head = job->panel;
	float *to = (float *)(head + 1);

	head->non_finite = 0;
	if (job->rows <= SPARSE_CHAIN_FEW) {
		TIER(gemm_chain_decode)(job, job->row, job->rows, to, end);
		pad(to, job->rows, end, job->k, end);
		head->non_finite = has_non_finite(to, job->rows * end);
		return;
	}
	for (size_t row = 0; row < MR; row += LANES)
		if (pack_columns(job, row, to))
			head->non_finite = 1;
}

/* Elements of the chunk of one row of W as binary32 in `numbers`, those that are not kept as +0, and their masks. */
static void expand_row(const struct mxfp_gemm_pack_job *job, size_t row, float *numbers, uint16_t *masks)
{
	const struct mxfp_matrix *m = job->matrix;
	const struct mxfp_format_info *format = mxfp_format_info(m->format);
	const bool block = format->kind == MXFP_KIND_BLOCK;
	const size_t bits = block ? mxfp_format_info(format->element)->bits : 8 * format->storage_bytes;
	const size_t groups = (job->k + m->sparsity.m - 1) / m->sparsity.m;
	const uint8_t *mask = (const uint8_t *)m->masks + row * m->masks_stride + job->k0 / 8;
	uint32_t codes[MXFP_GEMM_CHUNK];
	const struct mxfp_expand_job expand = {
		.format = m->format,
		.sparsity = m->sparsity,
		.rows = 1,
		.cols = job->k,
		.kept = (const uint8_t *)m->data + row * m->stride * (block ? 1 : format->storage_bytes) +
	                job->k0 / m->sparsity.m * m->sparsity.n * bits / 8,
		.masks = mask,
		.dense = (uint8_t *)codes,
	};
	const struct mxfp_matrix dense = {
		.format = m->format,
		.rows = 1,
		.cols = job->k,
		.data = codes,
		.scales = block ? (const uint8_t *)m->scales + row * m->scales_stride + job->k0 / format->block_length : NULL,
		.tensor_scale = m->tensor_scale,
		.tensor_scale_divides = m->tensor_scale_divides,
	};
	const struct mxfp_gemm_pack_job decode = {.shape = job->shape, .matrix = &dense, .rows = 1, .k = job->k};

	TIER(expand)(&expand);
	TIER(gemm_chain_decode)(&decode, 0, 1, numbers, 0);
	memset(masks, 0, sparse_chain_units(job->k) * sizeof *masks);
	memcpy(masks, mask, (groups * m->sparsity.m + 7) / 8);
}

/* Places and kept elements of one unit of one output; what a short row lacks is +0 at the last place, which is padding
   of A then. */
ALWAYS_INLINE void store_kept(uint8_t *unit, size_t tags, size_t n, __m512 numbers, __mmask16 mask)
{
	const __m128i place = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	uint8_t places[UNIT];
	float kept[UNIT];

	_mm_storeu_si128((__m128i *)places, _mm_mask_compress_epi8(_mm_set1_epi8(UNIT - 1), mask, place));
	_mm512_storeu_ps(kept, _mm512_maskz_compress_ps(mask, numbers));
	for (size_t t = 0; t < tags; t++) {
		const uint8_t *four = places + 4 * t;
		const uint16_t tag = (uint16_t)(four[0] | four[1] << 4 | four[2] << 8 | four[3] << 12);

		memcpy(unit + (t * NR + n) * sizeof tag, &tag, sizeof tag);
	}
	for (size_t i = 0; i < 4 * tags; i++)
		memcpy(unit + sparse_chain_tag_bytes(tags) + (i * NR + n) * sizeof(float), &kept[i], sizeof(float));
}

void TIER(gemm_sparse_chain_pack_w)(const struct mxfp_gemm_pack_job *job)
{
	const size_t tags = sparse_chain_tags(job->shape->sparsity), units = sparse_chain_units(job->k);
	float numbers[MXFP_GEMM_CHUNK] = {0};
	uint16_t masks[MXFP_GEMM_CHUNK / UNIT] = {0};

	for (size_t n = 0; n < NR; n++) {
		uint8_t *unit = job->panel;

		if (n < job->rows)
			expand_row(job, job->row + n, numbers, masks);
		else if (n == job->rows)
			memset(numbers, 0, sizeof numbers);
		for (size_t u = 0; u < units; u++, unit += sparse_chain_unit_bytes(tags))
			store_kept(unit, tags, n, _mm512_loadu_ps(numbers + u * UNIT), masks[u]);
	}
}
