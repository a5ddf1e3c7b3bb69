/* SPDX-License-Identifier: MIT */
/* Numbers near the largest of f32 whose codes decode to Inf: rules round them up (doc/numerics.md, "The ends"). */
#include "config.h"

#include "quantize/finite.h"

#include <math.h>

#include "base/library.h"
#include "base/must_succeed.h"

enum { BLOCK_MOST = 32, SCALE_NAN = 0xFF, NVFP4_NAN = 0x7F, BIAS = 127, F32_EXPONENT_END = 128 };

/* Whether blocks of that scale can hold NaN or a number past those of f32. Of NVFP4 the tensor scale tells. */
static bool may_overflow(const struct mxfp_blocks *blocks, const struct mxfp_format_info *info, uint8_t scale)
{
	if (info->tensor_scale)
		return scale == NVFP4_NAN || (blocks->tensor_scale_divides ? blocks->tensor_scale < 0x1p-100f : blocks->tensor_scale > 0x1p100f);
	return scale == SCALE_NAN || scale - BIAS + mxfp_format_get_info(info->element)->emax >= F32_EXPONENT_END;
}

bool quantize_finds_non_finite(const struct mxfp_blocks *blocks, size_t *row, size_t *col, bool *is_nan)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(blocks->format);
	struct mxfp_sizes whole, block;
	float numbers[BLOCK_MOST];

	if (blocks->cols == 0)
		return false;
	must_succeed(mxfp_blocks_size(&whole, blocks->format, 1, blocks->cols));
	must_succeed(mxfp_blocks_size(&block, blocks->format, 1, info->block_length));
	for (size_t r = 0; r < blocks->rows; r++)
		for (size_t b = 0; b < whole.scales_bytes; b++) {
			const size_t left = blocks->cols - b * info->block_length;
			struct mxfp_blocks one = *blocks;

			one.rows = 1;
			one.cols = left < info->block_length ? left : info->block_length;
			one.codes = (uint8_t *)blocks->codes + r * whole.codes_bytes + b * block.codes_bytes;
			one.scales = (uint8_t *)blocks->scales + r * whole.scales_bytes + b;
			if (!may_overflow(blocks, info, *(uint8_t *)one.scales))
				continue;
			const struct mxfp_matrix matrix = mxfp_blocks_matrix(&one);
			must_succeed(dense_dequantize(numbers, MXFP_FORMAT_F32, &matrix, ONE_THREAD));
			for (size_t i = 0; i < one.cols; i++)
				if (!isfinite(numbers[i])) {
					*row = r;
					*col = b * info->block_length + i;
					*is_nan = isnan(numbers[i]);
					return true;
				}
		}
	return false;
}
