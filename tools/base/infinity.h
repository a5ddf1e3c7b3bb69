/* SPDX-License-Identifier: MIT */
/* Inf in f32, tf32, bf16 and f16, to which the library rounds what is too large. */
#ifndef TOOLS_BASE_INFINITY_H
#define TOOLS_BASE_INFINITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mxfp/format.h"

/* The words of +Inf and of the largest number; the top bit is the sign. */
uint32_t infinity_word(enum mxfp_format format);
uint32_t largest_word(enum mxfp_format format);

/* Returns whether words[i] is Inf, which `saturate` replaces by the largest number of its sign. */
bool infinity_replace(enum mxfp_format format, void *words, size_t i, bool saturate);

#endif
