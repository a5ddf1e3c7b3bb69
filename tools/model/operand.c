/* SPDX-License-Identifier: MIT */
/* Matrices of a product. */
#include "config.h"

#include "model/operand.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "base/nearest.h"
#include "io/elements.h"
#include "model/meaning.h"
#include "model/quantized.h"
#include "model/scaled.h"

enum { TILE = 32 }; /* rows and columns that are transposed together, for the cache */

/* The model of "MODEL:TENSOR" or "MODEL"; *name is the tensor's part of `text`, or NULL. */
static int open_model(struct model *model, const char *text, const char **name, struct error *error)
{
	const char *colon = strrchr(text, ':');

	*name = NULL;
	if (colon == NULL || access(text, F_OK) == 0)
		return model_open_any_order(model, text, error);
	char *path = strndup(text, (size_t)(colon - text));
	if (path == NULL)
		return fail_memory(error);
	int code = model_open_any_order(model, path, error);
	free(path);
	*name = colon + 1;
	return code;
}

/* The only tensor's name, if none was given. */
static int choose_name(const struct model *model, const char **name, struct error *error)
{
	const char *first = NULL;
	size_t n = 0;

	for (size_t f = 0; f < model->n_files; f++) {
		if (first == NULL && model->files[f].n_tensors > 0)
			first = model->files[f].tensors[0].name;
		n += model->files[f].n_tensors;
	}
	if (*name != NULL || n == 1) {
		*name = *name != NULL ? *name : first;
		return EXIT_OK;
	}
	return fail(error, EXIT_INPUT, "%s: holds %zu tensors; name one behind a colon, such as %s:%.200s", model->path,
	            n, model->path, first != NULL ? first : "TENSOR");
}

static int fail_missing(const struct model *model, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors; t++)
			nearest_offer(&nearest, model->files[f].tensors[t].name);
	if (nearest.best != NULL)
		return fail(error, EXIT_INPUT, "%s: has no tensor '%.200s': did you mean '%.200s'?", model->path, name,
		            nearest.best);
	return fail(error, EXIT_INPUT, "%s: has no tensor '%.200s'; mxfp inspect lists them", model->path, name);
}

static int take_memory(void **memory, uint64_t bytes, struct error *error)
{
	*memory = bytes < SIZE_MAX ? malloc((size_t)bytes + 1) : NULL;
	return *memory == NULL ? fail_memory(error) : EXIT_OK;
}

/* Writes rows x cols numbers of `width` bytes, stored by columns, row by row. */
static void transpose(unsigned char *to, const unsigned char *from, size_t rows, size_t cols, size_t width)
{
	for (size_t tile = 0; tile < rows; tile += TILE)
		for (size_t col = 0; col < cols; col++)
			for (size_t row = tile; row < rows && row < tile + TILE; row++)
				memcpy(to + (row * cols + col) * width, from + (col * rows + row) * width, width);
}

static int put_into_rows(struct operand *operand, struct error *error)
{
	struct mxfp_matrix *matrix = &operand->matrix;
	void *rows;
	int code = take_memory(&rows, operand->tensor->size, error);

	if (code != EXIT_OK)
		return code;
	transpose(rows, operand->data, matrix->rows, matrix->cols, dtype_info(operand->tensor->dtype)->bits / 8);
	free(operand->data);
	operand->data = rows;
	matrix->data = rows;
	matrix->transposed = false;
	return EXIT_OK;
}

static int read_numbers(struct operand *operand, const struct file *file, enum operand_order order, const char *done,
                        struct error *error)
{
	const struct tensor *tensor = operand->tensor;
	const struct dtype_info *info = dtype_info(tensor->dtype);
	uint64_t rows, cols;

	/* Some products take FP8. */
	if (tensor->dtype != DTYPE_F32 && tensor->dtype != DTYPE_BF16 && tensor->dtype != DTYPE_F16 &&
	    (!elements_are_fp8(tensor->dtype) || order == OPERAND_ROWS))
		return fail_tensor(error, file->path, tensor->name, "is %s; F32, BF16 and F16 are %s, and what mxfp "
		                   "quantize wrote", info->name, done);
	tensor_matrix(tensor, &rows, &cols);
	int code = take_memory(&operand->data, tensor->size, error);
	if (code == EXIT_OK)
		code = file_read(file, tensor, 0, operand->data, (size_t)tensor->size, error);
	if (code != EXIT_OK)
		return code;
	dtype_swap(tensor->dtype, operand->data, (size_t)tensor->size);
	bool turned = order == OPERAND_TRANSPOSED;
	operand->matrix = (struct mxfp_matrix){
		.size = sizeof(struct mxfp_matrix), .format = info->format,
		.rows = (size_t)(turned ? cols : rows),
		.cols = (size_t)(turned ? rows : cols),
		.data = operand->data,
		.transposed = tensor->by_columns != turned,
	};
	bool by_rows = order == OPERAND_ROWS || order == OPERAND_KEPT;
	return by_rows && tensor->by_columns ? put_into_rows(operand, error) : EXIT_OK;
}

struct mxfp_matrix matrix_of_blocks(const struct mxfp_blocks *blocks)
{
	return (struct mxfp_matrix){
		.size = sizeof(struct mxfp_matrix), .format = blocks->format,
		.rows = blocks->rows,
		.cols = blocks->cols,
		.data = blocks->codes,
		.scales = blocks->scales,
		.tensor_scale = blocks->tensor_scale,
		.tensor_scale_divides = blocks->tensor_scale_divides,
	};
}

