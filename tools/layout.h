/* SPDX-License-Identifier: MIT */
/*
 * How a quantized tensor lies in a file: the layout of compressed-tensors, and the same naming where that has
 * no name for a format. A tensor NAME [..., N, K] becomes
 *
 *   NAME_packed        U8 [..., N, K * bits / 8]   4- and 6-bit codes; or, with 8-bit codes,
 *   NAME               F8_E4M3, F8_E5M2 or I8 [..., N, K]
 *   NAME_scale         U8 (E8M0) [..., N, K / 32], NVFP4: F8_E4M3 [..., N, K / 16]
 *   NAME_global_scale  F32 [1], NVFP4 only: decoded numbers are divided by it
 *
 * and with sparsity n:m, instead of the codes,
 *
 *   NAME_sparse        U8 [..., N, bytes]          codes that are kept, as mxfp/sparse.h has them
 *   NAME_mask          U8 [..., N, bytes]          which they are; the metadata LAYOUT_SPARSITY says n:m
 *
 * in the order of codes that mxfp/quantize.h defines. Rows whose length is no multiple of the block are held
 * padded with zeros to whole blocks, and the metadata LAYOUT_COLS NAME of their file says K.
 */
#ifndef TOOLS_LAYOUT_H
#define TOOLS_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "error.h"
#include "file.h"
#include "mxfp/format.h"
#include "mxfp/options.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"
#include "piece.h"

#define LAYOUT_PACKED "_packed"
#define LAYOUT_SPARSE "_sparse"
#define LAYOUT_MASK "_mask"
#define LAYOUT_SCALE "_scale"
#define LAYOUT_GLOBAL_SCALE "_global_scale"
#define LAYOUT_SPARSITY "mxfp.sparsity" /* metadata key */
#define LAYOUT_TENSOR "mxfp.tensor." /* metadata key of a tensor quantized otherwise than most, before its name */
#define LAYOUT_COLS "mxfp.cols." /* metadata key of a padded tensor's K, before its name */

struct layout {
	enum mxfp_format format;
	const char *name;          /* "mxfp4-pack-quantized": `format` in config.json */
	bool known;                /* compressed-tensors has this name; otherwise it is ours */
	bool packed;               /* codes are in NAME_packed */
	enum dtype codes, scales;
};

/* The layout of a block format; NULL for an element format. */
const struct layout *layout_of(enum mxfp_format format);

/* The layout that config.json calls by this name, or NULL. */
const struct layout *layout_named(const char *name);

enum layout_part { LAYOUT_CODES, LAYOUT_SCALES, LAYOUT_TENSOR_SCALE, LAYOUT_MASKS, N_LAYOUT_PARTS };

/* A layout and a sparsity: what decides about the parts. */
struct layout_choice {
	const struct layout *layout;
	struct mxfp_sparsity sparsity; /* all zero: dense */
};

/* Whether tensors have this part. */
bool layout_has(const struct layout_choice *choice, enum layout_part part);

/* Name, dtype and shape of a part of a quantized tensor, from the arena; false without memory. */
bool layout_describe(const struct layout_choice *choice, enum layout_part part, const struct tensor *source,
                     struct arena *arena, struct tensor *described);

/* Where a piece of a matrix with rows of `cols` elements lies in the codes and scales. */
struct layout_slice {
	uint64_t codes_from, scales_from;
	struct mxfp_sizes size;
};

struct layout_slice layout_slice(enum mxfp_format format, uint64_t cols, const struct piece *piece);

/* Whether the layout can say that activations are quantized to this format when the model runs. */
bool layout_holds_activations(enum mxfp_format format);

/* Whether a recipe's scales fit: those without a tensor scale, and the one whose tensor scale divides. */
bool layout_holds_recipe(enum mxfp_recipe recipe);

/* Modules whose weights are quantized alike. */
struct layout_group {
	struct layout_choice choice;
	json_t *targets; /* array of names of modules, or of their class */
};

/* quantization_config for groups of modules, at least one, and activations of a format, or OPTION_FORMAT_NONE. Takes
   the references to `targets` and to `ignore`, an array of module names. NULL without memory. */
json_t *layout_config(const struct layout_group *groups, size_t n_groups, enum mxfp_format activations, json_t *ignore);

#endif
