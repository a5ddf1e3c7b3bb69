/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_BYTE_SIZE_H
#define TOOLS_BASE_BYTE_SIZE_H

#include <stdint.h>

#include "base/error.h"

/* Parses a number of bytes: decimal, not 0, optionally followed by K, M, G or T for 2^10, 2^20, 2^30 or 2^40. `where`
   is for the error's text. EXIT_USAGE. */
int byte_size_parse(const char *text, const char *where, uint64_t *bytes, struct error *error);

#endif
