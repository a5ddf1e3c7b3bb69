/* SPDX-License-Identifier: MIT */
/*
 * A product passes through the files of lib/gemm in this order; each file calls only those before it:
 *
 *   matrix.c   a matrix: its formats, strides and stretches of memory
 *   kernel.c   which kernel multiplies a pair of formats, and how large its panels are
 *   packed.c   the header of packed weights
 *   plan.c     checks a product and resolves it into a plan: kernel, panels, tiles
 *   check.c    checks the memory of a plan: NULL, overlap, masks, NaN and Inf in an A that is quantized
 *   pack.c     packs rows of A and W into panels
 *   layout.c   cuts plans into units and batches, and lays them out in the workspace
 *   tile.c     computes a tile of C from panels
 *   run.c      runs batches of units on all threads
 *   gemm.c     mxfp_gemm(), mxfp_gemm_grouped(), mxfp_gemm_workspace_size()
 *   weights.c  mxfp_pack(), mxfp_pack_size()
 *
 * Only the number of workers, each with memory of its own, and how wide tiles are depend on the number of threads.
 */
#ifndef MXFP_GEMM_PLAN_H
#define MXFP_GEMM_PLAN_H

#include "args.h"
#include "cpu.h"
#include "exec.h"
#include "mxfp/gemm.h"
#include "result.h"
#include "sparse.h"

/* What the products of a call share. */
struct mxfp_gemm_call {
	const struct mxfp_product *products;
	size_t n;
	const struct mxfp_gemm_options *options;      /* the caller's; not NULL once they have been checked */
	const struct mxfp_quantize_options *quantize, *c_quantize; /* likewise, of A and of C */
	uint32_t activation_parameter;                /* binary32 bits */
	const struct mxfp_kernels *kernels;
	struct mxfp_runner runner;
	size_t workers;                               /* at most this many run at once */
	struct mxfp_fp_state fp_state;                /* of the calling thread, for the epilogue */
	struct mxfp_gemm_options options_copy;        /* used if the caller's struct is of another version */
	struct mxfp_quantize_options quantize_copy, c_quantize_copy;
};

/* One product, checked except for its memory; strides are not 0. */
struct mxfp_gemm_plan {
	size_t index, m, n, k;
	struct mxfp_matrix a, w;               /* the caller's; for packed weights, w has format, shape and scale only */
	enum mxfp_format a_format;             /* of A in the product; differs from a.format if A is quantized */
	struct mxfp_quantize_job quantize;     /* for all of A as it is stored, if A is quantized */
	enum mxfp_acc acc;
	const struct mxfp_gemm_kernel *kernel; /* NULL: the reference runs, on whole rows */
	bool expands;                          /* W is sparse and must be expanded for a kernel for dense W */
	struct mxfp_gemm_shape shape;
	size_t chunk;                          /* elements of K that panels cover */
	size_t span;                           /* elements of K that are loaded at once: all, or few where all are too many */
	size_t tile_rows, tile_cols;           /* of a tile of C, at most: whole panels */
	size_t unit_rows;                      /* the most rows of A that are packed at once */
	const uint8_t *w_panels;               /* after the header of packed weights; NULL: W is packed for each tile */
	size_t w_packed_bytes;                 /* header included */
	struct mxfp_sink c;
	const float *bias;
	struct mxfp_rows gate, residual;       /* their .stride is 0 if there is none, or n is 0 */
};

/* Whether the gate or the residual of a plan is C itself. */
static inline bool mxfp_gemm_in_place(const struct mxfp_gemm_plan *p, const struct mxfp_rows *rows)
{
	return p->c.data.data != NULL && rows->data == p->c.data.data &&
	       (rows->stride == p->c.data.stride || p->m == 1) &&
	       rows->format == p->c.data.format;
}

/* Numbers that only machines take as they are. */
static inline bool mxfp_gemm_is_fp8(enum mxfp_format format)
{
	return format == MXFP_FORMAT_E4M3 || format == MXFP_FORMAT_E5M2 || format == MXFP_FORMAT_E4M3FNUZ || format == MXFP_FORMAT_E5M2FNUZ;
}

/* matrix.c */

/* Checks a dense or sparse matrix, except for its memory, and replaces strides that are 0. */
enum mxfp_status mxfp_gemm_check_matrix(struct mxfp_matrix *matrix);

