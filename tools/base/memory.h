/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_MEMORY_H
#define TOOLS_BASE_MEMORY_H

#include <stdint.h>

/* Returns the bytes that the process holds now: what is allocated, and an allowance for code and stacks. If the C
   library cannot tell, the most that it has held so far. */
uint64_t memory_used(void);

#endif
