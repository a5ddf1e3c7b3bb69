/* SPDX-License-Identifier: MIT */
/* Quantized tensors of a model, in the layout that layout.h describes, whoever wrote it. */
#ifndef TOOLS_QUANTIZED_H
#define TOOLS_QUANTIZED_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "layout.h"
#include "model.h"
#include "piece.h"

struct quantized {
	const struct layout *layout;
	bool sparse;                                /* with the masks in parts[LAYOUT_MASKS] */
	struct mxfp_sparsity sparsity;
	const struct tensor *parts[N_LAYOUT_PARTS]; /* NULL: none */
	const struct file *files[N_LAYOUT_PARTS];
	uint64_t rows, cols; /* of the tensor that was quantized: leading dimensions are those of the codes */
	float tensor_scale;
};

/*
 * Finds the quantized form of the tensor `name` ("layer.weight"); *found is false if the model has no such
 * tensor or has it unquantized. EXIT_INPUT: parts are missing or do not fit each other, or the tensor is
 * quantized in a layout that is not known. EXIT_IO, EXIT_MEMORY.
 */
int quantized_find(struct quantized *quantized, bool *found, const struct model *model, const char *name,
                   struct error *error);

/* A piece of the tensor as blocks, with memory for its codes and scales. */
struct mxfp_blocks quantized_blocks(const struct quantized *quantized, const struct piece *piece, uint8_t *codes,
                                    uint8_t *scales);

/* A piece of a sparse tensor, whole rows, without memory for its kept codes and masks, and what they need; and reads
   them and checks the masks. EXIT_MEMORY, EXIT_INPUT, EXIT_IO. */
int quantized_sparse(const struct quantized *quantized, const struct piece *piece, struct mxfp_sparse *sparse,
                     struct mxfp_sparse_sizes *size, struct error *error);
int quantized_read_kept(const struct quantized *quantized, const struct piece *piece, const struct mxfp_sparse *sparse,
                        const struct mxfp_sparse_sizes *size, struct error *error);

/* Reads the scales of the piece. EXIT_IO. */
int quantized_read_scales(const struct quantized *quantized, const struct piece *piece, void *scales,
                          struct error *error);

/* Reads the codes and scales of the piece, sparse ones expanded, and tells how many bytes that were. EXIT_IO;
   EXIT_MEMORY; EXIT_INPUT, also for masks that are none. */
int quantized_read(const struct quantized *quantized, const struct piece *piece, const struct mxfp_blocks *blocks,
                   uint64_t *n_bytes, struct error *error);

#endif
