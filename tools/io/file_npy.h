/* SPDX-License-Identifier: MIT */
/* Files of one NumPy array (.npy): file_npy.c has the byte layout. */
#ifndef TOOLS_IO_FILE_NPY_H
#define TOOLS_IO_FILE_NPY_H

#include "base/error.h"
#include "io/file.h"

/* What the array of a file is called among tensors. */
#define NPY_TENSOR "array"

extern const struct file_format file_npy;

/* Writes a matrix in C order as a new file, format 1.0, and syncs it. EXIT_IO. */
int npy_write(const char *path, const float *numbers, size_t rows, size_t cols, struct error *error);

#endif
