/* SPDX-License-Identifier: MIT */
/* Elements of a float tensor as binary32 numbers, whatever float type the file stores. */
#ifndef TOOLS_IO_ELEMENTS_H
#define TOOLS_IO_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"

/* True for F32, BF16, F16 (each exact in binary32) and F64 (rounded to nearest even). */
bool elements_are_float(enum dtype dtype);

/* Reads `n` elements of such a tensor from element `first` on. EXIT_IO, EXIT_INPUT. */
int elements_read(const struct file *file, const struct tensor *tensor, uint64_t first, float *x, size_t n,
                  struct error *error);

#endif
