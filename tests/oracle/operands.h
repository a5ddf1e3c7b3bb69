/* SPDX-License-Identifier: MIT */
/*
 * Operands of products: matrices of codes and scales that no quantizer needs to have made, with blocks that are hard to
 * sum: cancellation, ties, zeros, the largest and the least numbers, NaN, Inf.
 */
#ifndef TESTS_OPERANDS_H
#define TESTS_OPERANDS_H

#include "oracle/inputs.h"
#include "mxfp/gemm.h"

/* What a matrix of numbers is drawn from. */
struct operand_range {
	int center, spread; /* exponents of e8m0 scales, or of numbers, lie in center +- spread, cut to what there is */
	bool special;       /* some rows have NaN and Inf, as elements and as scales, and any tensor scale */
	bool high;          /* blocks are of one sign and mostly of the largest elements: the largest sums there are */
};

/* A matrix whose arrays are malloc'ed and end with the last row. */
struct operand {
	struct mxfp_matrix matrix; /* strides are not 0 */
	size_t data_bytes, scales_bytes;
};

/* Formats that products read: calls with i = 0, 1, ... give them all, block formats first; false past the last. */
bool operand_format(size_t i, enum mxfp_format *format);

/* Two ranges whose products are about `sum`: it may lie anywhere in [-254, 254]. */
void operand_ranges(struct random *r, int sum, struct operand_range range[2]);

/* A matrix with a gap between its rows, of bytes in a block format, else of elements. */
struct operand operand_of(struct random *r, const struct operand_range *range, enum mxfp_format format, size_t rows,
                          size_t cols, size_t gap);
void operand_free(struct operand *o);

#endif
