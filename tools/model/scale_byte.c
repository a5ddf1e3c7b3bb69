/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/scale_byte.h"

bool scale_byte_is_nan(enum mxfp_format format, uint8_t byte)
{
	if (mxfp_format_info(format)->scale == MXFP_FORMAT_E8M0)
		return byte == 0xFF;
	return (byte & 0x7F) == 0x7F;
}
