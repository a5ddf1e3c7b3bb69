/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "equal/guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC7, LARGE = 1 << 18 };

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct guarded guarded_of(size_t bytes, size_t offset, bool at_end)
{
	size_t page = page_bytes(), n = (bytes + offset + page - 1) / page * page;
	uint8_t *p = mmap(NULL, n + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || (n != 0 && mprotect(p + page, n, PROT_READ | PROT_WRITE) != 0))
		abort();
	struct guarded g = {.bytes = bytes, .pages = p + page, .pages_bytes = n};
	g.at = g.pages + (at_end ? n - offset - bytes : offset);
	if (bytes < LARGE) {
		memset(g.pages, CANARY, n);
		return g;
	}
	/* Most of the largest arrays, workspaces, is never touched, and stays so. */
	memset(g.pages, CANARY, (size_t)(g.at - g.pages));
	memset(g.at + bytes, CANARY, (size_t)(g.pages + n - g.at) - bytes);
	return g;
}

void guarded_free(struct guarded *g)
{
	munmap(g->pages - page_bytes(), g->pages_bytes + 2 * page_bytes());
}

bool guarded_is_intact(const struct guarded *g)
{
	for (const uint8_t *p = g->pages; p < g->pages + g->pages_bytes; p++) {
		if (p == g->at)
			p += g->bytes;
		if (p < g->pages + g->pages_bytes && *p != CANARY)
			return false;
	}
	return true;
}
