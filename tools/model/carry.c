/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/suffix.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/member.h"
#include "io/walk.h"
#include "model/layout.h"

static const char carry_weights[] = "weights", carry_adapter[] = "adapter";

/* Of what lies in directories. A tokenizer has 35 MB at most. */
enum { CARRY_BYTES_MAX = 1 << 26, CARRY_ENTRIES_MAX = 10000, CARRY_MODULES_MAX = 1 << 20 };

/* A warning names so many. */
enum { CARRY_NAMES = 8 };

/* Endings of weight files and their indices: a copy of them would be the model once more. */
static bool is_weights(const char *name)
{
	static const char *const suffixes[] = {
		".safetensors", ".index.json", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx",
		".onnx_data", ".onnx.data", ".npy", ".npz", ".tflite", ".nemo", ".pdparams", ".ot", ".pkl", ".pickle",
	};

	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (suffix_stem(name, suffixes[i]) != 0)
			return true;
	return false;
}

/* Files of an adapter, of PEFT or MLX. Without the weights, the configuration has loaders look for another model. */
static bool is_adapter(const char *base)
{
	static const char weights[] = "adapter_model.";

	return strncmp(base, weights, sizeof weights - 1) == 0 || strcmp(base, "adapter_config.json") == 0 ||
	       strcmp(base, "adapters.safetensors") == 0 || strcmp(base, "adapters.npz") == 0;
}

/* Whether a name can stand in the JSON that lists it. */
static bool is_text(const char *name)
{
	json_prepare();
	json_t *string = json_string(name);
	bool text = string != NULL;

	json_decref(string);
	return text;
}

