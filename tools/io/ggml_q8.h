/* SPDX-License-Identifier: MIT */
/*
 * Blocks of ggml's Q8_0 (ggml/src/ggml-quants.c): a scale d in f16, little-endian, and 32 int8 codes q; numbers are
 * d * q, exact in binary32.
 */
#ifndef TOOLS_IO_GGML_Q8_H
#define TOOLS_IO_GGML_Q8_H

#include <stddef.h>
#include <stdint.h>

enum { Q8_0_ELEMENTS = 32, Q8_0_BYTES = 34 };

void q8_0_decode(float *x, const uint8_t *blocks, size_t n_blocks);

/* Encodes blocks as ggml does: d is amax / 127 in binary32, and q is x times 1/d rounded to nearest, ties away from
   zero. Then d is rounded to f16, to nearest even, and becomes Inf past the largest f16. Where ggml's behavior is
   undefined, q is 0: for numbers that are not finite, and if 1/d overflows. */
void q8_0_encode(uint8_t *blocks, const float *x, size_t n_blocks);

#endif
