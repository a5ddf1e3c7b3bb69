/* SPDX-License-Identifier: MIT */
/* An allocator that fails when it is told to. A program that links this file does so with the linker's --wrap for
   malloc, calloc, realloc, strdup and strndup. */
#ifndef TESTS_ALLOC_FAIL_H
#define TESTS_ALLOC_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* From now on the n-th allocation fails, counted from 1, and if `all` every one after it too; 0: none does. */
void alloc_fail_at(size_t n, bool all);

/* Whether one has failed since. */
bool alloc_has_failed(void);

#endif
