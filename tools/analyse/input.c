/* SPDX-License-Identifier: MIT */
/* Activations of one layer: input.h says where they come from. */
#include "config.h"

#include "analyse/input.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/must_succeed.h"
#include "base/suffix.h"
#include "io/elements.h"
#include "model/operand.h"
#include "mxfp/quantize.h"

enum { STREAM_SEED = 1 }; /* apart from the streams of stochastic rounding, which hash the same name with seed 0 */

unsigned input_kinds(const struct input_source *source)
{
	if (source->tokens == 0)
		return 0;
	return source->file != NULL ? 1 : N_ACTIVATION_KINDS;
}

const char *input_kind_name(const struct input_source *source, unsigned kind)
{
	return source->file != NULL ? "file" : activations_name((enum activation_kind)kind);
}

/* The file's tensor for a layer, or NULL; *named says whether it bears the layer's name. */
static const struct tensor *find_tensor(const struct file *file, const char *layer, bool *named, struct error *error,
                                        int *code)
{
	static const char suffix[] = ".weight";
	const struct tensor *tensor = file_find(file, layer);
	size_t length = suffix_stem(layer, suffix);

	*named = true;
	*code = EXIT_OK;
	if (tensor == NULL && length != 0) {
		char *stem = strndup(layer, length);

		if (stem == NULL) {
			*code = fail_memory(error);
			return NULL;
		}
		tensor = file_find(file, stem);
		free(stem);
	}
	if (tensor == NULL && file->n_tensors == 1) {
		tensor = &file->tensors[0];
		*named = false;
	}
	return tensor;
}

/* The file's tensor for a layer with `cols` input channels; NULL: none. */
static int fitting_tensor(const struct tensor **tensor, const struct file *file, const struct tensor *layer,
                          uint64_t cols, struct error *error)
{
	uint64_t rows, width;
	bool named;
	int code;

	*tensor = find_tensor(file, layer->name, &named, error, &code);
	if (*tensor == NULL)
		return code;
	tensor_matrix(*tensor, &rows, &width);
	if (elements_are_float((*tensor)->dtype) && width == cols)
		return EXIT_OK;
	if (named)
		return fail_tensor(error, file->path, (*tensor)->name, "activations must be F32, F16, BF16 or F64 with "
		                   "a last dimension of %" PRIu64, cols);
	*tensor = NULL;
	return EXIT_OK;
}

int input_covers(bool *covers, const struct input_source *source, const struct tensor *layer, struct error *error)
{
	const struct tensor *tensor;
	uint64_t rows, cols;

	*covers = true;
	if (source->file == NULL)
		return EXIT_OK;
	tensor_matrix(layer, &rows, &cols);
	int code = fitting_tensor(&tensor, source->file, layer, cols, error);
	*covers = tensor != NULL;
	return code;
}

static int check_finite(const float *x, size_t n, const struct file *file, const struct tensor *tensor,
                        struct error *error)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return fail_tensor(error, file->path, tensor->name, "element %zu: NaN or Inf, in binary32, is "
			                   "no activation", i);
	return EXIT_OK;
}

/* Reads at most *tokens rows of a file's activations into newly allocated *x; none: *x is NULL. */
static int read_file(float **x, size_t *tokens, const struct file *file, const struct tensor *layer, size_t cols,
                     struct error *error)
{
	const struct tensor *tensor;
	uint64_t rows, width;
	int code = fitting_tensor(&tensor, file, layer, cols, error);

	*x = NULL;
	if (code != EXIT_OK || tensor == NULL)
		return code;
	tensor_matrix(tensor, &rows, &width);
	if (rows < *tokens)
		*tokens = (size_t)rows;
	*x = calloc(*tokens * cols + 1, sizeof **x);
	if (*x == NULL)
		return fail_memory(error);
	code = elements_read(file, tensor, 0, *x, *tokens * cols, error);
	return code == EXIT_OK ? check_finite(*x, *tokens * cols, file, tensor, error) : code;
}

static int make_seeded(float **x, const struct input_source *source, unsigned kind, const struct tensor *layer,
                       size_t cols, struct error *error)
{
	uint64_t stream = XXH3_64bits_withSeed(layer->name, strlen(layer->name), STREAM_SEED);

	*x = calloc(source->tokens * cols + 1, sizeof **x);
	if (*x == NULL)
		return fail_memory(error);
	activations_fill(*x, source->tokens, cols, (enum activation_kind)kind, source->seed, stream);
	return EXIT_OK;
}

/* Fills the quantized matrix from the exact one. */
static int quantize_input(struct input *input, const struct input_source *source, struct error *error)
{
	const struct mxfp_quantize_options options = {
		.rule = source->variant.rule,
		.recipe = source->variant.recipe,
		.exec = &(struct mxfp_exec){.threads = source->threads},
	};
	struct mxfp_blocks blocks = {.format = source->variant.format, .rows = input->exact.rows};
	struct mxfp_sizes size;

	blocks.cols = input->exact.cols;
	if (mxfp_blocks_size(blocks.format, blocks.rows, blocks.cols, &size) != MXFP_OK)
		return fail_memory(error);
	uint8_t *bytes = malloc(size.codes_bytes + size.scales_bytes + 1);
	if (bytes == NULL)
		return fail_memory(error);
	input->codes = bytes;
	blocks.codes = bytes;
	blocks.scales = bytes + size.codes_bytes;
	must_succeed(mxfp_quantize(&blocks, input->exact.data, MXFP_FORMAT_F32, 0, &options));
	input->quantized = matrix_of_blocks(&blocks);
	return EXIT_OK;
}

/* What quantizing did to the activations, one token after the other. */
static int measure_input(struct input *input, const struct input_source *source, struct error *error)
{
	const struct mxfp_matrix *q = &input->quantized;
	const struct mxfp_exec exec = {.threads = source->threads};
	struct mxfp_sizes row;
	float *decoded = malloc((q->cols + 1) * sizeof *decoded);

	if (decoded == NULL)
		return fail_memory(error);
	must_succeed(mxfp_blocks_size(q->format, 1, q->cols, &row));
	for (size_t t = 0; t < q->rows; t++) {
		const struct mxfp_matrix token = {
			.format = q->format,
			.rows = 1,
			.cols = q->cols,
			.data = input->codes + t * row.codes_row_bytes,
			.scales = input->codes + q->rows * row.codes_row_bytes + t * row.scales_row_bytes,
			.tensor_scale = q->tensor_scale,
			.tensor_scale_divides = q->tensor_scale_divides,
		};

		must_succeed(mxfp_dequantize(&token, decoded, MXFP_FORMAT_F32, 0, &exec));
		stats_add(&input->stats, input->x + t * q->cols, decoded, q->cols);
	}
	free(decoded);
	return EXIT_OK;
}

int input_make(struct input *input, const struct input_source *source, unsigned kind, const struct tensor *layer,
               size_t cols, struct error *error)
{
	size_t tokens = source->tokens;
	int code;

	*input = (struct input){0};
	if (source->file != NULL)
		code = read_file(&input->x, &tokens, source->file, layer, cols, error);
	else
		code = make_seeded(&input->x, source, kind, layer, cols, error);
	if (code != EXIT_OK || input->x == NULL)
		return code;
	input->exact = (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = tokens, .cols = cols, .data = input->x};
	code = quantize_input(input, source, error);
	return code == EXIT_OK ? measure_input(input, source, error) : code;
}

void input_free(struct input *input)
{
	free(input->x);
	free(input->codes);
	*input = (struct input){0};
}
