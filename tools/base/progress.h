/* SPDX-License-Identifier: MIT */
/* One line on a terminal while long work runs: bytes or tokens done, in all, rate, time left. Silent if stderr is not a
   terminal or `quiet` is set. */
#ifndef TOOLS_BASE_PROGRESS_H
#define TOOLS_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *verb;      /* "quantizing" */
	const char *unit;      /* of the numbers shown, as many of them as `size` is; */
	double size;
	uint64_t total, done;  /* total 0: unknown */
	bool shown;
	double started, drawn; /* seconds, monotonic */
};

void progress_start(struct progress *progress, const char *verb, uint64_t total_bytes, bool quiet);

/* The same for tokens. */
void progress_start_tokens(struct progress *progress, const char *verb, uint64_t total, bool quiet);

/* Adds bytes, or tokens; redraws at most ten times a second. */
void progress_add(struct progress *progress, uint64_t n);

/* Clears the line. */
void progress_end(struct progress *progress);

#endif
