/* SPDX-License-Identifier: MIT */
/* Memory beside pages that cannot be touched. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guarded {
	uint8_t *at;
	size_t bytes;
	uint8_t *pages; /* between the two that cannot be touched */
	size_t pages_bytes;
};

/* `bytes` bytes whose first lies `offset` behind a guard page, or whose last lies `offset` before one. Everything
   between the guard pages is filled with canaries, but 256 KiB or more of the array's own are 0. */
struct guarded guarded_of(size_t bytes, size_t offset, bool at_end);
void guarded_free(struct guarded *g);

/* Whether all canaries around the memory are as they were. */
bool guarded_is_intact(const struct guarded *g);

#endif
