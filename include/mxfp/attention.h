/* SPDX-License-Identifier: MIT */
/* Attention of a sequence over a cache of keys and values in binary32 (doc/numerics.md, section 12): scores, softmax and sums of
   values of one head after the other in a core's own caches, for one token as for a prompt. */
#ifndef MXFP_ATTENTION_H
#define MXFP_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "exec.h"
#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and values of a sequence. They lie in panels of 32 columns, which is this library's matter:
   mxfp_attention_store() puts them there. */
struct mxfp_attention_cache {
	size_t size;         /* sizeof(struct mxfp_attention_cache), or 0 (mxfp.h) */
	size_t heads;        /* of keys and of values; at least 1 */
	size_t head_cols;    /* numbers of a head; at least 1 */
	size_t capacity;     /* tokens */
	void *memory;        /* the caller's, of floats; aligned to 64 bytes it is sooner read */
	size_t memory_bytes; /* at least what mxfp_attention_cache_size() says */
};

/* Sets *bytes to what a cache takes; its memory is ignored. MXFP_ERR_NULL; MXFP_ERR_OPTION: a cache of a newer version;
   MXFP_ERR_SIZE: 0 heads or head_cols, overflow. */
MXFP_API enum mxfp_status mxfp_attention_cache_size(const struct mxfp_attention_cache *cache, size_t *bytes);

/*
 * Stores keys and values of n tokens from token `first` on: rows of heads * head_cols numbers, head after head, which begin
 * `stride` numbers apart (0: without a gap). What was there is replaced.
 *
 * MXFP_ERR_NULL; MXFP_ERR_OPTION: exec->isa, structs of a newer version; MXFP_ERR_SIZE: as above, memory_bytes that are too few,
 * tokens past the capacity, a stride shorter than a row; MXFP_ERR_OVERLAP: keys or values in the cache.
 */
MXFP_API enum mxfp_status mxfp_attention_store(const struct mxfp_attention_cache *cache, size_t first, size_t n,
                                               const float *keys, const float *values, size_t stride,
                                               const struct mxfp_exec *exec);

/* All zero: scores as they are, all keys up to a query's own. */
struct mxfp_attention_options {
	size_t size;                  /* sizeof(struct mxfp_attention_options), or 0 (mxfp.h) */
	const float *scale;           /* scores are multiplied by it, usually 1 / sqrt(head_cols); NULL: they are not */
	size_t window;                /* the last so many keys take part, a query's own included; 0: all */
	const float *sinks;           /* one a head of queries: a score that takes part and has no value; NULL: none */
	const struct mxfp_exec *exec; /* NULL: {0} */
};

/* Sets *bytes to the workspace that mxfp_attention() with these arguments takes. Errors as there. */
MXFP_API enum mxfp_status mxfp_attention_workspace_size(const struct mxfp_attention_cache *cache, size_t heads, size_t first,
                                                        size_t n, const struct mxfp_attention_options *options,
                                                        size_t *bytes);

/*
 * Computes attention of n tokens, number `first` of the sequence and following, whose keys and values have been stored. A row of
 * queries q and of results dst has `heads` heads of head_cols numbers each, `heads` a multiple of cache->heads: head h takes
 * keys and values of head h / (heads / cache->heads). Rows are so many numbers apart (0: without a gap). dst may be q, with its
 * stride.
 *
 * For query t, key j in t - window < j <= t, or j <= t without a window: s = the product of q and key j as accumulation `chain`
 * has it; w = mxfp_softmax() of these s, with the scale and the head's sink; result = the product of w and the values, of which
 * passes begin at keys that are multiples of 128. A result does not depend on the queries that are computed with it, nor on later
 * tokens.
 *
 * MXFP_ERR_NULL; MXFP_ERR_OPTION: exec->isa, structs of a newer version; MXFP_ERR_SIZE: as above, heads that are 0 or not a
 * multiple, a workspace that is too small; MXFP_ERR_OVERLAP: dst or the workspace overlaps what is read, except as above.
 */
MXFP_API enum mxfp_status mxfp_attention(float *dst, size_t dst_stride, const float *q, size_t q_stride, size_t heads,
                                         const struct mxfp_attention_cache *cache, size_t first, size_t n,
                                         const struct mxfp_attention_options *options, void *workspace,
                                         size_t workspace_bytes);

#ifdef __cplusplus
}
#endif
#endif
