/* SPDX-License-Identifier: MIT */
/* Writes the quantized model, or resumes an interrupted run: its files one after the other, then config.json, the index
   and files that are carried along, then the rename. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/memory.h"
#include "base/progress.h"
#include "io/counts.h"
#include "io/directory.h"
#include "io/partial.h"
#include "io/transfer.h"
#include "model/fingerprint.h"
#include "model/model_index.h"
#include "model/model_output.h"
#include "quantize/fingerprint.h"
#include "quantize/quantize.h"
#include "quantize/ranks.h"

struct running {
	struct quantize_plan *plan;
	struct partial partial;
	struct transfer transfer; /* its hash is that of the current tensor */
	json_t *config;
	size_t own;               /* files with this owner are written here */
	char fingerprint[FINGERPRINT_TEXT]; /* of the whole model, on any machine */
};

/* config.json, with the list of what is copied, by which directory_check_ours() knows those files. */
static int make_config(struct running *r, struct error *error)
{
	int code = quantize_config(r->plan, &r->config, error);

	if (code != EXIT_OK || r->plan->carry.n == 0)
		return code;
	json_prepare();
	json_t *own = json_object_get(json_object_get(r->config, "quantization_config"), "mxfp");
	if (json_object_set_new(own, DIRECTORY_CARRIED, carry_facts(&r->plan->carry)) != 0 || json_out_of_memory())
		return fail_memory(error);
	return EXIT_OK;
}

/* Bytes of the files that are written here. */
static uint64_t bytes_to_read(const struct running *r)
{
	const struct quantize_plan *plan = r->plan;
	uint64_t bytes = 0;

	for (size_t f = 0; f < plan->n_files; f++)
		for (size_t i = 0; plan->files[f].owner == r->own && i < plan->files[f].n; i++)
			bytes += quantize_bytes_to_read(&plan->entries[plan->files[f].first + i]);
	return bytes;
}

/* What is taken besides the workers' memory. */
static uint64_t other_memory(const struct quantize_plan *plan)
{
	uint64_t most = 0;

	for (size_t f = 0; f < plan->n_files; f++) {
		uint64_t n_parts = 0;

		for (size_t i = 0; i < plan->files[f].n; i++)
			n_parts += plan->entries[plan->files[f].first + i].n_parts;
		most = n_parts > most ? n_parts : most;
	}
	return memory_used() + most * QUANTIZE_RECORD_BYTES;
}

/* What bands, and rows that are read ahead, take if they are wanted. */
static uint64_t bands_bytes(const struct quantize_plan *plan)
{
	const bool in_bands = plan->settings->layout->order->band_row_bytes != NULL;
	bool by_columns = false;

	for (size_t i = 0; i < plan->n_entries; i++)
		by_columns |= plan->entries[i].quantized && plan->entries[i].source->by_columns;
	return (in_bands ? (uint64_t)LAYOUT_BANDS * LAYOUT_BAND_BYTES : 0) + (by_columns ? QUANTIZE_AHEAD_BYTES : 0);
}

/* Sets as many workers as fit the memory, with bands if at least one fits beside them. */
static int set_workers(struct running *r, struct error *error)
{
	uint64_t other = other_memory(r->plan), given = r->plan->settings->memory_bytes, bands = bands_bytes(r->plan);
	const struct transfer_room room = quantize_room(r->plan);
	const uint64_t each = room.read + room.result, least = other + each;

	r->transfer.room = room;
	r->plan->in_bands = given == 0 || given >= least + bands;
	if (given == 0)
		return EXIT_OK;
	int code = quantize_check_memory(r->plan->settings, least, error);
	if (code != EXIT_OK)
		return code;
	if (r->plan->in_bands)
		other += bands;
	uint64_t workers = (given - other) / each;
	r->transfer.workers = workers < TRANSFER_WORKERS ? (unsigned)workers : TRANSFER_WORKERS;
	return EXIT_OK;
}

