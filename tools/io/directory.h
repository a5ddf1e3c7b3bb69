/* SPDX-License-Identifier: MIT */
/* Output directories as a whole: what may be replaced, removing, syncing. */
#ifndef TOOLS_IO_DIRECTORY_H
#define TOOLS_IO_DIRECTORY_H

#include <dirent.h>

#include "base/error.h"

/* The name of the next entry besides "." and ".."; NULL at the end, or after a failure with errno other than 0. */
const char *directory_next(DIR *directory);

/* Describes the model in a directory, and lists files that mxfp wrote there. */
#define CONFIG_FILE "config.json"

enum { CONFIG_BYTES_MAX = 1 << 24 };

/* Where quantization_config.mxfp of an output's config.json lists the files that were copied into it. */
#define DIRECTORY_CARRIED "carried"

/* Checks that a directory holds nothing that mxfp does not write: regular files named *.safetensors and *.json, and
   those that config.json lists as carried. EXIT_USAGE, EXIT_IO. */
int directory_check_ours(const char *path, struct error *error);

/* Removes a directory and the files in it. 0, or -1 with errno. */
int directory_remove(const char *path);

/* Copies a regular file, which is no symbolic link, from one directory into another under its name, over what stands
   there, and syncs it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int directory_copy(const char *from, const char *to, const char *name, struct error *error);

/* malloc'ed "DIRECTORY/NAME", or NULL. */
char *directory_member(const char *directory, const char *name);

/* Syncs a directory. Some file systems cannot; that is no failure. EXIT_IO. */
int directory_sync(const char *path, struct error *error);

#endif
