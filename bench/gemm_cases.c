/* SPDX-License-Identifier: MIT */
/* The tables in gemm.def, and names of their rows. */
#include "config.h"

#include "gemm_bench.h"

#include <stdio.h>

enum {
#define GEMM_CASE(id, a, w, acc, kept, of, outliers, epilogue) CASE_##id,
#include "gemm.def"
};

const struct bench_gemm_case bench_gemm_cases[] = {
#define GEMM_CASE(id, a, w, acc, kept, of, outliers, epilogue) \
	{MXFP_FORMAT_##a, MXFP_FORMAT_##w, MXFP_ACC_##acc, {kept, of}, outliers, BENCH_GEMM_##epilogue},
#include "gemm.def"
};
const size_t bench_n_gemm_cases = sizeof bench_gemm_cases / sizeof bench_gemm_cases[0];

const struct bench_gemm_shape bench_gemm_shapes[] = {
#define GEMM_SHAPE(place, m, n, k, experts, quick) {BENCH_GEMM_##place, m, n, k, experts, quick},
#include "gemm.def"
};
const size_t bench_n_gemm_shapes = sizeof bench_gemm_shapes / sizeof bench_gemm_shapes[0];

const struct bench_gemm_target bench_gemm_targets[] = {
#define GEMM_TARGET(id, place, unit, at_least) {CASE_##id, BENCH_GEMM_##place, BENCH_##unit, at_least},
#include "gemm.def"
};
const size_t bench_n_gemm_targets = sizeof bench_gemm_targets / sizeof bench_gemm_targets[0];

void bench_gemm_case_name(const struct bench_gemm_case *c, char *name, size_t size)
{
	static const char *const epilogues[] = {
		[BENCH_GEMM_PLAIN] = "", [BENCH_GEMM_SILU_GATE] = " silu gate", [BENCH_GEMM_QUANTIZED] = " C quantized"};
	char sparsity[16] = "";
	const bool blocks = mxfp_format_get_info(c->a)->kind == MXFP_KIND_BLOCK &&
	                    mxfp_format_get_info(c->w)->kind == MXFP_KIND_BLOCK;

	if (c->sparsity.m != 0)
		snprintf(sparsity, sizeof sparsity, " %u:%u", c->sparsity.n, c->sparsity.m);
	snprintf(name, size, "%s x %s%s%s%s%s", mxfp_format_get_info(c->a)->name, mxfp_format_get_info(c->w)->name,
	         blocks && c->acc == MXFP_ACC_CHAIN ? " chain" : "", sparsity, c->outliers ? " outliers" : "",
	         epilogues[c->epilogue]);
}

void bench_gemm_shape_name(const struct bench_gemm_shape *shape, char *name, size_t size)
{
	if (shape->experts != 1)
		snprintf(name, size, "%zu: %zux%zux%zu", shape->experts, shape->m, shape->n, shape->k);
	else
		snprintf(name, size, "%zux%zux%zu", shape->m, shape->n, shape->k);
}

const char *bench_gemm_place_name(enum bench_gemm_place place)
{
	switch (place) {
	case BENCH_GEMM_L2:
		return "L2";
	case BENCH_GEMM_L3:
		return "L3";
	case BENCH_GEMM_DRAM:
		return "DRAM";
	default:
		return "";
	}
}
