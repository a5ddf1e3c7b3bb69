/* SPDX-License-Identifier: MIT */
/* One line on standard error while long work runs: bytes or tokens done, in all, rate, time left. On a terminal it is redrawn;
   elsewhere there is one a minute. None if `quiet` is set. */
#ifndef TOOLS_BASE_PROGRESS_H
#define TOOLS_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *verb;      /* "quantizing" */
	const char *unit;      /* of the numbers shown, as many of them as `size` is; */
	double size;
	uint64_t total, done;  /* total 0: unknown */
	bool shown, terminal;
	double started, drawn; /* seconds, monotonic */
};

void progress_start(struct progress *progress, const char *verb, uint64_t total_bytes, bool quiet);

/* The same for tokens. */
void progress_start_tokens(struct progress *progress, const char *verb, uint64_t total, bool quiet);

/* Adds bytes, or tokens; on a terminal redraws at most ten times a second. */
void progress_add(struct progress *progress, uint64_t n);

/* Clears the line. */
void progress_end(struct progress *progress);

#endif
