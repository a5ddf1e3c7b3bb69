/* SPDX-License-Identifier: MIT */
/* Quantized tensors of a model, in whichever layout of layout.h, whoever wrote it. */
#ifndef TOOLS_MODEL_QUANTIZED_H
#define TOOLS_MODEL_QUANTIZED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "io/piece.h"
#include "model/layout.h"
#include "model/model.h"

/*
 * Finds the quantized form of the tensor `name` ("layer.weight"); *found is false if the model has no such
 * tensor or has it unquantized. EXIT_INPUT: parts are missing or do not fit each other, or the tensor is
 * quantized in a layout that is not known. EXIT_IO, EXIT_MEMORY.
 */
int quantized_find(struct quantized *quantized, bool *found, const struct model *model, const char *name,
                   struct error *error);

/* The quantized tensor that a tensor of the model is a part of: *name, from the arena, is its name, or NULL if there is
   none; the part is the one that points to the tensor. As quantized_find(). */
int quantized_owner(struct quantized *quantized, const char **name, const struct model *model,
                    const struct tensor *tensor, struct arena *arena, struct error *error);

/* Whether any tensor of the model is quantized, Q8_0 and what has a decoder included. As quantized_find(). */
int quantized_any(const struct model *model, bool *any, struct error *error);

/* Refuses a model without one: EXIT_INPUT. */
int quantized_check_any(const struct model *model, struct error *error);

/* A piece of the tensor as blocks, with memory for its codes and scales. */
struct mxfp_blocks quantized_blocks(const struct quantized *quantized, const struct piece *piece, uint8_t *codes,
                                    uint8_t *scales);

/* A piece of a sparse tensor, whole rows, without memory for its kept codes and masks, and what they need; and reads
   them and checks the masks. EXIT_MEMORY, EXIT_INPUT, EXIT_IO. */
int quantized_sparse(const struct quantized *quantized, const struct piece *piece, struct mxfp_sparse *sparse,
                     struct mxfp_sparse_sizes *size, struct error *error);
int quantized_read_kept(const struct quantized *quantized, const struct piece *piece, const struct mxfp_sparse *sparse,
                        const struct mxfp_sparse_sizes *size, struct error *error);

/* Reads the codes and scales of the piece, sparse ones expanded, and tells how many bytes that were. EXIT_IO;
   EXIT_MEMORY; EXIT_INPUT, also for malformed masks. */
int quantized_read(const struct quantized *quantized, const struct piece *piece, const struct mxfp_blocks *blocks,
                   uint64_t *n_bytes, struct error *error);

/* malloc'ed: what the columns of the decoded weight are multiplied by, LAYOUT_PRE_QUANT_SCALE; *factors is NULL if there is
   none. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int quantized_read_pre_quant_scale(const struct quantized *quantized, float **factors, struct error *error);

/* malloc'ed: the tensor scales, n_scales of them. EXIT_IO, EXIT_MEMORY. */
int quantized_read_tensor_scales(const struct quantized *quantized, float **scales, struct error *error);

/* Whether the scale of a block in this block format is NaN, and with it all of the block. */
bool quantized_scale_is_nan(enum mxfp_format format, uint8_t byte);

#endif
