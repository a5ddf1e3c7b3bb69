/* SPDX-License-Identifier: MIT */
/* Decodes quantized tensors and copies the others; scales are dropped with the tensors that they belong to. */
#include "config.h"

#include "rewrite/dequantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/file_gguf.h"
#include "io/transfer.h"
#include "model/model_output.h"
#include "model/quantized.h"
#include "rewrite/decode.h"

/* What becomes of a tensor of the source. */
enum becomes { BECOMES_KEPT, BECOMES_CODES, BECOMES_Q8_0, BECOMES_DROPPED };

struct entry {
	enum becomes becomes;
	struct quantized quantized; /* BECOMES_CODES */
	struct tensor output;       /* unless BECOMES_DROPPED */
	const char *fused;          /* of experts: the tensor that it is columns of; NULL: none */
	struct decode_columns columns;
	struct tensor whole;        /* that one, at the first of them; no name: none */
};

struct running {
	const struct dequantize_settings *settings;
	const struct model *model;
	const struct file_format *format; /* of the output */
	enum dtype dtype;           /* of decoded numbers */
	struct model_output output;
	struct transfer transfer;
	struct entry *entries;      /* of the current file */
	struct arena arena;         /* their names and shapes */
	struct dequantize_counts counts;
};

static int set_codes(struct running *r, struct entry *entry, const char *name, struct error *error)
{
	const struct layout_shape *source = &entry->quantized.shape;
	uint64_t *shape = arena_take(&r->arena, source->rank * sizeof *shape);

	if (shape == NULL)
		return fail_memory(error);
	decode_shape(shape, &entry->quantized);
	entry->becomes = BECOMES_CODES;
	entry->output = (struct tensor){.name = name, .dtype = r->dtype, .rank = source->rank, .shape = shape};
	return EXIT_OK;
}

static int plan_entry(struct running *r, struct entry *entry, const struct tensor *tensor, struct error *error)
{
	const char *name;

	*entry = (struct entry){.becomes = BECOMES_KEPT, .output = *tensor};
	if (tensor->dtype == DTYPE_Q8_0) {
		entry->becomes = BECOMES_Q8_0;
		entry->output.dtype = r->dtype;
		return EXIT_OK;
	}
	int code = quantized_owner(&entry->quantized, &name, r->model, tensor, &r->arena, error);
	if (code != EXIT_OK || name == NULL)
		return code;
	if (entry->quantized.parts[LAYOUT_CODES] == tensor)
		return set_codes(r, entry, name, error);
	entry->becomes = BECOMES_DROPPED;
	return EXIT_OK;
}

static int compare_names(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;

	return strcmp((*x)->output.name, (*y)->output.name);
}

/* The quantized tensors of the file at hand. */
struct by_name {
	size_t n;
	struct entry **entries;
};

enum { NAME_BYTES = 512 };

/* A projection of an expert of a module, of the shape that `like` has, if that is not NULL. NULL: there is none. */
static struct entry *find_expert(const struct by_name *by_name, const char *module, uint64_t expert, const char *projection,
                                 const struct entry *like)
{
	char name[NAME_BYTES];
	struct entry named = {.output.name = name}, *key = &named;

	snprintf(name, sizeof name, "%s.%" PRIu64 ".%s.weight", module, expert, projection);
	struct entry **found = by_name->n == 0 ? NULL
	                                       : bsearch(&key, by_name->entries, by_name->n, sizeof key, compare_names);
	if (found == NULL || (*found)->output.rank != 2 ||
	    (like != NULL && memcmp((*found)->output.shape, like->output.shape, 2 * sizeof *like->output.shape) != 0))
		return NULL;
	return *found;
}

/* Makes one tensor of some projections of a module's experts, if the unquantized model has such a tensor and all of them
   are quantized in this file: the reverse of model_split_experts(). */
