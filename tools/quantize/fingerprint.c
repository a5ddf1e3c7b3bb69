/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "io/descriptor.h"
#include "io/facts.h"
#include "mxfp.h"

enum { SAMPLE_BYTES = 1 << 16, N_SAMPLES = 3, SOURCE_TEXT = 160 };

static void print_hash(char text[FINGERPRINT_TEXT], XXH128_hash_t hash)
{
	snprintf(text, FINGERPRINT_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

static void hash_number(XXH3_state_t *hash, uint64_t number)
{
	XXH64_canonical_t canonical;

	XXH64_canonicalFromHash(&canonical, number);
	XXH3_128bits_update(hash, &canonical, sizeof canonical);
}

/* Hashes a text with its final NUL, so that adjacent texts stay apart. */
static void hash_text(XXH3_state_t *hash, const char *text)
{
	XXH3_128bits_update(hash, text, strlen(text) + 1);
}

static void hash_tensor(XXH3_state_t *hash, const struct tensor *tensor)
{
	hash_text(hash, tensor->name);
	hash_text(hash, dtype_info(tensor->dtype)->name);
	hash_number(hash, tensor->rank);
	for (unsigned i = 0; i < tensor->rank; i++)
		hash_number(hash, tensor->shape[i]);
}

static void hash_entry(XXH3_state_t *hash, const struct quantize_entry *entry)
{
	char choice[QUANTIZE_TEXT];

	hash_tensor(hash, entry->stored);
	hash_number(hash, entry->source->offset);
	hash_number(hash, entry->quantized);
	hash_number(hash, entry->source->by_columns);
	hash_number(hash, entry->padded);
	if (entry->quantized)
		hash_text(hash, quantize_text(&entry->choice, choice));
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (entry->parts[part].name != NULL)
			hash_tensor(hash, &entry->parts[part]);
}

/* Hashes the data at a few places, which tell apart models of the same shape. */
static int hash_samples(XXH3_state_t *hash, const struct file *file, struct error *error)
{
	unsigned char *bytes = malloc(SAMPLE_BYTES);
	size_t n = file->data_bytes < SAMPLE_BYTES ? (size_t)file->data_bytes : SAMPLE_BYTES;
	int code = bytes == NULL ? fail_memory(error) : EXIT_OK;

	XXH3_128bits_reset(hash);
	for (unsigned i = 0; i < N_SAMPLES && code == EXIT_OK; i++) {
		uint64_t at = (file->data_bytes - n) / (N_SAMPLES - 1) * i;

		code = descriptor_read(file->fd, file->path, file->header_bytes + at, bytes, n, error);
		if (code == EXIT_OK)
			XXH3_128bits_update(hash, bytes, n);
	}
	free(bytes);
	return code;
}

static int describe_source(char text[SOURCE_TEXT], XXH3_state_t *hash, const struct file *file, bool times,
                           struct error *error)
{
	char digits[FINGERPRINT_TEXT], changed[64] = "";
	struct stat status;
	int code = hash_samples(hash, file, error);

	if (code != EXIT_OK)
		return code;
	if (fstat(file->fd, &status) != 0)
		return fail_errno(error, file->path, "cannot read");
	if (times)
		snprintf(changed, sizeof changed, " changed at %lld.%09ld", (long long)status.st_mtim.tv_sec,
		         (long)status.st_mtim.tv_nsec);
	print_hash(digits, XXH3_128bits_digest(hash));
	snprintf(text, SOURCE_TEXT, "%" PRIu64 " bytes%s with samples %s", file->size_bytes, changed, digits);
	return EXIT_OK;
}

static int add_sources(json_t *fingerprint, XXH3_state_t *hash, const struct quantize_plan *plan, bool times,
                       struct error *error)
{
	char text[SOURCE_TEXT], key[300];
	int code = EXIT_OK;

	for (size_t f = 0; f < plan->model->n_files && code == EXIT_OK; f++) {
		const struct file *file = &plan->model->files[f];
		json_t *name = facts_text(model_file_name(file));

		snprintf(key, sizeof key, "source %s", name == NULL ? "" : json_string_value(name));
		code = describe_source(text, hash, file, times, error);
		if (code == EXIT_OK && json_object_set_new(fingerprint, key, json_string(text)) != 0)
			code = fail_memory(error);
		json_decref(name);
	}
	return code;
}

/* Adds a hash under a key; false without memory. */
static bool add_hash(json_t *fingerprint, const char *key, XXH128_hash_t hash)
{
	char text[FINGERPRINT_TEXT];

	print_hash(text, hash);
	return json_object_set_new(fingerprint, key, json_string(text)) == 0;
}

/* Adds the plan: what tensors become, and in which files. */
static bool add_plan(json_t *fingerprint, XXH3_state_t *hash, const struct quantize_plan *plan, const json_t *config)
{
	char *text = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
	bool whole = text != NULL;

	XXH3_128bits_reset(hash);
	for (size_t i = 0; i < plan->n_entries; i++)
		hash_entry(hash, &plan->entries[i]);
	whole = whole && add_hash(fingerprint, "plan of the tensors", XXH3_128bits_digest(hash));
	XXH3_128bits_reset(hash);
	for (size_t f = 0; f < plan->n_files; f++) {
		hash_text(hash, plan->files[f].name);
		hash_number(hash, plan->files[f].n);
	}
	whole = whole && add_hash(fingerprint, "set of output files", XXH3_128bits_digest(hash));
	whole = whole && add_hash(fingerprint, "config.json", XXH3_128bits(text, strlen(text)));
	json_release(text);
	return whole;
}

static bool add_choices(json_t *fingerprint, const struct quantize_plan *plan)
{
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	size_t n = quantize_choices(plan, choices);
	bool whole = true;

	for (size_t i = 0; i < n; i++)
		whole &= json_object_set_new(fingerprint, choices[i].key, json_string(choices[i].value)) == 0;
	return whole;
}

int quantize_fingerprint(json_t **fingerprint, const struct quantize_plan *plan, const json_t *config, bool times,
                         struct error *error)
{
	XXH3_state_t *hash = XXH3_createState();
	int code = EXIT_OK;

	json_prepare();
	*fingerprint = json_object();
	if (hash == NULL || !add_choices(*fingerprint, plan))
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = add_sources(*fingerprint, hash, plan, times, error);
	if (code == EXIT_OK && (!add_plan(*fingerprint, hash, plan, config) || json_out_of_memory()))
		code = fail_memory(error);
	XXH3_freeState(hash);
	if (code == EXIT_OK)
		return EXIT_OK;
	json_decref(*fingerprint);
	*fingerprint = NULL;
	return code;
}

int quantize_fingerprint_text(const json_t *fingerprint, char text[FINGERPRINT_TEXT], struct error *error)
{
	json_prepare();
	char *bytes = json_dumps(fingerprint, JSON_COMPACT | JSON_SORT_KEYS);
	int code = bytes == NULL || json_out_of_memory() ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		print_hash(text, XXH3_128bits(bytes, strlen(bytes)));
	json_release(bytes);
	return code;
}
