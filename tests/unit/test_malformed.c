/* SPDX-License-Identifier: MIT */
/*
 * The collection of malformed and unusual files in MXFP_SHARED/malformed, which lists its verdicts in
 * manifest.json: each file is refused with one line that names it, or is read to its last byte.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "unit/scratch.h"
#include "suite.h"

enum { PIECE = 4096, AUTOMAKE_SKIP = 77 };

static char *root;

/* Reads every byte of every tensor. */
static void read_all(const struct model *model)
{
	char piece[PIECE];
	struct error error;

	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < model->files[i].n_tensors; k++) {
			const struct tensor *tensor = &model->files[i].tensors[k];

			for (uint64_t at = 0; at < tensor->size; at += PIECE) {
				uint64_t left = tensor->size - at;
				size_t n = left < PIECE ? (size_t)left : PIECE;

				ck_assert_int_eq(file_read(&model->files[i], tensor, at, piece, n, &error), EXIT_OK);
			}
		}
}

/* Opens a case as a user would name it: an index by its path and, if that is `directory`, by its directory. */
static void check_case(const char *name, const char *expect, bool directory)
{
	char path[4096];
	struct model model;
	struct error error = {""};

	snprintf(path, sizeof path, "%s/%s", root, name);
	if (directory)
		*strrchr(path, '/') = '\0';
	int code = model_open(&model, path, &error);
	ck_assert_msg(code == EXIT_OK || code == EXIT_INPUT, "%s: code %d: %s", name, code, error.text);
	ck_assert_msg(strcmp(expect, "accept") != 0 || code == EXIT_OK, "%s: %s", name, error.text);
	ck_assert_msg(strcmp(expect, "reject") != 0 || code == EXIT_INPUT, "%s was accepted", name);
	if (code == EXIT_OK) {
		read_all(&model);
		model_close(&model);
	} else {
		/* The file at fault: the one named, or a shard in the same directory. */
		if (!directory)
			*strrchr(path, '/') = '\0';
		ck_assert_msg(strncmp(error.text, path, strlen(path)) == 0, "%s: %s", name, error.text);
		ck_assert_ptr_null(strchr(error.text, '\n'));
	}
	suite_compared(1);
}

TEST(every_case_has_its_verdict)
{
	char path[4096];
	struct error error;
	json_t *manifest, *entry;
	size_t i, n_files = 0, n_gguf = 0, n_indexes = 0;

	snprintf(path, sizeof path, "%s/manifest.json", root);
	ck_assert_int_eq(json_read(descriptor_open, path, 1 << 20, &manifest, &error), EXIT_OK);
	json_array_foreach(json_object_get(manifest, "cases"), i, entry) {
		const char *name = json_string_value(json_object_get(entry, "path"));
		const char *format = json_string_value(json_object_get(entry, "format"));
		const char *expect = json_string_value(json_object_get(entry, "expect"));

		if (strcmp(format, "safetensors") == 0) {
			check_case(name, expect, false);
			n_files++;
		} else if (strcmp(format, "gguf") == 0) {
			check_case(name, expect, false);
			n_gguf++;
		} else if (strcmp(format, "safetensors-index") == 0) {
			check_case(name, expect, false);
			check_case(name, expect, true);
			n_indexes++;
		}
	}
	json_decref(manifest);
	printf("cases: %zu safetensors, %zu GGUF, %zu indexes\n", n_files, n_gguf, n_indexes);
	ck_assert_uint_gt(n_files, 0);
	ck_assert_uint_gt(n_gguf, 0);
	ck_assert_uint_gt(n_indexes, 0);
}

TEST(unusual_files_are_read_correctly)
{
	struct file file;
	struct error error;
	char path[4096];
	const struct tensor *tensor;

	snprintf(path, sizeof path, "%s/safetensors/accept/key_order.safetensors", root);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	for (size_t i = 1; i < file.n_tensors; i++)
		ck_assert_uint_le(file.tensors[i - 1].offset + file.tensors[i - 1].size, file.tensors[i].offset);
	file_close(&file);
	snprintf(path, sizeof path, "%s/safetensors/accept/many_small.safetensors", root);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	ck_assert_uint_eq(file.n_tensors, 3000);
	file_close(&file);
	snprintf(path, sizeof path, "%s/safetensors/accept/scalar.safetensors", root);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	tensor = &file.tensors[0];
	ck_assert_uint_eq(tensor->rank, 0);
	ck_assert_uint_eq(tensor->size, 4);
	file_close(&file);
	snprintf(path, sizeof path, "%s/safetensors/either/fnuz.safetensors", root);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	for (size_t i = 0; i < file.n_tensors; i++)
		if (strstr(dtype_info(file.tensors[i].dtype)->name, "FNUZ") != NULL)
			ck_assert_uint_eq(mxfp_format_get_info(dtype_info(file.tensors[i].dtype)->format)->special, MXFP_SPECIAL_FNUZ);
	file_close(&file);
}

int main(void)
{
	const char *path = scratch_shared("malformed");

	if (path == NULL) {
		printf("skipped: no folder malformed in MXFP_SHARED\n");
		return AUTOMAKE_SKIP;
	}
	root = strdup(path);
	int status = suite_run(NULL);
	free(root);
	return status;
}
