/* SPDX-License-Identifier: MIT */
/* Writes a calibrated model: the source's files, in which some tensors have other numbers. */
#include "config.h"

#include "calibrate/calibrate.h"

#include <stdlib.h>

#include "base/must_succeed.h"
#include "eval/network.h"
#include "io/piece.h"
#include "model/edit.h"
#include "mxfp/quantize.h"

/* The dtype of calibrated numbers: bf16 holds all that an MX format does, except below 2^-133, but not products with a tensor
   scale. */
static enum dtype dtype_of(const void *context, const struct tensor *source)
{
	const struct network *network = context;
	const struct mxfp_matrix *blocks = network_replaced(network, source->name);

	if (blocks == NULL)
		return N_DTYPES;
	return source->dtype == DTYPE_BF16 && !mxfp_format_get_info(blocks->format)->tensor_scale ? DTYPE_BF16 : DTYPE_F32;
}

/* Decodes the blocks of a tensor, some rows at a time, and writes their numbers. */
static int write_blocks(const void *context, struct writer *writer, const struct tensor *target, struct error *error)
{
	const struct network *network = context;
	const struct mxfp_matrix *blocks = network_replaced(network, target->name);
	const enum mxfp_format format = dtype_info(target->dtype)->format;
	const size_t width = dtype_info(target->dtype)->bits / 8, row_bytes = blocks->cols * width;
	const size_t most = PIECE_ELEMENTS / blocks->cols > 0 ? PIECE_ELEMENTS / blocks->cols : 1;
	void *numbers = malloc(most * row_bytes + 1);
	struct mxfp_sizes size;
	int code = numbers != NULL ? EXIT_OK : fail_memory(error);

	must_succeed(mxfp_blocks_size(blocks->format, 1, blocks->cols, &size));
	for (size_t row = 0, n; row < blocks->rows && code == EXIT_OK; row += n) {
		struct mxfp_matrix some = *blocks;

		n = blocks->rows - row < most ? blocks->rows - row : most;
		some.rows = n;
		some.data = (const uint8_t *)blocks->data + row * size.codes_row_bytes;
		some.scales = (const uint8_t *)blocks->scales + row * size.scales_row_bytes;
		must_succeed(mxfp_dequantize(&some, numbers, format, 0, NULL));
		dtype_swap(target->dtype, numbers, n * row_bytes);
		code = writer_write(writer, target, row * row_bytes, numbers, n * row_bytes, error);
	}
	free(numbers);
	return code;
}

static struct edit edit_of(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                           const struct network *network)
{
	return (struct edit){
		.command = "calibrate",
		.done = "calibrated",
		.out = settings->out,
		.force = settings->force,
		.quiet = settings->quiet,
		.threads = settings->threads,
		.model = model,
		.context = network,
		.dtype = dtype_of,
		.write = write_blocks,
		.carry = &done->carry,
	};
}

int calibrate_check_output(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                           struct error *error)
{
	const struct edit edit = edit_of(done, settings, model, NULL);

	return edit_check(&edit, error);
}

int calibrate_write(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                    const struct network *network, struct error *error)
{
	struct edit edit = edit_of(done, settings, model, network);
	const int code = edit_write(&edit, error);

	done->n_kept = edit.n_kept;
	return code;
}
