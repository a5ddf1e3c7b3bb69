/* SPDX-License-Identifier: MIT */
/* Matrices that a trial leaves as they are stored, and why: by reason, in the order of the model. */
#ifndef TOOLS_EVAL_STAYS_H
#define TOOLS_EVAL_STAYS_H

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "quantize/quantize.h"

/* One reason. */
struct stay {
	char *first; /* the first tensor of that reason */
	char *reason;
	size_t n;    /* how many have it */
};

struct stays {
	size_t n;
	struct stay *items;
};

/* Finds those of a plan; stays_free() follows in any case. EXIT_MEMORY. */
int stays_find(struct stays *stays, const struct quantize_plan *plan, struct error *error);

/* Whether the same is among them. */
bool stays_has(const struct stays *stays, const struct stay *stay);

/* A line for one, and all as JSON; NULL without memory. */
void stay_print(const struct stay *stay, FILE *file);
json_t *stays_facts(const struct stays *stays);

void stays_free(struct stays *stays);

#endif
