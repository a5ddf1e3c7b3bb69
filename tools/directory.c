/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suffix.h"

/* Whether mxfp writes such an entry into an output directory. */
static bool is_ours(int directory, const char *name)
{
	static const char *const suffixes[] = {".safetensors", ".json"};
	struct stat status;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
		return false;
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
		if (suffix_stem(name, suffixes[i]) != 0)
			return true;
	return false;
}

/* The next entry besides "." and ".."; NULL with errno 0 at the end. */
static const char *next_entry(DIR *directory)
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
	const char *name;
	int code = EXIT_OK;

	if (directory == NULL)
		return fail_errno(error, path, "cannot open");
	while ((name = next_entry(directory)) != NULL && is_ours(dirfd(directory), name))
		;
	if (name != NULL)
		code = fail(error, EXIT_USAGE, "%s: holds '%s', which mxfp does not write, so it is not replaced"
		            " / name another directory", path, name);
	else if (errno != 0)
		code = fail_errno(error, path, "cannot read");
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
	while ((name = next_entry(directory)) != NULL)
		removed = unlinkat(dirfd(directory), name, 0) == 0 && removed;
	closedir(directory);
	return removed ? rmdir(path) : -1;
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
