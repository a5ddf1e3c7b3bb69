/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/merge.h"

#include <stdlib.h>

#define NONE SIZE_MAX

int merge_add(struct merge *merge, size_t n, uint32_t id, struct error *error)
{
	const size_t i = merge->n;

	if (i == merge->symbols_room) {
		const size_t room = 2 * i + 64;
		struct merge_symbol *grown = realloc(merge->symbols, room * sizeof *grown);

		if (grown == NULL)
			return fail_memory(error);
		merge->symbols = grown;
		merge->symbols_room = room;
	}
	const size_t from = i > 0 ? merge->symbols[i - 1].from + merge->symbols[i - 1].n : 0;
	merge->symbols[i] = (struct merge_symbol){.from = from, .n = n, .left = i > 0 ? i - 1 : NONE, .right = NONE, .id = id};
	if (i > 0)
		merge->symbols[i - 1].right = i;
	merge->n++;
	return EXIT_OK;
}

static bool before(const struct merge_candidate *a, const struct merge_candidate *b)
{
	return a->cost < b->cost || (a->cost == b->cost && a->left < b->left);
}

static int push(struct merge *merge, struct merge_candidate candidate, struct error *error)
{
	size_t at = merge->n_heap;

	if (at == merge->heap_room) {
		const size_t room = 2 * at + 64;
		struct merge_candidate *grown = realloc(merge->heap, room * sizeof *grown);

		if (grown == NULL)
			return fail_memory(error);
		merge->heap = grown;
		merge->heap_room = room;
	}
	merge->n_heap++;
	while (at > 0 && before(&candidate, &merge->heap[(at - 1) / 2])) {
		merge->heap[at] = merge->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	merge->heap[at] = candidate;
	return EXIT_OK;
}

static struct merge_candidate pop(struct merge *merge)
{
	const struct merge_candidate first = merge->heap[0], last = merge->heap[--merge->n_heap];
	const size_t n = merge->n_heap;
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < n && before(&merge->heap[child + 1], &merge->heap[child]))
			child++;
		if (child >= n || !before(&merge->heap[child], &last))
			break;
		merge->heap[at] = merge->heap[child];
		at = child;
	}
	merge->heap[at] = last;
	return first;
}

static int offer(struct merge *merge, size_t left, size_t right, merge_pair *pair, const void *context,
                 struct error *error)
{
	struct merge_candidate candidate = {.left = left, .right = right};

	if (left == NONE || right == NONE)
		return EXIT_OK;
	candidate.n = merge->symbols[left].n + merge->symbols[right].n;
	if (!pair(context, &merge->symbols[left], &merge->symbols[right], &candidate.cost, &candidate.id))
		return EXIT_OK;
	return push(merge, candidate, error);
}

int merge_run(struct merge *merge, merge_pair *pair, const void *context, struct error *error)
{
	struct merge_symbol *symbols = merge->symbols;
	int code = EXIT_OK;
	size_t n = 0;

	merge->n_heap = 0;
	for (size_t i = 1; i < merge->n && code == EXIT_OK; i++)
		code = offer(merge, i - 1, i, pair, context, error);
	while (merge->n_heap > 0 && code == EXIT_OK) {
		const struct merge_candidate best = pop(merge);
		struct merge_symbol *left = &symbols[best.left], *right = &symbols[best.right];

		/* A symbol only grows, or has no bytes once it is part of its left one: equal sizes are the same pair. */
		if (left->n == 0 || right->n == 0 || left->n + right->n != best.n)
			continue;
		left->n = best.n;
		left->id = best.id;
		left->right = right->right;
		right->n = 0;
		if (left->right != NONE)
			symbols[left->right].left = best.left;
		code = offer(merge, left->left, best.left, pair, context, error);
		if (code == EXIT_OK)
			code = offer(merge, best.left, left->right, pair, context, error);
	}
	for (size_t i = 0; i < merge->n; i++)
		if (symbols[i].n > 0)
			symbols[n++] = symbols[i];
	merge->n = n;
	return code;
}

void merge_clear(struct merge *merge)
{
	merge->n = 0;
}

void merge_free(struct merge *merge)
{
	free(merge->symbols);
	free(merge->heap);
	*merge = (struct merge){0};
}
