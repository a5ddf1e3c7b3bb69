/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "equal/guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC7, LARGE = 1 << 18, KEPT_PAGES = 32 };

/* Memory that was freed, by its number of pages, each with the next of that number in its first bytes: to map and to unmap it takes
   longer than what most products do with it. */
static uint8_t *kept[KEPT_PAGES + 1];

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *take(size_t pages)
{
	uint8_t *p = pages <= KEPT_PAGES ? kept[pages] : NULL;

	if (p != NULL)
		memcpy(&kept[pages], p, sizeof kept[pages]);
	return p;
}

struct guarded guarded_of(size_t bytes, size_t offset, bool at_end)
{
	size_t page = page_bytes(), n = (bytes + offset + page - 1) / page * page;
	struct guarded g = {.bytes = bytes, .pages = take(n / page), .pages_bytes = n};

	if (g.pages == NULL) {
		uint8_t *p = mmap(NULL, n + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED || (n != 0 && mprotect(p + page, n, PROT_READ | PROT_WRITE) != 0))
			abort();
		g.pages = p + page;
	}
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
	const size_t pages = g->pages_bytes / page_bytes();

	if (pages == 0 || pages > KEPT_PAGES) {
		munmap(g->pages - page_bytes(), g->pages_bytes + 2 * page_bytes());
		return;
	}
	memcpy(g->pages, &kept[pages], sizeof kept[pages]);
	kept[pages] = g->pages;
}

/* Whether n bytes are canaries: the first is, and each is like the one before. */
static bool is_canaries(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == CANARY && memcmp(p, p + 1, n - 1) == 0);
}

bool guarded_is_intact(const struct guarded *g)
{
	const uint8_t *end = g->at + g->bytes;

	return is_canaries(g->pages, (size_t)(g->at - g->pages)) && is_canaries(end, (size_t)(g->pages + g->pages_bytes - end));
}
