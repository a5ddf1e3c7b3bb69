/* SPDX-License-Identifier: MIT */
/* More files than descriptors: all can be read, and one that has become another in the meantime is refused. */
#include "io/handle.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "suite.h"

enum { N_FILES = 100, LIMIT = 40 };

static size_t count_descriptors(void)
{
	struct dirent *entry;
	DIR *directory = opendir("/proc/self/fd");
	size_t n = 0;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		n += entry->d_name[0] != '.';
	if (directory != NULL)
		closedir(directory);
	return n;
}

static const char *name_of(int i)
{
	static char name[16];

	snprintf(name, sizeof name, "%d", i);
	return name;
}

/* Opens files 0, 1, ..., whose text is their number, under a limit of descriptors that is too low for all. */
static void open_all(struct handle **handles)
{
	const struct rlimit limit = {LIMIT, LIMIT};
	struct error error;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < N_FILES; i++) {
		const char *path = scratch_text(name_of(i), name_of(i));

		ck_assert_int_eq(handle_open(&handles[i], descriptor_open, path, &error), EXIT_OK);
		ck_assert_int_eq(handle_status(handles[i])->st_size, (off_t)strlen(name_of(i)));
	}
}

static void close_all(struct handle **handles)
{
	for (int i = 0; i < N_FILES; i++)
		handle_close(handles[i]);
}

TEST(files_beyond_the_limit_are_read)
{
	struct handle *handles[N_FILES];
	struct error error;
	const size_t before = count_descriptors();

	open_all(handles);
	for (int step = 0; step < 3 * N_FILES; step++) {
		int i = step * 37 % N_FILES;
		char text[16] = "";

		ck_assert_int_eq(handle_read(handles[i], 0, text, strlen(name_of(i)), &error), EXIT_OK);
		ck_assert_str_eq(text, name_of(i));
	}
	ck_assert_uint_le(count_descriptors(), before + LIMIT / 4);
	close_all(handles);
	ck_assert_uint_eq(count_descriptors(), before);
}

/* The first lost its descriptor to the last. */
static void check_refused(const char *what, int expected)
{
	struct handle *handles[N_FILES];
	struct error error;
	char byte;

	open_all(handles);
	if (strcmp(what, "replaced") == 0) {
		ck_assert_int_eq(rename(scratch_text("other", "0"), scratch_path("0")), 0);
	} else if (strcmp(what, "changed") == 0) {
		FILE *file = fopen(scratch_path("0"), "a");

		ck_assert_ptr_nonnull(file);
		fputs("more", file);
		fclose(file);
	} else {
		ck_assert_int_eq(unlink(scratch_path("0")), 0);
		if (strcmp(what, "a FIFO") == 0)
			ck_assert_int_eq(mkfifo(scratch_path("0"), 0600), 0);
	}
	ck_assert_int_eq(handle_read(handles[0], 0, &byte, 1, &error), expected);
	ck_assert_ptr_nonnull(strstr(error.text, scratch_path("0")));
	if (expected == EXIT_INPUT && strcmp(what, "a FIFO") != 0)
		ck_assert_ptr_nonnull(strstr(error.text, "has become another file while it was being read; start again"));
	ck_assert_int_eq(handle_read(handles[1], 0, &byte, 1, &error), EXIT_OK);
	close_all(handles);
	(void)unlink(scratch_path("0"));
}

TEST(file_that_became_another_is_refused)
{
	check_refused("replaced", EXIT_INPUT);
	check_refused("changed", EXIT_INPUT);
	check_refused("a FIFO", EXIT_INPUT);
	check_refused("removed", EXIT_IO);
}
