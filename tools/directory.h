/* SPDX-License-Identifier: MIT */
/* Output directories as a whole: what may be replaced, removing, syncing. */
#ifndef TOOLS_DIRECTORY_H
#define TOOLS_DIRECTORY_H

#include "error.h"

/* Checks that a directory holds nothing that mxfp does not write. EXIT_USAGE, EXIT_IO. */
int directory_check_ours(const char *path, struct error *error);

/* Removes a directory and the files in it. 0, or -1 with errno. */
int directory_remove(const char *path);

/* Syncs a directory. Some file systems cannot; that is no failure. EXIT_IO. */
int directory_sync(const char *path, struct error *error);

#endif
