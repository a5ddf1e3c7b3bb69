/* SPDX-License-Identifier: MIT */
/* Writes the quantized model. Data are read in the order of the source file and hashed on the way. */
#include "config.h"

#include <stdlib.h>

#include <xxhash.h>

#include "model_output.h"
#include "progress.h"
#include "quantize.h"
#include "quantize_metadata.h"
#include "quantize_tensor.h"
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

/* The tensors of the file that is made from r->transfer.file. */
static int list_parts(struct running *r, const struct quantize_entry *entries, struct error *error)
{
	size_t n = r->transfer.file->n_tensors * N_LAYOUT_PARTS;

	r->transfer.writer.tensors = calloc(n + 1, sizeof *r->transfer.writer.tensors);
	if (r->transfer.writer.tensors == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < r->transfer.file->n_tensors; i++)
		for (int part = 0; part < N_LAYOUT_PARTS; part++)
			if (entries[i].parts[part].name != NULL)
				r->transfer.writer.tensors[r->transfer.writer.n_tensors++] = entries[i].parts[part];
	return EXIT_OK;
}

static int write_data(struct running *r, struct quantize_entry *entries, struct error *error)
{
	int code = EXIT_OK;

	XXH3_128bits_reset(r->transfer.hash);
	for (size_t i = 0; i < r->transfer.file->n_tensors && code == EXIT_OK; i++)
		code = entries[i].quantized ? quantize_tensor(&r->transfer, r->plan, &entries[i], error)
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

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];

		if (entry->quantized && mxfp_format_info(entry->choice.format)->tensor_scale)
			bytes += entry->source->size;
	}
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
