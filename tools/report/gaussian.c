/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "report/gaussian.h"

#include <math.h>

static const struct {
	enum mxfp_format format;
	int choice; /* a rule or a recipe */
	double db;
} rows[] = {
#define GAUSSIAN_RULE(format, rule, db) {MXFP_FORMAT_##format, MXFP_RULE_##rule, db},
#define GAUSSIAN_RECIPE(format, recipe, db) {MXFP_FORMAT_##format, MXFP_RECIPE_##recipe, db},
#include "report/gaussian.def"
};

double gaussian_sqnr(const struct variant *variant)
{
	const bool recipe = variant_has_recipe(variant);
	int choice = recipe ? (int)variant->recipe : (int)variant->rule;

	if (variant->as_written)
		choice = recipe ? (int)MXFP_RECIPE_TE : (int)MXFP_RULE_FLOOR;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].format == variant->format && rows[i].choice == choice && variant->sparsity.m == 0 && !variant->mixed)
			return rows[i].db;
	return (double)NAN;
}