/* Fills in where a checked matrix lies: data, scales, masks. Returns the number of regions. */
size_t mxfp_gemm_matrix_regions(struct mxfp_region regions[3], const struct mxfp_matrix *matrix);

/* Bytes of a row without padding: its codes or numbers, and its scales. */
struct mxfp_gemm_row {
	size_t data, scales;
};

struct mxfp_gemm_row mxfp_gemm_row(enum mxfp_format format, size_t cols);

/* kernel.c */

/* Returns the kernel for a product of these formats, or NULL if the tiers have none: then a sparse W is expanded for
   a kernel for dense W, or else the reference runs. W is dense if `sparsity` is all zero. */
const struct mxfp_gemm_kernel *mxfp_gemm_kernel(const struct mxfp_kernels *table, enum mxfp_acc acc, enum mxfp_format a,
                                                enum mxfp_format w, struct mxfp_sparsity sparsity);

/* Finds acc, kernel, shape and chunk for the formats of a plan. */
void mxfp_gemm_choose(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call);

/* Return the bytes of `rows` rows of A over k of its columns, or of all of W, in panels: chunk by chunk, panel by panel. For
   the reference these are rows of codes or numbers, then rows of scales. SIZE_MAX: overflow. */
size_t mxfp_gemm_a_bytes(const struct mxfp_gemm_plan *p, size_t rows, size_t k);
size_t mxfp_gemm_w_bytes(const struct mxfp_gemm_plan *p);

/* packed.c */

enum { MXFP_GEMM_HEADER_BYTES = 128 };

/* Writes the header of a plan's W, MXFP_GEMM_HEADER_BYTES long. */
void mxfp_gemm_write_header(void *packed, const struct mxfp_gemm_plan *p);

/* Fills p->w and w_panels from packed weights and chooses the kernel. MXFP_ERR_PACKED; MXFP_ERR_SHAPE: K differs. */
enum mxfp_status mxfp_gemm_read_packed(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                       const struct mxfp_product *product);

/* plan.c */

/* Checks the options and the array of products, and fills in the rest of the call. */
enum mxfp_status mxfp_gemm_check_options(struct mxfp_gemm_call *call, const struct mxfp_exec *exec);

/* Checks product i, except for its memory, and resolves it into a plan. */
enum mxfp_status mxfp_gemm_plan(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call, size_t i);

/* Returns about so many columns of a tile: whole panels, and whole blocks of a C that is quantized. */
size_t mxfp_gemm_tile_cols(const struct mxfp_gemm_plan *p, size_t about);

/* Checks W, and chooses the kernel it is packed for. */
enum mxfp_status mxfp_gemm_plan_weights(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        const struct mxfp_matrix *w);

/* check.c */

/* What a product writes: C, and the codes and scales of its blocks. */
enum { MXFP_GEMM_C, MXFP_GEMM_CODES, MXFP_GEMM_SCALES, MXFP_GEMM_RESULTS };

/* The memory of the results of all products, of each kind, and whether each lies after the one before it and no kind
   between others. */
struct mxfp_gemm_results {
	uintptr_t first[MXFP_GEMM_RESULTS], end[MXFP_GEMM_RESULTS];
	bool ascend;
};

struct mxfp_gemm_results mxfp_gemm_results(const struct mxfp_gemm_call *call);

/* Checks what a plan reads and writes for NULL, malformed masks, and overlap with the workspace and its own results.
   Sets *doubt if an input may overlap a result of any product. */
enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        struct mxfp_region workspace, const struct mxfp_gemm_results *results,
                                        bool *doubt);

/* Returns the first product found of which a result overlaps another result or any input, or call->n if there is none.
   O(n^2); reached only if the interval test is inconclusive. */
size_t mxfp_gemm_find_overlap(const struct mxfp_gemm_call *call);

/* Checks a W that is to be packed as mxfp_gemm_check_memory() does; `packed` is the memory that is written. */
enum mxfp_status mxfp_gemm_check_weights(const struct mxfp_matrix *w, struct mxfp_region packed);

/* Under the non-finite policy `error`, returns MXFP_ERR_NON_FINITE if an A that is quantized has a NaN or Inf. */
enum mxfp_status mxfp_gemm_check_finite(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call);

#endif
