/* SPDX-License-Identifier: MIT */
/* Stores codes, one per 32-bit word, to arrays in the width of their format. */
#ifndef MXFP_BODY_STORE_H
#define MXFP_BODY_STORE_H

#include "kernels.h"

static inline void store_codes(const struct mxfp_format_info *f, uint8_t *to, const uint32_t *codes, size_t n)
{
	uint8_t part[VECTOR_BYTES];
	unsigned word_shift = f->storage_bytes == 4 ? 32 - f->bits : 0; /* tf32 is in the top bits of its word */

	for (size_t i = 0; i < n; i += LANES) {
		uint8_t *at = n - i < LANES ? part : to + i * f->storage_bytes;
		vu32 code = load(codes + i) << word_shift;

		if (f->storage_bytes == 1)
			store_u8(at, code);
		else if (f->storage_bytes == 2)
			store_u16(at, code);
		else
			store(at, code);
		if (at == part)
			memcpy(to + i * f->storage_bytes, part, (n - i) * f->storage_bytes);
	}
}

#endif
