/* SPDX-License-Identifier: MIT */
/* A product of tiles, by the instructions or, where EMULATED_TILES is defined, by their emulation; and the kernel of tier
   amx on that. */
#ifndef TESTS_TILE_PRODUCT_H
#define TESTS_TILE_PRODUCT_H

#include <stdint.h>

#include "amx/tiles.h"
#include "kernels.h"

/* sum[m][n] += a[m][4 k + i] b[k][4 n + i], of `rows` rows, `cols` columns and k fours. */
struct tile_product {
	uint8_t rows, cols, fours;
	int8_t a[16][64];
	uint8_t b[16][64];
	int32_t sum[16][16];
};

static inline void tile_multiply(struct tile_product *p)
{
	_Alignas(64) struct tile_config config = {
		.palette = 1,
		.bytes = {(uint16_t)(4 * p->cols), (uint16_t)(4 * p->fours), (uint16_t)(4 * p->cols)},
		.rows = {p->rows, p->rows, p->fours},
	};

	tile_configure(&config);
	tile_load(0, p->sum, sizeof p->sum[0]);
	tile_load(1, p->a, sizeof p->a[0]);
	tile_load(2, p->b, sizeof p->b[0]);
	tile_dot(0, 1, 2);
	tile_store(0, p->sum, sizeof p->sum[0]);
	tile_release();
}

/* By the instructions. */
void mxfp_tile_product_amx(struct tile_product *p);

/* The kernel of tier amx, by the emulation. It needs avx512. */
extern const struct mxfp_gemm_kernel mxfp_gemm_int8_emulated;

#endif
