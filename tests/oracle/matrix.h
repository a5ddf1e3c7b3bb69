/* SPDX-License-Identifier: MIT */
/* Matrices for the tests of block formats: numbers of all shapes, and room for their blocks. */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include "oracle/inputs.h"
#include "mxfp/quantize.h"

enum { MATRIX_CANARY = 0xA5 };

/* With gaps between the rows, in and out. Source, codes and scales are filled with canaries first. */
struct matrix {
	size_t rows, cols, stride;
	enum mxfp_format src_format;
	void *src;
	struct mxfp_blocks blocks;
	size_t codes_bytes, scales_bytes; /* allocated */
};

struct matrix matrix_of(enum mxfp_format format, size_t rows, size_t cols, size_t gap);
void matrix_free(struct matrix *m);

/* `bytes` bytes of canaries. */
void *matrix_allocate(size_t bytes);

/* Element (row, col) as binary32 bits. */
uint32_t matrix_element(const struct matrix *m, size_t row, size_t col);

/* Element i of a block of a shape below MATRIX_N_SHAPES whose largest exponent is about `top`, in [-126, 127].
   Only shapes below MATRIX_N_ORDINARY leave out subnormals, blocks of zeros, and NaN and Inf. */
uint32_t matrix_generated(struct random *r, int shape, int top, size_t i);

enum { MATRIX_N_ORDINARY = 4, MATRIX_N_SHAPES = 10 };

/* Fills the source with blocks of every shape and of many sizes. */
void matrix_fill(struct matrix *m, struct random *r);

/* The source, as mxfp_quantize() takes it. */
struct mxfp_matrix matrix_source(const struct matrix *m);

/* Fails if one of n bytes that no row owns has changed; the last one is beyond the rows. */
void matrix_check_gaps(const uint8_t *bytes, size_t n, size_t row_bytes, size_t stride);

#endif
