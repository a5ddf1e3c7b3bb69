/* SPDX-License-Identifier: MIT */
/* Writes a calibrated model: the source's files, in which some tensors have other numbers. */
#include "config.h"

#include "calibrate/running.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/piece.h"
#include "mxfp/quantize.h"

/* The dtype of calibrated numbers: the tensor's own if it holds all of them, which bf16 does of MX formats but for numbers below
   2^-133, and not of products with a tensor scale. */
static enum dtype dtype_of(const void *context, const struct tensor *source)
{
	const struct running *r = context;
	size_t n;
	const struct state_weight *weights = state_find(&r->state, source->name, &n);
	bool narrow = true;

	for (size_t i = 0; i < n; i++)
		narrow = narrow && weights[i].narrow;
	return n == 0 ? N_DTYPES : narrow ? source->dtype : DTYPE_F32;
}

/* A tensor that is being written. */
struct target {
	struct writer *writer;
	const struct tensor *tensor;
	bool by_columns;
	size_t rows, cols; /* of each of its matrices */
};

/* Writes rows of a matrix [rows][cols] that is stored [cols][rows]. */
static int write_columns(const struct target *t, size_t first, size_t n, const void *numbers, struct error *error)
{
	const size_t width = dtype_info(t->tensor->dtype)->bits / 8, matrix = first / t->rows, row = first % t->rows;
	const unsigned char *from = numbers;
	unsigned char *column = malloc(n * width + 1);
	int code = column != NULL ? EXIT_OK : fail_memory(error);

	for (size_t c = 0; c < t->cols && code == EXIT_OK; c++) {
		for (size_t i = 0; i < n; i++)
			memcpy(column + i * width, from + (i * t->cols + c) * width, width);
		code = writer_write(t->writer, t->tensor, (((uint64_t)matrix * t->cols + c) * t->rows + row) * width, column, n * width,
		                    error);
	}
	free(column);
	return code;
}

/* Decodes the blocks of a matrix, some rows at a time, or all if it is stored by columns, and writes their numbers. */
static int write_matrix(const struct target *t, const struct mxfp_matrix *blocks, size_t first, struct error *error)
{
	const enum mxfp_format format = dtype_info(t->tensor->dtype)->format;
	const size_t width = dtype_info(t->tensor->dtype)->bits / 8, row_bytes = blocks->cols * width;
	const size_t fit = PIECE_ELEMENTS / blocks->cols, most = t->by_columns ? blocks->rows : fit > 0 ? fit : 1;
	void *numbers = malloc(most * row_bytes + 1);
	struct mxfp_sizes size;
	int code = numbers != NULL ? EXIT_OK : fail_memory(error);

	must_succeed(mxfp_blocks_size(&size, blocks->format, 1, blocks->cols));
	for (size_t row = 0, n; row < blocks->rows && code == EXIT_OK; row += n) {
		struct mxfp_matrix some = *blocks;

		n = blocks->rows - row < most ? blocks->rows - row : most;
		some.rows = n;
		some.data = (const uint8_t *)blocks->data + row * size.codes_row_bytes;
		some.scales = (const uint8_t *)blocks->scales + row * size.scales_row_bytes;
		must_succeed(dense_dequantize(numbers, format, &some, NULL));
		dtype_swap(t->tensor->dtype, numbers, n * row_bytes);
		code = t->by_columns ? write_columns(t, first + row, n, numbers, error)
		                     : writer_write(t->writer, t->tensor, (uint64_t)(first + row) * row_bytes, numbers, n * row_bytes,
		                                    error);
	}
	free(numbers);
	return code;
}

static int write_tensor(const void *context, struct writer *writer, const struct tensor *tensor, struct error *error)
{
	const struct running *r = context;
	const struct quantize_entry *entry = entry_of(r, tensor->name);
	const size_t matrices = entry->source->rank > 2 ? (size_t)entry->source->shape[0] : 1;
	const struct target t = {writer, tensor, entry->source->by_columns, (size_t)entry->rows / matrices, (size_t)entry->cols};
	size_t n;
	const struct state_weight *weights = state_find(&r->state, tensor->name, &n);
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		struct mxfp_blocks blocks;
		void *memory;

		code = state_read_blocks(&r->state, &weights[i], &blocks, &memory, error);
		if (code == EXIT_OK) {
			const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);

			code = write_matrix(&t, &matrix, weights[i].row, error);
		}
		free(memory);
	}
	return code;
}

/* Has config.json say f32 if tensors became wider: a loader that rounds to what it says would make other numbers of them. */
static int configure(const void *context, json_t *config, struct error *error)
{
	const struct running *r = context;
	bool wider = false;

	json_prepare();
	for (size_t i = 0; i < r->state.n_weights; i++) {
		const enum dtype stored = entry_of(r, r->state.weights[i].name)->stored->dtype;

		wider = wider || (!r->state.weights[i].narrow && (stored == DTYPE_BF16 || stored == DTYPE_F16));
	}
	if (wider)
		model_config_widen(config, MXFP_FORMAT_F32, false);
	return json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

void write_prepare(struct running *r)
{
	r->edit = (struct edit){
		.command = "calibrate",
		.done = "calibrated",
		.out = r->settings->out,
		.force = r->settings->force,
		.resume = r->settings->resume,
		.transient = r->settings->transient,
		.quiet = r->settings->quiet,
		.threads = r->settings->threads,
		.model = r->model,
		.context = r,
		.dtype = dtype_of,
		.write = write_tensor,
		.configure = configure,
		.carry = &r->done->carry,
	};
}
