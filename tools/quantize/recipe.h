/* SPDX-License-Identifier: MIT */
/* Recipes, mxfp-recipe(5): JSON that says which tensors are quantized how. */
#ifndef TOOLS_QUANTIZE_RECIPE_H
#define TOOLS_QUANTIZE_RECIPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"
#include "model/pattern.h"
#include "quantize/choice.h"

#define RECIPE_NONE "none" /* of sparsity, activations */

/* What is said about how to quantize; the rest stays as it was. */
struct recipe_change {
	bool has_format, has_sparsity, has_rule, has_recipe, has_block;
	struct quantize_choice choice;
};

struct recipe_rule {
	struct patterns match;
	bool keep; /* the tensors are not quantized */
	struct recipe_change change;
};

struct recipe {
	char *path;
	json_t *json; /* owns the texts */
	struct recipe_change by_default;
	const char *activations; /* NULL: nothing is said */
	bool fuse;               /* weights that loaders fuse get one tensor scale */
	struct patterns include;
	size_t n_rules;
	struct recipe_rule *rules;
};

/* Reads a recipe; recipe_free() follows in any case. EXIT_INPUT naming the place and what is known there; EXIT_IO,
   EXIT_MEMORY. */
int recipe_read(struct recipe *recipe, const char *path, struct error *error);

/* Takes one that is in memory, with what errors call it; json_decref() comes with recipe_free(). The same. */
int recipe_take(struct recipe *recipe, const char *path, json_t *json, struct error *error);

/* Checks that every pattern matches some tensor of the model. EXIT_USAGE. */
int recipe_check(const struct recipe *recipe, const struct model *model, struct error *error);

/* The first rule that matches a tensor, or NULL. */
const struct recipe_rule *recipe_find(const struct recipe *recipe, const char *tensor);

void recipe_apply(const struct recipe_change *change, struct quantize_choice *choice);

/* Which options of the command line say something of weights that are quantized by this choice, or as a rule of the recipe
   changes it; NULL: there are no rules. What a rule says itself, no option changes. */
struct recipe_uses {
	bool rule, nvfp4_recipe, block, fuse, pad_tail;
};
struct recipe_uses recipe_uses(const struct recipe *recipe, const struct quantize_choice *choice);

void recipe_free(struct recipe *recipe);

#endif
