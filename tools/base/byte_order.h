/* SPDX-License-Identifier: MIT */
/* Numbers in files are little-endian, in memory as the machine has them. */
#ifndef TOOLS_BASE_BYTE_ORDER_H
#define TOOLS_BASE_BYTE_ORDER_H

#include <stddef.h>

/* Turns n words of 1, 2, 4 or 8 bytes from the machine's byte order into little-endian, or back; in place. */
void little_endian(void *words, size_t n, unsigned word_bytes);

#endif
