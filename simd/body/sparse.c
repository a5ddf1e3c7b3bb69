/* SPDX-License-Identifier: MIT */
/*
 * Compresses and expands sparse codes (ref/sparse.c), one kept code after the other: of eight bits of the mask at a time
 * the ones are visited, and codes of few bits pass through a word of pending bits.
 */
#include "tier.h"

#include "body/slots.h"
#include "body/sparse.h"

/* The mask bits of the codes from k on, at most 8; those past the row are 0. */
ALWAYS_INLINE unsigned mask_bits(const uint8_t *masks, size_t k, size_t cols)
{
	return cols - k >= 8 ? masks[k / 8] : masks[k / 8] & ((1U << (cols - k)) - 1);
}

/* Loads n <= 8 bytes as a little-endian number, and stores them. */
ALWAYS_INLINE uint64_t load_little(const uint8_t *at, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, at, n);
	return x;
}

ALWAYS_INLINE void store_little(uint8_t *at, uint64_t x, size_t n)
{
	memcpy(at, &x, n);
}

/* The bytes that eight codes of a row have, or those that are left of it. */
ALWAYS_INLINE size_t bytes_from(size_t k, size_t end, unsigned bits)
{
	return end - k >= 8 ? bits : ((end - k) * bits + 7) / 8;
}

/* Codes of at most 8 bits. */
ALWAYS_INLINE void compress_bits(uint8_t *kept, size_t kept_bytes, const uint8_t *dense, const uint8_t *masks, size_t cols,
                                 unsigned bits)
{
	const uint64_t one = (UINT64_C(1) << bits) - 1;
	uint8_t *const end = kept + kept_bytes;
	uint64_t pending = 0;
	unsigned n_pending = 0;

	for (size_t k = 0; k < cols; k += 8, dense += bits) {
		const uint64_t codes = load_little(dense, bytes_from(k, cols, bits));

		for (unsigned mask = mask_bits(masks, k, cols); mask != 0; mask &= mask - 1) {
			pending |= (codes >> (unsigned)__builtin_ctz(mask) * bits & one) << n_pending;
			n_pending += bits;
			if (n_pending >= 32) {
				store_little(kept, pending, 4);
				kept += 4;
				pending >>= 32;
				n_pending -= 32;
			}
		}
	}
	for (; kept < end; pending >>= 8)
		*kept++ = (uint8_t)pending;
}

ALWAYS_INLINE void expand_bits(uint8_t *dense, const uint8_t *kept, size_t kept_bytes, const uint8_t *masks, size_t cols,
                               size_t length, unsigned bits)
{
	const uint64_t one = (UINT64_C(1) << bits) - 1;
	uint64_t pending = 0;
	unsigned n_pending = 0;
	size_t k = 0;

	for (; k < cols; k += 8, dense += bits) {
		uint64_t codes = 0;

		for (unsigned mask = mask_bits(masks, k, cols); mask != 0; mask &= mask - 1) {
			if (n_pending < bits) {
				const size_t n = kept_bytes < 4 ? kept_bytes : 4;

				pending |= load_little(kept, n) << n_pending;
				n_pending += 32;
				kept += n;
				kept_bytes -= n;
			}
			codes |= (pending & one) << (unsigned)__builtin_ctz(mask) * bits;
			pending >>= bits;
			n_pending -= bits;
		}
		store_little(dense, codes, bytes_from(k, length, bits));
	}
	if (k < length)
		memset(dense, 0, (length - k) * bits / 8);
}

/* Codes of whole bytes. */
ALWAYS_INLINE void compress_words(uint8_t *kept, size_t kept_bytes, const uint8_t *dense, const uint8_t *masks, size_t cols,
                                  size_t width)
{
	uint8_t *const end = kept + kept_bytes;

	for (size_t k = 0; k < cols; k += 8, dense += 8 * width)
		for (unsigned mask = mask_bits(masks, k, cols); mask != 0; mask &= mask - 1) {
			memcpy(kept, dense + (unsigned)__builtin_ctz(mask) * width, width);
			kept += width;
		}
	memset(kept, 0, (size_t)(end - kept));
}

ALWAYS_INLINE void expand_words(uint8_t *dense, const uint8_t *kept, const uint8_t *masks, size_t cols, size_t length,
                                size_t width)
{
	memset(dense, 0, length * width);
	for (size_t k = 0; k < cols; k += 8, dense += 8 * width)
		for (unsigned mask = mask_bits(masks, k, cols); mask != 0; mask &= mask - 1) {
			memcpy(dense + (unsigned)__builtin_ctz(mask) * width, kept, width);
			kept += width;
		}
}

ALWAYS_INLINE void compress(const struct mxfp_sparse_job *job, unsigned bits)
{
	const size_t kept_bytes = sparse_kept_bytes(job, bits);

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *dense = job->src + row * job->src_stride, *masks = job->masks + row * job->masks_stride;
		uint8_t *kept = job->dst + row * job->dst_stride;

		if (bits < 8)
			compress_bits(kept, kept_bytes, dense, masks, job->cols, bits);
		else
			compress_words(kept, kept_bytes, dense, masks, job->cols, bits / 8);
	}
}

ALWAYS_INLINE void expand(const struct mxfp_sparse_job *job, unsigned bits)
{
	const size_t block = mxfp_format_get_info(job->format)->block_length;
	const size_t kept_bytes = sparse_kept_bytes(job, bits), length = (job->cols + block - 1) / block * block;

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *kept = job->src + row * job->src_stride, *masks = job->masks + row * job->masks_stride;
		uint8_t *dense = job->dst + row * job->dst_stride;

		if (bits < 8)
			expand_bits(dense, kept, kept_bytes, masks, job->cols, length, bits);
		else
			expand_words(dense, kept, masks, job->cols, length, bits / 8);
	}
}

void TIER(expand)(const struct mxfp_sparse_job *job)
{
	sparse_run_width(job, expand);
}

void TIER(compress)(const struct mxfp_sparse_job *job)
{
	sparse_run_width(job, compress);
}
