/* SPDX-License-Identifier: MIT */
/* Saved logits come back as they were, and those of other tokens are refused with the reason. */
#include "config.h"

#include "eval/logits_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "unit/scratch.h"

static const struct logits_kind kind = {.vocabulary = 3, .rows = 4, .hash = 0x0123456789ABCDEF};

/* The file that header and rows make by hand: 4 rows of 3, of which row 1 is 1, 2, 3 and row 3 is 0.5, -0.5, 0. */
static const unsigned char expected[64 + 48] = {
	'M', 'X', 'F', 'P', 'L', 'O', 'G', 'I', 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
	0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01,
	[64 + 12] = 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40,
	[64 + 36] = 0, 0, 0, 0x3F, 0, 0, 0, 0xBF, 0, 0, 0, 0,
};

static struct error error;

static void make(struct logits_file *file)
{
	float second[] = {1, 2, 3}, last[] = {0.5F, -0.5F, 0};

	ck_assert_int_eq(logits_create(file, &kind, NULL, &error), EXIT_OK);
	ck_assert_int_eq(logits_write(file, 3, 1, last, &error), EXIT_OK);
	ck_assert_int_eq(logits_write(file, 1, 1, second, &error), EXIT_OK);
}

TEST(rows_come_back_and_leave_no_name)
{
	const char *directory = scratch_directory("temporary");
	struct logits_file file;
	float rows[9];

	setenv("TMPDIR", directory, 1);
	make(&file);
	ck_assert_uint_eq(scratch_count(directory), 0);
	ck_assert_int_eq(logits_read(&file, 1, 3, rows, &error), EXIT_OK);
	const float want[] = {1, 2, 3, 0, 0, 0, 0.5F, -0.5F, 0};
	ck_assert_mem_eq(rows, want, sizeof want);
	logits_close(&file);
	unsetenv("TMPDIR");
}

TEST(a_saved_file_has_the_bytes_of_the_header)
{
	struct logits_file file, again;
	const char *path = scratch_path("saved");
	float row[3];
	size_t n;

	make(&file);
	ck_assert_int_eq(logits_save(&file, path, &error), EXIT_OK);
	ck_assert_int_eq(logits_save(&file, path, &error), EXIT_IO); /* it exists */
	logits_close(&file);
	char *bytes = scratch_read(path, &n);
	ck_assert_uint_eq(n, sizeof expected);
	ck_assert_mem_eq(bytes, expected, sizeof expected);
	free(bytes);
	ck_assert(logits_is_file(path));
	ck_assert_int_eq(logits_open(&again, path, &kind, &error), EXIT_OK);
	ck_assert_int_eq(logits_read(&again, 3, 1, row, &error), EXIT_OK);
	ck_assert_double_eq((double)row[1], -0.5);
	logits_close(&again);
	suite_compared(sizeof expected);
}

/* Opens `n` of the expected bytes, of which the one at `at` is changed, and finds the word in the error. */
static void refused(size_t n, size_t at, const char *word)
{
	unsigned char bytes[sizeof expected + 1] = {0};
	struct logits_file file;

	memcpy(bytes, expected, sizeof expected);
	bytes[at] ^= 0x40;
	ck_assert_int_eq(logits_open(&file, scratch_write("changed", bytes, n), &kind, &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, word) != NULL, "%s", error.text);
	logits_close(&file);
}

TEST(other_files_are_refused)
{
	struct logits_file file;

	refused(sizeof expected, 0, "is not a file of logits");
	refused(sizeof expected, 8, "has version 65");
	refused(sizeof expected, 16, "has logits of 67 tokens, and the model's vocabulary is 3");
	refused(sizeof expected, 24, "other tokens (68 predictions, and here are 4)");
	refused(sizeof expected, 39, "other tokens (4 predictions, and here are 4)");
	refused(sizeof expected - 1, 64, "has 111 bytes, and 4 predictions take 112");
	refused(sizeof expected + 1, 64, "has 113 bytes");
	refused(63, 60, "has 63 bytes, which is not a file of logits");
	refused(0, 0, "has 0 bytes");
	ck_assert(!logits_is_file(scratch_text("short", "MXFPLOG")));
	ck_assert(!logits_is_file(scratch_path("")));
	ck_assert(!logits_is_file("/dev/null"));
	ck_assert_int_eq(logits_open(&file, scratch_path("missing"), &kind, &error), EXIT_IO);
	logits_close(&file);
	setenv("TMPDIR", scratch_path("missing"), 1);
	ck_assert_int_eq(logits_create(&file, &kind, NULL, &error), EXIT_IO);
	ck_assert_ptr_nonnull(strstr(error.text, "TMPDIR"));
	logits_close(&file);
	unsetenv("TMPDIR");
}
