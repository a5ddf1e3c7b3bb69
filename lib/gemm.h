/* SPDX-License-Identifier: MIT */
/*
 * Inside a call of mxfp_gemm_grouped(). Products are checked and resolved (gemm_check.c), cut into units, slabs of rows
 * of A that are packed at once, and units into tiles of C; a batch of units whose packed A fits the workspace runs in
 * two parallel steps: pack A, then the tiles (gemm_run.c). How products are cut depends on sizes and kernel alone.
 */
#ifndef MXFP_LIB_GEMM_H
#define MXFP_LIB_GEMM_H

#include "args.h"
#include "kernels.h"

/* What is common to the products of a call. */
struct mxfp_gemm_call {
	const struct mxfp_kernels *kernels;
	const struct mxfp_gemm *products;
	size_t n;
	const struct mxfp_gemm_options *options; /* never NULL */
	const struct mxfp_quantize_options *quantize;
	size_t workers;
};

/* One product, checked; strides are never 0. */
struct mxfp_gemm_product {
	size_t index, m, n, k;
	struct mxfp_matrix a, w;               /* the caller's; of a packed W format, shape and scale only */
	enum mxfp_format a_format;             /* that A has in the product */
	uint32_t a_amax;                       /* of all of A, if that is a format with a tensor scale and A is quantized */
	enum mxfp_acc acc;
	const struct mxfp_gemm_kernel *kernel; /* NULL: the reference runs, on whole rows */
	bool expands;                          /* W is sparse and the kernel is not for that */
	struct mxfp_gemm_shape shape;
	size_t chunk;                          /* elements of K that panels cover */
	const uint8_t *w_panels;               /* of packed data; NULL: W is packed for each tile */
	uint8_t *c;
	size_t c_stride;
	const float *bias;
};

/* Bytes of A or W in panels: panels follow each other, and so do chunks. The reference has rows of codes (or numbers),
   then rows of scales. */
size_t mxfp_gemm_a_bytes(const struct mxfp_gemm_product *p, size_t rows);
size_t mxfp_gemm_w_bytes(const struct mxfp_gemm_product *p);

/* Checks options and what they have in common for all products. */
enum mxfp_status mxfp_gemm_check_call(struct mxfp_gemm_call *call);

/* Checks product i but for pointers, and resolves it. */
enum mxfp_status mxfp_gemm_resolve(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call, size_t i);

/* Checks the pointers of all products and the workspace. */
enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_call *call, const void *workspace, size_t bytes);

/* Checks a matrix and fills its strides; gives the bytes of its rows. For W: dense or sparse, never transposed. */
enum mxfp_status mxfp_gemm_check_matrix(struct mxfp_matrix *matrix);

/* NULL in a matrix that was checked, memory of `bytes` over it, or wrong masks. */
enum mxfp_status mxfp_gemm_check_source(const struct mxfp_matrix *matrix, const void *memory, size_t bytes);

/* Finds acc, kernel and panels for formats. */
void mxfp_gemm_choose(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call);

/* Fills p->w, w_panels and n from packed data. MXFP_ERR_PACKED. */
enum mxfp_status mxfp_gemm_unpack(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call,
                                  const struct mxfp_gemm *product);

/* Packs panels first .. first + count - 1 of W over a chunk. */
void mxfp_gemm_pack_w(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p, size_t first, size_t count,
                      size_t k0, uint8_t *panels);

/* Rows of a sparse W from row `row` on, elements from k0 on. */
struct mxfp_gemm_slice {
	size_t row, rows, k0, k;
};

/* Expands at least the slice to dense rows at `data`, without gaps; gives the matrix that they are, and moves the slice
   to its place in that. */
struct mxfp_matrix mxfp_gemm_expand(const struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                    struct mxfp_gemm_slice *slice, uint8_t *data);

/* Elements of a row that it may take more on either side. */
enum { MXFP_GEMM_EXPAND_MORE = 95 };

/* What a batch goes through. */
enum mxfp_gemm_step { MXFP_GEMM_PACK, MXFP_GEMM_TILE, MXFP_GEMM_STEPS };

/* A slab of rows of one product. */
struct mxfp_gemm_unit {
	struct mxfp_gemm_product product;
	size_t row, rows;
	size_t a_bytes;
	uint8_t *a;                    /* its packed rows */
	size_t first[MXFP_GEMM_STEPS], n[MXFP_GEMM_STEPS]; /* tasks of each step */
};

/* Bytes of the parts of a workspace; all are multiples of MXFP_GEMM_ALIGN. */
struct mxfp_gemm_layout {
	size_t units, a;               /* of the largest batch */
	size_t tile, values, w, dense, numbers, codes, scratch; /* of one worker */
	size_t worker;                 /* their sum */
	size_t total;
};

enum mxfp_status mxfp_gemm_layout(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call);

/* The next unit of the call after (*product, *row), which move on; false at the end. */
bool mxfp_gemm_next_unit(struct mxfp_gemm_unit *unit, const struct mxfp_gemm_call *call, size_t *product, size_t *row);

/* Whether a batch that has `a_bytes` in `units` units takes one more. */
bool mxfp_gemm_batch_takes(size_t units, size_t a_bytes, const struct mxfp_gemm_unit *unit);

/* Rows and columns of a tile of C, whole panels. */
size_t mxfp_gemm_tile_rows(const struct mxfp_gemm_product *p);
size_t mxfp_gemm_tile_cols(const struct mxfp_gemm_product *p);

/* A as a source to look through before it is quantized. */
struct mxfp_quantize_job mxfp_gemm_scan_job(const struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call);

void mxfp_gemm_run(const struct mxfp_gemm_call *call, const struct mxfp_gemm_layout *layout, uint8_t *workspace);

/* The public functions with the kernels of a table. */
enum mxfp_status mxfp_gemm_grouped_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products, size_t n,
                                        const struct mxfp_gemm_options *options, void *workspace, size_t bytes);
enum mxfp_status mxfp_gemm_workspace_size_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products,
                                               size_t n, const struct mxfp_gemm_options *options, size_t *bytes);
enum mxfp_status mxfp_pack_with(const struct mxfp_kernels *kernels, void *packed, size_t bytes,
                                const struct mxfp_matrix *w, enum mxfp_format a_format,
                                const struct mxfp_gemm_options *options);
enum mxfp_status mxfp_pack_size_with(const struct mxfp_kernels *kernels, const struct mxfp_matrix *w,
                                     enum mxfp_format a_format, const struct mxfp_gemm_options *options,
                                     size_t *bytes);

static inline bool mxfp_is_sparse(const struct mxfp_matrix *matrix)
{
	return matrix->sparsity.n != 0 || matrix->sparsity.m != 0;
}

#endif
