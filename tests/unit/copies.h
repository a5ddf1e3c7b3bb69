/* SPDX-License-Identifier: MIT */
/* Files of other writers, read and written again by ours. */
#ifndef TESTS_COPIES_H
#define TESTS_COPIES_H

#include <stddef.h>

#include "io/file.h"

/* What of a file a writer of its format takes along besides its tensors. */
typedef void copies_carry(struct writer *writer, const struct file *file);

/* Copies each of these files under MXFP_SHARED and checks that the bytes are the same; skips those that are not
   there. */
void copies_check(const char *const *names, size_t n, copies_carry *carry);

#endif
