/* SPDX-License-Identifier: MIT */
/* Writes the model that a plan describes. Each file of the source becomes one, or all become the one that the user
   named. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sparsity.h"
#include "io/facts.h"
#include "io/file_safetensors.h"
#include "io/resumed.h"
#include "model/choices.h"
#include "model/model_output.h"
#include "mxfp.h"
#include "rewrite/convert.h"
#include "rewrite/decode.h"

enum {
	SCALE_TEXT = 32,
	BANDS_BYTES = (1 + LAYOUT_BANDS) * LAYOUT_BAND_BYTES, /* those that are read, and those that are written */
	DEFAULT_BYTES = 1 << 26 /* of memory, unless the model needs more */
};

struct running {
	const struct convert_plan *plan;
	struct model_output output;
	struct transfer transfer;
	struct arena arena; /* metadata of the current file */
	bool changes;       /* any tensor */
	size_t *last_uses;  /* of the source's files, which are deleted then; or NULL */
	char fingerprint[FINGERPRINT_TEXT]; /* of the whole, if this is a part */
};

/* Files of the source that become one of the output, and their entries. */
struct range {
	const struct file *files;
	size_t n_files;
	const struct convert_entry *entries;
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

/* How a tensor is quantized that keeps its format where most get another, which shapes alone do not tell of six bits: as its file
   says, or by its format. */
static int add_kept_choice(struct running *r, const struct convert_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	char pattern[SPARSITY_TEXT] = "", text[128];
	const size_t size = sizeof LAYOUT_TENSOR + strlen(entry->name);
	char *key = arena_take(&r->arena, size);

	if (key == NULL)
		return fail_memory(error);
	snprintf(key, size, LAYOUT_TENSOR "%s", entry->name);
	const char *said = file_metadata(entry->file, key);
	if (said == NULL && q->choice.sparsity.m != 0)
		sparsity_text(q->choice.sparsity, pattern);
	snprintf(text, sizeof text, "%s - %s", mxfp_format_get_info(q->choice.form->format)->name, q->squares ? LAYOUT_SQUARES : pattern);
	return add_pair(r, LAYOUT_TENSOR, entry->name, said != NULL ? said : text, error);
}

/* Adds metadata about a tensor: the length of its rows if they are padded, whether it was transposed, and the numbers whose
   reciprocals its scales are. */
static int add_tensor(struct running *r, const struct convert_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	const struct layout_choice *choice = convert_is_held_anew(entry) ? &entry->choice : &q->choice;
	bool held = entry->name != NULL && q->parts[LAYOUT_CODES] == entry->source && entry->what != CONVERT_DECODED;
	char text[SCALE_TEXT];
	int code = EXIT_OK;

	if (held && q->cols % layout_unit(choice) != 0) {
		snprintf(text, sizeof text, "%" PRIu64, q->cols);
		code = add_pair(r, LAYOUT_COLS, entry->name, text, error);
	}
	if (code == EXIT_OK && held && q->transposed)
		code = add_pair(r, LAYOUT_TRANSPOSED, entry->name, "yes", error);
	if (code == EXIT_OK && held && r->changes && entry->what != CONVERT_CHANGED && r->transfer.writer.format == &file_safetensors)
		code = add_kept_choice(r, entry, error);
	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		if (entry->scales[part].how != CONVERT_INVERSE_ROUNDED)
			continue;
		snprintf(text, sizeof text, "%a", (double)entry->scales[part].was);
		code = add_pair(r, CONVERT_INVERSE, entry->parts[part].name, text, error);
	}
	return code;
}

/* Keys, or how they begin, that say how tensors were quantized. */
static const char *const of_choices[] = {METADATA_WEIGHTS, "mxfp.rule", "mxfp.recipe", "mxfp.fuse", "mxfp.round", "mxfp.seed",
                                         "mxfp.non_finite", LAYOUT_BLOCK, LAYOUT_TENSOR};

/* Whether a pair of the source is dropped: it is not for such files, is written anew, is about a scale that no longer
   exists, or is ours though nothing quantized is left. */
