/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp relayout`: writes a quantized model in another layout. Codes and scales are moved, never
 * recomputed; the only number that may change is a tensor scale that divides in one layout and multiplies in the
 * other.
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
	enum mxfp_format to; /* for what the layout cannot hold: f32, bf16 or f16; OPTION_FORMAT_NONE: refuse it */
	unsigned threads;
	bool allow_rounding, force, json, resume, quiet;
};

/* What becomes of a tensor scale. */
enum relayout_how {
	RELAYOUT_ABSENT,
	RELAYOUT_SAME,
	RELAYOUT_INVERSE_EXACT,
	RELAYOUT_INVERSE_NOTED, /* becomes the number that, by the metadata, it was the reciprocal of */
	RELAYOUT_INVERSE_ROUNDED,
	RELAYOUT_LEFT_OUT       /* the layout has no place for it */
};

struct relayout_scale {
	enum relayout_how how;
	float was, is;
	double change; /* relative, of the numbers that it scales */
};

/* What becomes of a tensor of the source. */
enum relayout_what {
	RELAYOUT_COPIED,
	RELAYOUT_MOVED,   /* codes, moved together with their other parts */
	RELAYOUT_DECODED, /* codes with their parts, or a tensor of Q8_0, written as plain numbers */
	RELAYOUT_PART     /* another part, which goes with its codes */
};

struct relayout_entry {
	enum relayout_what what;
	const struct tensor *source;
	const struct file *file;             /* it is in */
	const char *name;                    /* of the tensor that was quantized */
	struct quantized quantized;          /* unless copied */
	struct layout_choice choice;         /* RELAYOUT_MOVED: how the output holds it */
	struct relayout_scale scales[N_LAYOUT_PARTS]; /* of the tensor and its activations */
	struct tensor parts[N_LAYOUT_PARTS]; /* of the output: only the first unless moved; no name: no such part */
};

/* Every tensor of a model: files in the model's order, tensors in that of their data. */
struct relayout_plan {
	const struct relayout_settings *settings;
	const struct model *model;
	size_t n_entries;
	size_t n_held; /* tensors that are quantized in the output */
	struct relayout_entry *entries;
	json_t *cache;   /* how keys and values are quantized, if the layout can say it (layout_cache_read()) */
	bool cache_lost; /* it cannot */
	bool activations_lost; /* the source says how activations are quantized, and the output does not */
	struct carry carry;
	const char *carried; /* its names, for metadata, if no quantization_config is there to list them; or NULL */
	struct arena arena; /* names and shapes */
};

/* Decides; reads no data but tensor scales. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; relayout_plan_free() follows in every
   case. */
int relayout_plan(struct relayout_plan *plan, const struct relayout_settings *settings, const struct model *model,
                  struct error *error);

void relayout_plan_free(struct relayout_plan *plan);

/* Writes the output, or resumes writing it. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int relayout_run(const struct relayout_plan *plan, struct error *error);

/* Prints what becomes of each tensor, as text, or as JSON if the settings say so. */
int relayout_summary(const struct relayout_plan *plan, struct error *error);

#endif
