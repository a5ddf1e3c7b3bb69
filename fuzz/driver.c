/* SPDX-License-Identifier: MIT */
/*
 * main() of a fuzz target built without libFuzzer: runs the target once on every file named on the command line and on
 * every file of every directory named there, so that `make check` replays the corpora. Arguments that start with `-`
 * are for libFuzzer and are ignored.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t n_inputs;

static void fail(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(2);
}

static void run_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	/* The exact size, so that a sanitizer detects a read past the end, but at least one byte. */
	uint8_t *data = malloc(size != 0 ? size : 1);

	if (file == NULL || data == NULL)
		fail(path, file == NULL ? strerror(errno) : "out of memory");
	if (fread(data, 1, size, file) != size || fgetc(file) != EOF)
		fail(path, "cannot read the file");
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	n_inputs++;
}

static void run_path(const char *path, int depth);

static void run_directory(const char *path, int depth)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	if (directory == NULL)
		fail(path, strerror(errno));
	while ((entry = readdir(directory)) != NULL) {
		char child[4096];

		if (entry->d_name[0] == '.')
			continue;
		if (snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >= (int)sizeof child)
			fail(path, "name too long");
		run_path(child, depth + 1);
	}
	closedir(directory);
}

static void run_path(const char *path, int depth)
{
	struct stat status;

	if (stat(path, &status) != 0)
		fail(path, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		run_file(path, (size_t)status.st_size);
	else if (depth == 0)
		run_directory(path, depth);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] != '-')
			run_path(argv[i], 0);
	printf("%zu inputs\n", n_inputs);
	return n_inputs != 0 ? 0 : 2;
}
