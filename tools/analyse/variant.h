/* SPDX-License-Identifier: MIT */
/* What a report measures: weights in a block format by a scale rule (MX) or a recipe (NVFP4), pruned before or not, or
   weights that are only pruned. */
#ifndef TOOLS_ANALYSE_VARIANT_H
#define TOOLS_ANALYSE_VARIANT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/sparsity.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

struct variant {
	enum mxfp_format format;       /* f32: pruned and not quantized */
	enum mxfp_rule rule;
	enum mxfp_recipe recipe;
	struct mxfp_sparsity sparsity; /* all zero: dense */
	bool squares;                  /* of MX formats: 32 rows share scales */
	bool mixed;                    /* of a total: tensors differ in format or sparsity; these are the first one's */
	bool as_written;               /* read from a file that does not say by which rule or recipe */
};

enum { VARIANTS_MAX = 64, VARIANT_TEXT = 64 };

struct variants {
	size_t n;
	struct variant items[VARIANTS_MAX];
};

/*
 * Makes the variants of comma-separated lists: every MX format with every rule, NVFP4 with every
 * recipe, in the order of the lists, each once. NULL stands for the default: mxfp4, nvfp4,
 * mxfp8-e4m3, mxfp6-e2m3 and mxint8; rules mse, floor, even and rceil for MXFP4 and mse for the
 * others; recipe te. EXIT_USAGE, naming the option.
 */
int variants_parse(struct variants *variants, const char *formats, const char *rules, const char *recipes,
                   struct error *error);

/* Adds each variant again, pruned, behind itself, and weights that are only pruned at the end. EXIT_USAGE: that is more
   than VARIANTS_MAX. */
int variants_prune(struct variants *variants, struct mxfp_sparsity sparsity, struct error *error);

/* False for weights that are only pruned, which have no scales. */
bool variant_is_quantized(const struct variant *variant);

/* Whether two variants have one format and one sparsity. */
bool variant_same_format(const struct variant *a, const struct variant *b);

/* Bytes that weights take. */
struct variant_storage {
	size_t codes, masks, scales; /* codes: of the dense matrix */
	size_t kept;                 /* codes that sparsity keeps */
};

/* Of rows x cols weights in a variant; raises each of `most` to what that is. False on overflow. */
bool variant_storage(struct variant_storage *storage, const struct variant *variant, size_t rows, size_t cols);
bool variant_raise_storage(struct variant_storage *most, const struct variant *variant, size_t rows, size_t cols);

/* True for formats whose choice is a recipe. */
bool variant_has_recipe(const struct variant *variant);

/* "mxfp4", or "mxfp4 4:16" if it is pruned, or "mixed", in `text`; returns text. */
const char *variant_format(const struct variant *variant, char text[VARIANT_TEXT]);

/* The rule's or the recipe's name, or "as written"; "-" if it is not quantized, or mixed. */
const char *variant_choice(const struct variant *variant);

#endif
