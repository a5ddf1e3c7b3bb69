/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/counts.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/member.h"
#include "io/walk.h"
#include "model/model.h"

enum { PART_BYTES_MAX = 1 << 24 };

int part_parse(const char *text, const char *where, struct part_choice *choice, struct error *error)
{
	unsigned number, of;
	int end = -1;

	if (sscanf(text, "%5u/%5u%n", &number, &of, &end) != 2 || end < 0 || text[end] != '\0' || strpbrk(text, "+- ") ||
	    number < 1 || number > of || of > PARTS_MAX)
		return fail(error, EXIT_USAGE, "%s: '%s' is not a part; give 1/4, 2/4, 3/4 and 4/4 to four machines", where,
		            text);
	*choice = (struct part_choice){number, of};
	return EXIT_OK;
}

/* A file that is to be shared. */
struct shared {
	uint64_t bytes;
	size_t which;
};

static int compare_shared(const void *a, const void *b)
{
	const struct shared *left = a, *right = b;

	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->which < right->which ? -1 : left->which > right->which;
}

int part_share(size_t *owners, const uint64_t *bytes, size_t n, size_t n_owners, struct error *error)
{
	struct shared *order = calloc(n + 1, sizeof *order);
	uint64_t *loads = calloc(n_owners, sizeof *loads);
	int code = order == NULL || loads == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		order[i] = (struct shared){bytes[i], i};
	if (code == EXIT_OK)
		qsort(order, n, sizeof *order, compare_shared);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		size_t least = 0;

		for (size_t k = 1; k < n_owners; k++)
			if (loads[k] < loads[least])
				least = k;
		owners[order[i].which] = least;
		loads[least] += order[i].bytes;
	}
	free(order);
	free(loads);
	return code;
}

/* Whether a name is of a file beside or in directories below: "a" or "a/b", nothing hidden. */
static bool is_plain(const char *name)
{
	for (const char *at = name; at != NULL; at = strchr(at, '/')) {
		at += at != name;
		if (*at == '\0' || *at == '.' || *at == '/')
			return false;
	}
	return strchr(name, '\\') == NULL && strcmp(name, PART_FILE) != 0;
}

static int check_file(const struct part *part, const char *name, const json_t *bytes, struct error *error)
{
	struct stat status;
	uint64_t size;
	int fd;

	if (!is_plain(name) || !json_is_integer(bytes))
		return fail(error, EXIT_INPUT, "%s/" PART_FILE ": lists '%s', which is not the name of a file beside it",
		            part->directory, name);
	char *path = directory_member(part->directory, name);
	if (path == NULL)
		return fail_memory(error);
	int code = directory_parents(part->directory, name, false, error);
	if (code == EXIT_OK && lstat(path, &status) != 0)
		code = fail_errno(error, path, "cannot open");
	else if (code == EXIT_OK && (code = member_open(path, &fd, &size, error)) == EXIT_OK)
		close(fd);
	if (code == EXIT_OK && size != (uint64_t)json_integer_value(bytes))
		code = fail(error, EXIT_INPUT, "%s: is not the file of %" JSON_INTEGER_FORMAT " bytes that mxfp "
		            "wrote; run that part again", path, json_integer_value(bytes));
	free(path);
	return code;
}

/* Takes the facts out of the JSON. */
static bool take(struct part *part)
{
	const json_t *counts = json_object_get(part->json, "counts");
	json_int_t number = json_integer_value(json_object_get(part->json, "part"));
	json_int_t of = json_integer_value(json_object_get(part->json, "parts"));

	part->fingerprint = json_string_value(json_object_get(part->json, "fingerprint"));
	part->files = json_object_get(part->json, "files");
	part->counts = (struct mxfp_counts){
		.size = sizeof(struct mxfp_counts), .saturated = (uint64_t)json_integer_value(json_object_get(counts, "saturated")),
		.flushed = (uint64_t)json_integer_value(json_object_get(counts, "flushed")),
		.nan = (uint64_t)json_integer_value(json_object_get(counts, "nan")),
		.inf = (uint64_t)json_integer_value(json_object_get(counts, "inf")),
	};
	const json_t *blocks = json_object_get(part->json, "blocks");
	part->converted = json_is_object(blocks);
	part->exact = (uint64_t)json_integer_value(json_object_get(blocks, "exact"));
	part->rounded = (uint64_t)json_integer_value(json_object_get(blocks, "rounded"));
	if (number < 1 || number > of || of > PARTS_MAX)
		return false;
	part->choice = (struct part_choice){(uint32_t)number, (uint32_t)of};
	return part->fingerprint != NULL && json_is_object(part->files);
}

int part_read(struct part *part, const char *directory, struct error *error)
{
	char *path = directory_member(directory, PART_FILE);
	const char *name;
	json_t *bytes;

	*part = (struct part){.directory = directory};
	/* Of a directory that is not there the name is wrong, not what is in it. */
	const bool no_part = path != NULL && access(directory, F_OK) == 0 && access(path, F_OK) != 0 && errno == ENOENT;
	int code = path == NULL ? fail_memory(error)
	           : no_part    ? fail(error, EXIT_INPUT, "%s: is not a part of a model: it has no " PART_FILE ", which mxfp quantize and convert "
	                               "--part writes", directory)
	                        : json_read(descriptor_open, path, PART_BYTES_MAX, &part->json, error);
	if (code == EXIT_OK && !take(part))
		code = fail(error, EXIT_INPUT, "%s: is not what --part writes", path);
	free(path);
	if (code != EXIT_OK)
		return code;
	json_object_foreach((json_t *)part->files, name, bytes) {
		code = check_file(part, name, bytes, error);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

void part_free(struct part *part)
{
	json_decref(part->json);
	*part = (struct part){0};
}

static int list_file(void *context, const struct walk_entry *entry, bool *enter, struct error *error)
{
	json_t *files = context;

	*enter = S_ISDIR(entry->status.st_mode);
	if (*enter || strcmp(entry->name, PART_FILE) == 0)
		return EXIT_OK;
	return json_object_set_new(files, entry->name, json_integer(entry->status.st_size)) == 0 ? EXIT_OK : fail_memory(error);
}

/* Lists every file of the directory with its size; NULL if memory ran out or it cannot be read. */
static json_t *list_files(const char *path)
{
	json_t *files = json_object();
	struct error ignored;

	if (files != NULL && directory_walk(path, list_file, files, &ignored) == EXIT_OK)
		return files;
	json_decref(files);
	return NULL;
}

int part_write(const struct part *part, struct error *error)
{
	char *path = directory_member(part->directory, PART_FILE);

	if (path == NULL)
		return fail_memory(error);
	unlink(path);
	json_prepare();
	json_t *json = json_pack("{s:s, s:i, s:i, s:o, s:o}", "fingerprint", part->fingerprint, "part",
	                         (int)part->choice.number, "parts", (int)part->choice.of, "counts",
	                         counts_weights_facts(&part->counts), "files", list_files(part->directory));
	if (part->converted)
		json_object_set_new(json, "blocks", json_pack("{s:I, s:I}", "exact", (json_int_t)part->exact, "rounded",
		                                              (json_int_t)part->rounded));
	int code = json_out_of_memory() ? fail_memory(error) : facts_write_file(path, json, error);
	json_decref(json);
	free(path);
	return code;
}
