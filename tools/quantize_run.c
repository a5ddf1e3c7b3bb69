/* SPDX-License-Identifier: MIT */
/*
 * Writes the quantized model. Data are read in the order of the source file and hashed on the way; NVFP4 reads a
 * tensor once more, before, for its largest magnitude.
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
};

static int allocate(struct running *r, struct error *error)
{
	r->transfer.threads = r->plan->settings->threads;
	r->transfer.hash = XXH3_createState();
	return r->transfer.hash == NULL ? fail_memory(error) : transfer_begin(&r->transfer, error);
}

static void release(struct running *r)
{
	XXH3_freeState(r->transfer.hash);
	transfer_end(&r->transfer);
}

/* A tensor at work. */
struct quantizing {
	struct transfer *transfer;
	const struct quantize_entry *entry;
	struct mxfp_quantize_options options; /* of each piece, but for its place */
	enum mxfp_format format;
	const struct tensor *codes, *scales;  /* of the output */
	bool hashed;                          /* false for the first of two readings */
	float amax[TRANSFER_WORKERS];         /* of what each has seen */
};

static size_t source_width(const struct quantizing *q)
{
	return dtype_info(q->entry->source->dtype)->bits / 8;
}

static uint64_t first_index(const struct quantizing *q, const struct transfer_piece *piece)
{
	return piece->piece.row * q->entry->cols + piece->piece.col;
}

static size_t piece_elements(const struct transfer_piece *piece)
{
	return piece->piece.rows * piece->piece.cols;
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct quantizing *q = context;
	size_t width = source_width(q), n = piece_elements(piece) * width;
	int code = file_read(q->transfer->file, q->entry->source, first_index(q, piece) * width, piece->bytes, n, error);

	*n_bytes = n;
	if (code == EXIT_OK && q->hashed)
		XXH3_128bits_update(q->transfer->hash, piece->bytes, n);
	return code;
}

/* Turns the bytes read into numbers of the host's byte order and returns their format; f64 is rounded to f32, to
   nearest even. */
static enum mxfp_format prepare(const struct quantizing *q, const struct transfer_piece *piece)
{
	enum dtype dtype = q->entry->source->dtype;
	size_t n = piece_elements(piece);

	dtype_swap(dtype, piece->bytes, n * source_width(q));
	if (dtype != DTYPE_F64)
		return dtype_info(dtype)->format;
	for (size_t i = 0; i < n; i++) {
		double wide;

		memcpy(&wide, piece->bytes + i * sizeof wide, sizeof wide);
		float number = (float)wide;
		memcpy(piece->bytes + i * sizeof number, &number, sizeof number);
	}
	return MXFP_FORMAT_F32;
}

static int fail_non_finite(const struct quantizing *q, uint64_t index, struct error *error)
{
	const struct quantize_entry *entry = q->entry;
	const char *what = entry->source->dtype == DTYPE_F64 ? "NaN or Inf, or too large for f32" : "NaN or Inf";

	return fail_tensor(error, q->transfer->file->path, entry->source->name,
	                   "element %" PRIu64 " (row %" PRIu64 ", column %" PRIu64
	                   ") is %s / --non-finite propagate or saturate goes on",
	                   index, index / entry->cols, index % entry->cols, what);
}

static int write_parts(const struct quantizing *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                       struct error *error)
{
	struct layout_slice slice = layout_slice(q->format, q->entry->cols, piece);
	int code = writer_write(&q->transfer->writer, q->codes, slice.codes_from, blocks->codes,
	                        slice.size.codes_bytes, error);

	if (code != EXIT_OK)
		return code;
	return writer_write(&q->transfer->writer, q->scales, slice.scales_from, blocks->scales,
	                    slice.size.scales_bytes, error);
}

