/* SPDX-License-Identifier: MIT */
/*
 * The expected NVFP4 block by MPFR: doc/numerics.md, section 4, and the formulas of the recipes' sources,
 * written a second time. Every operation is one of MPFR's, rounded to binary32.
 */
#ifndef TESTS_ORACLE_NVFP4_H
#define TESTS_ORACLE_NVFP4_H

#include "oracle/oracle.h"

enum { NVFP4_BLOCK = 16 };

struct oracle_nvfp4 {
	struct oracle e2m1, ue4m3;
	enum mxfp_recipe recipe;
};

/* One block: up to 16 numbers of binary32, as read, to 16 codes and a scale byte. */
struct oracle_nvfp4_block {
	uint8_t codes[NVFP4_BLOCK];
	uint8_t scale;
};

void oracle_nvfp4_init(struct oracle_nvfp4 *o);
void oracle_nvfp4_clear(struct oracle_nvfp4 *o);

/* The stored tensor scale for a tensor of this amax, which is finite; *divides: it divides when it is
   decoded. */
uint32_t oracle_nvfp4_tensor_scale(const struct oracle_nvfp4 *o, uint32_t amax, bool *divides);

/* A tensor of amax `tensor_amax`; index is that of x[0]. Adds to *counts. */
void oracle_nvfp4_block(struct oracle_nvfp4_block *block, const struct oracle_nvfp4 *o, uint32_t tensor_amax,
                        const uint32_t *x, size_t n, const struct mxfp_quantize_options *options, uint64_t index,
                        struct mxfp_counts *counts);

/* (code * scale) * tensor scale, or / tensor scale. */
uint32_t oracle_nvfp4_decode(const struct oracle_nvfp4 *o, uint8_t code, uint8_t scale, uint32_t tensor_scale,
                             bool divides);

#endif