/* Makes mode and size of a symbolic link those of the file it leads to, if that may be read. EXIT_MEMORY. */
static int follow(const char *path, struct stat *status, struct error *error)
{
	struct error ignored;
	uint64_t size;
	int fd;

	const int code = member_open(path, &fd, &size, &ignored);
	if (code == EXIT_OK) {
		close(fd);
		status->st_mode = S_IFREG;
		status->st_size = (off_t)size;
	}
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

static bool is_empty(const char *path)
{
	DIR *directory = opendir(path);
	const bool empty = directory != NULL && directory_next(directory) == NULL;

	if (directory != NULL)
		closedir(directory);
	return empty;
}

/* Why a directory is not entered, or NULL. */
static const char *why_not_entered(const char *path, const struct walk_entry *entry, size_t n_seen)
{
	struct error ignored;

	if (entry->base[0] == '.')
		return "hidden";
	if (!is_text(entry->name))
		return "name is not UTF-8";
	if (access(path, R_OK | X_OK) != 0)
		return "cannot be read";
	if (suffix_stem(entry->base, ".partial") != 0)
		return "an unfinished output";
	if (!is_empty(path) && directory_check_ours(path, &ignored) == EXIT_OK)
		return "mxfp wrote it";
	return entry->depth + 1 == WALK_DEPTH ? "nested too deep" : n_seen > CARRY_ENTRIES_MAX ? "too many files" : NULL;
}

/* Why a file stays behind, or NULL. */
static const char *why_left(const struct walk_entry *entry, const struct stat *status)
{
	if (S_ISLNK(status->st_mode))
		return "symbolic link";
	if (!S_ISREG(status->st_mode))
		return "not a regular file";
	if (entry->base[0] == '.')
		return "hidden";
	if (is_adapter(entry->base))
		return carry_adapter;
	if (is_weights(entry->base))
		return carry_weights;
	if (entry->depth > 0 && status->st_size > CARRY_BYTES_MAX)
		return "larger than 64 MiB";
	return is_text(entry->name) ? NULL : "name is not UTF-8";
}

/* Files that the output has of its own, or that are read as part of the model. */
static bool is_replaced(const struct model *model, const char *name)
{
	if (strcmp(name, CONFIG_FILE) == 0 || strcmp(name, PART_FILE) == 0)
		return true;
	if (model->has_index && suffix_stem(name, MODEL_INDEX_SUFFIX) != 0)
		return true;
	for (size_t i = 0; layouts[i] != NULL; i++)
		if (layouts[i]->second_name != NULL && strcmp(layouts[i]->second_name, name) == 0)
			return true;
	for (size_t i = 0; i < model->n_files; i++)
		if (strcmp(model_file_name(&model->files[i]), name) == 0)
			return true;
	return false;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_left(const void *a, const void *b)
{
	return strcmp(((const struct carry_left *)a)->name, ((const struct carry_left *)b)->name);
}

/* Adds an entry to one of the lists. */
static int add(struct carry *carry, const char *name, const char *reason, struct error *error)
{
	const char *copy = arena_string(&carry->arena, name);
	const char **names = reason != NULL ? NULL : realloc(carry->names, (carry->n + 1) * sizeof *names);
	struct carry_left *left = reason == NULL ? NULL : realloc(carry->left, (carry->n_left + 1) * sizeof *left);

	if (names != NULL) {
		carry->names = names;
		carry->names[carry->n++] = copy;
	}
	if (left != NULL) {
		carry->left = left;
		carry->left[carry->n_left++] = (struct carry_left){copy, reason};
	}
	return copy == NULL || (names == NULL && left == NULL) ? fail_memory(error) : EXIT_OK;
}

struct listing {
	struct carry *carry;
	const struct model *model;
	json_t *modules; /* of modules.json, NULL: there are none */
	size_t n_seen;
};

/* Whether a file is in the directory of a module of sentence-transformers, whose weights are loaded from there (2_Dense). */
static bool is_of_module(const struct listing *l, const char *name)
{
	const json_t *module;
	size_t i;

	json_array_foreach(l->modules, i, module) {
		const char *path = json_string_value(json_object_get(module, "path"));
		const size_t n = path != NULL ? strlen(path) : 0;

		if (n > 0 && strncmp(name, path, n) == 0 && name[n] == '/')
			return true;
	}
	return false;
}

static int list_entry(void *context, const struct walk_entry *entry, bool *enter, struct error *error)
{
	struct listing *l = context;
	struct stat status = entry->status;
	const char *reason = NULL;
	int code = EXIT_OK;

	if (entry->depth == 0 && is_replaced(l->model, entry->name))
		return EXIT_OK;
	char *path = directory_member(l->model->directory, entry->name);
	if (path == NULL)
		return fail_memory(error);
	l->n_seen++;
	if (S_ISDIR(status.st_mode))
		reason = why_not_entered(path, entry, l->n_seen);
	else if (S_ISLNK(status.st_mode))
		code = follow(path, &status, error);
	free(path);
	*enter = S_ISDIR(status.st_mode) && reason == NULL;
	if (code != EXIT_OK || *enter)
		return code;
	if (!S_ISDIR(status.st_mode))
		reason = why_left(entry, &status);
	if (reason == carry_weights && status.st_size <= CARRY_BYTES_MAX && is_of_module(l, entry->name))
		reason = NULL;
	return add(l->carry, entry->name, reason, error);
}

int carry_list(struct carry *carry, const struct model *model, struct error *error)
{
	struct listing l = {carry, model, NULL, 0};
	struct error ignored;

	*carry = (struct carry){.superseded = model->n_superseded};
	if (!model->is_directory)
		return EXIT_OK;
	if (model->superseded != NULL && (carry->first = arena_string(&carry->arena, model->superseded)) == NULL)
		return fail_memory(error);
	char *modules = directory_member(model->directory, "modules.json");
	if (modules == NULL)
		return fail_memory(error);
	int code = json_read(member_open, modules, CARRY_MODULES_MAX, &l.modules, &ignored);
	free(modules);
	code = code == EXIT_MEMORY ? fail_memory(error) : directory_walk(model->directory, list_entry, &l, error);
	json_decref(l.modules);
	if (carry->n > 0)
		qsort(carry->names, carry->n, sizeof *carry->names, compare_strings);
	if (carry->n_left > 0)
		qsort(carry->left, carry->n_left, sizeof *carry->left, compare_left);
	return code;
}

int carry_copy(const struct carry *carry, const char *source, const char *target, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < carry->n && code == EXIT_OK; i++)
		code = directory_copy(source, target, carry->names[i], error);
	return code;
}

json_t *carry_facts(const struct carry *carry)
{
	json_t *names = json_array();

	for (size_t i = 0; i < carry->n; i++)
		names = facts_append(names, json_string(carry->names[i]));
	return names;
}

json_t *carry_left_facts(const struct carry *carry)
{
	json_t *names = json_array();

	for (size_t i = 0; i < carry->n_left; i++)
		names = facts_append(names, facts_text(carry->left[i].name));
	return names;
}

void carry_fingerprint(const struct carry *carry, json_t *fingerprint)
{
	for (size_t i = 0; i < carry->n; i++)
		json_object_set_new(fingerprint, carry->names[i], json_string("copied"));
}

const char *carry_text(struct carry *carry)
{
	json_prepare();
	json_t *names = carry_facts(carry);
	char *dump = json_dumps(names, JSON_COMPACT);
	const char *text = dump == NULL || json_out_of_memory() ? NULL : arena_string(&carry->arena, dump);

	json_release(dump);
	json_decref(names);
	return text;
}

/* A line for what stays behind for that reason, if anything does. */
static void print_left(const struct carry *carry, const char *reason, const char *what, const char *before, const char *path,
                       FILE *stream)
{
	size_t n = 0;

	for (size_t i = 0; i < carry->n_left; i++) {
		if (carry->left[i].reason != reason || n++ >= CARRY_NAMES)
			continue;
		if (n == 1) {
			fputs(before, stream);
			print_printable(stream, path);
			fputs(path[0] != '\0' ? ": " : "", stream);
		}
		fputs(n == 1 ? what : ", ", stream);
		print_printable(stream, carry->left[i].name);
	}
	if (n > CARRY_NAMES)
		fprintf(stream, " and %zu more", n - CARRY_NAMES);
	fputs(n > 0 ? "\n" : "", stream);
}

static void print_losses(const struct carry *carry, const char *before, const char *path, FILE *stream)
{
	print_left(carry, carry_adapter, "an adapter is not applied; merge_and_unload() of PEFT makes one model of both: ", before, path,
	           stream);
	print_left(carry, carry_weights, "weights beside the model are left out: ", before, path, stream);
}

void carry_losses(const struct carry *carry, FILE *stream)
{
	print_losses(carry, "mxfp: ", "", stream);
}

void carry_print(const struct carry *carry, FILE *stream)
{
	for (size_t i = 0; i < carry->n; i++) {
		fputs(i == 0 ? "copied as they are: " : ", ", stream);
		print_printable(stream, carry->names[i]);
	}
	fputs(carry->n > 0 ? "\n" : "", stream);
	for (size_t i = 0; i < carry->n_left; i++) {
		fputs(i == 0 ? "not copied: " : ", ", stream);
		print_printable(stream, carry->left[i].name);
		fprintf(stream, " (%s)", carry->left[i].reason);
	}
	fputs(carry->n_left > 0 ? "\n" : "", stream);
	print_losses(carry, "", "", stream);
	if (carry->superseded > 0) {
		fprintf(stream, "%zu tensors stand in two files, and the copies that the index names were taken: ", carry->superseded);
		print_printable(stream, carry->first);
		fputs(carry->superseded > 1 ? ", ...\n" : "\n", stream);
	}
}

int carry_warn(const struct model *model, FILE *stream, struct error *error)
{
	struct carry carry;
	struct error ignored;
	const int code = carry_list(&carry, model, &ignored);

	print_losses(&carry, "mxfp: ", model->path, stream);
	carry_free(&carry);
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

void carry_free(struct carry *carry)
{
	free(carry->names);
	free(carry->left);
	arena_free(&carry->arena);
	*carry = (struct carry){0};
}
