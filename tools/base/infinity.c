/* SPDX-License-Identifier: MIT */
#include "base/infinity.h"

#include <string.h>

/* A code as a word: tf32 lies in the top bits of four bytes. */
static uint32_t word_of(const struct mxfp_format_info *info, uint32_t code)
{
	return code << (8 * info->storage_bytes - info->bits);
}

uint32_t infinity_word(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return word_of(info, info->max_code + 1);
}

uint32_t largest_word(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return word_of(info, info->max_code);
}

bool infinity_replace(enum mxfp_format format, void *words, size_t i, bool saturate)
{
	const size_t width = mxfp_format_get_info(format)->storage_bytes;
	const uint32_t sign = UINT32_C(1) << (8 * width - 1);
	unsigned char *at = (unsigned char *)words + i * width;
	uint32_t word;
	uint16_t half;

	memcpy(width == sizeof word ? (void *)&word : &half, at, width);
	if (width != sizeof word)
		word = half;
	if ((word & ~sign) != infinity_word(format))
		return false;
	if (saturate) {
		word = (word & sign) | largest_word(format);
		half = (uint16_t)word;
		memcpy(at, width == sizeof word ? (const void *)&word : &half, width);
	}
	return true;
}
