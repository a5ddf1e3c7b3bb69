/* SPDX-License-Identifier: MIT */
#include "analyse/variant.h"

#include <stdio.h>
#include <string.h>

#include "model/choices.h"
#include "model/layout.h"
#include "mxfp/quantize.h"

enum { VALUES_MAX = 32 };

/* Values of one option, in the order given. */
struct values {
	size_t n;
	int items[VALUES_MAX];
};

static bool contains(const struct values *values, int value)
{
	for (size_t i = 0; i < values->n; i++)
		if (values->items[i] == value)
			return true;
	return false;
}

/* Parses "a,b,c". There are fewer values than VALUES_MAX, and each is kept once, so they fit. */
static int parse_list(struct values *values, enum option_kind kind, const char *where, const char *list,
                      struct error *error)
{
	values->n = 0;
	for (;;) {
		char name[64];
		size_t length = strcspn(list, ",");
		int value;

		snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : (int)sizeof name - 1, list);
		if (!choice_find(kind, name, &value))
			return choice_fail(kind, where, name, error);
		if (!contains(values, value) && values->n < VALUES_MAX)
			values->items[values->n++] = value;
		if (list[length] == '\0')
			return EXIT_OK;
		list += length + 1;
	}
}

bool variant_is_quantized(const struct variant *variant)
{
	return mxfp_format_get_info(variant->format)->kind == MXFP_KIND_BLOCK;
}

bool variant_has_recipe(const struct variant *variant)
{
	return mxfp_format_get_info(variant->format)->tensor_scale;
}

bool variant_same_format(const struct variant *a, const struct variant *b)
{
	return a->format == b->format && a->sparsity.n == b->sparsity.n && a->sparsity.m == b->sparsity.m;
}

const char *variant_format(const struct variant *variant, char text[VARIANT_TEXT])
{
	const char *name = mxfp_format_get_info(variant->format)->name;
	char pattern[SPARSITY_TEXT];

	if (variant->mixed)
		snprintf(text, VARIANT_TEXT, "mixed");
	else if (variant->sparsity.m == 0)
		snprintf(text, VARIANT_TEXT, "%s", name);
	else
		snprintf(text, VARIANT_TEXT, "%s %s", name, sparsity_text(variant->sparsity, pattern));
	return text;
}

const char *variant_choice(const struct variant *variant)
{
	if (!variant_is_quantized(variant) || variant->mixed)
		return "-";
	if (variant->as_written)
		return "as written";
	return variant_has_recipe(variant) ? mxfp_option_name(MXFP_OPTION_RECIPE, (int)variant->recipe)
	                                   : mxfp_option_name(MXFP_OPTION_RULE, (int)variant->rule);
}

/* Adds a format with every rule, or with every recipe. */
static int add_format(struct variants *variants, enum mxfp_format format, const struct values *rules,
                      const struct values *recipes, struct error *error)
{
	struct variant variant = {.format = format};
	const struct values *choices = variant_has_recipe(&variant) ? recipes : rules;

	for (size_t i = 0; i < choices->n; i++) {
		if (variants->n == VARIANTS_MAX)
			return fail(error, EXIT_USAGE, "--formats, --rules: more than %d combinations; give fewer",
			            (int)VARIANTS_MAX);
		if (choices == recipes)
			variant.recipe = (enum mxfp_recipe)choices->items[i];
		else
			variant.rule = (enum mxfp_rule)choices->items[i];
		variants->items[variants->n++] = variant;
	}
	return EXIT_OK;
}

static bool any_has_recipe(const struct variants *variants, bool recipe)
{
	for (size_t v = 0; v < variants->n; v++)
		if (variant_has_recipe(&variants->items[v]) == recipe)
			return true;
	return false;
}

int variants_parse(struct variants *variants, const char *formats, const char *rules, const char *recipes,
                   struct error *error)
{
	static const struct values mxfp4_rules = {4, {MXFP_RULE_MSE, MXFP_RULE_FLOOR, MXFP_RULE_EVEN, MXFP_RULE_RCEIL}};
	static const struct values other_rules = {1, {MXFP_RULE_MSE}};
	struct values format_values, rule_values, recipe_values = {1, {(int)layouts[0]->recipe}};
	int code = parse_list(&format_values, OPTION_BLOCK, "--formats",
	                      formats != NULL ? formats : "mxfp4,nvfp4,mxfp8-e4m3,mxfp6-e2m3,mxint8", error);

	if (code == EXIT_OK && rules != NULL)
		code = parse_list(&rule_values, OPTION_RULE, "--rules", rules, error);
	if (code == EXIT_OK && recipes != NULL)
		code = parse_list(&recipe_values, OPTION_RECIPE, "--nvfp4-recipe", recipes, error);
	variants->n = 0;
	for (size_t i = 0; code == EXIT_OK && i < format_values.n; i++) {
		enum mxfp_format format = (enum mxfp_format)format_values.items[i];
		const struct values *closed = format == MXFP_FORMAT_MXFP4 ? &mxfp4_rules : &other_rules;

		code = add_format(variants, format, rules != NULL ? &rule_values : closed, &recipe_values, error);
	}
	if (code == EXIT_OK && rules != NULL && !any_has_recipe(variants, false))
		code = fail(error, EXIT_USAGE, "--rules: is for the MX formats; leave it out");
	if (code == EXIT_OK && recipes != NULL && !any_has_recipe(variants, true))
		code = fail(error, EXIT_USAGE, "--nvfp4-recipe: is for nvfp4; leave it out");
	return code;
}

int variants_prune(struct variants *variants, struct mxfp_sparsity sparsity, struct error *error)
{
	size_t n = variants->n;

	if (2 * n + 1 > VARIANTS_MAX)
		return fail(error, EXIT_USAGE, "--sparsity: more than %d combinations: it doubles those of --formats and "
		            "--rules; give fewer", (int)VARIANTS_MAX);
	for (size_t i = n; i-- > 0;) {
		variants->items[2 * i + 1] = variants->items[i];
		variants->items[2 * i + 1].sparsity = sparsity;
		variants->items[2 * i] = variants->items[i];
	}
	variants->items[2 * n] = (struct variant){.format = MXFP_FORMAT_F32, .sparsity = sparsity};
	variants->n = 2 * n + 1;
	return EXIT_OK;
}

bool variant_storage(struct variant_storage *storage, const struct variant *variant, size_t rows, size_t cols)
{
	struct mxfp_sizes blocks = {0};
	struct mxfp_sparse_sizes sparse;

	if (variant_is_quantized(variant) && mxfp_blocks_size(&blocks, variant->format, rows, cols) != MXFP_OK)
		return false;
	*storage = (struct variant_storage){.codes = blocks.codes_bytes, .kept = blocks.codes_bytes,
	                                    .scales = blocks.scales_bytes};
	if (variant->sparsity.m == 0)
		return true;
	if (mxfp_sparse_size(&sparse, variant->format, variant->sparsity, rows, cols) != MXFP_OK)
		return false;
	storage->kept = sparse.codes_bytes;
	storage->masks = sparse.masks_bytes;
	return true;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

bool variant_raise_storage(struct variant_storage *most, const struct variant *variant, size_t rows, size_t cols)
{
	struct variant_storage storage;

	if (!variant_storage(&storage, variant, rows, cols))
		return false;
	most->codes = larger(most->codes, storage.codes);
	most->masks = larger(most->masks, storage.masks);
	most->scales = larger(most->scales, storage.scales);
	most->kept = larger(most->kept, storage.kept);
	return true;
}
