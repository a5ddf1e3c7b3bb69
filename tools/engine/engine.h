/* SPDX-License-Identifier: MIT */
/* What `mxfp engine` estimates, runs and shows: a workload on whole arrays, halves and quarters. */
#ifndef TOOLS_ENGINE_ENGINE_H
#define TOOLS_ENGINE_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "engine/workload.h"
#include "mxfp/engine.h"

enum { N_SPLITS = 3 }; /* 1, 2 and 4 sub-arrays per core */

/* The result of a run on this machine. */
struct engine_run {
	double seconds;
	uint64_t hash; /* XXH3 of every C, in the order of the products, in little-endian bytes */
};

struct engine_report {
	/* Set by the caller. */
	const struct workload *workload;
	struct mxfp_engine_chip chip;
	struct mxfp_exec exec;        /* for a run */
	unsigned cores;
	uint64_t seed;                /* for the operands of a run */
	enum mxfp_format a, w, c;
	struct mxfp_sparsity sparsity;
	/* Set by engine_estimate() and engine_run(). */
	struct mxfp_product *products;
	struct mxfp_matrix *matrices; /* A and W of each */
	struct mxfp_result *results;  /* C of each */
	struct mxfp_engine splits[N_SPLITS];
	bool ran;
	struct engine_run runs[N_SPLITS];
};

/* Return the sub-arrays per core, and the options, of a split. */
unsigned engine_sub_arrays(int split);
struct mxfp_gemm_options engine_options(int split);

/* Makes the accounts of all splits. EXIT_USAGE: the chip cannot run the formats, or sizes overflow; EXIT_MEMORY. */
int engine_estimate(struct engine_report *report, struct error *error);

/* Computes the products with seeded normal operands, quantized by rceil, once for each split; after engine_estimate().
   EXIT_MEMORY. */
int engine_run(struct engine_report *report, struct error *error);

void engine_free(struct engine_report *report);

/* Return the larger of the array's and the memory's time, and the ideal time divided by it, in per cent. */
uint64_t engine_time_ps(const struct mxfp_engine *engine);
double engine_utilization(const struct mxfp_engine *engine);

int engine_text(const struct engine_report *report, FILE *file, struct error *error);
json_t *engine_json(const struct engine_report *report);

/* Draws the lanes of sub-arrays over time, one panel for each split. */
void engine_svg(const struct engine_report *report, FILE *file);

#endif
