/* SPDX-License-Identifier: MIT */
/* The quantized form of a matrix that is measured, out of another model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/measure.h"

/* The second word of what a file says of one tensor ("mxfp8-e4m3 mse"), or the fallback. */
static void noted_choice(const struct file *file, const char *name, const char *fallback, char choice[VARIANT_TEXT])
{
	size_t size = sizeof LAYOUT_TENSOR + strlen(name);
	char *key = malloc(size);
	const char *text = NULL;

	if (key != NULL) {
		snprintf(key, size, LAYOUT_TENSOR "%s", name);
		text = file_metadata(file, key);
	}
	free(key);
	if (text == NULL || sscanf(text, "%*s %63s", choice) != 1)
		snprintf(choice, VARIANT_TEXT, "%s", fallback != NULL ? fallback : "");
}

struct variant measure_variant_of(const struct quantized *quantized, const char *name)
{
	struct variant variant = {
		.format = quantized->choice.form->format,
		.sparsity = quantized->choice.sparsity,
		.as_written = true,
	};
	const struct file *file = quantized->files[LAYOUT_CODES];
	bool recipe = variant_has_recipe(&variant);
	char choice[VARIANT_TEXT];
	int value;

	noted_choice(file, name, file_metadata(file, recipe ? "mxfp.recipe" : "mxfp.rule"), choice);
	if (mxfp_option_from_name(recipe ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE, choice, &value) != MXFP_OK)
		return variant;
	variant.as_written = false;
	if (recipe)
		variant.recipe = (enum mxfp_recipe)value;
	else
		variant.rule = (enum mxfp_rule)value;
	return variant;
}

int measure_find_against(struct quantized *quantized, const struct layer *layer, const struct model *against,
                         struct error *error)
{
	const char *name = layer->tensor->name;
	bool found;
	int code = quantized_find(quantized, &found, against, name, error);

	if (code != EXIT_OK)
		return code;
	if (!found)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': is not quantized", against->path, name);
	if (quantized->rows != layer->rows || quantized->cols != layer->cols)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': has another shape than in %s", against->path, name,
		            layer->file->path);
	layer->measurements[0].variant = measure_variant_of(quantized, name);
	return EXIT_OK;
}
