/* SPDX-License-Identifier: MIT */
/*
 * What follows when all products have been checked. A plan is cut into units, slabs of rows of A that are packed at
 * once, and a unit into tiles of C; a batch of units whose packed A fits the workspace runs in two parallel steps: pack
 * A, then the tiles. The cut depends on sizes and kernel alone.
 */
#ifndef MXFP_GEMM_RUN_H
#define MXFP_GEMM_RUN_H

#include "plan.h"

enum mxfp_gemm_step { MXFP_GEMM_PACK, MXFP_GEMM_TILE, MXFP_GEMM_STEPS };

/* A slab of rows of one product. */
struct mxfp_gemm_unit {
	const struct mxfp_gemm_plan *plan;
	size_t row, rows;
	size_t a_bytes;
	uint8_t *a;                                        /* its packed rows */
	size_t first[MXFP_GEMM_STEPS], n[MXFP_GEMM_STEPS]; /* tasks of each step */
};

/* Bytes of the parts of a workspace, all multiples of MXFP_GEMM_ALIGN: plans of all products, units and packed A of the
   largest batch, and for each worker those of struct mxfp_gemm_area. */
struct mxfp_gemm_layout {
	size_t plans, units, a;
	size_t tile, values, w, dense, numbers, codes, scratch;
	size_t shared, worker; /* sums of those above; both 0 if there is nothing to be computed */
	size_t batch_units, batch_a; /* of the batch that is being filled */
};

/* What one worker has to itself. */
struct mxfp_gemm_area {
	float *tile;      /* sums, as the kernel has them */
	float *values;    /* a tile row by row, for the caller's function */
	uint8_t *w;       /* panels of W, where it was not packed before */
	uint8_t *dense;   /* rows of a sparse W, expanded */
	uint8_t *numbers; /* rows of a transposed A */
	uint8_t *codes;   /* rows of A, quantized: codes, then scales */
	uint8_t *scratch; /* of the kernel */
};

/* pack.c */

/* Panel `pack` of a unit (of the reference: row `pack`) in every chunk. */
void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area);

/* Panels first .. first + count - 1 of W over the chunk at k0. `dense` is room for mxfp_gemm_expanded_bytes(). */
void mxfp_gemm_pack_w(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first, size_t count,
                      size_t k0, uint8_t *dense, uint8_t *panels);

/* Rows of a sparse W from row `row` on, elements from k0 on. */
struct mxfp_gemm_slice {
	size_t row, rows, k0, k;
};

/* Expands at least the slice to dense rows at `data`, without gaps; gives the matrix that they are, and moves the slice
   to its place in that. */
struct mxfp_matrix mxfp_gemm_expand(const struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                    struct mxfp_gemm_slice *slice, uint8_t *data);

/* Bytes of one panel of a sparse W as a dense matrix, more or less; SIZE_MAX: overflow. */
size_t mxfp_gemm_expanded_bytes(const struct mxfp_gemm_plan *p);

/* layout.c */

/* The unit of a plan that starts at `row`, but for where it is and its tasks. */
struct mxfp_gemm_unit mxfp_gemm_unit(const struct mxfp_gemm_plan *p, size_t row);

/* Whether a batch that has `a_bytes` in `units` units takes one more. */
bool mxfp_gemm_batch_takes(size_t units, size_t a_bytes, const struct mxfp_gemm_unit *unit);

/* Adds a plan to a layout that begins as {0}. */
enum mxfp_status mxfp_gemm_layout_add(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call,
                                      const struct mxfp_gemm_plan *p);

/* Sums up. */
enum mxfp_status mxfp_gemm_layout_end(struct mxfp_gemm_layout *layout, size_t products);

/* tile.c */

/* Tile `tile` of a unit, to the end: C is written. Tiles of a column follow each other. */
void mxfp_gemm_tile(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t tile,
                    struct mxfp_gemm_area *area);

/* run.c */

/* Computes everything in a workspace that holds at least one worker; `plans` are at its aligned beginning. */
void mxfp_gemm_run(const struct mxfp_gemm_call *call, const struct mxfp_gemm_layout *layout,
                   struct mxfp_gemm_plan *plans);

#endif
