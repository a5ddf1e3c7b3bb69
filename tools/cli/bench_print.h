/* SPDX-License-Identifier: MIT */
/* What `mxfp bench` prints: rows as they are measured, and at the end the targets; or all of it as JSON. */
#ifndef TOOLS_CLI_BENCH_PRINT_H
#define TOOLS_CLI_BENCH_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "bench.h"

/* One figure. */
struct bench_row {
	struct bench_case c;
	enum bench_place place;
	int tier;
	struct bench_result result;
};

/* All of them, and how they came about. */
struct bench_rows {
	size_t n, capacity;
	struct bench_row *rows;
	int best_tier;        /* targets are for this one, on one thread */
	unsigned threads;
	size_t dram_elements;
};

/* Elements in a second, counted as 4 bytes each. */
double bench_gbps(double seconds);

void bench_print_machine(const struct bench_rows *rows);
void bench_print_row(const struct bench_rows *rows, const struct bench_row *row);
void bench_print_targets(const struct bench_rows *rows);

/* The same as JSON, or NULL if memory ran out. */
json_t *bench_json(const struct bench_rows *rows);

#endif
