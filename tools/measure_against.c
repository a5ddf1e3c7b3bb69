/* SPDX-License-Identifier: MIT */
/* The quantized form of a matrix that is measured, out of another model. */
#include "measure.h"

int measure_find_against(struct quantized *quantized, const struct layer *layer, const struct model *against,
                         const struct variant *variant, struct error *error)
{
	bool found;
	int code = quantized_find(quantized, &found, against, layer->tensor->name, error);

	if (code != EXIT_OK)
		return code;
	if (!found)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': is not quantized", against->path, layer->tensor->name);
	if (quantized->rows != layer->rows || quantized->cols != layer->cols)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': has another shape than in %s", against->path,
		            layer->tensor->name, layer->file->path);
	struct variant its = {.format = quantized->choice.form->format, .sparsity = quantized->choice.sparsity};
	char here[VARIANT_TEXT], others[VARIANT_TEXT];
	if (its.format != variant->format || its.sparsity.n != variant->sparsity.n ||
	    its.sparsity.m != variant->sparsity.m)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': is %s, others are %s / leave it out with --ignore",
		            against->path, layer->tensor->name, variant_format(&its, here),
		            variant_format(variant, others));
	return EXIT_OK;
}
