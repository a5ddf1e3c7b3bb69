/* SPDX-License-Identifier: MIT */
/* Selecting the layers of a model and measuring their errors. */
#include "config.h"

#include "analyse/advise.h"

#include <stdlib.h>

static void list_formats(struct advice *advice)
{
	const struct variants *variants = &advice->options->variants;

	for (size_t v = 0; v < variants->n; v++) {
		size_t f = 0;

		while (f < advice->n_formats && advice->formats[f] != variants->items[v].format)
			f++;
		if (f == advice->n_formats)
			advice->formats[advice->n_formats++] = variants->items[v].format;
	}
}

static bool is_whole_blocks(const struct advice *advice, const struct tensor *tensor)
{
	uint64_t rows, cols;

	tensor_matrix(tensor, &rows, &cols);
	for (size_t f = 0; f < advice->n_formats; f++)
		if (cols % mxfp_format_get_info(advice->formats[f])->block_length != 0)
			return false;
	return true;
}

static int add_layer(struct advice *advice, const struct file *file, const struct tensor *tensor, struct error *error)
{
	struct advise_layer *layer = &advice->layers[advice->n_layers];
	const struct role role = select_tensor(advice->select, &advice->model->role_model, tensor);

	if (!role.quantized)
		return EXIT_OK;
	if (role.axis == ROLE_UNKNOWN)
		return fail_tensor(error, file->path, tensor->name, "%s; or --ignore it", role_unknown);
	const struct tensor *rows = role_rows(&role, tensor, &advice->arena);
	if (rows == NULL)
		return fail_memory(error);
	if (!is_whole_blocks(advice, rows)) {
		advice->n_left_out++;
		return EXIT_OK;
	}
	*layer = (struct advise_layer){file, rows, calloc(advice->options->variants.n + 1, sizeof *layer->errors)};
	advice->n_layers++;
	return layer->errors == NULL ? fail_memory(error) : EXIT_OK;
}

int advise_select(struct advice *advice, struct error *error)
{
	const struct model *model = advice->model;
	size_t n = 0;
	int code = select_check(advice->select, model, error);

	list_formats(advice);
	for (size_t f = 0; f < model->n_files; f++)
		n += model->files[f].n_tensors;
	advice->layers = calloc(n + 1, sizeof *advice->layers);
	if (code == EXIT_OK && advice->layers == NULL)
		code = fail_memory(error);
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++)
			code = add_layer(advice, &model->files[f], &model->files[f].tensors[t], error);
	if (code == EXIT_OK && advice->n_layers == 0)
		code = fail(error, EXIT_INPUT, "%s: has no layer to quantize; mxfp quantize -n says why", model->path);
	return code;
}

uint64_t advise_bytes(const struct advice *advice)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < advice->n_layers; i++)
		bytes += advice->layers[i].tensor->size;
	return bytes;
}

int advise_measure(struct advice *advice, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < advice->n_layers && code == EXIT_OK; i++) {
		struct advise_layer *layer = &advice->layers[i];

		code = weight_errors(layer->errors, layer->file, layer->tensor, advice->options, error);
	}
	return code != EXIT_OK ? code : advise_find_steps(advice, error);
}

void advise_free(struct advice *advice)
{
	for (size_t i = 0; i < advice->n_layers; i++)
		free(advice->layers[i].errors);
	free(advice->layers);
	free(advice->smallest);
	free(advice->steps);
	units_free(&advice->units);
	arena_free(&advice->arena);
	*advice = (struct advice){0};
}
