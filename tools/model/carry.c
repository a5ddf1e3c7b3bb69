/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/carry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/suffix.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/member.h"
#include "model/layout.h"

/* Endings of weight files and their indices: a copy of them would be the model once more. */
static bool is_weights(const char *name)
{
	static const char *const suffixes[] = {
		".safetensors", ".index.json", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx",
		".onnx_data", ".npy", ".npz", ".tflite", ".nemo",
	};

	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (suffix_stem(name, suffixes[i]) != 0)
			return true;
	return false;
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

/* Makes the mode of a symbolic link that of the file it leads to, if that may be read. EXIT_MEMORY. */
static int follow(const char *directory, const char *name, struct stat *status, struct error *error)
{
	char *path = directory_member(directory, name);
	struct error ignored;
	uint64_t size;
	int fd;

	if (path == NULL)
		return fail_memory(error);
	const int code = member_open(path, &fd, &size, &ignored);
	free(path);
	if (code == EXIT_OK) {
		close(fd);
		status->st_mode = S_IFREG;
	}
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

/* Why an entry stays behind, or NULL. */
static const char *why_left(const char *name, const struct stat *status)
{
	if (S_ISLNK(status->st_mode))
		return "symbolic link";
	if (S_ISDIR(status->st_mode))
		return "directory";
	if (!S_ISREG(status->st_mode))
		return "not a regular file";
	if (name[0] == '.')
		return "hidden";
	if (is_weights(name))
		return "weights";
	return is_text(name) ? NULL : "name is not UTF-8";
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

static int list(struct carry *carry, const struct model *model, DIR *directory, struct error *error)
{
	const char *name;
	struct stat status;
	int code = EXIT_OK;

	while (code == EXIT_OK && (name = directory_next(directory)) != NULL) {
		if (is_replaced(model, name))
			continue;
		if (fstatat(dirfd(directory), name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			return fail_errno(error, model->directory, "cannot read");
		if (S_ISLNK(status.st_mode))
			code = follow(model->directory, name, &status, error);
		if (code == EXIT_OK)
			code = add(carry, name, why_left(name, &status), error);
	}
	return code != EXIT_OK || errno == 0 ? code : fail_errno(error, model->directory, "cannot read");
}

int carry_list(struct carry *carry, const struct model *model, struct error *error)
{
	*carry = (struct carry){.superseded = model->n_superseded};
	if (!model->is_directory)
		return EXIT_OK;
	if (model->superseded != NULL && (carry->first = arena_string(&carry->arena, model->superseded)) == NULL)
		return fail_memory(error);
	DIR *directory = opendir(model->directory);
	if (directory == NULL)
		return fail_errno(error, model->directory, "cannot open");
	int code = list(carry, model, directory, error);
	closedir(directory);
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
	if (carry->superseded > 0) {
		fprintf(stream, "%zu tensors stand in two files, and the copies that the index names were taken: ", carry->superseded);
		print_printable(stream, carry->first);
		fputs(carry->superseded > 1 ? ", ...\n" : "\n", stream);
	}
}

void carry_free(struct carry *carry)
{
	free(carry->names);
	free(carry->left);
	arena_free(&carry->arena);
	*carry = (struct carry){0};
}
