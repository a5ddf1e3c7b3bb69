/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "unit/scratch.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_PATHS = 8, PATH_BYTES = 4096 };

static char root[PATH_BYTES];
static pid_t maker; /* of the root: a process forked later does not remove it */

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status, (void)kind, (void)place;
	return remove(path);
}

static void remove_root(void)
{
	if (getpid() == maker)
		nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
	const char *parent = getenv("TMPDIR");

	snprintf(root, sizeof root, "%s/mxfp-test-XXXXXX", parent != NULL && *parent != '\0' ? parent : P_tmpdir);
	ck_assert_ptr_nonnull(mkdtemp(root));
	maker = getpid();
	atexit(remove_root);
}

const char *scratch_path(const char *name)
{
	static char paths[N_PATHS][PATH_BYTES];
	static size_t next;
	char *path = paths[next++ % N_PATHS];

	if (root[0] == '\0')
		make_root();
	ck_assert_int_lt(snprintf(path, PATH_BYTES, "%s/%s", root, name), PATH_BYTES);
	return path;
}

const char *scratch_write(const char *name, const void *bytes, size_t n)
{
	const char *path = scratch_path(name);
	FILE *file = fopen(path, "wb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}

const char *scratch_text(const char *name, const char *text)
{
	return scratch_write(name, text, strlen(text));
}

const char *scratch_safetensors(const char *name, const char *header, size_t n)
{
	size_t length = strlen(header);
	char *bytes = calloc(1, 8 + length + n);

	ck_assert_ptr_nonnull(bytes);
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(length >> 8 * i);
	memcpy(bytes + 8, header, length);
	const char *path = scratch_write(name, bytes, 8 + length + n);
	free(bytes);
	return path;
}

char *scratch_read(const char *path, size_t *n)
{
	FILE *file = fopen(path, "rb");
	struct stat status;

	ck_assert_msg(file != NULL, "%s", path);
	ck_assert_int_eq(fstat(fileno(file), &status), 0);
	*n = (size_t)status.st_size;
	char *bytes = calloc(1, *n + 1);
	ck_assert_ptr_nonnull(bytes);
	ck_assert_uint_eq(fread(bytes, 1, *n, file), *n);
	fclose(file);
	return bytes;
}

const char *scratch_directory(const char *name)
{
	const char *path = scratch_path(name);

	ck_assert_int_eq(mkdir(path, 0777), 0);
	return path;
}

size_t scratch_count(const char *path)
{
	DIR *directory = opendir(path);
	size_t n = 0;

	ck_assert_ptr_nonnull(directory);
	while (readdir(directory) != NULL)
		n++;
	closedir(directory);
	return n - 2; /* "." and ".." */
}

const char *scratch_shared(const char *name)
{
	static char path[PATH_BYTES];
	const char *shared = getenv("MXFP_SHARED"), *source = getenv("srcdir");

	if (shared != NULL && *shared != '\0')
		snprintf(path, sizeof path, "%s/%s", shared, name);
	else
		snprintf(path, sizeof path, "%s/../shared/%s", source != NULL ? source : ".", name);
	return access(path, F_OK) == 0 ? path : NULL;
}
