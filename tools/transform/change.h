/* SPDX-License-Identifier: MIT */
/* What becomes of the numbers of one tensor, and the reading of them so. */
#ifndef TOOLS_TRANSFORM_CHANGE_H
#define TOOLS_TRANSFORM_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"

/* Steps in their order; a step that is NULL or 0 is none. A norm's weight is one row, a bias one column. A rotation
   multiplies each group of so many neighbours, which the rows or columns consist of, by a Hadamard matrix over the root of
   its size: a matrix that is its own inverse. */
struct change {
	const struct tensor *source;  /* NULL: the tensor stays as it is */
	const struct file *file;
	size_t rows, cols;
	bool ones;                    /* it becomes ones, because other tensors took its numbers */
	const float *fold;            /* columns times these */
	size_t rotated_cols;
	const float *col_scales;      /* columns times these powers of two */
	size_t rotated_rows;
	const float *row_scales;      /* rows times these powers of two */
};

/* Whether there are steps. */
bool change_is_any(const struct change *change);

/* Whether powers of two are the only steps. */
bool change_is_exact(const struct change *change);

/* The dtype for what it becomes: bf16 holds numbers of bf16 times powers of two; all else is f32. */
enum dtype change_dtype(const struct change *change);

/* How many rows to read at once. */
size_t change_rows(const struct change *change);

/* Reads rows from `first`, a multiple of change_rows(), on, as many as that or to the end. What no power of two could scale
   exactly is added to *rounded. EXIT_INPUT: NaN or Inf, which would spread, or a result that is too large; EXIT_IO,
   EXIT_MEMORY, signals. */
int change_read(const struct change *change, size_t first, size_t n, float *x, uint64_t *rounded, struct error *error);

/* Writes all rows. As change_read(). */
int change_write(const struct change *change, struct writer *writer, const struct tensor *target, uint64_t *rounded,
                 struct error *error);

/* Raises maxima, [cols] and [rows], to the magnitudes of the changed numbers; either may be NULL. As change_read(). */
int change_maxima(const struct change *change, float *of_cols, float *of_rows, struct error *error);

#endif
