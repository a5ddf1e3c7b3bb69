/* SPDX-License-Identifier: MIT */
/* Starts operations on their lanes: a list schedule without delays. */
#include <stdlib.h>

#include "engine/layer.h"

enum { N_QUEUES = N_LANES + 1 }; /* the last: what the DMA engines bring ahead */

static size_t queue_of(const struct operation *x)
{
	return x->ahead ? N_LANES : (size_t)x->lane;
}

/* Sets the earliest start of an operation, and the operation whose end that is. False: a cause has no end yet. */
static bool earliest(const struct schedule *s, struct operation *x, const bool *done, const size_t *last)
{
	x->start = 0;
	x->cause = NO_OPERATION;
	if (last[x->lane] != NO_OPERATION) {
		x->start = s->operations[last[x->lane]].end;
		x->cause = last[x->lane];
	}
	for (size_t i = 0; i < x->n_causes; i++) {
		const size_t cause = x->causes[i];

		if (!done[cause])
			return false;
		if (s->operations[cause].end > x->start) {
			x->start = s->operations[cause].end;
			x->cause = cause;
		}
	}
	return true;
}

/* Advances a queue to its next operation. */
static void advance(const struct schedule *s, size_t *head, size_t queue)
{
	while (*head < s->n && queue_of(&s->operations[*head]) != queue)
		(*head)++;
}

int schedule_run(struct schedule *s, struct error *error)
{
	size_t heads[N_QUEUES] = {0}, last[N_LANES];
	bool *done = calloc(s->n + 1, sizeof *done);

	if (done == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < N_LANES; i++)
		last[i] = NO_OPERATION;
	for (size_t q = 0; q < N_QUEUES; q++)
		advance(s, &heads[q], q);
	/* The first of the queues' heads in the order of time is next: none of the others can start before it, and what
	   they cause starts later still. Some head always can start, as causes stand before what they cause in the list
	   (a buffer's, which do not, are operations of earlier pieces). */
	for (size_t n = 0; n < s->n; n++) {
		size_t best = N_QUEUES;

		for (size_t q = 0; q < N_QUEUES; q++)
			if (heads[q] < s->n && earliest(s, &s->operations[heads[q]], done, last) &&
			    (best == N_QUEUES || s->operations[heads[q]].start < s->operations[heads[best]].start))
				best = q;
		if (best == N_QUEUES)
			break;
		struct operation *x = &s->operations[heads[best]];
		x->end = x->start + x->ps;
		done[heads[best]] = true;
		last[x->lane] = heads[best]++;
		advance(s, &heads[best], best);
	}
	free(done);
	return EXIT_OK;
}
