/* SPDX-License-Identifier: MIT */
/* The number of formats, which must not be compiled into callers, and the sizes of codes and stride units. */
#ifndef MXFP_LIB_FORMAT_H
#define MXFP_LIB_FORMAT_H

#include "mxfp/format.h"

enum {
	MXFP_N_FORMATS = 0
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) +1
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) +1
#include "format.def"
};

/* Returns the bits of a stored code; in a block format codes are packed. */
static inline unsigned mxfp_code_bits(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(info->element)->bits : 8 * info->storage_bytes;
}

/* Returns the bytes of a stride's unit: a number, or one byte in a block format. */
static inline size_t mxfp_stride_unit(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info->kind == MXFP_KIND_BLOCK ? 1 : info->storage_bytes;
}

#endif
