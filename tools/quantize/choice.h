/* SPDX-License-Identifier: MIT */
/* How one tensor is quantized. */
#ifndef TOOLS_QUANTIZE_CHOICE_H
#define TOOLS_QUANTIZE_CHOICE_H

#include <stdbool.h>

#include "base/error.h"
#include "model/layout.h"
#include "mxfp/format.h"
#include "mxfp/sparse.h"

struct quantize_choice {
	enum mxfp_format format;
	struct mxfp_sparsity sparsity; /* all zero: dense */
	int rule, recipe;              /* of MX formats; of NVFP4 */
	bool squares;                  /* of MX formats: 32 rows share scales */
};

enum { QUANTIZE_SQUARE = 32 }; /* rows of a square */

/* Reads "32x32", squares, or "1x32". EXIT_USAGE, naming `where`. */
int quantize_block(bool *squares, const char *text, const char *where, struct error *error);

/* Whether a tensor that is quantized so has squares; NVFP4 has none. */
bool quantize_in_squares(const struct quantize_choice *choice);

/* Returns the band of pieces (piece.h) of such a tensor. */
size_t quantize_band(const struct quantize_choice *choice);

/* Returns how a layout holds a tensor that is quantized so. */
struct layout_choice quantize_layout(const struct layout *layout, const struct quantize_choice *choice);

/* Whether two choices are the same. */
bool quantize_same(const struct quantize_choice *a, const struct quantize_choice *b);

/* "mxfp4 mse", "nvfp4 te", "mxfp4 mse 4:16", "mxfp4 mse 32x32" in `text`; returns text. */
enum { QUANTIZE_TEXT = 96 };
const char *quantize_text(const struct quantize_choice *choice, char text[QUANTIZE_TEXT]);

/* Returns the name of its rule, or of its recipe. */
const char *quantize_how(const struct quantize_choice *choice);

#endif
