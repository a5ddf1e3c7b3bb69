/* SPDX-License-Identifier: MIT */
/*
 * Writes the quantized model. Data are read in the order of the source file, in pieces, and hashed on the way;
 * NVFP4 reads a tensor once more, before, for its largest magnitude.
 */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "model_output.h"
#include "progress.h"
#include "quantize.h"
#include "quantize_metadata.h"
#include "transfer.h"

struct running {
	struct quantize_plan *plan;
	struct model_output output;
	struct transfer transfer; /* its hash is that of the source's data so far */
	float *narrowed;          /* a piece of f64 numbers as f32 */
	unsigned char *codes, *scales;
};

static_assert((size_t)TRANSFER_BYTES >= PIECE_ELEMENTS * sizeof(double), "a piece of the widest type fits the buffer");

static int allocate(struct running *r, struct error *error)
{
	r->transfer.hash = XXH3_createState();
	r->transfer.buffer = malloc(TRANSFER_BYTES);
	r->narrowed = malloc(PIECE_ELEMENTS * sizeof *r->narrowed);
	r->codes = malloc(PIECE_ELEMENTS);
	r->scales = malloc(PIECE_ELEMENTS / 16); /* the shortest block */
	if (r->transfer.hash == NULL || r->transfer.buffer == NULL || r->narrowed == NULL || r->codes == NULL ||
	    r->scales == NULL)
		return fail_memory(error);
	return EXIT_OK;
}

static void release(struct running *r)
{
	XXH3_freeState(r->transfer.hash);
	free(r->transfer.buffer);
	free(r->narrowed);
	free(r->codes);
	free(r->scales);
}

/* Numbers of a piece in memory, in the host's byte order. */
struct numbers {
	const void *data;
	enum mxfp_format format;
	size_t n;
};

/* Reads a piece of a float tensor; f64 is rounded to f32, to nearest even. */
static int read_piece(struct running *r, const struct quantize_entry *entry, const struct piece *piece, bool hashed,
                      struct numbers *numbers, struct error *error)
{
	enum dtype dtype = entry->source->dtype;
	size_t width = dtype_info(dtype)->bits / 8;
	size_t n = piece->rows * piece->cols;
	int code = transfer_read(&r->transfer, entry->source, (piece->row * entry->cols + piece->col) * width,
	                         n * width, error);

	if (code != EXIT_OK)
		return code;
	if (hashed)
		XXH3_128bits_update(r->transfer.hash, r->transfer.buffer, n * width);
	dtype_swap(dtype, r->transfer.buffer, n * width);
	*numbers = (struct numbers){r->transfer.buffer, dtype_info(dtype)->format, n};
	if (dtype == DTYPE_F64) {
		for (size_t i = 0; i < n; i++) {
			double number;

			memcpy(&number, r->transfer.buffer + i * sizeof number, sizeof number);
			r->narrowed[i] = (float)number;
		}
		*numbers = (struct numbers){r->narrowed, MXFP_FORMAT_F32, n};
	}
	return EXIT_OK;
}

static int find_amax(struct running *r, const struct quantize_entry *entry, float *amax, struct error *error)
{
	const struct mxfp_amax_options options = {.threads = (unsigned)r->plan->settings->threads};
	struct piece piece = {0};
	struct numbers numbers;
	int code = EXIT_OK;

	*amax = 0;
	while (code == EXIT_OK && piece_next(&piece, entry->rows, entry->cols)) {
		code = read_piece(r, entry, &piece, false, &numbers, error);
		if (code != EXIT_OK)
			break;
		enum mxfp_status status = mxfp_amax(numbers.data, numbers.format, numbers.n, amax, &options);
		assert(status == MXFP_OK);
		(void)status;
	}
	return code;
}

static int fail_non_finite(const struct running *r, const struct quantize_entry *entry, uint64_t index,
                           struct error *error)
{
	const char *what = entry->source->dtype == DTYPE_F64 ? "NaN or Inf, or too large for f32" : "NaN or Inf";

