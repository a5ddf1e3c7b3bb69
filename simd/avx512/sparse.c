/* SPDX-License-Identifier: MIT */
/*
 * Compresses and expands sparse codes (ref/sparse.c). Those of 4 or 6 bits use BMI2 in general registers: pdep moves
 * kept codes to the ones of the mask, pext gathers them. The masks of a row are one stream of bits, so groups do not
 * matter, only that 16 codes never keep more than 8.
 */
#include "tier.h"

#include "body/slots.h"
#include "body/sparse.h"

/* The codes of a row; `bits` is a constant where the functions below are inlined. */
struct sparse_codes {
	unsigned bits;
	size_t cols, end; /* codes, without and with the padding of blocks */
};

/* Codes processed at a time. */
ALWAYS_INLINE unsigned sparse_step(unsigned bits)
{
	return bits == 4 ? 16 : 8;
}

/* A mask of all bits of the codes in `mask`. */
ALWAYS_INLINE uint64_t sparse_fields(unsigned bits, uint64_t mask)
{
	const uint64_t first = bits == 4 ? UINT64_C(0x1111111111111111) :
	                       bits == 6 ? UINT64_C(0x041041041041) : UINT64_C(0x0101010101010101);

	return _pdep_u64(mask, first) * ((UINT64_C(1) << bits) - 1);
}

/* Loads n <= 8 bytes; the others are 0. */
ALWAYS_INLINE uint64_t sparse_load(const uint8_t *at, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, at, n);
	return x;
}

/* The mask bits of the codes from k on. */
ALWAYS_INLINE uint64_t sparse_mask(const struct sparse_codes *c, const uint8_t *masks, size_t k)
{
	const size_t left = c->cols - k;

	if (left >= sparse_step(c->bits))
		return sparse_load(masks + k / 8, sparse_step(c->bits) / 8);
	return sparse_load(masks + k / 8, (left + 7) / 8) & ((UINT64_C(1) << left) - 1);
}

/* Expands a row; nothing past the kept_bytes bytes at `kept` is read. */
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

/* Compresses a row; fills the kept_bytes bytes at `kept` with zeros past the last code. */
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

/* Codes of 8, 16 and 32 bits: a vector at a time. */

/* Codes of 8, 16 or 32 bits in a vector. */
ALWAYS_INLINE unsigned lanes_of(unsigned bits)
{
	return 8 * VECTOR_BYTES / bits;
}

ALWAYS_INLINE uint64_t first_lanes(size_t n)
{
	return _bzhi_u64(UINT64_MAX, (unsigned)n);
}

ALWAYS_INLINE __m512i load_lanes(unsigned bits, const void *at, size_t n)
{
	if (bits == 8)
		return _mm512_maskz_loadu_epi8(first_lanes(n), at);
	if (bits == 16)
		return _mm512_maskz_loadu_epi16((__mmask32)first_lanes(n), at);
	return _mm512_maskz_loadu_epi32((__mmask16)first_lanes(n), at);
}

ALWAYS_INLINE void store_lanes(unsigned bits, void *at, size_t n, __m512i x)
{
	if (bits == 8)
		_mm512_mask_storeu_epi8(at, first_lanes(n), x);
	else if (bits == 16)
		_mm512_mask_storeu_epi16(at, (__mmask32)first_lanes(n), x);
	else
		_mm512_mask_storeu_epi32(at, (__mmask16)first_lanes(n), x);
}

ALWAYS_INLINE __m512i expand_lanes(unsigned bits, uint64_t mask, __m512i x)
{
	if (bits == 8)
		return _mm512_maskz_expand_epi8(mask, x);
	if (bits == 16)
		return _mm512_maskz_expand_epi16((__mmask32)mask, x);
	return _mm512_maskz_expand_epi32((__mmask16)mask, x);
}

ALWAYS_INLINE __m512i compress_lanes(unsigned bits, uint64_t mask, __m512i x)
{
	if (bits == 8)
		return _mm512_maskz_compress_epi8(mask, x);
	if (bits == 16)
		return _mm512_maskz_compress_epi16((__mmask32)mask, x);
	return _mm512_maskz_compress_epi32((__mmask16)mask, x);
}

/* The mask bits of n codes from code k on. */
ALWAYS_INLINE uint64_t mask_of(const uint8_t *masks, size_t k, size_t n)
{
	return sparse_load(masks + k / 8, (n + 7) / 8) & first_lanes(n);
}

ALWAYS_INLINE void expand_lanes_of_row(const struct sparse_codes *c, const uint8_t *masks, const uint8_t *kept,
                                       uint8_t *dense)
{
	const size_t width = c->bits / 8, lanes = lanes_of(c->bits);

	for (size_t k = 0; k < c->end; k += lanes) {
		const size_t n = k >= c->cols ? 0 : c->cols - k < lanes ? c->cols - k : lanes;
		const uint64_t mask = n == 0 ? 0 : mask_of(masks, k, n);
		const size_t n_kept = (size_t)__builtin_popcountll(mask);

		store_lanes(c->bits, dense + k * width, c->end - k < lanes ? c->end - k : lanes,
		            expand_lanes(c->bits, mask, load_lanes(c->bits, kept, n_kept)));
		kept += n_kept * width;
	}
}

ALWAYS_INLINE void compress_lanes_of_row(const struct sparse_codes *c, const uint8_t *masks, uint8_t *kept,
                                         size_t kept_bytes, const uint8_t *dense)
{
	const size_t width = c->bits / 8, lanes = lanes_of(c->bits);
	uint8_t *const kept_end = kept + kept_bytes;

	for (size_t k = 0; k < c->cols; k += lanes) {
		const size_t n = c->cols - k < lanes ? c->cols - k : lanes;
		const uint64_t mask = mask_of(masks, k, n);
		const size_t n_kept = (size_t)__builtin_popcountll(mask);

		store_lanes(c->bits, kept, n_kept, compress_lanes(c->bits, mask, load_lanes(c->bits, dense + k * width, n)));
		kept += n_kept * width;
	}
	memset(kept, 0, (size_t)(kept_end - kept));
}

ALWAYS_INLINE void expand(const struct mxfp_sparse_job *job, unsigned bits)
{
	const size_t length = mxfp_format_get_info(job->format)->block_length;
	const struct sparse_codes c = {bits, job->cols, (job->cols + length - 1) / length * length};

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *masks = job->masks + row * job->masks_stride, *kept = job->src + row * job->src_stride;
		uint8_t *dense = job->dst + row * job->dst_stride;

		if (bits < 8)
			sparse_expand_row(&c, masks, kept, sparse_kept_bytes(job, bits), dense);
		else
			expand_lanes_of_row(&c, masks, kept, dense);
	}
}

ALWAYS_INLINE void compress(const struct mxfp_sparse_job *job, unsigned bits)
{
	const struct sparse_codes c = {.bits = bits, .cols = job->cols};
	const size_t kept_bytes = sparse_kept_bytes(job, bits);

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *masks = job->masks + row * job->masks_stride, *dense = job->src + row * job->src_stride;
		uint8_t *kept = job->dst + row * job->dst_stride;

		if (bits < 8)
			sparse_compress_row(&c, masks, kept, kept_bytes, dense);
		else
			compress_lanes_of_row(&c, masks, kept, kept_bytes, dense);
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