static bool is_outdated(const struct running *r, const struct range *range, const struct metadata *pair)
{
	const size_t prefix = strlen(CONVERT_INVERSE);

	if (r->transfer.writer.format != &file_safetensors && strcmp(pair->key, "format") == 0)
		return true;
	if (r->plan->n_held == 0 && metadata_is_own(pair->key))
		return true;
	/* How numbers were quantized before is nothing that they could be told by now. */
	for (size_t i = 0; r->changes && i < sizeof of_choices / sizeof of_choices[0]; i++)
		if (strncmp(pair->key, of_choices[i], strlen(of_choices[i])) == 0)
			return true;
	if (strncmp(pair->key, LAYOUT_COLS, strlen(LAYOUT_COLS)) == 0 ||
	    strncmp(pair->key, LAYOUT_TRANSPOSED, strlen(LAYOUT_TRANSPOSED)) == 0)
		return true;
	if (strncmp(pair->key, CONVERT_INVERSE, prefix) != 0)
		return false;
	const struct tensor *scale = file_find(&range->files[0], pair->key + prefix);
	return scale == NULL || range->entries[scale - range->files[0].tensors].what != CONVERT_COPIED;
}

/* Makes the metadata: that of the first file, and that about tensors. */
static int make_metadata(struct running *r, const struct range *range, struct error *error)
{
	const struct file *file = &range->files[0];
	struct writer *writer = &r->transfer.writer;
	int code = EXIT_OK;

	writer->metadata = calloc(file->n_metadata + 5 * range->n_entries + 4, sizeof *writer->metadata);
	if (writer->metadata == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < file->n_metadata; i++)
		if (!is_outdated(r, range, &file->metadata[i]))
			writer->metadata[writer->n_metadata++] = file->metadata[i];
	/* Unless one was copied. By it --force knows whose the file is. */
	if (writer->format == &file_safetensors && (r->plan->n_held == 0 || file_metadata(file, METADATA_VERSION) == NULL))
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_VERSION, mxfp_version()};
	if (writer->format == &file_safetensors && r->changes)
		writer->metadata[writer->n_metadata++] =
			(struct metadata){METADATA_WEIGHTS, mxfp_format_get_info(r->plan->settings->to)->name};
	if (r->plan->carried != NULL)
		writer->metadata[writer->n_metadata++] = (struct metadata){METADATA_CARRIED, r->plan->carried};
	for (size_t i = 0; i < range->n_entries && code == EXIT_OK; i++)
		code = add_tensor(r, &range->entries[i], error);
	return code;
}

/* The state of moving a tensor. */
struct moving {
	const struct quantized *quantized;
	struct layout_target target;
};

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
	return layout_write(&m->target, &piece->piece, &blocks, error);
}

static int write_scales(struct writer *writer, const struct convert_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++) {
		float scale = entry->scales[part].is;

		if (entry->scales[part].how == CONVERT_ABSENT || entry->scales[part].how == CONVERT_LEFT_OUT)
			continue;
		if (entry->scales[part].how == CONVERT_MADE)
			scale = entry->group->factor.scale;
		dtype_swap(DTYPE_F32, &scale, sizeof scale);
		code = writer_write(writer, writer_find(writer, entry->parts[part].name), 0, &scale, sizeof scale, error);
	}
	return code;
}

static int move(struct running *r, const struct convert_entry *entry, struct error *error)
{
	struct quantized in_bands = entry->quantized, *q = &in_bands;
	const struct tensor whole = {.name = entry->name, .rank = q->shape.rank, .shape = q->shape.dims};
	struct moving m = {q, layout_target(&entry->choice, &whole, entry->parts, &r->transfer.writer)};
	const struct transfer_job job = {
		.rows = q->rows,
		.cols = q->cols,
		.read = read_piece,
		.work = write_piece,
		.context = &m,
	};
	layout_read_in_bands(q);
	layout_write_in_bands(&m.target, 0);
	int code = transfer_run(&r->transfer, &job, error);
	layout_bands_free(q->bands);
	layout_bands_free(m.target.bands);
	return code != EXIT_OK ? code : write_scales(&r->transfer.writer, entry, error);
}

