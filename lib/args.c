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

bool mxfp_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	uintptr_t a0 = (uintptr_t)a, b0 = (uintptr_t)b;

	return a_bytes != 0 && b_bytes != 0 && (a0 <= b0 ? b0 - a0 < a_bytes : a0 - b0 < b_bytes);
}

bool mxfp_span(size_t rows, size_t row_bytes, size_t stride_bytes, size_t *span)
{
	if (stride_bytes < row_bytes)
		return false;
	if (rows == 0) {
		*span = 0;
		return true;
	}
	if (!mxfp_multiply(rows - 1, stride_bytes, span) || *span > PTRDIFF_MAX - row_bytes)
		return false;
	/* Empty rows touch nothing, whatever lies between them. */
	*span = row_bytes != 0 ? *span + row_bytes : 0;
	return true;
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
