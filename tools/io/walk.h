/* SPDX-License-Identifier: MIT */
/* All that lies below a directory. */
#ifndef TOOLS_IO_WALK_H
#define TOOLS_IO_WALK_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/* Returns the name of the next entry except "." and ".."; NULL at the end with errno 0, or on a failure. */
const char *directory_next(DIR *directory);

/* Directories are entered up to so many deep: what is nested deeper is no model's. */
enum { WALK_DEPTH = 8 };

struct walk_entry {
	const char *name;   /* below the directory: "a" or "a/b" */
	const char *base;   /* of it the last component */
	unsigned depth;     /* slashes in the name, less than WALK_DEPTH */
	struct stat status; /* of a symbolic link itself */
};

/* Sees an entry; a directory is entered next if *enter is set, which starts false. */
typedef int walk_visitor(void *context, const struct walk_entry *entry, bool *enter, struct error *error);

/* Shows every entry below a directory, in the order in which it lists them. Symbolic links are not followed. EXIT_IO,
   EXIT_MEMORY, what `visit` returns. */
int directory_walk(const char *path, walk_visitor *visit, void *context, struct error *error);

#endif
