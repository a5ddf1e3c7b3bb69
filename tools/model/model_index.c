/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json.h"

enum {
	INDEX_BYTES_MAX = 100000000, /* as a safetensors header: the largest known are about 10 MB */
	OTHER_BYTES_MAX = 1 << 16    /* of "metadata" and unknown keys, which become a tree */
};

/* A shard lies beside the index. What could lead elsewhere on any system is refused. */
static bool is_file_name(const char *name)
{
	return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strpbrk(name, "/\\") == NULL;
}

static int reserve(struct model_index *index, struct error *error)
{
	if (index->n < index->capacity)
		return EXIT_OK;
	size_t more = index->capacity == 0 ? 64 : 2 * index->capacity;
	struct model_index_entry *moved = realloc(index->entries, more * sizeof *moved);
	if (moved == NULL)
		return fail_memory(error);
	index->entries = moved;
	index->capacity = more;
	return EXIT_OK;
}

/* A json_member of the map. */
static int take_entry(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct model_index *index = context;
	struct model_index_entry entry = {.tensor = arena_string(&index->arena, key)};
	int code = entry.tensor == NULL ? fail_memory(error) : reserve(index, error);
	json_t *shard;

	if (code == EXIT_OK)
		code = json_take_string(text, &shard, error);
	if (code != EXIT_OK)
		return code;
	/* Mostly that of the entry before, which costs no memory then. */
	const char *name = json_string_value(shard), *before = index->n > 0 ? index->entries[index->n - 1].shard : "";
	entry.shard = strcmp(name, before) == 0 ? before : arena_string(&index->arena, name);
	json_decref(shard);
	if (entry.shard == NULL)
		return fail_memory(error);
	if (!is_file_name(entry.shard))
		return fail_tensor(error, index->path, entry.tensor,
		                   "shard '%s' is not the name of a file beside the index", entry.shard);
	index->entries[index->n++] = entry;
	return EXIT_OK;
}

/* A json_member of the index. */
static int take_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct model_index *index = context;

	if (strcmp(key, "weight_map") != 0)
		return json_skip(text, OTHER_BYTES_MAX, error);
	if (index->has_map)
		return json_fail(text, "weight_map occurs twice", error);
	index->has_map = true;
	return json_take_object(text, take_entry, index, error);
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct model_index_entry *)a)->tensor, ((const struct model_index_entry *)b)->tensor);
}

static int check(struct model_index *index, struct error *error)
{
	if (index->n == 0)
		return fail(error, EXIT_INPUT, "%s: has no weight_map with tensors in it", index->path);
	qsort(index->entries, index->n, sizeof *index->entries, compare_entries);
	for (const struct model_index_entry *entry = index->entries + 1; entry < index->entries + index->n; entry++)
		if (compare_entries(entry - 1, entry) == 0)
			return fail_tensor(error, index->path, entry->tensor, "occurs in weight_map twice");
	return EXIT_OK;
}

int model_index_read(struct model_index *index, descriptor_opener *opener, const char *path, struct error *error)
{
	struct json_text text = {.path = path, .what = "index"};
	char *bytes;

	*index = (struct model_index){.path = path};
	int code = json_read_bytes(opener, path, INDEX_BYTES_MAX, &bytes, &text.n, error);
	if (code != EXIT_OK)
		return code;
	text.bytes = bytes;
	code = json_take_object(&text, take_member, index, error);
	json_next(&text);
	if (code == EXIT_OK && text.at != text.n)
		code = json_fail(&text, "nothing may follow the object", error);
	free(bytes);
	return code != EXIT_OK ? code : check(index, error);
}

void model_index_close(struct model_index *index)
{
	arena_free(&index->arena);
	free(index->entries);
	*index = (struct model_index){0};
}

const struct model_index_entry *model_index_find(const struct model_index *index, const char *tensor)
{
	const struct model_index_entry key = {.tensor = tensor};

	return bsearch(&key, index->entries, index->n, sizeof key, compare_entries);
}

int model_index_text_begin(struct model_index_text *text, const char *path, struct error *error)
{
	*text = (struct model_index_text){.path = strdup(path)};
	if (text->path == NULL)
		return fail_memory(error);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	text->stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (text->stream == NULL) {
		fail_errno(error, path, "cannot create");
		if (fd >= 0)
			close(fd);
		return EXIT_IO;
	}
	fputs("{\n  \"weight_map\": {\n", text->stream);
	return EXIT_OK;
}

/* Prints a JSON string; what the stream does not take is left to ferror(). */
static int print_string(FILE *stream, const char *text, struct error *error)
{
	json_t *string = json_string(text);
	char *quoted = string == NULL ? NULL : json_dumps(string, JSON_ENCODE_ANY);
	int code = quoted == NULL || json_out_of_memory() ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		fputs(quoted, stream);
	json_release(quoted);
	json_decref(string);
	return code;
}

int model_index_text_add(struct model_index_text *text, const char *tensor, const char *file, struct error *error)
{
	json_prepare();
	fputs(text->started ? ",\n    " : "    ", text->stream);
	text->started = true;
	int code = print_string(text->stream, tensor, error);
	fputs(": ", text->stream);
	return code != EXIT_OK ? code : print_string(text->stream, file, error);
}

/* {"metadata": {"total_size": ...}, "weight_map": {...}}; the total comes after the map, since it is known last. */
int model_index_text_end(struct model_index_text *text, uint64_t total_bytes, struct error *error)
{
	fprintf(text->stream, "\n  },\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  }\n}\n", total_bytes);
	int code = fflush(text->stream) != 0 || ferror(text->stream) ? fail_errno(error, text->path, "cannot write")
	                                                             : EXIT_OK;

	if (code == EXIT_OK)
		code = descriptor_sync(fileno(text->stream), text->path, error);
	if (fclose(text->stream) != 0 && code == EXIT_OK)
		code = fail_errno(error, text->path, "cannot close");
	text->stream = NULL;
	return code;
}

void model_index_text_free(struct model_index_text *text)
{
	if (text->stream != NULL)
		fclose(text->stream);
	free(text->path);
	*text = (struct model_index_text){0};
}
