/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/content.h"
#include "io/facts.h"
#include "io/partial.h"

enum { SAMPLE_BYTES = 1 << 16, N_SAMPLES = 3, SOURCE_TEXT = 160 };

static void print_hash(char text[FINGERPRINT_TEXT], XXH128_hash_t hash)
{
	snprintf(text, FINGERPRINT_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

void fingerprint_number(XXH3_state_t *hash, uint64_t number)
{
	XXH64_canonical_t canonical;

	XXH64_canonicalFromHash(&canonical, number);
	XXH3_128bits_update(hash, &canonical, sizeof canonical);
}

void fingerprint_string(XXH3_state_t *hash, const char *text)
{
	XXH3_128bits_update(hash, text, strlen(text) + 1);
}

void fingerprint_tensor(XXH3_state_t *hash, const struct tensor *tensor)
{
	fingerprint_string(hash, tensor->name);
	fingerprint_string(hash, dtype_info(tensor->dtype)->name);
	fingerprint_number(hash, tensor->rank);
	for (unsigned i = 0; i < tensor->rank; i++)
		fingerprint_number(hash, tensor->shape[i]);
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

		code = handle_read(file->handle, file->header_bytes + at, bytes, n, error);
		if (code == EXIT_OK)
			XXH3_128bits_update(hash, bytes, n);
	}
	free(bytes);
	return code;
}

static int describe_source(char text[SOURCE_TEXT], XXH3_state_t *hash, const struct file *file, struct error *error)
{
	char digits[FINGERPRINT_TEXT];
	int code = hash_samples(hash, file, error);

	if (code != EXIT_OK)
		return code;
	print_hash(digits, XXH3_128bits_digest(hash));
	snprintf(text, SOURCE_TEXT, "%" PRIu64 " bytes with samples %s", file->size_bytes, digits);
	return EXIT_OK;
}

/* Adds when a file was changed last. */
static bool add_time(json_t *fingerprint, const char *key, const struct file *file)
{
	const struct stat *status = handle_status(file->handle);
	json_t *times = json_object_get(fingerprint, PARTIAL_TIMES);
	/* Of a time before 1970 the nanoseconds count up, too. */
	const bool before = status->st_mtim.tv_sec < 0 && status->st_mtim.tv_nsec > 0;
	const long long seconds = (long long)status->st_mtim.tv_sec + before;
	const long nanoseconds = before ? 1000000000 - (long)status->st_mtim.tv_nsec : (long)status->st_mtim.tv_nsec;
	char text[64];

	snprintf(text, sizeof text, "%s%lld.%09ld", before && seconds == 0 ? "-" : "", seconds, nanoseconds);
	if (times == NULL) {
		times = json_object();
		if (json_object_set_new(fingerprint, PARTIAL_TIMES, times) != 0)
			return false;
	}
	return json_object_set_new(times, key, json_string(text)) == 0;
}

int fingerprint_file(json_t *fingerprint, const char *key, const struct file *file, bool times, struct error *error)
{
	XXH3_state_t *hash = XXH3_createState();
	char text[SOURCE_TEXT];
	int code = hash == NULL ? fail_memory(error) : describe_source(text, hash, file, error);

	if (code == EXIT_OK && (json_object_set_new(fingerprint, key, json_string(text)) != 0 || (times && !add_time(fingerprint, key, file))))
		code = fail_memory(error);
	XXH3_freeState(hash);
	return code;
}

void fingerprint_key(char key[FINGERPRINT_KEY], const struct file *file)
{
	json_t *name = facts_text(model_file_name(file));

	snprintf(key, FINGERPRINT_KEY, "source %s", name == NULL ? "" : json_string_value(name));
	json_decref(name);
}

static int add_source(json_t *fingerprint, const struct file *file, bool times, struct error *error)
{
	char key[FINGERPRINT_KEY];

	fingerprint_key(key, file);
	return fingerprint_file(fingerprint, key, file, times, error);
}

static int read_file(const void *context, uint64_t at, void *bytes, size_t n, struct error *error)
{
	const struct file *file = context;

	return handle_read(file->handle, at, bytes, n, error);
}

int fingerprint_whole(XXH128_hash_t *hash, const struct file *file, unsigned threads, struct error *error)
{
	const struct content_range all = {0, file->size_bytes};
	const struct content content = {read_file, file, 1, &all};

	return content_hash(hash, &content, threads, error);
}

int fingerprint_sources(json_t *fingerprint, const struct model *model, bool times, struct error *error)
{
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files && code == EXIT_OK; f++) {
		const struct file *file = &model->files[f];

		for (size_t part = 0; part < file->n_parts && code == EXIT_OK; part++)
			code = add_source(fingerprint, &file->parts[part], times, error);
		if (code == EXIT_OK && file->n_parts == 0)
			code = add_source(fingerprint, file, times, error);
	}
	return code;
}

bool fingerprint_add(json_t *fingerprint, const char *key, XXH128_hash_t hash)
{
	char text[FINGERPRINT_TEXT];

	print_hash(text, hash);
	return json_object_set_new(fingerprint, key, json_pack("{s:s}", "hash", text)) == 0;
}

int fingerprint_text(const json_t *fingerprint, char text[FINGERPRINT_TEXT], struct error *error)
{
	json_prepare();
	char *bytes = json_dumps(fingerprint, JSON_COMPACT | JSON_SORT_KEYS);
	int code = bytes == NULL || json_out_of_memory() ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		print_hash(text, XXH3_128bits(bytes, strlen(bytes)));
	json_release(bytes);
	return code;
}
