/* SPDX-License-Identifier: MIT */
/* The numbers of 8-bit floats with scales in a model. */
#include "config.h"

#include "model/scaled.h"

#include <stdlib.h>
#include <string.h>

#include "model/decoded.h"
#include "model/excluded.h"
#include "model/quantized.h"

/* Whether codes are those of a quantized tensor, for which their scales are no numbers to multiply by. Who reads it tells what
   is wrong with it. */
static int is_quantized(bool *is, const struct model *model, const char *name, struct error *error)
{
	struct quantized quantized;
	const int code = quantized_find(&quantized, is, model, name, error);

	*is |= code == EXIT_INPUT;
	return code == EXIT_INPUT ? EXIT_OK : code;
}

/* Looks for the codes that a tensor belongs to as their scales, or as what is beside them. */
static int find_codes(const struct tensor **codes, const struct model *model, const struct tensor *tensor,
                      const struct scaled_way *ways, bool are_scales, struct error *error)
{
	struct scaled scaled;
	const struct file *file;
	int code = EXIT_OK;
	bool found;

	for (size_t i = 0; ways[i].codes != NULL && code == EXIT_OK && *codes == NULL; i++) {
		const struct tensor *of;

		code = scaled_find_like(&of, &file, model, tensor->name, ways[i].part, ways[i].codes, error);
		if (code != EXIT_OK || of == NULL)
			continue;
		code = scaled_find(&scaled, &found, model, of, file, error);
		if (found && (!are_scales || strcmp(scaled.scales.name, tensor->name) == 0))
			*codes = of;
	}
	return code;
}

int scaled_owner(const struct tensor **codes, const struct model *model, const struct tensor *tensor, struct error *error)
{
	struct scaled scaled;
	const struct file *file;
	bool found = false, quantized = false;
	int code = EXIT_OK;

	*codes = NULL;
	if (model_find(model, tensor->name, &file) == tensor)
		code = scaled_find(&scaled, &found, model, tensor, file, error);
	if (found)
		*codes = tensor;
	if (code == EXIT_OK)
		code = find_codes(codes, model, tensor, scaled_scales, true, error);
	if (code == EXIT_OK)
		code = find_codes(codes, model, tensor, scaled_beside, false, error);
	/* Blocks of a layout have the scales of that, and no others. */
	if (code == EXIT_OK && *codes != NULL)
		code = is_quantized(&quantized, model, (*codes)->name, error);
	*codes = quantized ? NULL : *codes;
	return code;
}

/* Makes codes their numbers, and lists what belongs to them. */
static int replace(struct model *model, struct tensor *tensor, const struct file *file, bool compares, struct excluded *excluded,
                   struct tensor_list *drop, struct error *error)
{
	struct scaled scaled, *kept;
	const struct file *other;
	bool found = false, quantized = false, allowed = false;
	int code = EXIT_OK;

	if (tensor->dtype == DTYPE_F8_E4M3 || tensor->dtype == DTYPE_F8_E5M2)
		code = is_quantized(&quantized, model, tensor->name, error);
	if (code == EXIT_OK && !quantized)
		code = scaled_find(&scaled, &found, model, tensor, file, error);
	if (code == EXIT_INPUT && compares)
		return EXIT_OK;
	if (code != EXIT_OK || !found)
		return code;
	code = excluded_allows(excluded, tensor, &allowed, error);
	if (code != EXIT_OK)
		return code;
	if (!allowed) {
		char text[LAYOUT_FORMATS_TEXT];

		return fail_tensor(error, file->path, tensor->name, "is %s with scales, and config.json says %s; one of them is of another "
		                   "model, or the list of modules that are not quantized lacks it", dtype_info(tensor->dtype)->name, layout_formats_text(model->formats, NULL, text));
	}
	if (tensor->size > UINT64_MAX / sizeof(float))
		return fail_tensor(error, file->path, tensor->name, "is too large to be decoded");
	kept = arena_take(&model->arena, sizeof *kept);
	if (kept == NULL)
		return fail_memory(error);
	*kept = scaled;
	code = tensor_list_add(drop, model_find(model, scaled.scales.name, &other), error);
	for (size_t i = 0; scaled_beside[i].codes != NULL && code == EXIT_OK; i++) {
		const struct tensor *part;

		code = scaled_find_like(&part, &other, model, tensor->name, scaled_beside[i].codes, scaled_beside[i].part, error);
		if (code == EXIT_OK && part != NULL)
			code = tensor_list_add(drop, part, error);
	}
	tensor->dtype = DTYPE_F32;
	tensor->size *= sizeof(float);
	tensor->decoder = &kept->decoder;
	model->n_decoded++;
	return code;
}

int model_decode_scaled(struct model *model, bool compares, struct error *error)
{
	struct excluded excluded = {.model = model};
	struct tensor_list drop = {0};
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t i = 0; i < model->files[f].n_tensors && code == EXIT_OK; i++)
			code = replace(model, &model->files[f].tensors[i], &model->files[f], compares, &excluded, &drop, error);
	excluded_free(&excluded);
	if (code == EXIT_OK)
		code = model_remove(model, &drop, error);
	free(drop.items);
	return code == EXIT_OK ? model_decode_each(model, error) : code;
}
