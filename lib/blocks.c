/* SPDX-License-Identifier: MIT */
/* mxfp_blocks_size(), and the checks that quantizing, dequantizing and products share. */
#include "blocks.h"

#include "sized.h"

static size_t block_bytes(const struct mxfp_format_info *info)
{
	return info->block_length * mxfp_format_get_info(info->element)->bits / 8;
}

enum mxfp_status mxfp_blocks_size(enum mxfp_format format, size_t rows, size_t cols, struct mxfp_sizes *size)
{
	struct mxfp_sizes s;

	if (!mxfp_is_block(format))
		return MXFP_ERR_FORMAT;
	if (size == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	s.scales_row_bytes = cols / info->block_length + (cols % info->block_length != 0);
	if (!mxfp_multiply(s.scales_row_bytes, block_bytes(info), &s.codes_row_bytes) ||
	    !mxfp_multiply(s.codes_row_bytes, rows, &s.codes_bytes) ||
	    !mxfp_multiply(s.scales_row_bytes, rows, &s.scales_bytes) || s.codes_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	*size = s;
	return MXFP_OK;
}

enum mxfp_status mxfp_check_codes(const struct mxfp_matrix *b, struct mxfp_spans *span)
{
	struct mxfp_sizes size;

	enum mxfp_status status = mxfp_blocks_size(b->format, b->rows, b->cols, &size);
	if (status != MXFP_OK)
		return status;
	span->codes_stride = b->stride != 0 ? b->stride : size.codes_row_bytes;
	span->scales_stride = b->scales_stride != 0 ? b->scales_stride : size.scales_row_bytes;
	if (!mxfp_region(&span->codes, b->data, b->rows, size.codes_row_bytes, span->codes_stride) ||
	    !mxfp_region(&span->scales, b->scales, b->rows, size.scales_row_bytes, span->scales_stride))
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}

enum mxfp_status mxfp_check_blocks(const struct mxfp_matrix *b, const void *numbers, enum mxfp_format format,
                                   size_t stride, struct mxfp_spans *span)
{
	size_t stride_bytes, elements;

	if (!mxfp_is_source(format))
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = mxfp_check_codes(b, span);
	if (status == MXFP_OK && b->rows != 0 && b->cols != 0 &&
	    (b->data == NULL || b->scales == NULL || numbers == NULL))
		status = MXFP_ERR_NULL;
	if (status != MXFP_OK)
		return status;
	const size_t width = mxfp_format_get_info(format)->storage_bytes;
	span->stride = stride != 0 ? stride : b->cols;
	if (span->stride < b->cols || !mxfp_multiply(span->stride, width, &stride_bytes) ||
	    !mxfp_multiply(b->rows, b->cols, &elements) ||
	    !mxfp_region(&span->numbers, numbers, b->rows, b->cols * width, stride_bytes))
		return MXFP_ERR_SIZE;
	if (mxfp_overlap(&span->numbers, &span->codes) || mxfp_overlap(&span->numbers, &span->scales))
		return MXFP_ERR_OVERLAP;
	return MXFP_OK;
}

const struct mxfp_matrix *mxfp_sized_matrix(const struct mxfp_matrix *matrix, struct mxfp_matrix *copy)
{
	return MXFP_SIZED(matrix, copy, masks_stride);
}

size_t mxfp_codes_offset(enum mxfp_format format, size_t stride, size_t row, size_t col)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return row * stride + col / info->block_length * block_bytes(info);
}

size_t mxfp_scales_offset(enum mxfp_format format, size_t stride, size_t row, size_t col)
{
	return row * stride + col / mxfp_format_get_info(format)->block_length;
}
