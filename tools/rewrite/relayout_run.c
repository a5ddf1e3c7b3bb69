/* SPDX-License-Identifier: MIT */
/* Writes a model in another layout, with its config.json: each file of the source becomes one, or all become the one that
   the user named. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/directory.h"
#include "io/file_safetensors.h"
#include "io/transfer.h"
#include "model/layout_config.h"
#include "model/model_output.h"
#include "rewrite/decode.h"
#include "rewrite/relayout.h"

static bool is_text(const json_t *json, const char *text)
{
	const char *value = json_string_value(json);

	return value != NULL && strcmp(value, text) == 0;
}

/* The format that arguments of compressed-tensors' groups name: floats of so many bits in MX blocks. */
static enum mxfp_format scheme_format(const json_t *arguments)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4};
	json_int_t bits = json_integer_value(json_object_get(arguments, "num_bits"));

	if (json_integer_value(json_object_get(arguments, "group_size")) != 32 ||
	    !is_text(json_object_get(arguments, "type"), "float"))
		return OPTION_FORMAT_NONE;
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if ((json_int_t)mxfp_format_get_info(mxfp_format_get_info(formats[i])->element)->bits == bits)
			return formats[i];
	return OPTION_FORMAT_NONE;
}

/* What a configuration says that activations are quantized to: in our own words, or in those of a layout. */
static enum mxfp_format activations_of(const json_t *quantization)
{
	const char *own = json_string_value(json_object_get(json_object_get(quantization, "mxfp"), "activations"));
	const json_t *algorithm = json_object_get(quantization, "quant_algo");
	const json_t *input = json_object_get(json_object_get(quantization, "global_quant_config"), "input_tensors");
	json_t *groups = json_object_get(quantization, "config_groups");
	enum mxfp_format format;

	if (own != NULL && mxfp_format_from_name(own, &format) == MXFP_OK)
		return format;
	if (is_text(algorithm, "W4A8_MXFP4_FP8") || is_text(algorithm, "MXFP8"))
		return MXFP_FORMAT_MXFP8_E4M3;
	if (is_text(json_object_get(input, "dtype"), "fp4"))
		return MXFP_FORMAT_MXFP4;
	return scheme_format(json_object_get(json_object_iter_value(json_object_iter(groups)), "input_activations"));
}

/* The layout's configuration, with what mxfp quantize noted in the source's. */
static json_t *new_config(const struct relayout_plan *plan, const json_t *before)
{
	const json_t *old = json_object_get(before, "quantization_config");
	enum mxfp_format activations = activations_of(old);
	struct layout_facts facts;

	layout_facts_begin(&facts, plan->settings->layout, activations, plan->model);
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];
		const struct quantized *q = &entry->quantized;

		if (entry->what == RELAYOUT_DECODED || (entry->what == RELAYOUT_COPIED && entry->name == NULL))
			layout_facts_keep(&facts, &entry->parts[0]);
		else if (q->parts[LAYOUT_CODES] == entry->source)
			layout_facts_add(&facts, entry->what == RELAYOUT_MOVED ? &entry->choice : &q->choice, entry->name);
		facts.input_scales |= entry->parts[LAYOUT_INPUT_SCALE].name != NULL ||
		                      (entry->what == RELAYOUT_COPIED && q->parts[LAYOUT_INPUT_SCALE] == entry->source);
	}
	if (activations != OPTION_FORMAT_NONE && facts.n_groups > 0 &&
	    (facts.groups[0].choice.form->activations >> activations & 1) == 0)
		facts.activations = OPTION_FORMAT_NONE;
	json_t *config = layout_config(&facts);
	layout_facts_free(&facts);
	if (config == NULL)
		return NULL;
	json_t *own = json_deep_copy(json_object_get(old, "mxfp"));
	own = own != NULL ? own : json_object();
	json_object_del(own, DIRECTORY_CARRIED);
	if (plan->carry.n > 0)
		json_object_set_new(own, DIRECTORY_CARRIED, carry_facts(&plan->carry));
	json_object_set_new(config, "mxfp", own);
	return config;
}

/* config.json of the output; *config is NULL if there is none. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
static int make_config(const struct relayout_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	json_t *quantization = new_config(plan, *config);
	if (quantization != NULL)
		json_object_set_new(*config, "quantization_config", quantization);
	else
		json_object_del(*config, "quantization_config");
	if (!json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}

enum { SCALE_TEXT = 32 };

/* The metadata key that loaders of safetensors want, and no others. */
static const char format_key[] = "format";

struct running {
	const struct relayout_plan *plan;
	struct model_output output;
	struct transfer transfer;
	struct arena arena; /* metadata of the file at hand */
};

/* Files of the source that become one of the output, and their entries. */
struct range {
	const struct file *files;
	size_t n_files;
	const struct relayout_entry *entries;
	size_t n_entries;
};

