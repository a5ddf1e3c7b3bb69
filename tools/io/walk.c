/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *directory_next(DIR *directory)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(directory);
	} while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry != NULL ? entry->d_name : NULL;
}

struct walk {
	const char *path;
	walk_visitor *visit;
	void *context;
};

static int walk_below(const struct walk *w, int at, const char *name, const char *prefix, unsigned depth, struct error *error);

/* Shows an entry of the directory `at`, and what is below it. */
static int see(const struct walk *w, int at, const char *base, const char *prefix, unsigned depth, struct error *error)
{
	const size_t size = strlen(prefix) + strlen(base) + sizeof "/";
	char *name = malloc(size);
	struct walk_entry entry = {.name = name, .depth = depth};
	bool enter = false;
	int code = EXIT_OK;

	if (name == NULL)
		return fail_memory(error);
	snprintf(name, size, "%s%s%s", prefix, depth > 0 ? "/" : "", base);
	entry.base = name + strlen(name) - strlen(base);
	if (fstatat(at, base, &entry.status, AT_SYMLINK_NOFOLLOW) != 0)
		code = fail_errno(error, w->path, "cannot read");
	if (code == EXIT_OK)
		code = w->visit(w->context, &entry, &enter, error);
	if (code == EXIT_OK && enter && S_ISDIR(entry.status.st_mode) && depth + 1 < WALK_DEPTH)
		code = walk_below(w, at, base, name, depth + 1, error);
	free(name);
	return code;
}

static int walk_below(const struct walk *w, int at, const char *name, const char *prefix, unsigned depth, struct error *error)
{
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth > 0 ? O_NOFOLLOW : 0));
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const char *base;
	int code = EXIT_OK;

	if (directory == NULL) {
		code = fail_errno(error, w->path, "cannot open what is in it");
		if (fd >= 0)
			close(fd);
		return code;
	}
	while (code == EXIT_OK && (base = directory_next(directory)) != NULL)
		code = see(w, fd, base, prefix, depth, error);
	if (code == EXIT_OK && errno != 0)
		code = fail_errno(error, w->path, "cannot read");
	closedir(directory);
	return code;
}

int directory_walk(const char *path, walk_visitor *visit, void *context, struct error *error)
{
	const struct walk w = {path, visit, context};

	return walk_below(&w, AT_FDCWD, path, "", 0, error);
}
