/* SPDX-License-Identifier: MIT */
/* ref/pack.c on 64-bit words: packs 8 codes, one per byte, into 4 or 6 bytes and back. For little-endian machines. */
#ifndef MXFP_BODY_PACK_H
#define MXFP_BODY_PACK_H

#include <stdint.h>
#include <string.h>

static inline uint64_t pack_word(uint64_t codes, unsigned bits)
{
	if (bits == 4) {
		codes = (codes | codes >> 4) & UINT64_C(0x00FF00FF00FF00FF);
		codes = (codes | codes >> 8) & UINT64_C(0x0000FFFF0000FFFF);
		return (codes | codes >> 16) & UINT64_C(0xFFFFFFFF);
	}
	codes = (codes & UINT64_C(0x003F003F003F003F)) | (codes >> 2 & UINT64_C(0x0FC00FC00FC00FC0));
	codes = (codes & UINT64_C(0x00000FFF00000FFF)) | (codes >> 4 & UINT64_C(0x00FFF00000FFF000));
	return (codes & UINT64_C(0xFFFFFF)) | (codes >> 8 & UINT64_C(0xFFFFFF000000));
}

static inline uint64_t unpack_word(uint64_t packed, unsigned bits)
{
	if (bits == 4) {
		packed = (packed | packed << 16) & UINT64_C(0x0000FFFF0000FFFF);
		packed = (packed | packed << 8) & UINT64_C(0x00FF00FF00FF00FF);
		return (packed | packed << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
	}
	packed = (packed & UINT64_C(0xFFFFFF)) | (packed & UINT64_C(0xFFFFFF000000)) << 8;
	packed = (packed & UINT64_C(0x00000FFF00000FFF)) | (packed & UINT64_C(0x00FFF00000FFF000)) << 4;
	return (packed & UINT64_C(0x003F003F003F003F)) | (packed & UINT64_C(0x0FC00FC00FC00FC0)) << 2;
}

/* bits is a constant where these are inlined. */
ALWAYS_INLINE void pack_words(uint8_t *packed, const uint8_t *codes, size_t n, unsigned bits)
{
	for (size_t i = 0; i < n; i += 8, packed += bits) {
		uint64_t word;

		memcpy(&word, codes + i, sizeof word);
		word = pack_word(word, bits);
		memcpy(packed, &word, bits);
	}
}

ALWAYS_INLINE void unpack_words(uint8_t *codes, const uint8_t *packed, size_t n, unsigned bits)
{
	for (size_t i = 0; i < n; i += 8, packed += bits) {
		uint64_t word = 0;

		/* A copy of 6 bytes is two stores, for which the load of the word would wait; the bits above are masked off. */
		memcpy(&word, packed, bits == 6 && n - i >= 16 ? sizeof word : bits);
		word = unpack_word(word, bits);
		memcpy(codes + i, &word, sizeof word);
	}
}

/* Packs n codes of 4, 6 or 8 bits; n is a multiple of 8. */
static inline void pack_codes(uint8_t *packed, const uint8_t *codes, size_t n, unsigned bits)
{
	if (bits == 8)
		memcpy(packed, codes, n);
	else if (bits == 6)
		pack_words(packed, codes, n, 6);
	else
		pack_words(packed, codes, n, 4);
}

static inline void unpack_codes(uint8_t *codes, const uint8_t *packed, size_t n, unsigned bits)
{
	if (bits == 8)
		memcpy(codes, packed, n);
	else if (bits == 6)
		unpack_words(codes, packed, n, 6);
	else
		unpack_words(codes, packed, n, 4);
}

#endif
