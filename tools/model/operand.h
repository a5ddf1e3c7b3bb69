/* SPDX-License-Identifier: MIT */
/* Matrices of a product: tensors of files, quantized or not, held in memory whole. */
#ifndef TOOLS_MODEL_OPERAND_H
#define TOOLS_MODEL_OPERAND_H

#include <stdbool.h>

#include "base/error.h"
#include "model/model.h"
#include "mxfp/gemm.h"
#include "mxfp/quantize.h"

/* All zero: nothing is held. */
struct operand {
	struct model model;         /* where it comes from */
	const struct tensor *tensor; /* in it: the numbers, or the codes */
	struct mxfp_matrix matrix;
	void *data, *scales;        /* what `matrix` points at; masks lie behind kept codes */
	bool on_the_fly;            /* operand_quantize() was here */
};

/* How a matrix is wanted. */
enum operand_order {
	OPERAND_ROWS,        /* in memory row by row, whatever the file has */
	OPERAND_KEPT,        /* the same, but sparse ones as codes that are kept, and masks */
	OPERAND_ANY,         /* as the file has it: `transposed` tells */
	OPERAND_TRANSPOSED   /* the file's matrix transposed, as the file has it */
};

/*
 * Reads what `text` says: FILE or FILE:TENSOR, FILE a tensor file or a model directory. The tensor may be left out if
 * the file has one. A name of FILE that holds colons is no problem if such a file exists. Leading dimensions are rows;
 * a vector is one row. Tensors in a quantized layout (quantized.h) keep their codes; others are F32, BF16 or F16.
 * `done` is what is done to numbers, "multiplied", for the text of an error.
 * EXIT_INPUT, EXIT_IO, EXIT_MEMORY; EXIT_USAGE: quantized and wanted transposed. operand_free() after success only.
 */
int operand_read(struct operand *operand, const char *text, enum operand_order order, const char *done,
                 struct error *error);

/* Quantizes the numbers of an operand to a block format, along rows of its matrix; the numbers are released.
   EXIT_MEMORY. */
int operand_quantize(struct operand *operand, enum mxfp_format format, const struct mxfp_quantize_options *options,
                     unsigned threads, struct error *error);

void operand_free(struct operand *operand);

/* Dense blocks as a matrix for products, in the same memory. */
struct mxfp_matrix matrix_of_blocks(const struct mxfp_blocks *blocks);

#endif
