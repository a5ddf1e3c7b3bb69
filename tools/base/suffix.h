/* SPDX-License-Identifier: MIT */
/* Endings of names: of tensors (".weight", "_scale") and of files (".safetensors"). */
#ifndef TOOLS_BASE_SUFFIX_H
#define TOOLS_BASE_SUFFIX_H

#include <stddef.h>

/* Length of what stands before the suffix; 0 if the name ends otherwise or has nothing before it. */
size_t suffix_stem(const char *name, const char *suffix);

#endif