	return fail_tensor(error, r->transfer.file->path, entry->source->name,
	                   "element %" PRIu64 " (row %" PRIu64 ", column %" PRIu64
	                   ") is %s / --non-finite propagate or saturate goes on",
	                   index, index / entry->cols, index % entry->cols, what);
}

static int write_parts(struct running *r, const struct quantize_entry *entry, const struct layout_slice *slice,
                       const struct mxfp_blocks *blocks, struct error *error)
{
	const struct tensor *codes = writer_find(&r->transfer.writer, entry->parts[LAYOUT_CODES].dtype,
	                                         entry->parts[LAYOUT_CODES].name);
	const struct tensor *scales = writer_find(&r->transfer.writer, entry->parts[LAYOUT_SCALES].dtype,
	                                          entry->parts[LAYOUT_SCALES].name);
	int code = writer_write(&r->transfer.writer, codes, slice->codes_from, blocks->codes,
	                        slice->size.codes_bytes, error);

	if (code != EXIT_OK)
		return code;
	return writer_write(&r->transfer.writer, scales, slice->scales_from, blocks->scales,
	                    slice->size.scales_bytes, error);
}

/* A recipe without a tensor scale gives 1, which divides as well as it multiplies. */
static int write_tensor_scale(struct running *r, const struct quantize_entry *entry, const struct mxfp_blocks *blocks,
                              struct error *error)
{
	const struct tensor *part = &entry->parts[LAYOUT_TENSOR_SCALE];
	float scale = blocks->tensor_scale;

	assert(blocks->tensor_scale_divides || scale == 1);
	dtype_swap(DTYPE_F32, &scale, sizeof scale);
	return writer_write(&r->transfer.writer, writer_find(&r->transfer.writer, part->dtype, part->name), 0,
	                    &scale, sizeof scale, error);
}

static struct mxfp_quantize_options options_of(const struct quantize_settings *s, const struct quantize_entry *entry)
{
	return (struct mxfp_quantize_options){
		.rule = (enum mxfp_rule)s->rule,
		.recipe = (enum mxfp_recipe)s->recipe,
		.round = (enum mxfp_round)s->round,
		.non_finite = (enum mxfp_non_finite)s->non_finite,
		.seed = s->seed,
		.stream = XXH3_64bits(entry->source->name, strlen(entry->source->name)),
		.threads = (unsigned)s->threads,
	};
}

static int quantize(struct running *r, struct quantize_entry *entry, struct error *error)
{
	enum mxfp_format format = r->plan->layout->format;
	struct mxfp_quantize_options options = options_of(r->plan->settings, entry);
	struct mxfp_blocks blocks = {.format = format, .codes = r->codes, .scales = r->scales};
	struct piece piece = {0};
	struct numbers numbers;
	float amax;
	uint64_t index;
	int code = EXIT_OK;

	options.counts = &entry->counts;
	options.first_non_finite = &index;
	if (mxfp_format_info(format)->tensor_scale) {
		code = find_amax(r, entry, &amax, error);
		options.tensor_amax = &amax;
	}
	while (code == EXIT_OK && piece_next(&piece, entry->rows, entry->cols)) {
		struct layout_slice slice = layout_slice(format, entry->cols, &piece);

		code = read_piece(r, entry, &piece, true, &numbers, error);
		if (code != EXIT_OK)
			break;
		options.first_index = piece.row * entry->cols + piece.col;
		blocks.rows = piece.rows;
		blocks.cols = piece.cols;
		enum mxfp_status status = mxfp_quantize(&blocks, numbers.data, numbers.format, 0, &options);
		if (status == MXFP_ERR_NON_FINITE)
			return fail_non_finite(r, entry, index, error);
		assert(status == MXFP_OK);
		code = write_parts(r, entry, &slice, &blocks, error);
	}
	if (code == EXIT_OK && entry->n_parts > LAYOUT_TENSOR_SCALE)
		code = write_tensor_scale(r, entry, &blocks, error);
	return code;
}

