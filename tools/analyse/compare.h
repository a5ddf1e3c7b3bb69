/* SPDX-License-Identifier: MIT */
/* Two models, tensor by tensor. */
#ifndef TOOLS_ANALYSE_COMPARE_H
#define TOOLS_ANALYSE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/stats.h"
#include "io/file.h"
#include "model/model.h"

enum compare_result {
	COMPARE_EQUAL,      /* bit by bit */
	COMPARE_SAME_VALUE, /* -0 and +0, or NaNs of different payloads */
	COMPARE_VALUE,
	COMPARE_DTYPE,      /* values are compared, and may all be equal */
	COMPARE_SHAPE,      /* values are not compared */
	COMPARE_ONLY_A,
	COMPARE_ONLY_B,
	N_COMPARE_RESULTS
};

/* One tensor name in both models, or in one of them. */
struct comparison {
	enum compare_result result;
	const struct tensor *a, *b;         /* NULL if the model has none */
	const struct file *file_a, *file_b;
	bool measured;                      /* `stats` holds the values of both */
	struct stats stats;                 /* a is the source */
	uint64_t unequal_bits;              /* elements or blocks with other bits, if the dtypes are the same */
	uint64_t first_unequal;             /* element, if there is one of another value */
};

/* Whether the result counts as a difference. */
bool compare_differs(enum compare_result result);

/* Compares a->... with b->..., either of which may be NULL. EXIT_IO, EXIT_INPUT. */
int compare_tensors(struct comparison *comparison, struct progress *progress, struct error *error);

#endif