/* The tensor as blocks in the operand's memory, which its matrix points at. */
static struct mxfp_blocks set_blocks(struct operand *operand, const struct quantized *quantized,
                                     const struct piece *whole)
{
	const struct mxfp_blocks blocks = quantized_blocks(quantized, whole, operand->data, operand->scales);

	operand->tensor = quantized->parts[LAYOUT_CODES];
	operand->matrix = matrix_of_blocks(&blocks);
	return blocks;
}

static int read_codes(struct operand *operand, const struct quantized *quantized, struct error *error)
{
	const struct piece whole = {.rows = (size_t)quantized->rows, .cols = (size_t)quantized->cols};
	struct mxfp_sizes size;
	uint64_t n_bytes;

	if (quantized->rows > SIZE_MAX || quantized->cols > SIZE_MAX ||
	    mxfp_blocks_size(&size, quantized->choice.form->format, whole.rows, whole.cols) != MXFP_OK)
		return fail_memory(error);
	int code = take_memory(&operand->data, size.codes_bytes, error);
	if (code == EXIT_OK)
		code = take_memory(&operand->scales, size.scales_bytes, error);
	if (code != EXIT_OK)
		return code;
	const struct mxfp_blocks blocks = set_blocks(operand, quantized, &whole);
	return quantized_read(quantized, &whole, &blocks, &n_bytes, error);
}

/* A sparse tensor as it is in the file. */
static int read_kept(struct operand *operand, const struct quantized *quantized, struct error *error)
{
	const struct piece whole = {.rows = (size_t)quantized->rows, .cols = (size_t)quantized->cols};
	struct mxfp_sizes blocks;
	struct mxfp_sparse sparse;
	struct mxfp_sparse_sizes size;

	if (quantized->rows > SIZE_MAX || quantized->cols > SIZE_MAX ||
	    mxfp_blocks_size(&blocks, quantized->choice.form->format, whole.rows, whole.cols) != MXFP_OK)
		return fail_memory(error);
	int code = quantized_sparse(quantized, &whole, &sparse, &size, error);
	if (code == EXIT_OK)
		code = take_memory(&operand->data, size.codes_bytes + size.masks_bytes, error);
	if (code == EXIT_OK)
		code = take_memory(&operand->scales, blocks.scales_bytes, error);
	if (code != EXIT_OK)
		return code;
	sparse.codes = operand->data;
	sparse.masks = (uint8_t *)operand->data + size.codes_bytes;
	set_blocks(operand, quantized, &whole);
	operand->matrix.sparsity = sparse.sparsity;
	operand->matrix.masks = sparse.masks;
	code = quantized_read_kept(quantized, &whole, &sparse, &size, error);
	return code == EXIT_OK ? layout_read_scales(quantized, &whole, operand->scales, error) : code;
}

static int read_tensor(struct operand *operand, const char *name, enum operand_order order, const char *done,
                       struct error *error)
{
	const struct model *model = &operand->model;
	const struct file *file;
	struct quantized quantized;
	bool found;
	int code = choose_name(model, &name, error);

	if (code == EXIT_OK)
		code = quantized_find(&quantized, &found, model, name, error);
	if (code != EXIT_OK)
		return code;
	if (found && order == OPERAND_TRANSPOSED)
		return fail(error, EXIT_USAGE, "%s: tensor '%.200s': is quantized along its rows, so it cannot be taken "
		            "transposed", model->path, name);
	if (found && quantized.choice.form->sparse && order == OPERAND_KEPT)
		return read_kept(operand, &quantized, error);
	if (found)
		return read_codes(operand, &quantized, error);
	operand->tensor = model_find(model, name, &file);
	if (operand->tensor == NULL)
		return fail_missing(model, name, error);
	return read_numbers(operand, file, order, done, error);
}

int operand_read(struct operand *operand, const char *text, enum operand_order order, const char *done,
                 struct error *error)
{
	const char *name;

	*operand = (struct operand){0};
	int code = open_model(&operand->model, text, &name, error);
	if (code == EXIT_OK)
		code = meaning_check(&operand->model, MEANING_READS, error);
	if (code == EXIT_OK)
		code = model_decode_scaled(&operand->model, false, error);
	if (code == EXIT_OK)
		code = read_tensor(operand, name, order, done, error);
	if (code != EXIT_OK)
		operand_free(operand);
	return code;
}

int operand_quantize(struct operand *operand, enum mxfp_format format, const struct mxfp_quantize_options *options,
                     unsigned threads, struct error *error)
{
	struct mxfp_matrix *matrix = &operand->matrix;
	struct mxfp_blocks blocks = {.size = sizeof blocks, .format = format, .rows = matrix->rows, .cols = matrix->cols};
	struct mxfp_sizes size;
	int code = matrix->transposed ? put_into_rows(operand, error) : EXIT_OK;

	if (code == EXIT_OK && mxfp_blocks_size(&size, format, matrix->rows, matrix->cols) != MXFP_OK)
		return fail_memory(error);
	if (code == EXIT_OK)
		code = take_memory(&blocks.codes, size.codes_bytes, error);
	if (code == EXIT_OK)
		code = take_memory(&operand->scales, size.scales_bytes, error);
	if (code != EXIT_OK) {
		free(blocks.codes);
		return code;
	}
	blocks.scales = operand->scales;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
	must_succeed(dense_quantize(&blocks, matrix->format, matrix->data, options, &exec));
	free(operand->data);
	operand->data = blocks.codes;
	operand->on_the_fly = true;
	*matrix = matrix_of_blocks(&blocks);
	return EXIT_OK;
}

void operand_free(struct operand *operand)
{
	free(operand->data);
	free(operand->scales);
	model_close(&operand->model);
	*operand = (struct operand){0};
}
