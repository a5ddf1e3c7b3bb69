/* SPDX-License-Identifier: MIT */
/*
 * Tensors of 8-bit floats (F8_E4M3, F8_E5M2) whose scales are numbers, F32, BF16 or F16, or powers of two of a grid whose
 * columns are no whole blocks, and so no blocks of a format of the library (what is, quantized.h finds): one for the tensor, for each row, or for each cell of a grid, by the names of scaled.def. Each
 * number is the product of its code and the scale of its cell, rounded to binary32, as the loaders compute it.
 *
 * Which cells: those of the block that the configuration states (weight_block_size, block_structure) where ceil(rows / block)
 * and ceil(columns / block) are the scale's shape; else rows and columns over the scale's, which must divide. Where only the
 * configuration could tell, a model without it is refused.
 */
#ifndef TOOLS_MODEL_SCALED_H
#define TOOLS_MODEL_SCALED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/model.h"

struct scaled {
	struct tensor_decoder decoder;     /* of the numbers; it reads this struct, of which it is the first member */
	struct tensor codes, scales; /* as the files hold them */
	const struct file *codes_file, *scales_file;
	uint64_t rows, cols;        /* of each matrix of codes */
	uint64_t grid_rows, grid_cols, block_rows, block_cols; /* of scales of each matrix; of numbers in a cell */
	bool per_matrix;            /* matrices have scales of their own */
};

/* The rows of scaled.def: names of codes that end in `codes` and of what belongs to them in `part`; the last has none. */
struct scaled_way {
	const char *codes, *part;
	bool bytes; /* U8 is a power of two */
};
extern const struct scaled_way scaled_scales[], scaled_beside[];

/* The tensor named like `name` with `to` for `from` at its end; *found is NULL if there is none. EXIT_MEMORY. */
int scaled_find_like(const struct tensor **found, const struct file **file, const struct model *model, const char *name,
                     const char *from, const char *to, struct error *error);

/* A block as weight_block_size and block_structure have it, [rows, columns], or "128x128" as in older versions of
   compressed-tensors; false if it is not. */
bool scaled_block(const json_t *value, uint64_t *rows, uint64_t *cols);

/* Finds the scales of codes; *found is false if they have none, or are no 8-bit floats. EXIT_INPUT: scales that do not fit;
   EXIT_MEMORY. */
int scaled_find(struct scaled *scaled, bool *found, const struct model *model, const struct tensor *codes,
                const struct file *file, struct error *error);

/* Whether a tensor is the codes or the scales of such a pair, or stands beside them by BESIDE: *codes are its codes, or NULL. As
   scaled_find(). */
int scaled_owner(const struct tensor **codes, const struct model *model, const struct tensor *tensor, struct error *error);

/* What a decoder reads, or NULL if it is not a decoder of such codes. */
const struct scaled *scaled_of(const struct tensor_decoder *decoder);

/* The row of scales, of all matrices, that a row of numbers has. */
uint64_t scaled_grid_row(const struct scaled *scaled, uint64_t row);

/* The rows of scales of all matrices, and `n` of them from `first` on as numbers, malloc'ed, which are finite. EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY. */
uint64_t scaled_grid_rows(const struct scaled *scaled);
int scaled_read_scales(float **numbers, const struct scaled *scaled, uint64_t first, uint64_t n, struct error *error);

/* Replaces such codes by their numbers, F32 of the same name and shape, and takes their scales and what is BESIDE them out of
   the model; and likewise blocks of several matrices with tensor scales of their own (decoded.h). EXIT_INPUT for scales that do not fit, unless the caller compares files, and then they stay as they are stored;
   reading the numbers ends so for a scale that is NaN or Inf. EXIT_MEMORY. */
int model_decode_scaled(struct model *model, bool compares, struct error *error);

#endif
