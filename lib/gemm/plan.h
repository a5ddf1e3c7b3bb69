/* SPDX-License-Identifier: MIT */
/*
 * The way of a product through lib/gemm, each file calling only those before it:
 *
 *   matrix.c   a matrix: its formats, strides and stretches of memory
 *   kernel.c   which kernel multiplies a pair of formats, and how large its panels are
 *   packed.c   the header of packed weights
 *   plan.c     a product is checked and resolved into a plan: kernel, panels, tiles
 *   check.c    the memory of a plan: NULL, overlap, masks, NaN and Inf in an A that is quantized
 *   pack.c     rows of A and W become panels
 *   layout.c   plans are cut into units and batches; what of the workspace they take
 *   tile.c     panels become a tile of C
 *   run.c      batches of units on all threads
 *   gemm.c     mxfp_gemm() and its kin
 *   weights.c  mxfp_pack()
 *
 * Nothing here depends on the number of threads but the number of workers that have memory to themselves.
 */
#ifndef MXFP_GEMM_PLAN_H
#define MXFP_GEMM_PLAN_H

#include "args.h"
#include "exec.h"

/* What is common to the products of a call. */
struct mxfp_gemm_call {
	const struct mxfp_product *products;
	size_t n;
	const struct mxfp_gemm_options *options;      /* what was given; never NULL once it has been checked */
	const struct mxfp_quantize_options *quantize; /* likewise */
	const struct mxfp_kernels *kernels;
	struct mxfp_runner runner;
	size_t workers;                               /* at most this many run at once */
	struct mxfp_gemm_options options_copy;        /* where the caller's are of another version */
	struct mxfp_quantize_options quantize_copy;
};

/* One product, checked but for its memory; strides are never 0. */
struct mxfp_gemm_plan {
	size_t index, m, n, k;
	struct mxfp_matrix a, w;               /* the caller's; of packed weights format, shape and scale only */
	enum mxfp_format a_format;             /* that A has in the product: another one than a.format if A is quantized */
	struct mxfp_quantize_job quantize;     /* how, of all of A as it is stored */
	enum mxfp_acc acc;
	const struct mxfp_gemm_kernel *kernel; /* NULL: the reference runs, on whole rows */
	bool expands;                          /* W is sparse and the kernel is not for that */
	struct mxfp_gemm_shape shape;
	size_t chunk;                          /* elements of K that panels cover */
	size_t tile_rows, tile_cols;           /* of a tile of C: whole panels */
	size_t unit_rows;                      /* of A that are packed at once, at most */
	const uint8_t *w_panels;               /* behind the header of packed weights; NULL: W is packed for each tile */
	size_t w_packed_bytes;                 /* header included */
	uint8_t *c;
	size_t c_stride;
	const float *bias;
};

/* A stretch of memory. */
struct mxfp_gemm_span {
	const void *at;
	size_t bytes;
};

/* matrix.c */

/* Checks a matrix, dense or sparse, but for its memory, and fills its strides. */
enum mxfp_status mxfp_gemm_check_matrix(struct mxfp_matrix *matrix);

/* Where a matrix that was checked lies: data, scales, masks. Returns how many these are. */
size_t mxfp_gemm_matrix_spans(struct mxfp_gemm_span spans[3], const struct mxfp_matrix *matrix);

/* Bytes of a row without padding, in codes or numbers, and in scales. */
struct mxfp_gemm_row {
	size_t data, scales;
};

struct mxfp_gemm_row mxfp_gemm_row(enum mxfp_format format, size_t cols);

static inline bool mxfp_is_sparse(const struct mxfp_matrix *matrix)
{
	return matrix->sparsity.n != 0 || matrix->sparsity.m != 0;
}

/* kernel.c */

/* The kernel for a product of these formats, W being dense if `sparsity` is all zero; NULL: the tiers have none. Then a
   sparse W is expanded for a kernel for a dense one, or else the reference runs. */
const struct mxfp_gemm_kernel *mxfp_gemm_kernel(const struct mxfp_kernels *table, enum mxfp_acc acc, enum mxfp_format a,
                                                enum mxfp_format w, struct mxfp_sparsity sparsity);

/* Finds acc, kernel, shape and chunk for the formats of a plan. */
void mxfp_gemm_choose(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call);

/* Bytes of `rows` rows of A, or of W, in panels: panels follow each other, and so do chunks. The reference has rows of
   codes (or numbers), then rows of scales. SIZE_MAX: overflow. */
size_t mxfp_gemm_a_bytes(const struct mxfp_gemm_plan *p, size_t rows);
size_t mxfp_gemm_w_bytes(const struct mxfp_gemm_plan *p);

/* packed.c */

enum { MXFP_GEMM_HEADER_BYTES = 128 };

/* Writes the header of a plan's W, MXFP_GEMM_HEADER_BYTES long. */
void mxfp_gemm_write_header(void *packed, const struct mxfp_gemm_plan *p);

/* Fills p->w and w_panels from packed weights of n rows, and chooses. MXFP_ERR_PACKED, MXFP_ERR_SIZE. */
enum mxfp_status mxfp_gemm_read_packed(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                       const struct mxfp_product *product);

/* plan.c */

/* Product i of an array, in *copy if it is of another version; NULL if it cannot be taken. */
const struct mxfp_product *mxfp_product_at(const struct mxfp_product *products, size_t i, struct mxfp_product *copy);

/* The caller's options as MXFP_SIZED() gives them. */
const struct mxfp_gemm_options *mxfp_sized_gemm_options(const struct mxfp_gemm_options *options,
                                                        struct mxfp_gemm_options *copy);

/* Checks the options, and that there are products, and fills in what the call needs to know of its options. */
enum mxfp_status mxfp_gemm_check_options(struct mxfp_gemm_call *call);

/* Checks product i but for its memory, and resolves it. */
enum mxfp_status mxfp_gemm_plan(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call, size_t i);

/* Checks W, and finds the kernel that it is packed for. */
enum mxfp_status mxfp_gemm_plan_weights(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        const struct mxfp_matrix *w);

/* check.c */

/* The memory of all results, and whether each lies behind the one before it. */
struct mxfp_gemm_results {
	uintptr_t first, end;
	bool ascend;
};

struct mxfp_gemm_results mxfp_gemm_results(const struct mxfp_gemm_call *call);

/* Checks what a plan reads and writes, for NULL, wrong masks, and overlap with the workspace. *doubt is set if a result,
   of whatever product, may overlap with something else. */
enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        struct mxfp_gemm_span workspace, const struct mxfp_gemm_results *results,
                                        bool *doubt);

/* The first product whose result overlaps with another one or with anything that is read; call->n: none. Quadratic in
   the number of products. */
size_t mxfp_gemm_find_overlap(const struct mxfp_gemm_call *call);

/* Checks what of W is read, as mxfp_gemm_check_memory() does; `packed` is written. */
enum mxfp_status mxfp_gemm_check_weights(const struct mxfp_matrix *w, struct mxfp_gemm_span packed);

/* The non-finite policy `error` for an A that is quantized. */
enum mxfp_status mxfp_gemm_check_finite(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call);

#endif