static int quantize_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                          struct error *error)
{
	const struct quantizing *q = context;
	struct mxfp_quantize_options options = q->options;
	struct mxfp_blocks blocks = {
		.format = q->format,
		.rows = piece->piece.rows,
		.cols = piece->piece.cols,
		.codes = piece->result,
		.scales = piece->result + PIECE_ELEMENTS,
	};
	enum mxfp_format format = prepare(q, piece);
	uint64_t index;

	options.first_index = first_index(q, piece);
	options.first_non_finite = &index;
	options.counts = counts;
	enum mxfp_status status = mxfp_quantize(&blocks, piece->bytes, format, 0, &options);
	if (status == MXFP_ERR_NON_FINITE)
		return fail_non_finite(q, index, error);
	assert(status == MXFP_OK);
	return write_parts(q, &piece->piece, &blocks, error);
}

static int raise_amax(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                      struct error *error)
{
	struct quantizing *q = (struct quantizing *)context;
	const struct mxfp_amax_options options = {.threads = 1};
	enum mxfp_format format = prepare(q, piece);
	enum mxfp_status status =
		mxfp_amax(piece->bytes, format, piece_elements(piece), &q->amax[piece->worker], &options);

	(void)counts, (void)error;
	assert(status == MXFP_OK);
	(void)status;
	return EXIT_OK;
}

static int find_amax(struct quantizing *q, float *amax, struct error *error)
{
	const struct transfer_job job = {
		.rows = q->entry->rows,
		.cols = q->entry->cols,
		.read = read_piece,
		.work = raise_amax,
		.context = q,
	};
	int code = transfer_run(q->transfer, &job, error);

	*amax = 0;
	for (unsigned i = 0; i < TRANSFER_WORKERS; i++)
		if (q->amax[i] > *amax)
			*amax = q->amax[i];
	return code;
}

/* A recipe without a tensor scale gives 1, which divides as well as it multiplies. */
static int write_tensor_scale(const struct quantizing *q, struct error *error)
{
	const struct tensor *part = &q->entry->parts[LAYOUT_TENSOR_SCALE];
	struct mxfp_blocks none = {.format = q->format};
	enum mxfp_status status = mxfp_quantize(&none, NULL, MXFP_FORMAT_F32, 0, &q->options);
	float scale = none.tensor_scale;

	assert(status == MXFP_OK && (none.tensor_scale_divides || scale == 1));
	(void)status;
	dtype_swap(DTYPE_F32, &scale, sizeof scale);
	return writer_write(&q->transfer->writer, writer_find(&q->transfer->writer, part->dtype, part->name), 0,
	                    &scale, sizeof scale, error);
}

/* Threads take pieces, so each piece has one. */
static struct mxfp_quantize_options options_of(const struct quantize_settings *s, const struct quantize_entry *entry)
{
	return (struct mxfp_quantize_options){
		.rule = (enum mxfp_rule)s->rule,
		.recipe = (enum mxfp_recipe)s->recipe,
		.round = (enum mxfp_round)s->round,
		.non_finite = (enum mxfp_non_finite)s->non_finite,
		.seed = s->seed,
		.stream = XXH3_64bits(entry->source->name, strlen(entry->source->name)),
		.threads = 1,
	};
}

static const struct tensor *find_part(const struct running *r, const struct quantize_entry *entry,
                                      enum layout_part part)
{
	return writer_find(&r->transfer.writer, entry->parts[part].dtype, entry->parts[part].name);
}

static int quantize(struct running *r, struct quantize_entry *entry, struct error *error)
{
	struct quantizing q = {
		.transfer = &r->transfer,
		.entry = entry,
		.options = options_of(r->plan->settings, entry),
		.format = r->plan->layout->format,
		.codes = find_part(r, entry, LAYOUT_CODES),
		.scales = find_part(r, entry, LAYOUT_SCALES),
	};
	const struct transfer_job job = {
		.rows = entry->rows,
		.cols = entry->cols,
		.read = read_piece,
		.work = quantize_piece,
		.context = &q,
		.counts = &entry->counts,
	};
	bool has_tensor_scale = entry->n_parts > LAYOUT_TENSOR_SCALE;
	float amax;
	int code = EXIT_OK;

	if (has_tensor_scale) {
		code = find_amax(&q, &amax, error);
		q.options.tensor_amax = &amax;
	}
	q.hashed = true;
	if (code == EXIT_OK)
		code = transfer_run(&r->transfer, &job, error);
	if (code == EXIT_OK && has_tensor_scale)
		code = write_tensor_scale(&q, error);
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
