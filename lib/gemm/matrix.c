/* SPDX-License-Identifier: MIT */
/* A matrix that a product reads: checks its format and strides, and finds the memory it covers. */
#include "blocks.h"
#include "plan.h"
#include "sparse.h"

static bool is_operand(enum mxfp_format format)
{
	return mxfp_is_block(format) || mxfp_is_source(format) || format == MXFP_FORMAT_TF32 || mxfp_gemm_is_fp8(format);
}

struct mxfp_gemm_row mxfp_gemm_row(enum mxfp_format format, size_t cols)
{
	struct mxfp_sizes size = {0};

	if (!mxfp_is_block(format))
		return (struct mxfp_gemm_row){cols * mxfp_format_get_info(format)->storage_bytes, 0};
	(void)mxfp_blocks_size(&size, format, 1, cols);
	return (struct mxfp_gemm_row){size.codes_row_bytes, size.scales_row_bytes};
}

/* A matrix as it is stored: rows, and the bytes of one in data, scales and masks. */
struct stored {
	size_t rows, data, scales, masks;
};

static enum mxfp_status find_stored(const struct mxfp_matrix *matrix, struct stored *s)
{
	enum mxfp_status status = MXFP_OK;
	struct mxfp_sizes size = {0};

	*s = (struct stored){.rows = matrix->transposed ? matrix->cols : matrix->rows};
	if (mxfp_is_block(matrix->format)) {
		status = mxfp_blocks_size(&size, matrix->format, matrix->rows, matrix->cols);
		s->data = size.codes_row_bytes;
		s->scales = size.scales_row_bytes;
	} else if (!mxfp_multiply(matrix->transposed ? matrix->rows : matrix->cols,
	                          mxfp_format_get_info(matrix->format)->storage_bytes, &s->data)) {
		status = MXFP_ERR_SIZE;
	}
	if (status == MXFP_OK && mxfp_is_sparse(matrix)) {
		struct mxfp_sparse_sizes kept;

		status = mxfp_sparse_size(&kept, matrix->format, matrix->sparsity, matrix->rows, matrix->cols);
		s->data = kept.codes_row_bytes;
		s->masks = kept.masks_row_bytes;
	}
	return status;
}

enum mxfp_status mxfp_gemm_check_matrix(struct mxfp_matrix *matrix)
{
	struct stored s;
	struct mxfp_region region;
	size_t stride, elements;

	if (!is_operand(matrix->format) ||
	    (matrix->transposed && (mxfp_is_block(matrix->format) || mxfp_is_sparse(matrix))))
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = find_stored(matrix, &s);
	if (status != MXFP_OK)
		return status;
	size_t unit = mxfp_stride_unit(matrix->format);
	if (matrix->stride == 0)
		matrix->stride = s.data / unit;
	if (matrix->scales_stride == 0)
		matrix->scales_stride = s.scales;
	if (matrix->masks_stride == 0)
		matrix->masks_stride = s.masks;
	if (!mxfp_multiply(matrix->stride, unit, &stride) || !mxfp_multiply(matrix->rows, matrix->cols, &elements))
		return MXFP_ERR_SIZE;
	status = mxfp_check_region(&region, matrix->data, s.rows, s.data, stride);
	if (status == MXFP_OK)
		status = mxfp_check_region(&region, matrix->scales, s.rows, s.scales, matrix->scales_stride);
	return status == MXFP_OK ? mxfp_check_region(&region, matrix->masks, s.rows, s.masks, matrix->masks_stride) : status;
}

size_t mxfp_gemm_matrix_regions(struct mxfp_region regions[3], const struct mxfp_matrix *matrix)
{
	struct stored s;

	(void)find_stored(matrix, &s);
	(void)mxfp_region(&regions[0], matrix->data, s.rows, s.data, matrix->stride * mxfp_stride_unit(matrix->format));
	(void)mxfp_region(&regions[1], matrix->scales, s.rows, s.scales, matrix->scales_stride);
	(void)mxfp_region(&regions[2], matrix->masks, s.rows, s.masks, matrix->masks_stride);
	return 3;
}
