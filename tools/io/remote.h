/* SPDX-License-Identifier: MIT */
/* Paths that name something on another machine: only what was downloaded can be read. */
#ifndef TOOLS_IO_REMOTE_H
#define TOOLS_IO_REMOTE_H

#include "base/error.h"

/* nearest_fail_open() after open() or stat(), with the command that downloads what a URL or the id of a model on the
   Hugging Face Hub names. */
int remote_fail_open(const char *path, struct error *error);

#endif
