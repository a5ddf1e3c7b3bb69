/* SPDX-License-Identifier: MIT */
/* Whether files that will be written have room on their disks, to be known before hours of work. */
#ifndef TOOLS_IO_ROOM_H
#define TOOLS_IO_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A file or directory that will be written, or with a slash at its end one that is there, and bytes. */
struct room_need {
	const char *path; /* as the error names it */
	uint64_t bytes;
};

/* EXIT_IO if the file system of one has less room than all that go there need, saying how much and the remedy. Where the
   system does not know, it is left to the writing. */
int room_check(const struct room_need *needs, size_t n, const char *remedy, struct error *error);

#endif
