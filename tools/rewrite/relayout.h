/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp relayout`: a quantized model in another layout. Codes and scales are moved, never computed anew;
 * the one number that may change is a tensor scale that divides in one layout and multiplies in the other.
 */
#ifndef TOOLS_REWRITE_RELAYOUT_H
#define TOOLS_REWRITE_RELAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option_kind.h"
#include "model/carry.h"
#include "model/layout.h"
#include "model/model.h"
#include "model/quantized.h"

#define RELAYOUT_INVERSE "mxfp.inverse." /* metadata key: what a tensor scale is the rounded reciprocal of */

struct relayout_settings {
	const char *in, *out;
	const struct layout *layout;
	enum mxfp_format to; /* of what the layout does not hold: f32, bf16 or f16; OPTION_FORMAT_NONE: that is refused */
	unsigned threads;
	bool allow_rounding, force, quiet;
};

/* What becomes of a tensor scale. */
enum relayout_how {
	RELAYOUT_ABSENT,
	RELAYOUT_SAME,
	RELAYOUT_INVERSE_EXACT,
	RELAYOUT_INVERSE_NOTED, /* the metadata says what it was the reciprocal of */
	RELAYOUT_INVERSE_ROUNDED,
	RELAYOUT_LEFT_OUT       /* the layout has no place for it */
};

struct relayout_scale {
	enum relayout_how how;
	float was, is;
	double change; /* of numbers that it scales, relative */
};

/* What becomes of a tensor of the source. */
enum relayout_what {
	RELAYOUT_COPIED,
	RELAYOUT_MOVED,   /* codes, which bring the other parts with them */
	RELAYOUT_DECODED, /* likewise, as plain numbers; or a tensor of Q8_0 */
	RELAYOUT_PART     /* goes with its codes */
};

struct relayout_entry {
	enum relayout_what what;
	const struct tensor *source;
	const char *name;                    /* of the tensor that was quantized */
	struct quantized quantized;          /* unless copied */
	struct layout_choice choice;         /* RELAYOUT_MOVED: how it is held from now on */
	struct relayout_scale scales[N_LAYOUT_PARTS]; /* of the tensor, and of its activations */
	struct tensor parts[N_LAYOUT_PARTS]; /* of the output: the first alone unless moved; no name: no part */
};

/* Every tensor of a model: files in the model's order, tensors in that of their data. */
struct relayout_plan {
	const struct relayout_settings *settings;
	const struct model *model;
	size_t n_entries;
	size_t n_held; /* tensors that are quantized in the output */
	struct relayout_entry *entries;
	struct carry carry;
	struct arena arena; /* names and shapes */
};

/* Decides; reads tensor scales and no other data. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; relayout_plan_free() follows in any
   case. */
int relayout_plan(struct relayout_plan *plan, const struct relayout_settings *settings, const struct model *model,
                  struct error *error);

void relayout_plan_free(struct relayout_plan *plan);

/* Writes the output. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int relayout_run(const struct relayout_plan *plan, struct error *error);

/* Prints what becomes of each tensor. */
int relayout_summary(const struct relayout_plan *plan, struct error *error);

#endif