static struct convert_blocks blocks_to_change(const struct convert_plan *plan, const struct convert_entry *entry,
                                              const struct block_factor *factor)
{
	return (struct convert_blocks){
		.source = &entry->quantized,
		.to = entry->choice.form->format,
		.factor = *factor,
		.rule = plan->settings->rule,
		.non_finite = plan->settings->non_finite,
	};
}

static const struct block_factor factor_one = {1, false};

/* Adds what the tensors of a group allow. */
static int spread_group(struct running *r, const struct convert_entry *first, bool by_scales, struct block_spread *spread,
                        struct error *error)
{
	const struct convert_entry *entry = first;
	int code = EXIT_OK;

	memset(spread, 0, sizeof *spread);
	do {
		const struct convert_blocks blocks = blocks_to_change(r->plan, entry, &factor_one);

		code = convert_blocks_spread(&r->transfer, &blocks, by_scales, spread, error);
		entry = entry->fused;
	} while (entry != NULL && entry != first && code == EXIT_OK);
	return code;
}

/* Makes the tensor scale of an entry's group, unless that was done for another of it. */
static int make_factor(struct running *r, const struct convert_entry *entry, struct error *error)
{
	struct convert_group *group = entry->group;
	uint64_t exact, same;

	if (group == NULL || group->is_made)
		return EXIT_OK;
	struct block_spread *spread = malloc(sizeof *spread);
	if (spread == NULL)
		return fail_memory(error);
	int code = spread_group(r, entry, true, spread, error), t = 0;
	if (code == EXIT_OK) {
		t = block_spread_best(spread, BLOCK_LEAST_T, BLOCK_MOST_T, &exact, &same);
		if (same < spread->blocks) {
			code = spread_group(r, entry, false, spread, error);
			t = block_spread_best(spread, BLOCK_LEAST_T, BLOCK_MOST_T, &exact, &same);
		}
	}
	free(spread);
	group->factor.divides = entry->choice.layout->divides;
	group->factor.scale = ldexpf(1, group->factor.divides ? -t : t);
	group->is_made = code == EXIT_OK;
	return code;
}

/* Refuses a tensor of which blocks would have to be rounded, unless that is allowed. */
static int check_tally(const struct convert_settings *s, const struct convert_entry *entry, struct error *error)
{
	const struct convert_tally *t = entry->tally;
	const char *to = mxfp_format_get_info(s->to)->name;

	if (t->special > 0 && s->non_finite == MXFP_NON_FINITE_ERROR)
		return fail_tensor(error, entry->file->path, entry->source->name, "%" PRIu64 " of %" PRIu64 " blocks have a NaN or Inf "
		                   "that %s does not hold%s; --non-finite propagate makes such blocks NaN", t->special, t->blocks, to,
		                   t->is_special ? "" : ", and others are not exact in it");
	if (t->rounded == 0 || s->allow_rounding)
		return EXIT_OK;
	return fail_tensor(error, entry->file->path, entry->source->name, "%" PRIu64 " of %" PRIu64 " blocks are not exact in %s, "
	                   "the first in row %" PRIu64 " from column %" PRIu64 " on; --allow-rounding rounds them by %s", t->rounded,
	                   t->blocks, to, t->row, t->col,
	                   mxfp_format_get_info(s->to)->tensor_scale ? "recipe te" : choice_name(OPTION_RULE, s->rule));
}

static int change(struct running *r, const struct convert_entry *entry, struct error *error)
{
	const struct quantized *q = &entry->quantized;
	const struct tensor whole = {.name = entry->name, .rank = q->shape.rank, .shape = q->shape.dims};
	const struct layout_target target = layout_target(&entry->choice, &whole, entry->parts, &r->transfer.writer);
	int code = make_factor(r, entry, error);

	if (code != EXIT_OK)
		return code;
	*entry->tally = (struct convert_tally){0};
	const struct convert_blocks blocks =
		blocks_to_change(r->plan, entry, entry->group != NULL ? &entry->group->factor : &factor_one);
	code = convert_blocks_write(&r->transfer, &blocks, &target, entry->tally, error);
	if (code == EXIT_OK)
		code = check_tally(r->plan->settings, entry, error);
	return code != EXIT_OK ? code : write_scales(&r->transfer.writer, entry, error);
}

