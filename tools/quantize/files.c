/* SPDX-License-Identifier: MIT */
/* Cuts the tensors of a quantized model into files: those of the source, or files of a limited size. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "quantize/quantize.h"

enum { NAME_BYTES = 64 };

static void add(struct quantize_file *file, const struct quantize_entry *entry)
{
	file->n++;
	file->input_bytes += entry->source->size;
	file->output_bytes += entry->output_bytes;
}

/* Makes one file for each of the source, even for one without tensors. */
static void follow_source(struct quantize_plan *plan)
{
	const struct model *model = plan->model;
	const struct quantize_entry *next = plan->entries;

	for (size_t f = 0; f < model->n_files; f++) {
		struct quantize_file *file = &plan->files[f];

		file->name = plan->has_index ? model_file_name(&model->files[f]) : MODEL_SINGLE;
		file->source = &model->files[f];
		file->first = (size_t)(next - plan->entries);
		for (size_t i = 0; i < model->files[f].n_tensors; i++)
			add(file, next++);
	}
	plan->n_files = model->n_files;
}

/* Fills one file after the other. A tensor is never cut, so one above the limit has a file to itself. */
static int pack(struct quantize_plan *plan, struct error *error)
{
	struct quantize_file *file = plan->files;

	file->source = plan->model->files;
	for (size_t i = 0; i < plan->n_entries; i++) {
		uint64_t bytes = plan->entries[i].output_bytes, limit = plan->settings->shard_bytes;

		if (file->n > 0 && (file->output_bytes > limit || bytes > limit - file->output_bytes))
			*++file = (struct quantize_file){.first = i, .source = plan->entries[i].file};
		add(file, &plan->entries[i]);
	}
	plan->n_files = (size_t)(file - plan->files) + 1;
	plan->has_index |= plan->n_files > 1;
	for (size_t f = 0; f < plan->n_files; f++) {
		char *name = arena_take(&plan->arena, NAME_BYTES);

		if (name == NULL)
			return fail_memory(error);
		snprintf(name, NAME_BYTES, "model-%05zu-of-%05zu.safetensors", f + 1, plan->n_files);
		plan->files[f].name = plan->has_index ? name : MODEL_SINGLE;
	}
	return EXIT_OK;
}

uint64_t quantize_bytes_to_read(const struct quantize_entry *entry)
{
	bool twice = entry->quantized && mxfp_format_get_info(entry->choice.format)->tensor_scale;
	uint64_t bytes = twice ? 2 * entry->source->size : entry->source->size;

	for (const struct quantize_entry *other = entry->fused; other != NULL && other != entry; other = other->fused)
		bytes += other->source->size;
	return bytes;
}

int quantize_share(struct quantize_plan *plan, size_t n, struct error *error)
{
	uint64_t *bytes = calloc(plan->n_files + 1, sizeof *bytes);
	size_t *owners = calloc(plan->n_files + 1, sizeof *owners);
	int code = bytes == NULL || owners == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t f = 0; f < plan->n_files && code == EXIT_OK; f++)
		bytes[f] = plan->files[f].input_bytes + plan->files[f].output_bytes;
	if (code == EXIT_OK)
		code = part_share(owners, bytes, plan->n_files, n, error);
	for (size_t f = 0; f < plan->n_files && code == EXIT_OK; f++)
		plan->files[f].owner = owners[f];
	free(bytes);
	free(owners);
	return code;
}

/* Takes a part of the files. */
static int take_part(struct quantize_plan *plan, const struct part_choice *part, struct error *error)
{
	int code = quantize_share(plan, part->of, error);

	for (size_t f = 0; f < plan->n_files && code == EXIT_OK; f++)
		for (size_t i = 0; i < plan->files[f].n; i++)
			plan->entries[plan->files[f].first + i].elsewhere = plan->files[f].owner != part->number - 1;
	return code;
}

int quantize_plan_files(struct quantize_plan *plan, struct error *error)
{
	int code = EXIT_OK;

	plan->has_index = plan->model->has_index;
	plan->files = calloc(plan->n_entries + plan->model->n_files + 1, sizeof *plan->files);
	if (plan->files == NULL)
		return fail_memory(error);
	if (plan->settings->shard_bytes == 0)
		follow_source(plan);
	else
		code = pack(plan, error);
	if (code == EXIT_OK && plan->settings->part.of > 0)
		code = take_part(plan, &plan->settings->part, error);
	return code != EXIT_OK ? code : carry_list(&plan->carry, plan->model, error);
}
