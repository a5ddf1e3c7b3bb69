/* SPDX-License-Identifier: MIT */
/* Output directories as a whole: which may be replaced, removing, copying into, syncing. */
#ifndef TOOLS_IO_DIRECTORY_H
#define TOOLS_IO_DIRECTORY_H

#include <dirent.h>

#include "base/error.h"

/* Returns the name of the next entry except "." and ".."; NULL at the end with errno 0, or on a failure. */
const char *directory_next(DIR *directory);

/* The file that describes the model in a directory, and lists files that mxfp copied there. */
#define CONFIG_FILE "config.json"

enum { CONFIG_BYTES_MAX = 1 << 24 };

/* The member of quantization_config.mxfp in an output's config.json that lists the files copied into it. */
#define DIRECTORY_CARRIED "carried"

/* Checks that a directory holds only what mxfp writes: regular files named *.safetensors and *.json, and those that
   config.json lists as carried. EXIT_USAGE, EXIT_IO. */
int directory_check_ours(const char *path, struct error *error);

/* Removes a directory and the files in it. Returns 0, or -1 with errno. */
int directory_remove(const char *path);

/* Copies a regular file, not a symbolic link, from one directory into another under its name, replacing any file there,
   and syncs it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int directory_copy(const char *from, const char *to, const char *name, struct error *error);

/* Returns malloc'ed "DIRECTORY/NAME", or NULL. */
char *directory_member(const char *directory, const char *name);

/* Syncs a directory. Some file systems cannot; that is not a failure. EXIT_IO. */
int directory_sync(const char *path, struct error *error);

#endif