/* The state of writing a file. */
struct writing {
	struct running *r;
	const struct range *range;
};

/* The journal keeps what a later run says of the blocks: where other commands have a hash, how many are rounded and the
   largest error. */
static void note_tally(struct journal_record *record, const struct convert_tally *tally)
{
	record->hash.low64 = tally->rounded;
	memcpy(&record->hash.high64, &tally->error, sizeof record->hash.high64);
	record->counts.nan = tally->special;
}

/* Takes the tallies of a file's tensors from its journal. */
static void read_tallies(const struct range *range, const struct resumed *resumed)
{
	for (size_t i = 0; i < range->n_entries; i++) {
		const struct journal_record *record = &resumed->records[i];
		struct convert_tally *tally = range->entries[i].tally;

		if (tally == NULL || !record->written)
			continue;
		*tally = (struct convert_tally){.blocks = convert_blocks_of(&range->entries[i]), .rounded = record->hash.low64,
		                                .special = record->counts.nan};
		memcpy(&tally->error, &record->hash.high64, sizeof tally->error);
	}
}

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	const struct writing *w = context;
	const struct convert_entry *entry = &w->range->entries[i];
	struct transfer *transfer = &w->r->transfer;
	const struct decode_target target = {
		.name = entry->name != NULL ? entry->name : entry->source->name,
		.overflow = OPTION_CHOICE_NONE,
		.option = "--decode-rest",
		.remedy = "mxfp dequantize has --overflow",
		.counts = &record->counts,
	};

	int code;

	transfer->file = entry->file;
	switch (entry->what) {
	case CONVERT_COPIED:
		return transfer_copy(transfer, entry->source, error);
	case CONVERT_MOVED:
		return move(w->r, entry, error);
	case CONVERT_CHANGED:
		code = change(w->r, entry, error);
		note_tally(record, entry->tally);
		return code;
	case CONVERT_DECODED:
		if (entry->name == NULL || entry->source->decoder != NULL)
			return decode_numbers(transfer, entry->source, &target, error);
		return decode_tensor(transfer, &entry->quantized, &target, error);
	case CONVERT_PART:
		break;
	}
	return EXIT_OK;
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct writing *w = context;
	const struct convert_entry *entry = &w->range->entries[i];
	uint64_t size;

	*read = entry->source->size;
	*written = 0;
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (entry->parts[part].name != NULL && tensor_size(&entry->parts[part], &size))
			*written += size;
}

static bool output_of(const void *context, size_t i, size_t k, const char **name)
{
	const struct writing *w = context;

	if (k < N_LAYOUT_PARTS)
		*name = w->range->entries[i].parts[k].name;
	return k < N_LAYOUT_PARTS;
}

static const char *lacks(const void *context, size_t i)
{
	const struct writing *w = context;

	return convert_lacks(w->r->plan, &w->range->entries[i]);
}

/* Has the index list what is made of a file, here or in another part, in the order of the source. */
static int note_file(struct running *r, const struct range *range, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < range->n_entries; i++)
		for (int part = 0; part < N_LAYOUT_PARTS && code == EXIT_OK; part++)
			if (range->entries[i].parts[part].name != NULL)
				code = model_output_note(&r->output, range->files, &range->entries[i].parts[part], 1, error);
	return code;
}

