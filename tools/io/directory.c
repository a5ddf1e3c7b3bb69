/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/suffix.h"
#include "io/descriptor.h"
#include "io/json.h"
#include "io/output.h"

enum { COPY_BYTES = 1 << 16 };

char *directory_member(const char *directory, const char *name)
{
	size_t n = strlen(directory), size = n + strlen(name) + sizeof "/";
	char *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s%s%s", directory, n > 0 && directory[n - 1] == '/' ? "" : "/", name);
	return path;
}

/* Reads the names of the files that were copied into an output from its config.json; *carried is NULL if it has none.
   EXIT_MEMORY. */
static int read_carried(const char *path, json_t **carried, struct error *error)
{
	char *config = directory_member(path, CONFIG_FILE);
	struct error ignored;
	json_t *json = NULL;

	*carried = NULL;
	if (config == NULL)
		return fail_memory(error);
	int code = json_read(config, CONFIG_BYTES_MAX, &json, &ignored);
	if (code == EXIT_OK)
		*carried = json_incref(json_object_get(json_object_get(json_object_get(json, "quantization_config"), "mxfp"),
		                                       DIRECTORY_CARRIED));
	json_decref(json);
	free(config);
	return code == EXIT_MEMORY ? fail_memory(error) : EXIT_OK;
}

static bool is_listed(const json_t *names, const char *name)
{
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *listed = json_string_value(json_array_get(names, i));

		if (listed != NULL && strcmp(listed, name) == 0)
			return true;
	}
	return false;
}

/* Whether mxfp wrote such an entry into an output directory. */
static bool is_ours(int directory, const char *name, const json_t *carried)
{
	static const char *const suffixes[] = {".safetensors", ".json"};
	struct stat status;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
		return false;
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (suffix_stem(name, suffixes[i]) != 0)
			return true;
	return is_listed(carried, name);
}

const char *directory_next(DIR *directory)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(directory);
	} while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry != NULL ? entry->d_name : NULL;
}

int directory_check_ours(const char *path, struct error *error)
{
	DIR *directory = opendir(path);
	const char *name = NULL;
	json_t *carried = NULL;

	if (directory == NULL)
		return fail_errno(error, path, "cannot open");
	int code = read_carried(path, &carried, error);
	while (code == EXIT_OK && (name = directory_next(directory)) != NULL && is_ours(dirfd(directory), name, carried))
		;
	if (name != NULL)
		code = fail(error, EXIT_USAGE, "%s: holds '%s', which mxfp does not write, so it is not replaced"
		            "; name another directory", path, name);
	else if (code == EXIT_OK && errno != 0)
		code = fail_errno(error, path, "cannot read");
	json_decref(carried);
	closedir(directory);
	return code;
}

int directory_remove(const char *path)
{
	DIR *directory = opendir(path);
	const char *name;
	bool removed = true;

	if (directory == NULL)
		return -1;
	while ((name = directory_next(directory)) != NULL)
		if (strcmp(name, CONFIG_FILE) != 0)
			removed = unlinkat(dirfd(directory), name, 0) == 0 && removed;
	/* Removed last: it says which other files are ours, so a crash must not leave them without it. */
	removed = (unlinkat(dirfd(directory), CONFIG_FILE, 0) == 0 || errno == ENOENT) && removed;
	closedir(directory);
	return removed ? rmdir(path) : -1;
}

/* Opens a file for writing, new or replacing one. */
static int open_copy(const char *path)
{
	return unlink(path) != 0 && errno != ENOENT ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int copy_bytes(int source, const char *from, int target, const char *to, struct error *error)
{
	char bytes[COPY_BYTES];
	ssize_t n;
	uint64_t at = 0;
	int code = EXIT_OK;

	while (code == EXIT_OK && (n = read(source, bytes, sizeof bytes)) != 0) {
		if (n < 0 && errno != EINTR)
			return fail_errno(error, from, "cannot read");
		code = interrupt_check(error);
		if (code == EXIT_OK && n > 0)
			code = descriptor_write(target, to, at, bytes, (size_t)n, error);
		at += n > 0 ? (uint64_t)n : 0;
	}
	return code;
}

static int copy_file(const char *from, const char *to, struct error *error)
{
	int source = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	if (source < 0)
		return fail_errno(error, from, "cannot open");
	if (fstat(source, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(source);
		return fail(error, EXIT_INPUT, "%s: is not a regular file any more", from);
	}
	int target = open_copy(to);
	int code = target < 0 ? fail_errno(error, to, "cannot create") : copy_bytes(source, from, target, to, error);
	close(source);
	if (code == EXIT_OK)
		return descriptor_finish(target, to, error);
	if (target >= 0)
		close(target);
	return code;
}

int directory_copy(const char *from, const char *to, const char *name, struct error *error)
{
	char *source = directory_member(from, name), *target = directory_member(to, name);
	int code = source == NULL || target == NULL ? fail_memory(error) : copy_file(source, target, error);

	free(source);
	free(target);
	return code;
}

int directory_sync(const char *path, struct error *error)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = EXIT_OK;

	if (fd < 0)
		return EXIT_OK;
	if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EINTR)
		code = fail_errno(error, path, "cannot write to the disk");
	close(fd);
	return code;
}
