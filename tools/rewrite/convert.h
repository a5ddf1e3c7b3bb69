/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp convert`: writes a quantized model in another layout. Codes and scales are moved, never
 * recomputed; the only number that may change is a tensor scale that divides in one layout and multiplies in the
 * other.
 */
#ifndef TOOLS_REWRITE_CONVERT_H
#define TOOLS_REWRITE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option_kind.h"
#include "model/carry.h"
#include "model/layout.h"
#include "model/model.h"
#include "model/quantized.h"

#define CONVERT_INVERSE "mxfp.inverse." /* metadata key: what a tensor scale is the rounded reciprocal of */

struct convert_settings {
	const char *in, *out;
	const struct layout *layout;
	enum mxfp_format decode; /* for what the layout cannot hold: f32, bf16 or f16; OPTION_FORMAT_NONE: refuse it */
	unsigned threads;
	bool allow_rounding, force, json, resume, quiet;
};

/* What becomes of a tensor scale. */
enum convert_how {
	CONVERT_ABSENT,
	CONVERT_SAME,
	CONVERT_INVERSE_EXACT,
	CONVERT_INVERSE_NOTED, /* becomes the number that, by the metadata, it was the reciprocal of */
	CONVERT_INVERSE_ROUNDED,
	CONVERT_LEFT_OUT       /* the layout has no place for it */
};

struct convert_scale {
	enum convert_how how;
	float was, is;
	double change; /* relative, of the numbers that it scales */
};

/* What becomes of a tensor of the source. */
enum convert_what {
	CONVERT_COPIED,
	CONVERT_MOVED,   /* codes, moved together with their other parts */
	CONVERT_DECODED, /* codes with their parts, or a tensor of Q8_0, written as plain numbers */
	CONVERT_PART     /* another part, which goes with its codes */
};

struct convert_entry {
	enum convert_what what;
	const struct tensor *source;
	const struct file *file;             /* it is in */
	const char *name;                    /* of the tensor that was quantized */
	struct quantized quantized;          /* unless copied */
	struct layout_choice choice;         /* CONVERT_MOVED: how the output holds it */
	struct convert_scale scales[N_LAYOUT_PARTS]; /* of the tensor and its activations */
	struct tensor parts[N_LAYOUT_PARTS]; /* of the output: only the first unless moved; no name: no such part */
};

/* Every tensor of a model: files in the model's order, tensors in that of their data. */
struct convert_plan {
	const struct convert_settings *settings;
	const struct model *model;
	size_t n_entries;
	size_t n_held; /* tensors that are quantized in the output */
	struct convert_entry *entries;
	json_t *cache;   /* how keys and values are quantized, if the layout can say it (layout_cache_read()) */
	bool cache_lost; /* it cannot */
	bool activations_lost; /* the source says how activations are quantized, and the output does not */
	struct carry carry;
	const char *carried; /* its names, for metadata, if no quantization_config is there to list them; or NULL */
	struct arena arena; /* names and shapes */
};

/* Decides; reads no data but tensor scales. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; convert_plan_free() follows in every
   case. */
int convert_plan(struct convert_plan *plan, const struct convert_settings *settings, const struct model *model,
                  struct error *error);

void convert_plan_free(struct convert_plan *plan);

/* Writes the output, or resumes writing it. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int convert_run(const struct convert_plan *plan, struct error *error);

/* Prints what becomes of each tensor, as text, or as JSON if the settings say so. */
int convert_summary(const struct convert_plan *plan, struct error *error);

#endif
