/* SPDX-License-Identifier: MIT */
/* The numbers that mxfp bench makes operands of products of. */
#ifndef TOOLS_CLI_BENCH_SOURCES_H
#define TOOLS_CLI_BENCH_SOURCES_H

#include "base/error.h"
#include "gemm_bench.h"

#define BENCH_SOURCE_NORMAL "normal"

enum { BENCH_SOURCES_MAX = 16 };

/* All zero: none. */
struct bench_sources {
	size_t n;
	struct bench_gemm_source items[BENCH_SOURCES_MAX];
	char *names[BENCH_SOURCES_MAX];    /* owns the names of `items` */
	float *numbers[BENCH_SOURCES_MAX]; /* owns the numbers of `items`; NULL: the caller's */
};

/*
 * Makes the sources of a list such as "normal,t4,model.safetensors"; NULL means "normal". `normals` are BENCH_PATTERN
 * numbers. Those of a file are its matrices in F32, BF16, F16 or F64, in the order of files and tensors, at most as
 * many as the largest operand takes. EXIT_USAGE, EXIT_INPUT (no such matrix, NaN or Inf), EXIT_IO, EXIT_MEMORY;
 * bench_sources_free() follows in any case.
 */
int bench_sources_make(struct bench_sources *sources, const char *list, const float *normals, struct error *error);
void bench_sources_free(struct bench_sources *sources);

/* The name for a column: the source's, or "file". */
const char *bench_source_kind(const struct bench_gemm_source *source);

#endif
