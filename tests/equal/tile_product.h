/* SPDX-License-Identifier: MIT */
/* A product of tiles by the instructions, for comparison with their emulation, and the kernel of tier amx on that. */
#ifndef TESTS_TILE_PRODUCT_H
#define TESTS_TILE_PRODUCT_H

#include <stdint.h>

#include "kernels.h"

/* sum[m][n] += a[m][4 k + i] b[k][4 n + i], of `rows` rows, `cols` columns and k fours. */
struct tile_product {
	uint8_t rows, cols, fours;
	int8_t a[16][64];
	uint8_t b[16][64];
	int32_t sum[16][16];
};

void mxfp_tile_product_amx(struct tile_product *p);

/* The kernel of tier amx, by the emulation. It needs avx512. */
extern const struct mxfp_gemm_kernel mxfp_gemm_int8_emulated;

#endif
