/* SPDX-License-Identifier: MIT */
#include "variant.h"

#include <stdio.h>
#include <string.h>

#include "choices.h"

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

bool variant_has_recipe(const struct variant *variant)
{
	return mxfp_format_info(variant->format)->tensor_scale;
}

const char *variant_choice(const struct variant *variant)
{
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
			return fail(error, EXIT_USAGE, "--formats, --rules: more than %d combinations / give fewer",
			            (int)VARIANTS_MAX);
		if (choices == recipes)
			variant.recipe = (enum mxfp_recipe)choices->items[i];
		else
			variant.rule = (enum mxfp_rule)choices->items[i];
		variants->items[variants->n++] = variant;
	}
	return EXIT_OK;
}

int variants_parse(struct variants *variants, const char *formats, const char *rules, const char *recipes,
                   struct error *error)
{
	static const struct values mxfp4_rules = {4, {MXFP_RULE_MSE, MXFP_RULE_FLOOR, MXFP_RULE_EVEN, MXFP_RULE_RCEIL}};
	static const struct values other_rules = {1, {MXFP_RULE_MSE}};
	struct values format_values, rule_values, recipe_values = {1, {MXFP_RECIPE_TE}};
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
	return code;
}
