/* SPDX-License-Identifier: MIT */
#include "sized.h"

#include <string.h>

const size_t mxfp_zeros[MXFP_SIZED_MOST / sizeof(size_t)];

const void *mxfp_copy_sized(void *to, size_t bytes, size_t first, const void *from)
{
	size_t size = *(const size_t *)from;
	const unsigned char *at = from;

	if (size < first)
		return NULL;
	for (size_t i = bytes; i < size; i++)
		if (at[i] != 0)
			return NULL;
	memset(to, 0, bytes);
	memcpy(to, from, size < bytes ? size : bytes);
	*(size_t *)to = bytes;
	return to;
}
