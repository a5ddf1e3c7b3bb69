/* SPDX-License-Identifier: MIT */
/* What stands under the names of models without being one, by its first bytes. */
#ifndef TOOLS_IO_FOREIGN_H
#define TOOLS_IO_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Returns EXIT_INPUT, with what it is and the remedy, if the `n` bytes that a file begins with are those of something
   else than weights or JSON. 512 are enough. */
int foreign_check(const char *path, const void *first, size_t n, struct error *error);

/* Whether the bytes that a file begins with are those of a text. */
bool foreign_is_text(const void *first, size_t n);

#endif
