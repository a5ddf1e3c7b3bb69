/* SPDX-License-Identifier: MIT */
/* A way of quantizing that a report measures: a block format with a scale rule (MX) or a recipe (NVFP4). */
#ifndef TOOLS_VARIANT_H
#define TOOLS_VARIANT_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

struct variant {
	enum mxfp_format format;
	enum mxfp_rule rule;
	enum mxfp_recipe recipe;
	bool as_written; /* read from a file that does not say by which rule or recipe */
};

enum { VARIANTS_MAX = 64 };

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

/* True for formats whose choice is a recipe. */
bool variant_has_recipe(const struct variant *variant);

/* The rule's or the recipe's name, or "as written". */
const char *variant_choice(const struct variant *variant);

#endif