static int list_parts(struct writer *writer, const struct range *range, struct error *error)
{
	writer->tensors = calloc(range->n_entries * N_LAYOUT_PARTS + 1, sizeof *writer->tensors);
	if (writer->tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < range->n_entries; i++)
		for (int part = 0; part < N_LAYOUT_PARTS; part++)
			if (range->entries[i].parts[part].name != NULL)
				writer->tensors[writer->n_tensors++] = range->entries[i].parts[part];
	return EXIT_OK;
}

static int add_pair(struct running *r, const char *prefix, const char *name, const char *value, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	size_t size = strlen(prefix) + strlen(name) + 1;
	char *key = arena_take(&r->arena, size);
	const char *copy = arena_string(&r->arena, value);

	if (key == NULL || copy == NULL)
		return fail_memory(error);
	snprintf(key, size, "%s%s", prefix, name);
	writer->metadata[writer->n_metadata++] = (struct metadata){key, copy};
	return EXIT_OK;
}

/* What is to be said of a tensor: the length of its rows if they are padded, and of what rounded scales are the
   reciprocals. */
static int add_tensor(struct running *r, const struct relayout_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	const struct layout_choice *choice = entry->what == RELAYOUT_MOVED ? &entry->choice : &q->choice;
	bool held = entry->name != NULL && q->parts[LAYOUT_CODES] == entry->source && entry->what != RELAYOUT_DECODED;
	char text[SCALE_TEXT];
	int code = EXIT_OK;

	if (held && q->cols % layout_unit(choice) != 0) {
		snprintf(text, sizeof text, "%" PRIu64, q->cols);
		code = add_pair(r, LAYOUT_COLS, entry->name, text, error);
	}
	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		if (entry->scales[part].how != RELAYOUT_INVERSE_ROUNDED)
			continue;
		snprintf(text, sizeof text, "%a", (double)entry->scales[part].was);
		code = add_pair(r, RELAYOUT_INVERSE, entry->parts[part].name, text, error);
	}
	return code;
}

/* Whether a pair of the source is not for such files, is said anew, is about a scale that is no more, or is ours where
   nothing is left that is quantized. */
static bool is_outdated(const struct running *r, const struct range *range, const struct metadata *pair)
{
	const size_t prefix = strlen(RELAYOUT_INVERSE);

	if (r->transfer.writer.format != &file_safetensors && strcmp(pair->key, format_key) == 0)
		return true;
	if (r->plan->n_held == 0 && strncmp(pair->key, "mxfp.", strlen("mxfp.")) == 0)
		return true;

	if (strncmp(pair->key, LAYOUT_COLS, strlen(LAYOUT_COLS)) == 0)
		return true;
	if (strncmp(pair->key, RELAYOUT_INVERSE, prefix) != 0)
		return false;
	const struct tensor *scale = file_find(&range->files[0], pair->key + prefix);
	return scale == NULL || range->entries[scale - range->files[0].tensors].what != RELAYOUT_COPIED;
}

/* The first file's own, and what is to be said of tensors. */
static int make_metadata(struct running *r, const struct range *range, struct error *error)
{
	const struct file *file = &range->files[0];
	struct writer *writer = &r->transfer.writer;
	int code = EXIT_OK;

	writer->metadata = calloc(file->n_metadata + 3 * range->n_entries + 2, sizeof *writer->metadata);
	if (writer->metadata == NULL)
		return fail_memory(error);
	if (writer->format == &file_safetensors && file_metadata(file, format_key) == NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){format_key, "pt"};
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!is_outdated(r, range, &file->metadata[i]))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	for (size_t i = 0; i < range->n_entries && code == EXIT_OK; i++)
		code = add_tensor(r, &range->entries[i], error);
	return code;
}

/* A tensor on its way. */
struct moving {
	const struct quantized *quantized;
	struct layout_target target;
	const char *name;
};

/* ggml takes NVFP4's scale of NaN for 0, and no sign of a scale: elsewhere those bytes mean other numbers. */
enum { UE4M3_NAN = 0x7F };

static int check_scales(const struct moving *m, const struct piece *piece, const uint8_t *scales, struct error *error)
{
	const struct file *file = m->quantized->files[LAYOUT_CODES];
	size_t n = layout_slice(MXFP_FORMAT_NVFP4, m->quantized->cols, piece).size.scales_bytes;

	if (m->target.choice.layout != &layout_gguf || m->quantized->choice.form->format != MXFP_FORMAT_NVFP4)
		return EXIT_OK;
	for (size_t i = 0; i < n; i++)
		if (scales[i] >= UE4M3_NAN)
			return fail_tensor(error, file->path, m->name, "rows %" PRIu64 " to %" PRIu64 " have the block scale %02x, "
			                   "NaN or negative, which ggml reads as another number; quantize it again", piece->row,
			                   piece->row + piece->rows - 1, scales[i]);
	return EXIT_OK;
}

static struct mxfp_blocks blocks_of(const struct moving *m, const struct transfer_piece *piece)
{
	return quantized_blocks(m->quantized, &piece->piece, piece->bytes, piece->bytes + PIECE_ELEMENTS);
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct moving *m = context;
	const struct mxfp_blocks blocks = blocks_of(m, piece);

