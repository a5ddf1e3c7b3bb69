/* SPDX-License-Identifier: MIT */
/* Converts numbers between files, which are little-endian, and memory. */
#ifndef TOOLS_BASE_BYTE_ORDER_H
#define TOOLS_BASE_BYTE_ORDER_H

#include <stddef.h>

/* Converts n words of 1, 2, 4 or 8 bytes from the machine's byte order to little-endian, or back, in place. */
void little_endian(void *words, size_t n, unsigned word_bytes);

#endif
