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

/* Whether the layout's files hold the tensor in a format: those of GGUF hold no padded rows. */
static bool is_held(const struct layout *layout, enum mxfp_format format, const struct tensor *tensor)
{
	const struct layout_choice choice = {.layout = layout, .form = layout_form(layout, format, false)};
	struct layout_shape shape = {.rank = tensor->rank};

	if (choice.form == NULL || layout->order->refuses == NULL || tensor->rank == 0 || tensor->rank > LAYOUT_RANK_MAX)
		return true;
	for (unsigned i = 0; i < tensor->rank; i++)
		shape.dims[i] = tensor->shape[i];
	return layout->order->refuses(&choice, &shape) == NULL;
}

/* Whether rows are whole blocks of every format, and of the activations that mxfp quantize has loaders make unless they are
   to make none. */
static bool is_whole_blocks(const struct advice *advice, const struct tensor *tensor)
{
	uint64_t rows, cols;

	if (advice->pad_tail)
		return true;
	tensor_matrix(tensor, &rows, &cols);
	if (cols % mxfp_format_get_info(MXFP_FORMAT_MXFP8_E4M3)->block_length != 0)
		return false;
	for (size_t f = 0; f < advice->n_formats; f++)
		if (cols % mxfp_format_get_info(advice->formats[f])->block_length != 0 ||
		    !is_held(advice->layout, advice->formats[f], tensor))
			return false;
	return true;
}

static int add_layer(struct advice *advice, const struct file *file, const struct tensor *tensor, struct error *error)
{
	struct advise_layer *layer = &advice->layers[advice->n_layers];
	const struct role role = select_tensor(advice->select, &advice->model->role_model, tensor);

	if (!role.quantized)
		return EXIT_OK;
	const char *refusal = layout_refuses_role(advice->layout, &advice->model->role_model, &role, tensor);
	if (refusal != NULL && patterns_match(&advice->select->included, tensor->name))
		return fail(error, EXIT_USAGE, "advise: --include: tensor '%s': %s (--layout %s)", tensor->name, refusal,
		            advice->layout->name);
	advice->n_refused += refusal != NULL;
	if (refusal != NULL)
		return EXIT_OK;
	if (role.axis == ROLE_UNKNOWN)
		return fail_tensor(error, file->path, tensor->name, "%s; or --ignore it", role.unknown);
	const struct tensor *rows = role_rows(&role, tensor, &advice->arena);
	if (rows == NULL)
		return fail_memory(error);
	if (!is_whole_blocks(advice, rows)) {
		advice->left_out[advice->n_left_out++] = tensor->name;
		return EXIT_OK;
	}
	*layer = (struct advise_layer){file, rows, calloc(advice->options->variants.n + 1, sizeof *layer->errors), 0, 0};
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
	advice->left_out = calloc(n + 1, sizeof(const char *));
	if (code == EXIT_OK && (advice->layers == NULL || advice->left_out == NULL))
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

static void give(void *context, size_t i, struct layer *layer)
{
	const struct advice *advice = context;

	layer->file = advice->layers[i].file;
	layer->tensor = advice->layers[i].tensor;
}

static int take(void *context, size_t i, const struct layer *layer, struct error *error)
{
	const struct advice *advice = context;

	(void)error;
	for (size_t v = 0; v < advice->options->variants.n; v++)
		advice->layers[i].errors[v] = weight_error_of(&layer->measurements[v]);
	advice->layers[i].non_finite = layer->measurements[0].errors.non_finite;
	return EXIT_OK;
}

int advise_measure(struct advice *advice, struct error *error)
{
	const struct measure_queue queue = {advice->n_layers, give, take, advice};
	int code = measure_layers(&queue, advice->options, error);

	return code != EXIT_OK ? code : advise_find_units(advice, error);
}

void advise_free(struct advice *advice)
{
	for (size_t i = 0; i < advice->n_layers; i++)
		free(advice->layers[i].errors);
	free(advice->layers);
	free(advice->left_out);
	free(advice->choices);
	units_free(&advice->units);
	arena_free(&advice->arena);
	*advice = (struct advice){0};
}
