/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "unit/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* Reads a file and writes it again; returns where. */
static const char *copy(const char *path, copies_carry *carry)
{
	struct file file;

	ck_assert_msg(file_open(&file, path, &error) == EXIT_OK, "%s", error.text);
	struct tensor *tensors = calloc(file.n_tensors, sizeof *tensors);
	memcpy(tensors, file.tensors, file.n_tensors * sizeof *tensors);
	struct writer writer = {.path = scratch_path("copy"), .format = file.format, .n_tensors = file.n_tensors,
	                        .tensors = tensors, .fd = -1};
	carry(&writer, &file);
	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	for (size_t i = 0; i < file.n_tensors; i++) {
		const struct tensor *from = file_find(&file, tensors[i].name);
		char *bytes = malloc(from->size);

		ck_assert_int_eq(file_read(&file, from, 0, bytes, from->size, &error), EXIT_OK);
		ck_assert_int_eq(writer_write(&writer, &tensors[i], 0, bytes, from->size, &error), EXIT_OK);
		free(bytes);
	}
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	free(tensors);
	file_close(&file);
	return writer.path;
}

void copies_check(const char *const *names, size_t n, copies_carry *carry)
{
	for (size_t i = 0; i < n; i++) {
		const char *path = scratch_shared(names[i]);
		size_t original_bytes, copied_bytes;

		if (path == NULL) {
			printf("skipped: no %s in MXFP_SHARED\n", names[i]);
			continue;
		}
		char *original = scratch_read(path, &original_bytes);
		char *copied = scratch_read(copy(path, carry), &copied_bytes);
		ck_assert_uint_eq(original_bytes, copied_bytes);
		ck_assert_int_eq(memcmp(original, copied, original_bytes), 0);
		free(original);
		free(copied);
		unlink(scratch_path("copy"));
		suite_compared(original_bytes);
	}
}
