/* SPDX-License-Identifier: MIT */
/* Output directories as a whole: which may be replaced, removing, copying into, syncing. */
#ifndef TOOLS_IO_DIRECTORY_H
#define TOOLS_IO_DIRECTORY_H

#include <stdbool.h>

#include "base/error.h"
#include "io/walk.h"

/* The file that describes the model in a directory, and lists files that mxfp copied there. */
#define CONFIG_FILE "config.json"

enum { CONFIG_BYTES_MAX = 1 << 24 };

/* In a part of a quantized model, which one of several machines has made. */
#define PART_FILE "mxfp-part.json"

/* What lists the files copied into an output: this member of quantization_config.mxfp in its config.json if it is
   quantized, else this metadata key of its weights, whose value is a JSON array. */
#define DIRECTORY_CARRIED "carried"
#define METADATA_CARRIED "mxfp.carried"

/* Checks that a directory holds only what mxfp wrote: regular files named *.safetensors, by their metadata, *.json, and
   those that are listed as carried, also in directories below. Besides an empty one and a part, one without weights is not known. EXIT_USAGE,
   EXIT_IO, EXIT_MEMORY. */
int directory_check_ours(const char *path, struct error *error);

/* Removes a directory and what is in it. Returns 0, or -1 with errno. */
int directory_remove(const char *path);

/* Checks that the directories in a name such as "a/b" are ones below `directory`, not symbolic links; makes them first if
   that is asked for. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int directory_parents(const char *directory, const char *name, bool make, struct error *error);

/* Syncs them. EXIT_IO, EXIT_MEMORY. */
int directory_sync_parents(const char *directory, const char *name, struct error *error);

/* Copies a file that member_open() opens from one directory into another under its name, which may be one in a directory
   below ("a/b"), replacing any file there, and syncs it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int directory_copy(const char *from, const char *to, const char *name, struct error *error);

/* Returns malloc'ed "DIRECTORY/NAME", or NULL. */
char *directory_member(const char *directory, const char *name);

/* Returns the malloc'ed name of the directory that a path is in, or NULL. */
char *directory_of(const char *path);

/* Syncs a directory. Some file systems cannot; that is not a failure. EXIT_IO. */
int directory_sync(const char *path, struct error *error);

#endif
