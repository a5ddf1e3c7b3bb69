/* SPDX-License-Identifier: MIT */
/* Reads and writes of whole ranges of open files: interrupted and short transfers are continued. `path` is for the
   error's text. */
#ifndef TOOLS_IO_DESCRIPTOR_H
#define TOOLS_IO_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Raises the limit of open descriptors as far as allowed: a model can have hundreds of files. */
void descriptor_raise_limit(void);

/* How many there may be; 0: not known. */
unsigned long descriptor_limit(void);

/* Opens a regular file for reading and sets its size. Directories, FIFOs, sockets and devices are refused without
   opening or waiting for them: EXIT_INPUT. EXIT_IO. */
typedef int descriptor_opener(const char *path, int *fd, uint64_t *size_bytes, struct error *error);

/* Opens what the user named, by whatever links; member_open() opens what a directory holds. */
descriptor_opener descriptor_open;

/* The same for the file `name` of the open directory `at`, which is no symbolic link. */
int descriptor_open_at(int at, const char *name, const char *path, int *fd, uint64_t *size_bytes, struct error *error);

/* Opens, or with O_CREAT makes, a file that a run changes in place. Refuses one that others share, by a hard link, or that is none, such
   as a symbolic link: EXIT_USAGE. EXIT_IO. -1 after a failure. */
int descriptor_open_own(const char *path, int flags, int *fd, struct error *error);

/* Reads exactly `n` bytes. EXIT_IO; EXIT_INPUT if the file is too short. */
int descriptor_read(int fd, const char *path, uint64_t at, void *bytes, size_t n, struct error *error);

/* Writes exactly `n` bytes. EXIT_IO. */
int descriptor_write(int fd, const char *path, uint64_t at, const void *bytes, size_t n, struct error *error);

/* Asks the system to start writing to the disk, so that less is left for descriptor_finish(), which also reports
   failures. */
void descriptor_begin_sync(int fd);

/* Syncs what was written so far, so that it survives a crash. EXIT_IO. */
int descriptor_sync(int fd, const char *path, struct error *error);

/* Syncs a directory. Some file systems cannot; that is not a failure. EXIT_IO. */
int descriptor_sync_directory(const char *path, struct error *error);

/* Syncs the file, and closes it even if that fails. EXIT_IO. */
int descriptor_finish(int fd, const char *path, struct error *error);

#endif
