/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <stdint.h>

bool mxfp_multiply(size_t a, size_t b, size_t *product)
{
	if (b != 0 && a > SIZE_MAX / b)
		return false;
	*product = a * b;
	return true;
}

bool mxfp_region(struct mxfp_region *region, const void *at, size_t rows, size_t row_bytes, size_t stride)
{
	size_t before_last = 0;

	if (stride < row_bytes ||
	    (rows != 0 && (row_bytes > PTRDIFF_MAX || !mxfp_multiply(rows - 1, stride, &before_last) ||
	                   before_last > PTRDIFF_MAX - row_bytes)))
		return false;
	/* Empty rows touch nothing, whatever lies between them. */
	*region = mxfp_bytes(at, rows != 0 && row_bytes != 0 ? before_last + row_bytes : 0);
	if (rows > 1 && stride != row_bytes && row_bytes != 0) {
		region->row_bytes = row_bytes;
		region->stride = stride;
	}
	return true;
}

enum mxfp_status mxfp_check_region(struct mxfp_region *region, const void *at, size_t rows, size_t row_bytes, size_t stride)
{
	if (mxfp_region(region, at, rows, row_bytes, stride))
		return MXFP_OK;
	return stride < row_bytes ? MXFP_ERR_STRIDE : MXFP_ERR_SIZE;
}

bool mxfp_rows_overlap(const struct mxfp_region *a, const struct mxfp_region *b)
{
	const bool a_gaps = a->row_bytes != a->bytes, b_gaps = b->row_bytes != b->bytes;
	const size_t distance = (uintptr_t)b->at - (uintptr_t)a->at, stride = a_gaps ? a->stride : b->stride;

	/* A row that is longer than the stride reaches over every gap. */
	if ((!a_gaps && !b_gaps) || (a_gaps && b_gaps && a->stride != b->stride) || a->row_bytes > stride || b->row_bytes > stride)
		return true;
	/* Rows of b begin so far behind the beginnings of rows of a, and may reach into the next, if there is one. */
	const size_t behind = distance % stride, next = distance / stride + 1;
	return behind < a->row_bytes || (behind > stride - b->row_bytes && next <= (a->bytes - a->row_bytes) / stride);
}

bool mxfp_overlap_any(const struct mxfp_region *a, const struct mxfp_region *others, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (mxfp_overlap(a, &others[i]))
			return true;
	return false;
}

bool mxfp_same_region(const struct mxfp_region *a, const struct mxfp_region *b)
{
	return a->at == b->at && a->bytes == b->bytes && a->row_bytes == b->row_bytes && a->stride == b->stride;
}

bool mxfp_is_element(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info != NULL && info->kind != MXFP_KIND_BLOCK;
}

bool mxfp_is_block(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info != NULL && info->kind == MXFP_KIND_BLOCK;
}

bool mxfp_is_source(enum mxfp_format format)
{
	return format == MXFP_FORMAT_F32 || format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16;
}

bool mxfp_option_valid(enum mxfp_option option, int value)
{
	return mxfp_option_name(option, value) != NULL;
}
