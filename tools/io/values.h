/* SPDX-License-Identifier: MIT */
/* Elements of a tensor of any numeric dtype as binary64 numbers: exact but for 64-bit integers past 2^53. */
#ifndef TOOLS_IO_VALUES_H
#define TOOLS_IO_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/file.h"

enum { VALUES_PIECE = 4096 }; /* elements at most at once; whole bytes and blocks in every dtype */

/* False for complex numbers, for blocks but Q8_0, and for the dtypes whose codes this program does not know
   (F8_E4M3FNUZ, F8_E5M2FNUZ). */
bool values_are_known(enum dtype dtype);

/* Bytes of n elements, which are whole blocks, and of which the last byte may be partly used. */
size_t values_bytes(enum dtype dtype, size_t n);

/* Decodes n <= VALUES_PIECE elements of a known dtype from the bytes of a file. */
void values_decode(enum dtype dtype, const unsigned char *bytes, double *x, size_t n);

#endif
