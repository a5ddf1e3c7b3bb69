/* SPDX-License-Identifier: MIT */
/* What a report needs to know of a quantized model that it measures. */
#include "io/elements.h"
#include "report/report.h"

int report_against_find(struct quantized *quantized, bool *found, const struct model *against,
                        const struct tensor *tensor, struct error *error)
{
	*found = false;
	if (!elements_are_float(tensor->dtype))
		return EXIT_OK;
	return quantized_find(quantized, found, against, tensor->name, error);
}

/* Sets the variant from the first tensor of a file that is quantized in `against`. */
static int look_in_file(struct variants *variants, const struct file *file, const struct model *against,
                        struct error *error)
{
	for (size_t t = 0; t < file->n_tensors; t++) {
		struct quantized quantized;
		bool found;
		int code = report_against_find(&quantized, &found, against, &file->tensors[t], error);

		if (code != EXIT_OK)
			return code;
		if (!found)
			continue;
		variants->items[0] = measure_variant_of(&quantized, file->tensors[t].name);
		variants->n = 1;
		return EXIT_OK;
	}
	return EXIT_OK;
}

int report_against_variant(struct variants *variants, const struct model *model, const struct model *against,
                           struct error *error)
{
	variants->n = 0;
	for (size_t i = 0; i < model->n_files && variants->n == 0; i++) {
		int code = look_in_file(variants, &model->files[i], against, error);

		if (code != EXIT_OK)
			return code;
	}
	if (variants->n == 0)
		return fail(error, EXIT_INPUT, "%s: holds no quantized form of a tensor of %s", against->path,
		            model->path);
	return EXIT_OK;
}