static int write_files(struct running *r, struct error *error)
{
	struct quantize_plan *plan = r->plan;
	int code = EXIT_OK;

	r->transfer.threads = plan->settings->threads;
	r->transfer.hash = XXH3_createState();
	if (r->transfer.hash == NULL)
		return fail_memory(error);
	code = transfer_begin(&r->transfer, error);
	progress_start(&r->transfer.progress, "quantizing", bytes_to_read(r),
	               plan->settings->quiet || ranks_own() > 0);
	for (size_t f = 0; f < plan->n_files && code == EXIT_OK; f++)
		if (plan->files[f].owner == r->own)
			code = quantize_write(&r->transfer, plan, &plan->files[f], &r->partial, error);
	progress_end(&r->transfer.progress);
	transfer_end(&r->transfer);
	XXH3_freeState(r->transfer.hash);
	return code;
}

/* Of files that were not written here, or not in this run, but for other parts. */
static int read_counts(struct running *r, struct error *error)
{
	bool all = r->partial.appeared, parts = r->plan->settings->part.of > 0;
	int code = EXIT_OK;

	for (size_t f = 0; f < r->plan->n_files && code == EXIT_OK; f++)
		if (r->plan->files[f].owner == r->own ? all : !parts)
			code = quantize_read_counts(r->plan, &r->plan->files[f], &r->partial, error);
	return code;
}

/* malloc'ed path of a file of the output that a run which was stopped may have left; it is removed. */
static char *new_member(const struct running *r, const char *name)
{
	char *path = output_member(&r->partial.output, name);

	if (path != NULL)
		unlink(path);
	return path;
}

/* Tensors in the order of the model. */
static int format_index(struct model_index_text *text, const char *path, const struct quantize_plan *plan,
                        struct error *error)
{
	int code = model_index_text_begin(text, path, error);

	for (size_t f = 0; f < plan->n_files; f++) {
		const struct quantize_entry *entries = plan->entries + plan->files[f].first;

		for (size_t i = 0; i < plan->files[f].n; i++)
			for (unsigned part = 0; part < entries[i].n_parts && code == EXIT_OK; part++)
				if (entries[i].parts[part].name != NULL)
					code = model_index_text_add(text, entries[i].parts[part].name, plan->files[f].name, error);
	}
	return code != EXIT_OK ? code : model_index_text_end(text, plan->output_bytes, error);
}

static int write_index(struct running *r, struct error *error)
{
	struct model_index_text text = {0};
	char *path = new_member(r, MODEL_INDEX);
	int code = path == NULL ? fail_memory(error) : format_index(&text, path, r->plan, error);

	model_index_text_free(&text);
	free(path);
	return code;
}

/* The file that says which part this is. */
static int write_part(struct running *r, struct error *error)
{
	struct part part = {
		.directory = r->partial.output.temporary,
		.choice = r->plan->settings->part,
		.fingerprint = r->fingerprint,
	};

	for (size_t i = 0; i < r->plan->n_entries; i++)
		counts_add(&part.counts, &r->plan->entries[i].counts);
	return part_write(&part, error);
}

/* What stands beside the files of tensors: in the first part, if there are parts. */
static int write_rest(struct running *r, struct error *error)
{
	const struct quantize_plan *plan = r->plan;
	const struct part_choice *part = &plan->settings->part;
	const char *built = r->partial.output.temporary;
	int code = EXIT_OK;

	if (part->of == 0 || part->number == 1) {
		code = plan->has_index ? write_index(r, error) : EXIT_OK;
		if (code == EXIT_OK)
			code = model_config_write(built, r->config, error);
		if (code == EXIT_OK)
			code = carry_copy(&plan->carry, plan->model->directory, built, error);
	}
	return code == EXIT_OK && part->of > 0 ? write_part(r, error) : code;
}

/* Completes the output on rank 0 when the files are written. */
static int complete(struct running *r, struct error *error)
{
	int code = read_counts(r, error);

	if (code == EXIT_OK && !r->partial.appeared && r->partial.output.is_directory)
		code = write_rest(r, error);
	return code == EXIT_OK ? partial_commit(&r->partial, error) : code;
}

/* Begins on rank 0, then writes on all, then completes on rank 0. */
static int write_all(struct running *r, const struct partial_target *target, const json_t *fingerprint,
                     struct error *error)
{
	bool first = ranks_own() == 0;
	int code = ranks_share(first ? partial_begin(&r->partial, target, fingerprint, error) : EXIT_OK, error);

	if (code != EXIT_OK)
		return code;
	ranks_tell(0, &r->partial.appeared, sizeof r->partial.appeared);
	code = ranks_share(r->partial.appeared ? EXIT_OK : write_files(r, error), error);
	if (!first)
		return code;
	if (code == EXIT_OK)
		code = complete(r, error);
	return partial_end(&r->partial, code, error);
}

