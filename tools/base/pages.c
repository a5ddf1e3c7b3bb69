/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 1 << 21, CHUNK = 16 * PAGE, ALIGN = 64 };

/* Memory from which pieces are cut. Before each piece is the address of its chunk. */
struct pages_chunk {
	size_t bytes, used;
	size_t live; /* pieces that were not given back, and one more while it is the current chunk */
};

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

void pages_advise(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	const uintptr_t from = round_up((uintptr_t)memory, PAGE), end = ((uintptr_t)memory + bytes) / PAGE * PAGE;

	if (memory != NULL && from < end)
		(void)madvise((void *)from, end - from, MADV_HUGEPAGE);
#else
	(void)memory;
	(void)bytes;
#endif
}

static void release(struct pages_chunk *chunk)
{
	if (chunk != NULL && --chunk->live == 0)
		free(chunk);
}

static struct pages_chunk *new_chunk(size_t least)
{
	const size_t bytes = least > CHUNK ? round_up(least, PAGE) : CHUNK;
	struct pages_chunk *chunk = aligned_alloc(PAGE, bytes);

	if (chunk == NULL)
		return NULL;
	pages_advise(chunk, bytes);
	*chunk = (struct pages_chunk){.bytes = bytes, .used = ALIGN, .live = 1};
	return chunk;
}

void *pages_take(struct pages *pages, size_t bytes)
{
	struct pages_chunk *chunk = pages->current;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	const size_t taken = ALIGN + round_up(bytes, ALIGN);
	if (chunk != NULL && chunk->live == 1)
		chunk->used = ALIGN;
	if (chunk == NULL || chunk->bytes - chunk->used < taken) {
		chunk = new_chunk(ALIGN + taken);
		if (chunk == NULL)
			return NULL;
		release(pages->current);
		pages->current = chunk;
	}
	uint8_t *at = (uint8_t *)chunk + chunk->used;
	chunk->used += taken;
	chunk->live++;
	*(struct pages_chunk **)(void *)at = chunk;
	return at + ALIGN;
}

void pages_give(void *memory)
{
	if (memory != NULL)
		release(*(struct pages_chunk **)(void *)((uint8_t *)memory - ALIGN));
}

void pages_end(struct pages *pages)
{
	release(pages->current);
	pages->current = NULL;
}
