/* SPDX-License-Identifier: MIT */
/* Two models, tensor by tensor; quantized tensors, in whichever layout, by the numbers that they are. */
#ifndef TOOLS_ANALYSE_COMPARE_H
#define TOOLS_ANALYSE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/stats.h"
#include "io/file.h"
#include "model/model.h"
#include "model/quantized.h"

enum compare_result {
	COMPARE_EQUAL,      /* bit by bit */
	COMPARE_SAME_VALUE, /* -0 and +0, or NaNs of different payloads */
	COMPARE_VALUE,
	COMPARE_DTYPE,      /* or block format; values are compared if they are known, and may all be equal */
	COMPARE_SHAPE,      /* values are not compared */
	COMPARE_ONLY_A,
	COMPARE_ONLY_B,
	N_COMPARE_RESULTS
};

/* A tensor in one of the models. */
struct compare_side {
	const struct tensor *tensor; /* as the file has it, of a quantized one its codes; NULL: the model has none */
	const struct file *file;
	bool decoded;                /* it is `quantized` */
	struct quantized quantized;
	bool unread;                 /* codes of a quantized tensor in a layout that is not read, or a part of one */
	struct tensor shown;         /* the tensor, or what was quantized, of which only name, rank and shape are set */
	uint64_t dims[LAYOUT_RANK_MAX];
};

/* One tensor name in both models, or in one of them. */
struct comparison {
	enum compare_result result;
	struct compare_side a, b;
	bool measured;              /* `stats` holds the values of both */
	struct stats stats;         /* a is the source */
	uint64_t unequal_bits;      /* elements or blocks with other bits, if the dtypes are the same */
	uint64_t first_unequal;     /* element, if there is one of another value */
};

/* Makes a side of a tensor of a model, unless it belongs to a quantized tensor but is not its codes: *has is false then.
   If the model's quantized tensor is damaged or in an unknown layout, *unread says so, and its parts are sides as they
   are. EXIT_IO, EXIT_MEMORY. */
int compare_own(struct compare_side *side, bool *has, const struct model *model, const struct model_tensor *tensor,
                struct arena *arena, struct error *unread, struct error *error);

/* Finds the tensor of that name; side->tensor is NULL if there is none. As compare_own(). */
int compare_find(struct compare_side *side, const struct model *model, const char *name, struct error *unread,
                 struct error *error);

/* Whether the result counts as a difference. */
bool compare_differs(enum compare_result result);

/* Whether values or bits were compared, and not names, dtypes and shapes alone. */
bool compare_looked(const struct comparison *comparison);

/* Compares a and b, of either of which the tensor may be NULL. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int compare_tensors(struct comparison *comparison, struct progress *progress, struct error *error);

#endif