static int write_data(struct running *r, const struct range *range, struct resumed *resumed, struct error *error)
{
	const struct writing w = {r, range};
	const struct resumed_job job = {write_entry, sizes_of, output_of, NULL, lacks, &w};
	struct writer *writer = &r->transfer.writer;
	int code = list_parts(writer, range, error);

	if (code == EXIT_OK)
		code = make_metadata(r, range, error);
	if (code == EXIT_OK)
		code = resumed_write(resumed, &r->transfer, &job, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	return code == EXIT_OK ? note_file(r, range, error) : code;
}

static int write_file(struct running *r, const struct range *range, struct error *error)
{
	struct writer *writer = &r->transfer.writer;
	struct resumed resumed;
	int code = resumed_begin(&resumed, &r->output.partial, model_output_name(&r->output, &range->files[0]),
	                         range->n_entries, error);

	*writer = (struct writer){
		.path = resumed.path,
		.fd = -1,
		.format = r->plan->settings->layout->file_format,
		.source = &range->files[0],
	};
	if (code == EXIT_OK)
		read_tallies(range, &resumed);
	if (code == EXIT_OK && !r->output.partial.appeared)
		code = write_data(r, range, &resumed, error);
	if (code == EXIT_OK && r->last_uses != NULL && !r->output.partial.appeared)
		code = resumed_secure(&resumed, &r->output.partial, error);
	writer_abandon(writer);
	free(writer->tensors);
	free(writer->metadata);
	arena_free(&r->arena);
	resumed_end(&resumed);
	return code;
}

/* Whether this run writes what is made from a file of the source. */
static bool is_own(const struct running *r, size_t f)
{
	return r->plan->owners == NULL || r->plan->owners[f] == r->plan->settings->part.number - 1;
}

static int write_files(struct running *r, struct error *error)
{
	const struct model *model = r->plan->model;
	struct range range = {model->files, model->n_files, r->plan->entries, r->plan->n_entries};
	int code = EXIT_OK;

	if (!r->output.partial.output.is_directory)
		return write_file(r, &range, error);
	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		range.files = &model->files[f];
		range.n_files = 1;
		range.n_entries = model->files[f].n_tensors;
		code = is_own(r, f) ? write_file(r, &range, error) : note_file(r, &range, error);
		if (code == EXIT_OK && r->last_uses != NULL && !r->output.partial.appeared)
			code = convert_delete(r->plan, &r->output.partial, r->last_uses, f, error);
		range.entries += range.n_entries;
	}
	return code;
}

/* What is not rounded is the same by any rule, and a tensor that would have to be ends the run. */
static const struct partial_open_choice open_choices[] = {
	{"--allow-rounding", "no"}, {"--rule", "none"}, {"--non-finite", "error"}, {NULL, NULL},
};

static int begin(struct running *r, struct error *error)
{
	const struct convert_settings *s = r->plan->settings;

	json_prepare();
	json_t *fingerprint = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "command", "convert", "--layout", s->layout->name, "--to",
	                                s->to == OPTION_FORMAT_NONE ? "nothing" : mxfp_format_get_info(s->to)->name, "--allow-rounding",
	                                s->allow_rounding ? "yes" : "no", "--rule",
	                                s->allow_rounding ? choice_name(OPTION_RULE, s->rule) : "none", "--non-finite",
	                                choice_name(OPTION_NON_FINITE, s->non_finite), "--decode-rest",
	                                s->decode == OPTION_FORMAT_NONE ? "nothing" : mxfp_format_get_info(s->decode)->name);
	json_t *ignore = json_array();
	for (size_t i = 0; i < s->ignore.n; i++)
		json_array_append_new(ignore, facts_text(s->ignore.items[i]));
	char *text = json_dumps(ignore, JSON_COMPACT);
	json_object_set_new(fingerprint, "--ignore", json_string(text));
	json_release(text);
	json_decref(ignore);
	carry_fingerprint(&r->plan->carry, fingerprint);
	const struct partial_target target = {.path = s->out, .as_file = convert_makes_file(s), .force = s->force, .resume = s->resume,
	                                      .open = open_choices, .same = convert_source_is_same, .context = r->plan};
	char part[32];
	int whole = EXIT_OK;
	snprintf(part, sizeof part, "%" PRIu32 "/%" PRIu32, s->part.number, s->part.of);
	if (s->part.of > 0 && !json_out_of_memory())
		whole = model_output_fingerprint(r->fingerprint, r->plan->model, fingerprint, error);
	json_object_set_new(fingerprint, "part", json_string(part));
	int code = whole != EXIT_OK ? whole : json_out_of_memory() ? fail_memory(error)
	                                : model_output_begin(&r->output, r->plan->model,
	                                                     &target,
	                                                     fingerprint, error);
	json_decref(fingerprint);
	if (code == EXIT_OK && s->part.of > 0 && s->part.number > 1 && !r->output.partial.appeared)
		code = model_output_drop_index(&r->output, error);
	return code;
}