static int fuse_experts(struct running *r, const struct by_name *by_name, const char *module,
                        const char *const *projections, size_t n, const char *whole, struct error *error)
{
	const struct role_model *model = &r->model->role_model;
	struct entry *first = find_expert(by_name, module, 0, projections[0], NULL);
	char name[NAME_BYTES];
	const struct tensor fused = {.name = name, .rank = 3, .shape = (uint64_t[]){1, 1, 1}};

	snprintf(name, sizeof name, "%s.%s", module, whole);
	if (first == NULL || role_of(model, &fused).kind != ROLE_SEQUENTIAL)
		return EXIT_OK;
	for (uint64_t e = 0; e < model->experts; e++)
		for (size_t i = 0; i < n; i++)
			if (find_expert(by_name, module, e, projections[i], first) == NULL)
				return EXIT_OK;
	const uint64_t out = first->output.shape[0], in = first->output.shape[1];
	uint64_t *shape = arena_take(&r->arena, 3 * sizeof *shape);
	char *kept = arena_string(&r->arena, name);
	if (shape == NULL || kept == NULL)
		return fail_memory(error);
	for (uint64_t e = 0; e < model->experts; e++)
		for (size_t i = 0; i < n; i++) {
			struct entry *part = find_expert(by_name, module, e, projections[i], first);

			part->fused = kept;
			part->columns = (struct decode_columns){e * in * n * out + i * out, n * out};
		}
	shape[0] = model->experts;
	shape[1] = in;
	shape[2] = n * out;
	first->whole = (struct tensor){.name = kept, .dtype = r->dtype, .rank = 3, .shape = shape};
	return EXIT_OK;
}

/* The same in every module of the file. */
static int fuse_all(struct running *r, struct error *error)
{
	static const char *const gate_up[] = {"gate_proj", "up_proj"}, *const down[] = {"down_proj"};
	static const char first_gate[] = ".experts.0.gate_proj.weight", first_down[] = ".experts.0.down_proj.weight";
	const size_t n = r->transfer.file->n_tensors;
	struct by_name by_name = {0, calloc(n + 1, sizeof *by_name.entries)};
	int code = by_name.entries == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (r->entries[i].becomes == BECOMES_CODES)
			by_name.entries[by_name.n++] = &r->entries[i];
	if (code == EXIT_OK)
		qsort(by_name.entries, by_name.n, sizeof *by_name.entries, compare_names);
	for (size_t i = 0; i < by_name.n && code == EXIT_OK; i++) {
		const char *name = by_name.entries[i]->output.name;
		const size_t gate = suffix_stem(name, first_gate), stem = gate != 0 ? gate : suffix_stem(name, first_down);
		char module[NAME_BYTES - 64];

		if (stem == 0 || stem + strlen(".experts") >= sizeof module)
			continue;
		snprintf(module, sizeof module, "%.*s.experts", (int)stem, name);
		code = gate != 0 ? fuse_experts(r, &by_name, module, gate_up, 2, "gate_up_proj", error)
		                 : fuse_experts(r, &by_name, module, down, 1, "down_proj", error);
	}
	free(by_name.entries);
	return code;
}

/* Decides what becomes of the tensors of the current file, and lists those of the output. */
static int plan_file(struct running *r, struct error *error)
{
	const struct file *file = r->transfer.file;
	struct writer *writer = &r->transfer.writer;
	int code = EXIT_OK;

	r->entries = calloc(file->n_tensors + 1, sizeof *r->entries);
	writer->tensors = calloc(file->n_tensors + 1, sizeof *writer->tensors);
	if (r->entries == NULL || writer->tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		code = plan_entry(r, &r->entries[i], &file->tensors[i], error);
		r->counts.decoded += r->entries[i].becomes == BECOMES_CODES || r->entries[i].becomes == BECOMES_Q8_0;
		r->counts.kept += r->entries[i].becomes == BECOMES_KEPT;
	}
	if (code == EXIT_OK)
		code = fuse_all(r, error);
	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++)
		if (r->entries[i].whole.name != NULL)
			writer->tensors[writer->n_tensors++] = r->entries[i].whole;
		else if (r->entries[i].becomes != BECOMES_DROPPED && r->entries[i].fused == NULL)
			writer->tensors[writer->n_tensors++] = r->entries[i].output;
	return code;
}

/* Copies the source's metadata without what `mxfp quantize` added. */
static int copy_metadata(struct running *r, struct error *error)
{
	static const char own_prefix[] = "mxfp.";
	const struct file *file = r->transfer.file;
	struct writer *writer = &r->transfer.writer;

	writer->metadata = calloc(file->n_metadata + 1, sizeof *writer->metadata);
	if (writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_metadata; i++)
		if (strncmp(file->metadata[i].key, own_prefix, strlen(own_prefix)) != 0)
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	return EXIT_OK;
}

