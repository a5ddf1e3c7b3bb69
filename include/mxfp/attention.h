/* SPDX-License-Identifier: MIT */
/* Attention of a sequence over a KV cache in binary32 (doc/numerics.md, section 12): scores, softmax and sums of values of one
   head after the other in a core's own caches, for one token as for a prompt. */
#ifndef MXFP_ATTENTION_H
#define MXFP_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "exec.h"
#include "export.h"
#include "matrix.h"
#include "options.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and values of a sequence. The layout is private; mxfp_attention_store() fills it. */
struct mxfp_attention_cache {
	size_t size;         /* sizeof(struct mxfp_attention_cache) */
	size_t heads;        /* of keys and of values; at least 1 */
	size_t head_cols;    /* numbers of a head; at least 1 */
	size_t capacity;     /* tokens */
	void *memory;        /* the caller's; 64-byte alignment is faster */
	size_t memory_bytes; /* at least what mxfp_attention_cache_size() says */
};

/*
 * Computes what a cache takes; its memory is ignored.
 *
 * MXFP_ERR_SHAPE  0 heads or head_cols
 */
MXFP_API enum mxfp_status mxfp_attention_cache_size(size_t *bytes, const struct mxfp_attention_cache *cache);

/*
 * Stores keys and values of keys->rows tokens from token `first` on: rows of heads * head_cols numbers in f32, head after head.
 * What was there is replaced.
 *
 * MXFP_ERR_FORMAT     keys or values not in f32, transposed or sparse
 * MXFP_ERR_SHAPE      0 heads or head_cols of the cache; keys or values of other rows or columns
 * MXFP_ERR_WORKSPACE  memory_bytes are too few
 * MXFP_ERR_SIZE       tokens past the capacity
 * MXFP_ERR_OVERLAP    keys or values in the cache
 */
MXFP_API enum mxfp_status mxfp_attention_store(const struct mxfp_attention_cache *cache, size_t first,
                                               const struct mxfp_matrix *keys, const struct mxfp_matrix *values,
                                               const struct mxfp_exec *exec);

/* All zero: scores as they are, all keys up to a query's own. */
struct mxfp_attention_options {
	size_t size;                /* sizeof(struct mxfp_attention_options) */
	struct mxfp_optional scale; /* scores are multiplied by it, usually 1 / sqrt(head_cols); none: they are not */
	size_t window;              /* the last so many keys take part, a query's own included; 0: all */
	const float *sinks;         /* one a head of queries: a score that takes part and has no value; NULL: none */
};

/*
 * Computes the workspace that mxfp_attention() takes for n tokens of `heads` heads of queries.
 *
 * MXFP_ERR_SHAPE  0 heads or head_cols of the cache; `heads` is 0 or not a multiple of cache->heads
 * MXFP_ERR_SIZE   tokens past the capacity
 */
MXFP_API enum mxfp_status mxfp_attention_workspace_size(size_t *bytes, const struct mxfp_attention_cache *cache, size_t first,
                                                        size_t heads, size_t n, const struct mxfp_attention_options *options,
                                                        const struct mxfp_exec *exec);

/*
 * Computes attention of q->rows tokens, number `first` of the sequence and following, whose keys and values have been stored. A
 * row of queries and of results, numbers in f32, has q->cols / head_cols heads, a multiple of cache->heads: head h takes keys and
 * values of head h / (heads / cache->heads). result->data may be q, with its stride.
 *
 * For query t, key j in t - window < j <= t, or j <= t without a window: s = the product of q and key j as accumulation `chain`
 * has it; w = mxfp_softmax() of these s, with the scale and the head's sink; result = the product of w and the values, of which
 * passes begin at keys that are multiples of 128. A result does not depend on the queries that are computed with it, nor on later
 * tokens.
 *
 * MXFP_ERR_FORMAT     q or the result not in f32; q transposed or sparse
 * MXFP_ERR_SHAPE      0 heads or head_cols of the cache; columns of q that are not such heads
 * MXFP_ERR_OPTION     a result with more than data
 * MXFP_ERR_SIZE       tokens past the capacity
 * MXFP_ERR_WORKSPACE  the workspace or memory_bytes are too small
 */
MXFP_API enum mxfp_status mxfp_attention(const struct mxfp_result *result, const struct mxfp_matrix *q,
                                         const struct mxfp_attention_cache *cache, size_t first,
                                         const struct mxfp_attention_options *options, void *workspace,
                                         size_t workspace_bytes, const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
