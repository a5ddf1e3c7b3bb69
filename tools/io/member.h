/* SPDX-License-Identifier: MIT */
/*
 * Files of a directory whose contents are not trusted. A symbolic link in it is followed to a file inside it and, in a
 * snapshot of a Hugging Face cache, REPOSITORY/snapshots/REVISION, or a folder of one, to a file of REPOSITORY/blobs,
 * where such a cache keeps the contents of all revisions (huggingface_hub, "Understand caching"): nowhere else.
 */
#ifndef TOOLS_IO_MEMBER_H
#define TOOLS_IO_MEMBER_H

#include "io/descriptor.h"

/* malloc'ed name of the directory that the last component of a path is in, or NULL. */
char *member_directory(const char *path);

/* A descriptor_opener for a file whose directory is not trusted. A link that does not lead to such a file is refused:
   EXIT_INPUT. What is opened is what was checked, even if somebody changes the links meanwhile. */
descriptor_opener member_open;

#endif
