/* SPDX-License-Identifier: MIT */
/* A file that is being read. Of all that are open at a time, only so many as the limit of descriptors allows have one;
   others lose it while they are not read, and get it back only if their path still leads to the same, unchanged file. */
#ifndef TOOLS_IO_HANDLE_H
#define TOOLS_IO_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "io/descriptor.h"

struct handle;

/* Opens a regular file, now and later by `opener`: as that says; EXIT_MEMORY. */
int handle_open(struct handle **handle, descriptor_opener *opener, const char *path, struct error *error);

/* The same by the opener of another. */
int handle_open_like(struct handle **handle, const struct handle *other, const char *path, struct error *error);

/* Makes one of several, whose bytes follow each other; they stay open as long as it. EXIT_MEMORY. */
int handle_join(struct handle **joined, struct handle *const *parts, size_t n, struct error *error);

/* What it was when it was opened: size, time of change, ...; of the first of those that are joined. */
const struct stat *handle_status(const struct handle *handle);

/* Reads exactly `n` bytes; by any number of threads at a time. EXIT_IO; EXIT_INPUT if the file is too short, or has
   become another one. */
int handle_read(struct handle *handle, uint64_t at, void *bytes, size_t n, struct error *error);

/* Asks the system to forget what it has of the file in memory, so that reading it is reading from the disk. */
void handle_uncache(struct handle *handle);

/*
 * For a run that deletes its inputs, file after file, once it has read them, and that a later run continues (kept.h). From
 * handle_keep() on, what is read of each file is noted, until handle_kept(), and then no more; a file of the directory
 * that is not there is read from what `kept` has of it, where that is enough. `kept` is a directory that may not be there. Both
 * texts stay the caller's, until handle_keep(NULL, NULL).
 */
void handle_keep(const char *directory, const char *kept);
void handle_kept(void);

/* Whether the file is gone, and read from what is kept of it. */
bool handle_is_kept(const struct handle *handle);

/* Writes what was noted to `kept` and syncs that, deletes the file, if it is still the one that was opened, and reads
   from `kept` from then on. No thread reads it meanwhile. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int handle_delete(struct handle *handle, struct error *error);

/* NULL is fine. */
void handle_close(struct handle *handle);

#endif
