/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_DIGITS = 32, NUMBER_BYTES = 24 };

static void add(struct quantize_metadata *metadata, const char *key, const char *value)
{
	metadata->pairs[metadata->n++] = (struct metadata){key, value};
}

/* The source's own, without what an earlier run of ours left there. */
static void add_source(struct quantize_metadata *metadata, const struct file *source)
{
	for (size_t i = 0; i < source->n_metadata; i++)
		if (!metadata_is_own(source->metadata[i].key))
			add(metadata, source->metadata[i].key, source->metadata[i].value);
}

/* The length of a padded tensor's rows; false without memory. */
static bool add_cols(struct quantize_metadata *metadata, const struct quantize_entry *entry)
{
	size_t size = sizeof LAYOUT_COLS + strlen(entry->source->name);
	char *key = arena_take(&metadata->arena, size), *value = arena_take(&metadata->arena, NUMBER_BYTES);

	if (key == NULL || value == NULL)
		return false;
	snprintf(key, size, LAYOUT_COLS "%s", entry->source->name);
	snprintf(value, NUMBER_BYTES, "%" PRIu64, entry->cols);
	add(metadata, key, value);
	return true;
}

/* How a tensor is quantized; false without memory. */
static bool add_choice(struct quantize_metadata *metadata, const struct quantize_entry *entry)
{
	size_t size = sizeof LAYOUT_TENSOR + strlen(entry->source->name);
	char *key = arena_take(&metadata->arena, size), *value = arena_take(&metadata->arena, QUANTIZE_TEXT);

	if (key == NULL || value == NULL)
		return false;
	snprintf(key, size, LAYOUT_TENSOR "%s", entry->source->name);
	add(metadata, key, quantize_text(&entry->choice, value));
	return true;
}

/* That a tensor was turned; false without memory. */
static bool add_transposed(struct quantize_metadata *metadata, const struct quantize_entry *entry)
{
	size_t size = sizeof LAYOUT_TRANSPOSED + strlen(entry->source->name);
	char *key = arena_take(&metadata->arena, size);

	if (key == NULL)
		return false;
	snprintf(key, size, LAYOUT_TRANSPOSED "%s", entry->source->name);
	add(metadata, key, "yes");
	return true;
}

/* What is said of single tensors: how they are quantized, if not as most, how long padded rows were, and whether they
   were columns. */
static bool add_tensor(struct quantize_metadata *metadata, const struct quantize_plan *plan,
                       const struct quantize_entry *entry)
{
	if (!entry->quantized)
		return true;
	if (!quantize_same(&entry->choice, &plan->settings->choice) && !add_choice(metadata, entry))
		return false;
	if (entry->source != entry->stored && !add_transposed(metadata, entry))
		return false;
	return !entry->padded || add_cols(metadata, entry);
}

int quantize_metadata_make(struct quantize_metadata *metadata, const struct quantize_plan *plan,
                           const struct quantize_file *file, struct error *error)
{
	const struct quantize_entry *entries = plan->entries + file->first;
	const struct file *source = file->source;

	*metadata = (struct quantize_metadata){0};
	metadata->pairs = calloc(source->n_metadata + 3 * file->n + QUANTIZE_CHOICES_MAX + 2,
	                         sizeof *metadata->pairs);
	metadata->hash = arena_take(&metadata->arena, HASH_DIGITS + 1);
	if (metadata->pairs == NULL || metadata->hash == NULL)
		return fail_memory(error);
	add_source(metadata, source);
	metadata->n += quantize_choices(plan, metadata->pairs + metadata->n);
	memset(metadata->hash, '0', HASH_DIGITS);
	metadata->hash[HASH_DIGITS] = '\0';
	add(metadata, "mxfp.source_xxh3_128", metadata->hash);
	if (plan->model->split_rows != plan->model->split_columns)
		add(metadata, LAYOUT_EXPERTS, plan->model->split_rows ? LAYOUT_EXPERTS_ROWS : LAYOUT_EXPERTS_COLUMNS);
	for (size_t i = 0; i < file->n; i++)
		if (!add_tensor(metadata, plan, &entries[i]))
			return fail_memory(error);
	return EXIT_OK;
}

void quantize_metadata_set_hash(struct quantize_metadata *metadata, XXH128_hash_t hash)
{
	snprintf(metadata->hash, HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
	         (uint64_t)hash.low64);
}

void quantize_metadata_free(struct quantize_metadata *metadata)
{
	free(metadata->pairs);
	arena_free(&metadata->arena);
	*metadata = (struct quantize_metadata){0};
}
