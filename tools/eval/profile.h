/* SPDX-License-Identifier: MIT */
/* Where the time of a run went: by layer and kind of work, beside what the machine can do at most. */
#ifndef TOOLS_EVAL_PROFILE_H
#define TOOLS_EVAL_PROFILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "eval/network.h"

/* What the machine can do in a second, on as many threads; 0: not known. */
struct profile_limits {
	double operations, bytes;
};

struct profile {
	size_t tokens;             /* run */
	double started;            /* clock_seconds() */
	double wall, load;         /* seconds of all, and of them for weights to be read, quantized and packed */
	uint64_t bytes;            /* of weights in memory */
	size_t n_layers;
	struct network_done (*done)[N_NETWORK_WORKS]; /* [n_layers + 1], the last: of no layer; NULL: there is no profile */
	struct profile_limits limits;
};

/* Takes what a network has done since profile->started, and restarts its counts; wall ends. EXIT_MEMORY. */
int profile_take(struct profile *profile, struct network *network, struct error *error);

/* Prints tables. EXIT_MEMORY. */
int profile_print(const struct profile *profile, const char *name, FILE *file, struct error *error);

/* The same as JSON; NULL if memory ran out. */
json_t *profile_facts(const struct profile *profile);

void profile_free(struct profile *profile);

#endif
