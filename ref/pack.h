/* SPDX-License-Identifier: MIT */
/* The little-endian bit stream of block codes: code i occupies bits [i * bits, (i + 1) * bits). */
#ifndef MXFP_REF_PACK_H
#define MXFP_REF_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Packs n codes of `bits` bits (4, 6 or 8; n * bits a multiple of 8) into n * bits / 8 bytes. */
void mxfp_ref_pack(uint8_t *packed, const uint8_t *codes, size_t n, unsigned bits);

/* The inverse. */
void mxfp_ref_unpack(uint8_t *codes, const uint8_t *packed, size_t n, unsigned bits);

#endif