static int write_data(struct running *r, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < r->transfer.file->n_tensors && code == EXIT_OK; i++) {
		const struct entry *entry = &r->entries[i];

		if (entry->becomes == BECOMES_CODES)
			code = decode_tensor(&r->transfer, &entry->quantized, entry->fused != NULL ? entry->fused : entry->output.name,
			                     entry->fused != NULL ? &entry->columns : NULL, error);
		else if (entry->becomes == BECOMES_Q8_0)
			code = decode_q8_0(&r->transfer, &r->transfer.file->tensors[i], entry->output.name, error);
		else if (entry->becomes == BECOMES_KEPT)
			code = transfer_copy(&r->transfer, &r->transfer.file->tensors[i], error);
	}
	return code;
}

/* Releases what plan_file() and copy_metadata() took. */
static void release_file(struct running *r)
{
	free(r->transfer.writer.tensors);
	free(r->transfer.writer.metadata);
	free(r->entries);
	r->entries = NULL;
	arena_free(&r->arena);
}

/* Checks, before anything is written, that there is something to decode, or that `mxfp quantize` wrote the model and
   had found nothing to quantize. */
static int check_quantized(struct running *r, struct error *error)
{
	bool found = false;
	int code = EXIT_OK;

	for (size_t f = 0; f < r->model->n_files && code == EXIT_OK && !found; f++) {
		const struct file *file = &r->model->files[f];

		r->transfer.file = file;
		r->transfer.writer = (struct writer){.fd = -1};
		code = plan_file(r, error);
		found = r->counts.decoded > 0 || file_metadata(file, "mxfp.weights") != NULL;
		release_file(r);
	}
	r->counts = (struct dequantize_counts){0};
	if (code == EXIT_OK && !found)
		code = fail(error, EXIT_INPUT, "%s: nothing in it is quantized in a layout that mxfp knows",
		            r->model->path);
	return code;
}

static int write_file(struct running *r, const struct file *file, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	char *path = model_output_path(&r->output, file);

	*writer = (struct writer){.path = path, .format = r->format, .source = file, .fd = -1};
	r->transfer.file = file;
	int code = path == NULL ? fail_memory(error) : plan_file(r, error);
	if (code == EXIT_OK)
		code = copy_metadata(r, error);
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	if (code == EXIT_OK)
		code = write_data(r, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	if (code == EXIT_OK)
		code = model_output_add(&r->output, file, writer, error);
	writer_abandon(writer);
	release_file(r);
	free(path);
	return code;
}

static int write_files(struct running *r, struct error *error)
{
	int code = check_quantized(r, error);

	for (size_t f = 0; f < r->model->n_files && code == EXIT_OK; f++)
		code = write_file(r, &r->model->files[f], error);
	return code;
}

static int begin(struct running *r, struct error *error)
{
	const struct dequantize_settings *s = r->settings;
	int code = EXIT_OK;

	r->format = file_format_named(s->out);
	if (r->format != NULL && r->format->lay_out == NULL)
		r->format = NULL;
	bool as_file = r->format != NULL;

	if (as_file && r->model->has_index)
		return fail(error, EXIT_USAGE,
		            "%s: the input is sharded, so the output is a directory; leave out the suffix",
		            s->out);
	if (r->format == &file_gguf)
		code = model_output_check_gguf(r->model, s->out, error);
	return code != EXIT_OK ? code : model_output_begin(&r->output, r->model, s->out, as_file, s->force, error);
}

int dequantize_run(const struct dequantize_settings *settings, const struct model *model,
                   struct dequantize_counts *counts, struct error *error)
{
	struct running r = {
		.settings = settings,
		.model = model,
		.dtype = decode_dtype(settings->to),
		.transfer.threads = settings->threads,
	};
	json_t *config = NULL;
	int code = begin(&r, error);

	if (code == EXIT_OK)
		code = model_config_copy(model, &config, error);
	json_object_del(config, "quantization_config");
	if (code == EXIT_OK)
		code = transfer_begin(&r.transfer, error);
	progress_start(&r.transfer.progress, "dequantizing", model->data_bytes, settings->quiet);
	if (code == EXIT_OK)
		code = write_files(&r, error);
	progress_end(&r.transfer.progress);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, config, error);
	model_output_abandon(&r.output);
	json_decref(config);
	transfer_end(&r.transfer);
	*counts = r.counts;
	return code;
}