/* Whether this run writes what stands beside the files of tensors. */
static bool is_first(const struct convert_plan *plan)
{
	return plan->settings->part.of == 0 || plan->settings->part.number == 1;
}

/* The file that says which part this is. */
static int write_part(const struct running *r, struct error *error)
{
	struct part part = {
		.directory = r->output.partial.output.temporary,
		.choice = r->plan->settings->part,
		.fingerprint = r->fingerprint,
		.converted = true,
	};

	for (size_t i = 0; i < r->plan->n_entries; i++)
		if (r->plan->entries[i].tally != NULL) {
			part.exact += r->plan->entries[i].tally->blocks - r->plan->entries[i].tally->rounded;
			part.rounded += r->plan->entries[i].tally->rounded;
		}
	return part_write(&part, error);
}

/* Writes what has not been written. */
static int write_all(struct running *r, struct error *error)
{
	const struct convert_plan *plan = r->plan;
	int code = transfer_begin(&r->transfer, error);

	progress_start(&r->transfer.progress, r->changes ? "converting" : "moving", plan->model->data_bytes, plan->settings->quiet);
	if (code == EXIT_OK)
		code = write_files(r, error);
	progress_end(&r->transfer.progress);
	transfer_end(&r->transfer);
	if (code == EXIT_OK && r->output.partial.output.is_directory && is_first(plan))
		code = carry_copy(&plan->carry, plan->model->directory, r->output.partial.output.temporary, error);
	return code;
}

/* Sets as many workers as fit the memory. */
static int set_workers(struct running *r, struct error *error)
{
	const struct convert_settings *s = r->plan->settings;
	uint64_t given = s->memory_bytes, least = memory_used() + TRANSFER_WORKER_BYTES;
	bool in_bands = s->layout->order->band_row_bytes != NULL;

	for (size_t i = 0; i < r->plan->n_entries && !in_bands; i++)
		in_bands = r->plan->entries[i].name != NULL &&
		           r->plan->entries[i].quantized.choice.layout->order->band_row_bytes != NULL;
	least += in_bands ? BANDS_BYTES : 0;
	if (given == 0)
		given = least > DEFAULT_BYTES ? least : DEFAULT_BYTES;
	if (given < least)
		return fail(error, EXIT_USAGE, "convert: --mem: %" PRIu64 " bytes are too few for this model; give --mem %" PRIu64
		            "M or more", given, (least >> 20) + 1);
	const uint64_t workers = 1 + (given - least) / TRANSFER_WORKER_BYTES;
	r->transfer.workers = workers < TRANSFER_WORKERS ? (unsigned)workers : TRANSFER_WORKERS;
	return EXIT_OK;
}

int convert_run(const struct convert_plan *plan, struct error *error)
{
	struct running r = {.plan = plan, .transfer.threads = plan->settings->threads};
	json_t *config = NULL;

	for (size_t i = 0; i < plan->n_entries; i++)
		r.changes |= plan->entries[i].what == CONVERT_CHANGED;
	int code = set_workers(&r, error);

	if (code == EXIT_OK && plan->settings->delete_sources) {
		r.last_uses = convert_last_uses(plan);
		code = r.last_uses == NULL ? fail_memory(error) : EXIT_OK;
	}
	if (code == EXIT_OK)
		code = begin(&r, error);
	handle_kept();
	if (code == EXIT_OK)
		code = convert_config(plan, &config, error);
	if (code == EXIT_OK)
		code = r.output.partial.appeared ? write_files(&r, error) : write_all(&r, error);
	if (code == EXIT_OK)
		code = model_output_complete(&r.output, is_first(plan) ? config : NULL, error);
	if (code == EXIT_OK && plan->settings->part.of > 0 && !r.output.partial.appeared)
		code = write_part(&r, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, NULL, error);
	code = model_output_end(&r.output, code, error);
	free(r.last_uses);
	json_decref(config);
	return code;
}

