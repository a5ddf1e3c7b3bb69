/* SPDX-License-Identifier: MIT */
/* Writes a calibrated model: the source's files, in which some tensors have other numbers. */
#include "config.h"

#include "calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "eval/network.h"
#include "io/file_gguf.h"
#include "io/json.h"
#include "io/transfer.h"
#include "model/model_output.h"
#include "mxfp/quantize.h"
#include "mxfp/version.h"

/* A file being written. */
struct writing {
	const struct model *model;
	const struct network *network;
	const char *carried;
	struct calibration *done;
	struct model_output output;
	struct transfer transfer;
};

int calibrate_check_output(const struct calibrate_settings *settings, const struct model *model, struct error *error)
{
	const struct file_format *format = file_format_named(settings->out);
	struct output output = {0};
	int code = EXIT_OK;

	if (model->n_files > 0 && model->files[0].format == &file_gguf)
		return fail(error, EXIT_USAGE, "%s: GGUF files cannot be calibrated; give the model's safetensors files", model->path);
	code = model_output_check_source(model, settings->out, error);
	if (code == EXIT_OK)
		code = model_output_check_apart(model, settings->out, error);
	if (code != EXIT_OK)
		return code;
	if (format != NULL && model->is_directory)
		return fail(error, EXIT_USAGE, "%s: the input is a directory, so the output is one; leave out the suffix", settings->out);
	if (format != NULL && (format->lay_out == NULL || strcmp(format->name, "safetensors") != 0))
		return fail(error, EXIT_USAGE, "%s: a calibrated model is a directory or a .safetensors file", settings->out);
	code = format != NULL ? output_begin_file(&output, settings->out, settings->force, error)
	                      : output_begin_directory(&output, settings->out, settings->force, error);
	output_abandon(&output);
	return code;
}

/* The dtype of calibrated numbers: bf16 holds all that an MX format does, except below 2^-133, but not products with a tensor
   scale. */
static enum dtype dtype_of(const struct tensor *source, enum mxfp_format format)
{
	return source->dtype == DTYPE_BF16 && !mxfp_format_get_info(format)->tensor_scale ? DTYPE_BF16 : DTYPE_F32;
}

/* Decodes the blocks of a tensor, some rows at a time, and writes their numbers. */
static int write_blocks(struct writing *w, const struct tensor *source, const struct mxfp_matrix *blocks, struct error *error)
{
	const struct tensor *target = writer_find(&w->transfer.writer, source->name);
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
		code = writer_write(&w->transfer.writer, target, row * row_bytes, numbers, n * row_bytes, error);
	}
	free(numbers);
	return code;
}

/* Lists tensors and metadata of a file of the output. */
static int plan_file(struct writing *w, const struct file *file, struct error *error)
{
	struct writer *writer = &w->transfer.writer;

	writer->tensors = calloc(file->n_tensors + 1, sizeof *writer->tensors);
	writer->metadata = calloc(file->n_metadata + 2, sizeof *writer->metadata);
	if (writer->tensors == NULL || writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[writer->n_tensors++];

		*tensor = file->tensors[i];
		const struct mxfp_matrix *blocks = network_replaced(w->network, tensor->name);
		if (blocks != NULL)
			tensor->dtype = dtype_of(tensor, blocks->format);
		else
			w->done->n_kept++;
	}
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!metadata_is_own(file->metadata[i].key))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_VERSION, mxfp_version()};
	if (w->carried != NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_CARRIED, w->carried};
	return EXIT_OK;
}

static int write_file(struct writing *w, const struct file *file, struct error *error)
{
	struct writer *writer = &w->transfer.writer;
	char *path = partial_file(&w->output.partial, model_output_name(&w->output, file));

	*writer = (struct writer){.path = path, .source = file, .fd = -1};
	w->transfer.file = file;
	int code = path != NULL ? plan_file(w, file, error) : fail_memory(error);
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		const struct mxfp_matrix *blocks = network_replaced(w->network, file->tensors[i].name);

		code = blocks != NULL ? write_blocks(w, &file->tensors[i], blocks, error)
		                      : transfer_copy(&w->transfer, &file->tensors[i], error);
	}
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	if (code == EXIT_OK)
		code = model_output_add(&w->output, file, writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	free(path);
	return code;
}

int calibrate_write(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                    const struct network *network, struct error *error)
{
	const bool as_file = file_format_named(settings->out) != NULL;
	struct writing w = {.model = model, .network = network, .done = done, .transfer.threads = settings->threads};
	json_t *config = NULL;
	int code = as_file ? EXIT_OK : carry_list(&done->carry, model, error);

	if (code == EXIT_OK && done->carry.n > 0) {
		w.carried = carry_text(&done->carry);
		if (w.carried == NULL)
			code = fail_memory(error);
	}
	if (code != EXIT_OK)
		return code;
	json_prepare();
	json_t *fingerprint = json_pack("{s:s}", "command", "calibrate");
	code = json_out_of_memory() ? fail_memory(error)
	                            : model_output_begin(&w.output, model,
	                                                 &(struct partial_target){settings->out, as_file, settings->force, false},
	                                                 fingerprint, error);
	json_decref(fingerprint);
	if (code == EXIT_OK)
		code = model_config_copy(model, &config, error);
	if (code == EXIT_OK)
		code = transfer_begin(&w.transfer, error);
	progress_start(&w.transfer.progress, "writing", model->data_bytes, settings->quiet);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++)
		code = write_file(&w, &model->files[f], error);
	progress_end(&w.transfer.progress);
	if (code == EXIT_OK)
		code = carry_copy(&done->carry, model->directory, w.output.partial.output.temporary, error);
	if (code == EXIT_OK)
		code = model_output_commit(&w.output, config, error);
	/* Nothing that a later run could continue is kept. */
	const int ended = model_output_end(&w.output, code == EXIT_OK ? EXIT_OK : EXIT_INPUT, error);
	json_decref(config);
	transfer_end(&w.transfer);
	return code == EXIT_OK ? ended : code;
}
