/* SPDX-License-Identifier: MIT */
/* Structured sparsity (doc/numerics.md, section 7), one group at a time; codes are copied bit by bit. */
#include <string.h>

#include "args.h"
#include "ref.h"

enum { GROUP_MAX = 16 };

/* Bits [at, at + n) of a little-endian bit stream; n is at most 32. */
static uint32_t get_bits(const uint8_t *stream, size_t at, unsigned n)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < n; i++)
		bits |= (uint32_t)(stream[(at + i) / 8] >> (at + i) % 8 & 1) << i;
	return bits;
}

/* Writes bits [at, at + n), which must be zero. */
static void put_bits(uint8_t *stream, size_t at, unsigned n, uint32_t bits)
{
	for (unsigned i = 0; i < n; i++)
		stream[(at + i) / 8] |= (uint8_t)((bits >> i & 1) << (at + i) % 8);
}

/* The mask of a group: an element is kept if fewer than n precede it in order of decreasing magnitude, then index. */
static uint32_t largest(const uint32_t magnitude[GROUP_MAX], struct mxfp_sparsity s)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < s.m; i++) {
		unsigned before = 0;

		for (unsigned j = 0; j < s.m; j++)
			before += magnitude[j] > magnitude[i] || (magnitude[j] == magnitude[i] && j < i);
		if (before < s.n)
			mask |= UINT32_C(1) << i;
	}
	return mask;
}

/* Prunes one group of a row: writes its mask, and its numbers to `pruned`, which may be src. */
static void prune_group(const struct mxfp_prune_job *job, size_t row, size_t group)
{
	const unsigned m = job->sparsity.m;
	const size_t width = mxfp_format_get_info(job->format)->storage_bytes, k = group * m, n = mxfp_least(m, job->cols - k);
	const uint8_t *src = job->src + row * job->src_stride + k * width;
	uint32_t magnitude[GROUP_MAX] = {0};

	for (size_t i = 0; i < n; i++) {
		if (width == sizeof(uint16_t)) {
			uint16_t code;
			memcpy(&code, src + i * width, width);
			magnitude[i] = code & 0x7FFFU;
		} else {
			memcpy(&magnitude[i], src + i * width, width);
			magnitude[i] &= 0x7FFFFFFFU;
		}
	}
	uint32_t mask = largest(magnitude, job->sparsity);
	put_bits(job->masks + row * job->masks_stride, k, m, mask);
	if (job->pruned == NULL)
		return;
	uint8_t *pruned = job->pruned + row * job->pruned_stride + k * width;
	memmove(pruned, src, n * width);
	for (size_t i = 0; i < n; i++)
		if ((mask >> i & 1) == 0)
			memset(pruned + i * width, 0, width);
}

void mxfp_prune_ref(const struct mxfp_prune_job *job)
{
	const size_t groups = mxfp_divide_up(job->cols, job->sparsity.m);

	for (size_t row = 0; row < job->rows; row++) {
		memset(job->masks + row * job->masks_stride, 0, mxfp_divide_up(groups * job->sparsity.m, 8));
		for (size_t group = 0; group < groups; group++)
			prune_group(job, row, group);
	}
}

void mxfp_compress_ref(const struct mxfp_sparse_job *job)
{
	const unsigned bits = mxfp_code_bits(job->format), n = job->sparsity.n, m = job->sparsity.m;
	const size_t groups = mxfp_divide_up(job->cols, m);

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *dense = job->src + row * job->src_stride, *masks = job->masks + row * job->masks_stride;
		uint8_t *kept = job->dst + row * job->dst_stride;
		size_t at = 0;

		memset(kept, 0, mxfp_divide_up(groups * n * bits, 8));
		for (size_t k = 0; k < groups * m; k++) {
			if (get_bits(masks, k, 1) == 0)
				continue;
			if (k < job->cols)
				put_bits(kept, at, bits, get_bits(dense, k * bits, bits));
			at += bits;
		}
	}
}

void mxfp_expand_ref(const struct mxfp_sparse_job *job)
{
	const unsigned bits = mxfp_code_bits(job->format);
	const size_t length = mxfp_format_get_info(job->format)->block_length;

	for (size_t row = 0; row < job->rows; row++) {
		const uint8_t *kept = job->src + row * job->src_stride, *masks = job->masks + row * job->masks_stride;
		uint8_t *dense = job->dst + row * job->dst_stride;
		size_t at = 0;

		memset(dense, 0, mxfp_divide_up(mxfp_divide_up(job->cols, length) * length * bits, 8));
		for (size_t k = 0; k < job->cols; k++) {
			if (get_bits(masks, k, 1) == 0)
				continue;
			put_bits(dense, k * bits, bits, get_bits(kept, at, bits));
			at += bits;
		}
	}
}
