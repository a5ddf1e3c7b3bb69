/* SPDX-License-Identifier: MIT */
/* Activations of one layer: input.h says where they come from. */
#include "config.h"

#include "analyse/input.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "base/suffix.h"
#include "io/elements.h"
#include "model/operand.h"
#include "mxfp/quantize.h"

enum { ORDINARY_EXPONENT = 16 }; /* of the largest activation; weights have as much room as that leaves */
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

int input_find(const struct tensor **tensor, const struct file *file, const char *layer, uint64_t cols, struct error *error)
{
	uint64_t rows, width;
	bool named;
	int code;

	*tensor = find_tensor(file, layer, &named, error, &code);
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

int input_rows(uint64_t *rows, const struct input_source *source, const struct tensor *layer, struct error *error)
{
	const struct tensor *tensor;
	uint64_t cols;

	*rows = source->tokens;
	if (source->file == NULL)
		return EXIT_OK;
	tensor_matrix(layer, rows, &cols);
	*rows = 0;
	int code = input_find(&tensor, source->file, layer->name, cols, error);
	if (code == EXIT_OK && tensor != NULL)
		tensor_matrix(tensor, rows, &cols);
	return code;
}

static int check_finite(const float *x, size_t n, const struct file *file, const struct tensor *tensor,
                        struct error *error)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return fail_tensor(error, file->path, tensor->name, "element %zu: NaN or Inf, in binary32, is "
			                   "not an activation", i);
	return EXIT_OK;
}

bool input_unit(int *unit, const float *x, size_t n, int ordinary)
{
	float amax = 0;

	for (size_t i = 0; i < n; i++)
		amax = fmaxf(amax, fabsf(x[i]));
	const int exponent = amax == 0 ? 0 : ilogbf(amax);
	*unit = exponent > ordinary ? exponent - ordinary : exponent < -ordinary ? exponent + ordinary : 0;
	return amax != 0;
}

void input_turn(float *x, size_t n, int unit)
{
	for (size_t i = 0; unit != 0 && i < n; i++)
		x[i] = ldexpf(x[i], -unit);
}

/* Reads at most so many rows of a file's activations as there are tokens; without any, x stays NULL. */
static int read_file(struct input *input, const struct file *file, const struct tensor *layer, size_t cols,
                     struct error *error)
{
	const struct tensor *tensor;
	uint64_t rows, width;
	int code = input_find(&tensor, file, layer->name, cols, error);

	if (code != EXIT_OK || tensor == NULL)
		return code;
	tensor_matrix(tensor, &rows, &width);
	if (rows < input->tokens)
		input->tokens = (size_t)rows;
	const size_t n = input->tokens * cols;
	input->x = calloc(n + 1, sizeof *input->x);
	if (input->x == NULL)
		return fail_memory(error);
	code = elements_read(file, tensor, 0, input->x, n, error);
	if (code == EXIT_OK)
		code = check_finite(input->x, n, file, tensor, error);
	if (code == EXIT_OK) {
		input_unit(&input->unit, input->x, n, ORDINARY_EXPONENT);
		input_turn(input->x, n, input->unit);
	}
	return code;
}

static int make_seeded(float **x, const struct input_source *source, const struct tensor *layer, size_t cols,
                       struct error *error)
{
	uint64_t stream = XXH3_64bits_withSeed(layer->name, strlen(layer->name), STREAM_SEED);
	size_t n = source->tokens * cols;

	*x = calloc(N_ACTIVATION_KINDS * n + 1, sizeof **x);
	if (*x == NULL)
		return fail_memory(error);
	for (unsigned k = 0; k < N_ACTIVATION_KINDS; k++)
		activations_fill(*x + k * n, source->tokens, cols, (enum activation_kind)k, source->seed, stream);
	return EXIT_OK;
}

/* Fills the quantized matrices from the exact one. */
static int quantize_input(struct input *input, const struct input_source *source, struct error *error)
{
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = source->variant.rule,
		.recipe = source->variant.recipe,
	};
	enum mxfp_format format = source->variant.format;
	struct mxfp_sizes size;

	input->n_quantized = mxfp_format_get_info(format)->tensor_scale ? input->n_kinds : 1;
	const size_t rows = input->exact.rows / input->n_quantized, cols = input->exact.cols;
	if (mxfp_blocks_size(&size, format, rows, cols) != MXFP_OK)
		return fail_memory(error);
	const size_t bytes = size.codes_bytes + size.scales_bytes;
	input->codes = calloc(input->n_quantized, bytes + 1);
	if (input->codes == NULL)
		return fail_memory(error);
	for (unsigned i = 0; i < input->n_quantized; i++) {
		struct mxfp_blocks blocks = {.size = sizeof blocks, .format = format, .rows = rows, .cols = cols};

		blocks.codes = input->codes + i * bytes;
		blocks.scales = input->codes + i * bytes + size.codes_bytes;
		must_succeed(dense_quantize(&blocks, MXFP_FORMAT_F32, input->x + i * rows * cols, &options, &(struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = source->threads}));
		input->quantized[i] = matrix_of_blocks(&blocks);
	}
	return EXIT_OK;
}

/* What quantizing did to the activations, one token after the other. */
static int measure_input(struct input *input, const struct input_source *source, struct error *error)
{
	const size_t cols = input->exact.cols, rows = input->exact.rows / input->n_quantized;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = source->threads};
	struct mxfp_sizes size;
	float *decoded = malloc((cols + 1) * sizeof *decoded);

	if (decoded == NULL)
		return fail_memory(error);
	must_succeed(mxfp_blocks_size(&size, source->variant.format, 1, cols));
	for (size_t t = 0; t < input->exact.rows; t++) {
		struct mxfp_matrix token = input->quantized[t / rows];

		token.data = (const uint8_t *)token.data + t % rows * size.codes_row_bytes;
		token.scales = (const uint8_t *)token.scales + t % rows * size.scales_row_bytes;
		token.rows = 1;
		must_succeed(dense_dequantize(decoded, MXFP_FORMAT_F32, &token, &exec));
		stats_add(&input->stats[t / input->tokens], input->x + t * cols, decoded, cols);
	}
	for (unsigned k = 0; k < input->n_kinds; k++)
		stats_scale(&input->stats[k], input->unit);
	free(decoded);
	return EXIT_OK;
}

int input_make(struct input *input, const struct input_source *source, const struct tensor *layer, size_t cols,
               struct error *error)
{
	int code = EXIT_OK;

	*input = (struct input){.tokens = source->tokens};
	if (source->tokens == 0)
		return EXIT_OK;
	if (source->file != NULL)
		code = read_file(input, source->file, layer, cols, error);
	else
		code = make_seeded(&input->x, source, layer, cols, error);
	if (code != EXIT_OK || input->x == NULL || input->tokens == 0)
		return code;
	input->n_kinds = input_kinds(source);
	input->exact = (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = MXFP_FORMAT_F32, .rows = input->n_kinds * input->tokens,
	                                    .cols = cols, .data = input->x};
	code = quantize_input(input, source, error);
	return code == EXIT_OK ? measure_input(input, source, error) : code;
}

void input_free(struct input *input)
{
	free(input->x);
	free(input->codes);
	*input = (struct input){0};
}
