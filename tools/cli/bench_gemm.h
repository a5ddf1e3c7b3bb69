/* SPDX-License-Identifier: MIT */
/* The part of `mxfp bench` that times products. */
#ifndef TOOLS_CLI_BENCH_GEMM_H
#define TOOLS_CLI_BENCH_GEMM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "gemm_bench.h"

struct bench_gemm_row {
	const struct bench_gemm_case *c;
	const struct bench_gemm_shape *shape;
	int tier;
	struct bench_gemm_result result;
};

struct bench_gemm_rows {
	size_t n, capacity;
	struct bench_gemm_row *rows;
	int best_tier;
	unsigned threads;
};

void bench_gemm_print_heading(const struct bench_gemm_rows *rows);
void bench_gemm_print_row(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row);

/* An array, or NULL if memory ran out. */
json_t *bench_gemm_json(const struct bench_gemm_rows *rows);

#endif
