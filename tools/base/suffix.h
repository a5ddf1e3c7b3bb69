/* SPDX-License-Identifier: MIT */
/* Endings of names: of tensors (".weight", "_scale") and of files (".safetensors"). */
#ifndef TOOLS_BASE_SUFFIX_H
#define TOOLS_BASE_SUFFIX_H

#include <stddef.h>

/* Returns the length of the name before the suffix; 0 if it ends otherwise or there is nothing before it. */
size_t suffix_stem(const char *name, const char *suffix);

#endif