	if (m->target.bands != NULL)
		layout_bands_announce(m->target.bands, &piece->piece);
	return quantized_read(m->quantized, &piece->piece, &blocks, n_bytes, error);
}

static int write_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                       struct error *error)
{
	const struct moving *m = context;
	const struct mxfp_blocks blocks = blocks_of(m, piece);

	(void)counts;
	int code = check_scales(m, &piece->piece, blocks.scales, error);
	return code != EXIT_OK ? code : layout_write(&m->target, &piece->piece, &blocks, error);
}

static int write_scales(struct writer *writer, const struct relayout_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		float scale = entry->scales[part].is;

		if (entry->scales[part].how == RELAYOUT_ABSENT || entry->scales[part].how == RELAYOUT_LEFT_OUT)
			continue;
		dtype_swap(DTYPE_F32, &scale, sizeof scale);
		code = writer_write(writer, writer_find(writer, entry->parts[part].name), 0, &scale, sizeof scale, error);
	}
	return code;
}

static int move(struct running *r, const struct relayout_entry *entry, struct error *error)
{
	struct quantized in_bands = entry->quantized, *q = &in_bands;
	const struct tensor whole = {.name = entry->name, .rank = q->shape.rank, .shape = q->shape.dims};
	struct moving m = {q, layout_target(&entry->choice, &whole, entry->parts, &r->transfer.writer),
	                         entry->name};
	const struct transfer_job job = {
		.rows = q->rows,
		.cols = q->cols,
		.read = read_piece,
		.work = write_piece,
		.context = &m,
	};
	layout_read_in_bands(q);
	layout_write_in_bands(&m.target);
	int code = transfer_run(&r->transfer, &job, error);
	layout_bands_free(q->bands);
	layout_bands_free(m.target.bands);
	return code != EXIT_OK ? code : write_scales(&r->transfer.writer, entry, error);
}

static int write_entry(struct running *r, const struct relayout_entry *entry, struct error *error)
{
	switch (entry->what) {
	case RELAYOUT_COPIED:
		return transfer_copy(&r->transfer, entry->source, error);
	case RELAYOUT_MOVED:
		return move(r, entry, error);
	case RELAYOUT_DECODED:
		if (entry->name == NULL)
			return decode_q8_0(&r->transfer, entry->source, entry->source->name, error);
		return decode_tensor(&r->transfer, &entry->quantized, entry->name, error);
	case RELAYOUT_PART:
		break;
	}
	return EXIT_OK;
}

static int write_data(struct running *r, const struct range *range, struct error *error)
{
	const struct relayout_entry *entry = range->entries;
	int code = EXIT_OK;

	for (size_t f = 0; f < range->n_files; f++) {
		r->transfer.file = &range->files[f];
		for (size_t i = 0; i < range->files[f].n_tensors && code == EXIT_OK; i++)
			code = write_entry(r, entry++, error);
	}
	return code;
}

static int write_file(struct running *r, const struct range *range, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	char *path = model_output_path(&r->output, &range->files[0]);

	*writer = (struct writer){
		.path = path,
		.fd = -1,
		.format = r->plan->settings->layout->file_format,
		.source = &range->files[0],
	};
	int code = path == NULL ? fail_memory(error) : list_parts(writer, range, error);
	if (code == EXIT_OK)
		code = make_metadata(r, range, error);
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	if (code == EXIT_OK)
		code = write_data(r, range, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	if (code == EXIT_OK)
		code = model_output_add(&r->output, &range->files[0], writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	arena_free(&r->arena);
	free(path);
	return code;
}

static int write_files(struct running *r, struct error *error)
{
	const struct model *model = r->plan->model;
	struct range range = {model->files, model->n_files, r->plan->entries, r->plan->n_entries};
	int code = EXIT_OK;

	if (!r->output.output.is_directory)
		return write_file(r, &range, error);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		range.files = &model->files[f];
		range.n_files = 1;
		range.n_entries = model->files[f].n_tensors;
		code = write_file(r, &range, error);
		range.entries += range.n_entries;
	}
	return code;
}

int relayout_run(const struct relayout_plan *plan, struct error *error)
{
	struct running r = {.plan = plan, .transfer.threads = plan->settings->threads};
	const struct relayout_settings *s = plan->settings;
	bool as_file = suffix_stem(s->out, s->layout->file_format->suffix) != 0;
	json_t *config = NULL;
	int code = model_output_begin(&r.output, plan->model, s->out, as_file, s->force, error);

	if (code == EXIT_OK)
		code = make_config(plan, &config, error);
	if (code == EXIT_OK)
		code = transfer_begin(&r.transfer, error);
	progress_start(&r.transfer.progress, "moving", plan->model->data_bytes, s->quiet);
	if (code == EXIT_OK)
		code = write_files(&r, error);
	progress_end(&r.transfer.progress);
	if (code == EXIT_OK && r.output.output.is_directory)
		code = carry_copy(&plan->carry, plan->model->directory, r.output.output.temporary, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, config, error);
	model_output_abandon(&r.output);
	json_decref(config);
	transfer_end(&r.transfer);
	return code;
}
