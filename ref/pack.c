/* SPDX-License-Identifier: MIT */
#include "pack.h"

void mxfp_ref_pack(uint8_t *packed, const uint8_t *codes, size_t n, unsigned bits)
{
	uint32_t pending = 0;
	unsigned n_pending = 0;

	for (size_t i = 0; i < n; i++) {
		pending |= (uint32_t)codes[i] << n_pending;
		for (n_pending += bits; n_pending >= 8; n_pending -= 8) {
			*packed++ = (uint8_t)pending;
			pending >>= 8;
		}
	}
}

void mxfp_ref_unpack(uint8_t *codes, const uint8_t *packed, size_t n, unsigned bits)
{
	uint32_t pending = 0;
	unsigned n_pending = 0;

	for (size_t i = 0; i < n; i++) {
		while (n_pending < bits) {
			pending |= (uint32_t)*packed++ << n_pending;
			n_pending += 8;
		}
		codes[i] = (uint8_t)(pending & ((1U << bits) - 1));
		pending >>= bits;
		n_pending -= bits;
	}
}
