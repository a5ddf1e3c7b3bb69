/* SPDX-License-Identifier: MIT */
/*
 * Compressing and expanding sparse codes of 4, 6 or 8 bits (ref/sparse.c) in general registers, x86 with BMI2: pdep
 * spreads kept codes to where the mask has ones, pext gathers them. The masks of a row are one stream of bits, so
 * groups do not matter here, only that no 16 neighbors keep more than 8.
 */
#ifndef MXFP_AVX512_SPARSE_BITS_H
#define MXFP_AVX512_SPARSE_BITS_H

#include <immintrin.h>

#include "kernels.h"
#include "body/vector.h"

/* A row's codes: the width is a constant where functions of it are inlined. */
struct sparse_codes {
	unsigned bits;
	size_t cols, end; /* codes; with the padding of blocks */
};

/* Codes that are taken at a time: those of a mask of as many bits. */
ALWAYS_INLINE unsigned sparse_step(unsigned bits)
{
	return bits == 4 ? 16 : 8;
}

/* All bits of the codes that the mask names. */
ALWAYS_INLINE uint64_t sparse_fields(unsigned bits, uint64_t mask)
{
	const uint64_t first = bits == 4 ? UINT64_C(0x1111111111111111) :
	                       bits == 6 ? UINT64_C(0x041041041041) : UINT64_C(0x0101010101010101);

	return _pdep_u64(mask, first) * ((UINT64_C(1) << bits) - 1);
}

/* Up to 8 bytes; what is missing is 0. */
ALWAYS_INLINE uint64_t sparse_load(const uint8_t *at, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, at, n);
	return x;
}

/* The mask bits of codes k and after. */
ALWAYS_INLINE uint64_t sparse_mask(const struct sparse_codes *c, const uint8_t *masks, size_t k)
{
	const size_t left = c->cols - k;

	if (left >= sparse_step(c->bits))
		return sparse_load(masks + k / 8, sparse_step(c->bits) / 8);
	return sparse_load(masks + k / 8, (left + 7) / 8) & ((UINT64_C(1) << left) - 1);
}

/* kept_bytes: of the row; nothing past them is read. */
ALWAYS_INLINE void sparse_expand_row(const struct sparse_codes *c, const uint8_t *masks, const uint8_t *kept,
                                     size_t kept_bytes, uint8_t *dense)
{
	const size_t step = sparse_step(c->bits), bytes = step * c->bits / 8;
	size_t at = 0, k = 0;

	for (; k < c->cols; k += step, dense += bytes) {
		const uint64_t fields = sparse_fields(c->bits, sparse_mask(c, masks, k));
		const size_t left = kept_bytes - at / 8;
		const uint64_t some = sparse_load(kept + at / 8, left >= 8 ? 8 : left) >> at % 8;
		const uint64_t codes = _pdep_u64(some, fields);

		at += (size_t)__builtin_popcountll(fields);
		memcpy(dense, &codes, k + step <= c->end ? bytes : (c->end - k) * c->bits / 8);
	}
	if (k < c->end)
		memset(dense, 0, (c->end - k) * c->bits / 8);
}

/* groups * n codes are stored, those past cols as 0. */
ALWAYS_INLINE void sparse_compress_row(const struct sparse_codes *c, const uint8_t *masks, uint8_t *kept,
                                       size_t kept_bytes, const uint8_t *dense)
{
	const size_t step = sparse_step(c->bits), bytes = step * c->bits / 8;
	uint8_t *const kept_end = kept + kept_bytes;
	uint64_t pending = 0;
	unsigned n_pending = 0;

	for (size_t k = 0; k < c->cols; k += step, dense += bytes) {
		const uint64_t fields = sparse_fields(c->bits, sparse_mask(c, masks, k));
		const size_t n = c->cols - k < step ? ((c->cols - k) * c->bits + 7) / 8 : bytes;

		pending |= _pext_u64(sparse_load(dense, n), fields) << n_pending;
		n_pending += (unsigned)__builtin_popcountll(fields);
		if (n_pending >= 32) {
			memcpy(kept, &pending, 4);
			kept += 4;
			pending >>= 32;
			n_pending -= 32;
		}
	}
	for (; kept < kept_end; pending >>= 8)
		*kept++ = (uint8_t)pending;
}

/* Bytes of a row of kept codes. */
ALWAYS_INLINE size_t sparse_kept_bytes(struct mxfp_sparsity sparsity, size_t cols, unsigned bits)
{
	return ((cols + sparsity.m - 1) / sparsity.m * sparsity.n * bits + 7) / 8;
}

/* Bits of a stored code. */
ALWAYS_INLINE unsigned sparse_code_bits(const struct mxfp_format_info *info)
{
	return info->kind == MXFP_KIND_BLOCK ? mxfp_format_info(info->element)->bits : 8 * info->storage_bytes;
}

#endif