/* Checks that the source is neither OUT nor where OUT is built. */
static int check_apart(const struct running *r, struct error *error)
{
	int code = model_output_check_apart(r->plan->model, r->plan->settings->out, error);

	return code != EXIT_OK ? code : model_output_check_apart(r->plan->model, r->partial.directory, error);
}

/* Who writes what, if there are ranks; parts know it from the plan. */
static int share(struct running *r, struct error *error)
{
	const struct part_choice *part = &r->plan->settings->part;

	r->own = part->of > 0 ? part->number - 1 : ranks_own();
	if (!r->partial.output.is_directory && (part->of > 0 || r->plan->n_files > 1))
		return fail(error, EXIT_USAGE, "quantize: %s is a file and cannot be cut; leave out --%s",
		            r->partial.output.path, part->of > 0 ? "part" : "shard-size");
	if (ranks_number() == 1)
		return EXIT_OK;
	if (part->of > 0)
		return fail(error, EXIT_USAGE, "quantize: --part: the ranks of mpirun share the work; leave it out");
	return quantize_share(r->plan, ranks_number(), error);
}

/* Fingerprints: of this run, which names its part, and of the whole model. */
static int make_fingerprints(struct running *r, json_t **fingerprint, struct error *error)
{
	const struct part_choice *part = &r->plan->settings->part;
	json_t *whole = NULL;
	char text[32];
	int code = quantize_fingerprint(&whole, r->plan, r->config, false, error);

	if (code == EXIT_OK)
		code = fingerprint_text(whole, r->fingerprint, error);
	json_decref(whole);
	if (code == EXIT_OK)
		code = quantize_fingerprint(fingerprint, r->plan, r->config, true, error);
	snprintf(text, sizeof text, "%" PRIu32 "/%" PRIu32, part->number, part->of);
	if (code == EXIT_OK &&
	    (json_object_set_new(*fingerprint, "part", json_string(text)) != 0 || json_out_of_memory()))
		code = fail_memory(error);
	return code;
}

/* Checks that all ranks see the same model, since each machine may have a copy. */
static int check_fingerprint(const struct running *r, struct error *error)
{
	char first[FINGERPRINT_TEXT];

	memcpy(first, r->fingerprint, sizeof first);
	ranks_tell(0, first, sizeof first);
	return memcmp(first, r->fingerprint, sizeof first) == 0 ? EXIT_OK :
	       fail(error, EXIT_INPUT, "%s: is not the model that rank 0 sees under that name", r->plan->model->path);
}

static int prepare(struct running *r, json_t **fingerprint, struct error *error)
{
	int code = check_apart(r, error);

	if (code == EXIT_OK)
		code = share(r, error);
	if (code == EXIT_OK)
		code = make_config(r, error);
	if (code == EXIT_OK)
		code = set_workers(r, error);
	return code == EXIT_OK ? make_fingerprints(r, fingerprint, error) : code;
}

/* What goes to this machine's disk: all tensors, or those of its part. */
static uint64_t bytes_here(const struct quantize_plan *plan)
{
	const struct part_choice *part = &plan->settings->part;
	uint64_t bytes = 0;

	for (size_t f = 0; f < plan->n_files; f++)
		if (part->of == 0 || plan->files[f].owner == part->number - 1)
			bytes += plan->files[f].output_bytes;
	return bytes;
}

int quantize_run(struct quantize_plan *plan, struct error *error)
{
	const struct quantize_settings *settings = plan->settings;
	const struct partial_target target = {.path = settings->out, .as_file = quantize_makes_file(settings), .force = settings->force,
	                                      .resume = settings->resume, .bytes = bytes_here(plan)};
	struct running r = {.plan = plan};
	json_t *fingerprint = NULL;
	int code = partial_name(&r.partial, &target, error);

	if (code == EXIT_OK)
		code = prepare(&r, &fingerprint, error);
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		code = ranks_share(check_fingerprint(&r, error), error);
	if (code == EXIT_OK)
		code = write_all(&r, &target, fingerprint, error);
	partial_release(&r.partial);
	json_decref(fingerprint);
	json_decref(r.config);
	return code;
}
