/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_MEMORY_H
#define TOOLS_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that the command holds now: what was allocated, and an allowance for its code and stacks. Where the C library
   does not tell, the most that it has held so far. */
uint64_t memory_used(void);

#endif