/* The tensors of the file that is made from r->transfer.file. */
static int list_parts(struct running *r, const struct quantize_entry *entries, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < r->transfer.file->n_tensors; i++)
		n += entries[i].n_parts;
	r->transfer.writer.tensors = calloc(n + 1, sizeof *r->transfer.writer.tensors);
	if (r->transfer.writer.tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < r->transfer.file->n_tensors; i++)
		for (unsigned k = 0; k < entries[i].n_parts; k++)
			r->transfer.writer.tensors[r->transfer.writer.n_tensors++] = entries[i].parts[k];
	return EXIT_OK;
}

static int write_data(struct running *r, struct quantize_entry *entries, struct error *error)
{
	int code = EXIT_OK;

	XXH3_128bits_reset(r->transfer.hash);
	for (size_t i = 0; i < r->transfer.file->n_tensors && code == EXIT_OK; i++)
		code = entries[i].quantized ? quantize(r, &entries[i], error)
		                            : transfer_copy(&r->transfer, entries[i].source, error);
	return code;
}

static int write_file(struct running *r, struct quantize_entry *entries, struct error *error)
{
	struct quantize_metadata metadata = {0};
	char *path = model_output_path(&r->output, r->transfer.file);

	r->transfer.writer = (struct writer){.path = path, .fd = -1};
	int code = path == NULL ? fail_memory(error) : list_parts(r, entries, error);
	if (code == EXIT_OK)
		code = quantize_metadata_make(&metadata, r->plan, r->transfer.file, entries, error);
	r->transfer.writer.metadata = metadata.pairs;
	r->transfer.writer.n_metadata = metadata.n;
	if (code == EXIT_OK)
		code = writer_open(&r->transfer.writer, error);
	if (code == EXIT_OK)
		code = write_data(r, entries, error);
	if (code == EXIT_OK) {
		quantize_metadata_set_hash(&metadata, XXH3_128bits_digest(r->transfer.hash));
		code = writer_close(&r->transfer.writer, error);
	}
	if (code == EXIT_OK)
		code = model_output_add(&r->output, r->transfer.file, &r->transfer.writer, error);
	writer_abandon(&r->transfer.writer);
	free(r->transfer.writer.tensors);
	quantize_metadata_free(&metadata);
	free(path);
	return code;
}

static int write_files(struct running *r, struct error *error)
{
	const struct model *model = r->plan->model;
	struct quantize_entry *entries = r->plan->entries;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		r->transfer.file = &model->files[f];
		code = write_file(r, entries, error);
		entries += r->transfer.file->n_tensors;
	}
	return code;
}

static uint64_t bytes_to_read(const struct quantize_plan *plan)
{
	uint64_t bytes = plan->input_bytes;

	if (mxfp_format_info(plan->layout->format)->tensor_scale)
		for (size_t i = 0; i < plan->n_entries; i++)
			bytes += plan->entries[i].quantized ? plan->entries[i].source->size : 0;
	return bytes;
}

int quantize_run(struct quantize_plan *plan, struct error *error)
{
	const struct quantize_settings *settings = plan->settings;
	struct running r = {.plan = plan};
	json_t *config = NULL;
	int code = model_output_begin(&r.output, plan->model, settings->out, false, settings->force, error);

	if (code == EXIT_OK)
		code = allocate(&r, error);
	if (code == EXIT_OK)
		code = quantize_config(plan, &config, error);
	progress_start(&r.transfer.progress, "quantizing", bytes_to_read(plan), settings->quiet);
	if (code == EXIT_OK)
		code = write_files(&r, error);
	progress_end(&r.transfer.progress);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, config, error);
	model_output_abandon(&r.output);
	json_decref(config);
	release(&r);
	return code;
}
