/* SPDX-License-Identifier: MIT */
/*
 * Running checked plans. A plan is cut into units, which are slabs of rows of A that are packed together, and a unit
 * into tiles of C. A batch of units whose packed A fits the workspace runs in two parallel steps: packing A, then
 * computing tiles. The cut depends on the sizes and the kernel, and the width of tiles on the number of workers
 * if there are few.
 */
#ifndef MXFP_GEMM_RUN_H
#define MXFP_GEMM_RUN_H

#include "plan.h"

enum mxfp_gemm_step { MXFP_GEMM_PACK, MXFP_GEMM_TILE, MXFP_GEMM_STEPS };

/* A slab of rows of A of one product. */
struct mxfp_gemm_unit {
	const struct mxfp_gemm_plan *plan;
	size_t row, rows;
	size_t tile_cols;                                  /* at most the plan's */
	size_t a_bytes;                                    /* 0: none are packed before tiles are computed */
	uint8_t *a;                                        /* its packed rows */
	size_t first[MXFP_GEMM_STEPS], n[MXFP_GEMM_STEPS]; /* tasks of each step */
};

/* Bytes of the parts of a workspace, all multiples of MXFP_GEMM_ALIGN: the plans of all products, the units and
   packed A of the largest batch, and for each worker the parts of struct mxfp_gemm_area. */
struct mxfp_gemm_layout {
	size_t plans, units, a;
	size_t tile, values, span, w, dense, numbers, codes, scratch;
	size_t shared, worker; /* sums of the above; both 0 if there is nothing to compute */
	size_t batch_units, batch_a; /* of the batch being filled: units, and bytes of packed A */
};

/* The part of the workspace that one worker has to itself. */
struct mxfp_gemm_area {
	float *tile;      /* sums in the kernel's order */
	float *values;    /* a tile in rows, for the caller's function */
	uint8_t *a;       /* rows of A over a span of K, if that is not all of K */
	uint8_t *w;       /* panels of a W that was not packed before */
	uint8_t *dense;   /* expanded rows of a sparse W */
	uint8_t *numbers; /* rows of a transposed A */
	uint8_t *codes;   /* quantized rows of A: codes, then scales */
	uint8_t *scratch; /* the kernel's */
	struct mxfp_counts *counts; /* of the quantization of C since the last flush, not in the workspace */
};

/* pack.c */

/* Packs panel `pack` of a unit's A in every chunk; for the reference, stores row `pack`. */
void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area);

/* Packs `rows` rows of a unit, from a tile's first row on, over the span at k0 to area->a. */
void mxfp_gemm_pack_span(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t row, size_t rows, size_t k0,
                         struct mxfp_gemm_area *area);

/* Narrows the rows of a dense matrix to k elements from k0 on, where a byte and a block begin. */
void mxfp_gemm_columns(struct mxfp_matrix *m, size_t k0, size_t k);

/* Copies rows first .. first + rows - 1 of a transposed matrix to consecutive rows of `numbers`. */
void mxfp_gemm_gather(const struct mxfp_matrix *m, size_t first, size_t rows, uint8_t *numbers);

/* Packs panels first .. first + count - 1 of W over the chunk at k0. `dense` is room for mxfp_gemm_expanded_bytes(). */
void mxfp_gemm_pack_w(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first, size_t count,
                      size_t k0, uint8_t *dense, uint8_t *panels);

/* `rows` rows of a sparse W from row `row` on, k elements of each from k0 on. */
struct mxfp_gemm_slice {
	size_t row, rows, k0, k;
};

/* Expands the slice, widened to whole blocks and bytes, to dense rows at `data` without gaps. Returns these as a
   matrix, and makes row and k0 of the slice relative to it. */
struct mxfp_matrix mxfp_gemm_expand(const struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                    struct mxfp_gemm_slice *slice, uint8_t *data);

/* Returns the bytes that mxfp_gemm_expand() may write for one panel of W over a chunk. */
size_t mxfp_gemm_expanded_bytes(const struct mxfp_gemm_plan *p);

/* layout.c */

/* Returns the unit of a plan that starts at `row`, without its memory and tasks. */
struct mxfp_gemm_unit mxfp_gemm_unit(const struct mxfp_gemm_plan *p, size_t row);

/* Whether a batch of `units` units with a_bytes of packed A takes one more. */
bool mxfp_gemm_batch_takes(size_t units, size_t a_bytes, const struct mxfp_gemm_unit *unit);

/* Adds a plan to a layout that begins as {0}. */
enum mxfp_status mxfp_gemm_layout_add(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call,
                                      const struct mxfp_gemm_plan *p);

/* Fills in the sums once all plans have been added. MXFP_ERR_SIZE: overflow. */
enum mxfp_status mxfp_gemm_layout_end(struct mxfp_gemm_layout *layout, size_t products);

/* tile.c */

/* Computes tile `tile` of a unit and stores it in C. Tiles are numbered down the columns. */
void mxfp_gemm_tile(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t tile,
                    struct mxfp_gemm_area *area);

/* run.c */

/* Runs all plans, which lie at the aligned start of a workspace that holds at least one worker. */
void mxfp_gemm_run(const struct mxfp_gemm_call *call, const struct mxfp_gemm_layout *layout,
                   struct mxfp_gemm_plan *plans);

#endif
