/* SPDX-License-Identifier: MIT */
/* Decodes quantized tensors and copies the others; scales are dropped with the tensors that they belong to. */
#include "config.h"

#include "rewrite/dequantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/counts.h"
#include "io/elements.h"
#include "io/file_gguf.h"
#include "io/resumed.h"
#include "model/choices.h"
#include "model/layout_cache.h"
#include "model/meaning.h"
#include "model/model_output.h"
#include "model/quantized.h"
#include "model/section.h"
#include "mxfp.h"
#include "rewrite/decode.h"

/* What becomes of a tensor of the source. */
enum becomes { BECOMES_KEPT, BECOMES_CODES, BECOMES_NUMBERS, BECOMES_DROPPED };

struct entry {
	enum becomes becomes;
	struct quantized quantized; /* BECOMES_CODES */
	struct tensor output;       /* unless BECOMES_DROPPED */
	const char *fused;          /* of experts: the tensor that it is a part of; NULL: none */
	struct decode_place place;  /* in `fused` */
	size_t last;                /* the last part of it, in the order of the file */
	struct tensor whole;        /* `fused`, at its first part; no name: none */
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
	struct dequantize_done *done;
	const char *carried;        /* the list of what is copied, or NULL */
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
	if (tensor->dtype == DTYPE_Q8_0 || tensor->decoder != NULL) {
		entry->becomes = BECOMES_NUMBERS;
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

/* With --all a tensor of other numbers becomes one of these. */
static void convert_kept(struct running *r, struct entry *entry, const struct tensor *tensor)
{
	if (!r->settings->all || entry->becomes != BECOMES_KEPT || tensor->dtype == r->dtype ||
	    !(elements_are_float(tensor->dtype) || elements_are_fp8(tensor->dtype)))
		return;
	entry->becomes = BECOMES_NUMBERS;
	entry->output.dtype = r->dtype;
	r->done->converted++;
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

/* Whether experts of a module were one tensor `whole` before, and in which order; without a note, where the model's own
   files have such tensors. */
static bool were_one(const struct running *r, const char *whole, bool *by_columns)
{
	const char *note = file_metadata(r->transfer.file, LAYOUT_EXPERTS);
	const struct tensor tensor = {.name = whole, .rank = 3, .shape = (uint64_t[]){1, 1, 1}};
	const struct role role = role_of(&r->model->role_model, &tensor);

	*by_columns = note == NULL || strcmp(note, LAYOUT_EXPERTS_ROWS) != 0;
	return note != NULL || (role.kind == ROLE_SEQUENTIAL && role.axis == ROLE_TURNED);
}

/* Makes one tensor of some projections of a module's experts, if the unquantized model has such a tensor and all of them
   are quantized in this file: the reverse of model_split_experts(). */
static int fuse_experts(struct running *r, const struct by_name *by_name, const char *module,
                        const char *const *projections, size_t n, const char *whole, struct error *error)
{
	const struct role_model *model = &r->model->role_model;
	struct entry *first = find_expert(by_name, module, 0, projections[0], NULL);
	char name[NAME_BYTES];
	bool by_columns;

	snprintf(name, sizeof name, "%s.%s", module, whole);
	if (first == NULL || model->experts == 0 || !were_one(r, name, &by_columns))
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
	size_t last = 0;
	for (uint64_t e = 0; e < model->experts; e++)
		for (size_t i = 0; i < n; i++) {
			const size_t at = (size_t)(find_expert(by_name, module, e, projections[i], first) - r->entries);

			last = at > last ? at : last;
		}
	for (uint64_t e = 0; e < model->experts; e++)
		for (size_t i = 0; i < n; i++) {
			struct entry *part = find_expert(by_name, module, e, projections[i], first);

			part->fused = kept;
			part->last = last;
			part->place = by_columns ? (struct decode_place){e * in * n * out + i * out, n * out}
			                         : (struct decode_place){(e * n + i) * out * in, 0};
		}
	shape[0] = model->experts;
	shape[1] = by_columns ? in : n * out;
	shape[2] = by_columns ? n * out : in;
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
		if (code != EXIT_OK)
			break;
		r->done->decoded += r->entries[i].becomes == BECOMES_CODES || r->entries[i].becomes == BECOMES_NUMBERS;
		convert_kept(r, &r->entries[i], &file->tensors[i]);
		r->done->kept += r->entries[i].becomes == BECOMES_KEPT;
		r->done->folded += r->entries[i].becomes == BECOMES_CODES &&
		                   r->entries[i].quantized.parts[LAYOUT_PRE_QUANT_SCALE] != NULL;
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

/* Copies the source's metadata without what `mxfp quantize` added, and says whose the file is, by which --force knows it;
   a GGUF file has key-values instead, and is replaced alone. */
static int copy_metadata(struct running *r, struct error *error)
{
	const struct file *file = r->transfer.file;
	struct writer *writer = &r->transfer.writer;

	writer->metadata = calloc(file->n_metadata + 3, sizeof *writer->metadata);
	if (writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!metadata_is_own(file->metadata[i].key))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	if (writer->format != &file_gguf)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_VERSION, mxfp_version()};
	if (r->carried != NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_CARRIED, r->carried};
	return EXIT_OK;
}

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	struct running *r = (struct running *)context;
	const struct entry *entry = &r->entries[i];
	const struct tensor *source = &r->transfer.file->tensors[i];
	const bool fused = entry->fused != NULL;
	const struct decode_target target = {
		.name = fused ? entry->fused : entry->output.name,
		.place = fused ? &entry->place : NULL,
		.overflow = r->settings->overflow,
		.option = "--to",
		.remedy = "--overflow sat writes that, and --overflow ovf Inf",
		.counts = &record->counts,
	};

	switch (entry->becomes) {
	case BECOMES_CODES:
		return decode_tensor(&r->transfer, &entry->quantized, &target, error);
	case BECOMES_NUMBERS:
		return decode_numbers(&r->transfer, source, &target, error);
	case BECOMES_KEPT:
		return transfer_copy(&r->transfer, source, error);
	case BECOMES_DROPPED:
		break;
	}
	return EXIT_OK;
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct running *r = context;
	const struct entry *entry = &r->entries[i];

	*read = r->transfer.file->tensors[i].size;
	*written = 0;
	if (entry->becomes != BECOMES_DROPPED)
		(void)tensor_size(&entry->output, written);
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

static bool output_of(const void *context, size_t i, size_t k, const char **name)
{
	const struct running *r = context;
	const struct entry *entry = &r->entries[i];

	*name = entry->becomes == BECOMES_DROPPED ? NULL : entry->fused == NULL ? entry->output.name : i == entry->last ? entry->fused : NULL;
	return k == 0;
}

static size_t end_of(const void *context, size_t i)
{
	const struct running *r = context;

	return r->entries[i].fused == NULL ? i : r->entries[i].last;
}

static int write_data(struct running *r, const struct file *file, struct resumed *resumed, struct error *error)
{
	const struct resumed_job job = {write_entry, sizes_of, output_of, end_of, NULL, r};
	struct writer *writer = &r->transfer.writer;

	writer->path = resumed->path;
	writer->format = r->format;
	writer->source = file;
	int code = copy_metadata(r, error);
	if (code == EXIT_OK)
		code = resumed_write(resumed, &r->transfer, &job, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	return code == EXIT_OK ? model_output_add(&r->output, file, writer, error) : code;
}

/* Writes a file, unless all has been written and only the counts are wanted, which its journal has. */
static int write_file(struct running *r, const struct file *file, struct error *error)
{
	struct resumed resumed = {.journal.fd = -1};

	r->transfer.writer = (struct writer){.fd = -1};
	r->transfer.file = file;
	int code = plan_file(r, error);
	if (code == EXIT_OK)
		code = resumed_begin(&resumed, &r->output.partial, model_output_name(&r->output, file), file->n_tensors, error);
	if (code == EXIT_OK && !r->output.partial.appeared)
		code = write_data(r, file, &resumed, error);
	for (size_t i = 0; code == EXIT_OK && i < file->n_tensors; i++)
		counts_add(&r->done->counts, &resumed.records[i].counts);
	writer_abandon(&r->transfer.writer);
	release_file(r);
	resumed_end(&resumed);
	return code;
}

static int write_files(struct running *r, struct error *error)
{
	int code = quantized_check_any(r->model, error);

	for (size_t f = 0; f < r->model->n_files && code == EXIT_OK; f++)
		code = write_file(r, &r->model->files[f], error);
	return code;
}

/* Lists what is copied into a directory. Its config.json has no quantization_config to name that in. */
static int list_carried(struct running *r, struct error *error)
{
	int code = carry_list(&r->done->carry, r->model, error);

	if (code != EXIT_OK || r->done->carry.n == 0)
		return code;
	r->carried = carry_text(&r->done->carry);
	return r->carried == NULL ? fail_memory(error) : EXIT_OK;
}

static int begin(struct running *r, struct error *error)
{
	const struct dequantize_settings *s = r->settings;

	r->format = file_format_named(s->out);
	if (r->format != NULL && r->format->lay_out == NULL)
		r->format = NULL;
	bool as_file = r->format != NULL;

	if (as_file && r->model->has_index)
		return fail(error, EXIT_USAGE,
		            "%s: the input is sharded, so the output is a directory; leave out the suffix",
		            s->out);
	int code = model_output_check_source(r->model, s->out, error);
	if (code == EXIT_OK && !as_file)
		code = list_carried(r, error);
	if (code != EXIT_OK)
		return code;
	json_prepare();
	json_t *fingerprint = json_pack("{s:s, s:s, s:b, s:s}", "command", "dequantize", "--to", mxfp_format_get_info(s->to)->name,
	                                "--all", (int)s->all,
	                                "--overflow", s->overflow == OPTION_CHOICE_NONE ? "refused"
	                                                                             : choice_name(OPTION_OVERFLOW, s->overflow));
	carry_fingerprint(&r->done->carry, fingerprint);
	code = json_out_of_memory() ? fail_memory(error)
	                            : model_output_begin(&r->output, r->model,
	                                                 &(struct partial_target){.path = s->out, .as_file = as_file, .force = s->force,
	                                                                          .resume = s->resume},
	                                                 fingerprint, error);
	json_decref(fingerprint);
	return code;
}

/* The output has no quantization_config, which would say how keys and values are quantized. */
static int find_cache(struct running *r, const json_t *config, struct error *error)
{
	json_t *second = NULL;
	char *path = NULL;
	int code = model_read_member(r->model, layout_modelopt.second_name, &path, &second, error);

	json_decref(layout_cache_read(section_find(config), second, &r->done->cache_lost));
	json_decref(second);
	free(path);
	return code;
}

int dequantize_run(const struct dequantize_settings *settings, const struct model *model,
                   struct dequantize_done *done, struct error *error)
{
	struct running r = {
		.done = done,
		.settings = settings,
		.model = model,
		.dtype = decode_dtype(settings->to),
		.transfer.threads = settings->threads,
	};
	json_t *config = NULL;

	*done = (struct dequantize_done){0};
	int code = begin(&r, error);

	if (code == EXIT_OK)
		code = model_config_copy(model, &config, error);
	if (code == EXIT_OK)
		code = find_cache(&r, config, error);
	json_prepare();
	section_remove_all(config);
	model_config_widen(config, settings->to, settings->all);
	if (code == EXIT_OK && json_out_of_memory())
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = transfer_begin(&r.transfer, error);
	progress_start(&r.transfer.progress, "dequantizing", model->data_bytes, settings->quiet);
	if (code == EXIT_OK)
		code = write_files(&r, error);
	progress_end(&r.transfer.progress);
	if (code == EXIT_OK && !r.output.partial.appeared)
		code = carry_copy(&done->carry, model->directory, r.output.partial.output.temporary, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, config, error);
	code = model_output_end(&r.output, code, error);
	json_decref(config);
	transfer_end(&r.transfer);
	return code;
}

void dequantize_free(struct dequantize_done *done)
{
	carry_free(&done->carry);
}
