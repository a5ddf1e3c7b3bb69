/* SPDX-License-Identifier: MIT */
/* The tasks of a call: packing some rows of A, and a tile of C. */
#ifndef MXFP_GEMM_TILE_H
#define MXFP_GEMM_TILE_H

#include "gemm.h"

/* What one worker has to itself: struct mxfp_gemm_layout has the sizes. */
struct mxfp_gemm_area {
	float *tile;      /* sums, as the kernel has them */
	float *values;    /* a tile row by row, for the caller's function */
	uint8_t *w;       /* panels of W, where it was not packed before */
	uint8_t *dense;   /* rows of a sparse W, expanded, for the reference */
	uint8_t *numbers; /* rows of a transposed A */
	uint8_t *codes;   /* rows of A, quantized: codes, then scales */
	uint8_t *scratch; /* of the kernel */
};

/* Panel `pack` of a unit (of the reference: row `pack`) in every chunk. */
void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area);

/* Tile `tile` of a unit, to the end: C is written. Tiles of a column follow each other. */
void mxfp_gemm_tile(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t tile,
                    struct mxfp_gemm_area *area);

#endif
