/* SPDX-License-Identifier: MIT */
/* Reads elements of tensors as numbers, whatever type the file stores. */
#ifndef TOOLS_IO_ELEMENTS_H
#define TOOLS_IO_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"

/* Whether the dtype is F32, BF16, F16 (each exact in binary32) or F64 (rounded to nearest even). */
bool elements_are_float(enum dtype dtype);

/* Whether it is FP8 of OCP or of the FNUZ formats. */
bool elements_are_fp8(enum dtype dtype);

/* Reads `n` elements of such a tensor from element `first` on. EXIT_IO, EXIT_INPUT. */
int elements_read(const struct file *file, const struct tensor *tensor, uint64_t first, float *x, size_t n,
                  struct error *error);

/* Elements of any numeric dtype as binary64 numbers: exact but for 64-bit integers past 2^53. */
enum { VALUES_PIECE = 4096 }; /* the most elements at once; whole bytes and blocks in every dtype */

/* Whether values_decode() takes the dtype: not complex numbers, and no blocks except Q8_0. */
bool values_are_known(enum dtype dtype);

/* Returns the bytes of n elements, which are whole blocks; the last byte may be partly used. */
size_t values_bytes(enum dtype dtype, size_t n);

/* Decodes n <= VALUES_PIECE elements of a known dtype from the bytes of a file. */
void values_decode(enum dtype dtype, const unsigned char *bytes, double *x, size_t n);

#endif
