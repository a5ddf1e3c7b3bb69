/* SPDX-License-Identifier: MIT */
/* The expected MX block by MPFR: doc/numerics.md, section 3, read a second time. */
#ifndef TESTS_ORACLE_MX_H
#define TESTS_ORACLE_MX_H

#include "oracle/oracle.h"

enum { MX_BLOCK = 32 };

/* s of a closed-form rule (or mse's first candidate), before clamping. amax is finite and not zero. */
int oracle_scale_unclamped(enum mxfp_rule rule, const struct oracle *element, uint32_t amax);

int oracle_scale_clamp(int s);

/* The sum of squares of n differences, 32 or 16 (an NVFP4 block), each step rounded to binary32 in the order of the
   contract. */
uint32_t oracle_squared_error(const uint32_t *d, int n);

/* One block: 32 codes, those of padding 0, and a scale byte. */
struct oracle_block {
	uint8_t codes[MX_BLOCK];
	uint8_t scale;
};

/* Its numbers in the source: n of binary32, and the index of the first in the tensor. */
struct oracle_source {
	uint32_t x[MX_BLOCK];
	size_t n;
	uint64_t index;
	const uint8_t *given; /* the scale byte of its square; NULL: a block for itself */
};

/* The scale byte of a square: of rows, at most 32, of which each has its n numbers. */
uint8_t oracle_square_scale(const struct oracle *element, const struct oracle *bf16, const struct oracle_source *rows,
                            size_t n_rows, const struct mxfp_quantize_options *options);

/* The sum of squares of 32 x 32 differences in the order of the contract. */
uint32_t oracle_square_error(uint32_t d[MX_BLOCK][MX_BLOCK]);

/* `element` and `bf16` are oracles of the block's element and of bf16. Adds to *counts. */
void oracle_block(struct oracle_block *block, const struct oracle *element, const struct oracle *bf16,
                  const struct oracle_source *source, const struct mxfp_quantize_options *options,
                  struct mxfp_counts *counts);

#endif
