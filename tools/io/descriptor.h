/* SPDX-License-Identifier: MIT */
/* Whole transfers at a place in an open file: interrupted and short ones are continued. `path` is for the error's
   text. */
#ifndef TOOLS_IO_DESCRIPTOR_H
#define TOOLS_IO_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Lets the process have as many descriptors as it may: a model can have hundreds of files. */
void descriptor_raise_limit(void);

/* Opens a regular file for reading and tells its size. Directories, FIFOs, sockets and devices are refused without
   being opened or waited for: EXIT_INPUT. EXIT_IO. */
int descriptor_open(const char *path, int *fd, uint64_t *size_bytes, struct error *error);

/* Reads exactly `n` bytes. EXIT_IO; EXIT_INPUT if the file ends before. */
int descriptor_read(int fd, const char *path, uint64_t at, void *bytes, size_t n, struct error *error);

/* Writes exactly `n` bytes. EXIT_IO. */
int descriptor_write(int fd, const char *path, uint64_t at, const void *bytes, size_t n, struct error *error);

/* Lets the system begin to bring what was written to the disk, so that less is left for descriptor_finish(), which also
   tells what failed. */
void descriptor_begin_sync(int fd);

/* Makes what was written so far last beyond a crash. EXIT_IO. */
int descriptor_sync(int fd, const char *path, struct error *error);

/* Makes what was written last beyond a crash, and closes, whatever fails. EXIT_IO. */
int descriptor_finish(int fd, const char *path, struct error *error);

#endif
