/* SPDX-License-Identifier: MIT */
/* Checks for faults that silently break quantized models. Each is a row of lint.def. */
#ifndef TOOLS_ANALYSE_LINT_H
#define TOOLS_ANALYSE_LINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/option_kind.h"
#include "model/model.h"
#include "model/quantized.h"

enum lint_severity { LINT_SEVERITY_ERROR, LINT_SEVERITY_WARNING, LINT_SEVERITY_NOTE, N_LINT_SEVERITIES };

enum lint_check {
#define LINT(id, name, severity, what, why) LINT_##id,
#include "analyse/lint.def"
	N_LINT_CHECKS
};

struct lint_settings {
	const char *path;
	struct string_list ignore; /* names of checks */
	unsigned threads;
	bool json, quiet;
};

/* A quantized tensor. */
struct lint_weight {
	const char *name;
	const struct file *file; /* of its codes */
	const struct tensor *codes;
	enum mxfp_format format;
};

struct lint {
	const struct lint_settings *settings;
	const struct model *model;
	bool ignored[N_LINT_CHECKS];
	size_t n_weights;
	struct lint_weight *weights; /* sorted by name */
	size_t n_scaled;             /* besides, of 8-bit floats with scales that are numbers (scaled.h) */
	bool *is_part;               /* of model->by_name: whether it is a part of one of these */
	bool refused;                /* meaning.h refuses it, so that numbers of quantized tensors are not known */
	bool has_foreign;            /* some weights are of a layout that is known by name alone */
	bool names_unknown;          /* weights of layouts that are not read have other names than in the unquantized model */
	size_t counts[N_LINT_SEVERITIES];
	struct arena arena;          /* names of weights */
};

/* Goes through all checks and prints what they find. EXIT_USAGE (an unknown name in `ignore`), EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY. */
int lint_run(struct lint *lint, const struct lint_settings *settings, const struct model *model, struct error *error);

/* Whether it has quantized weights and none of them could be checked. */
bool lint_unchecked(const struct lint *lint);

void lint_free(struct lint *lint);

/* Where something was found. */
struct lint_place {
	const struct file *file; /* NULL: the model as a whole */
	const char *tensor;      /* NULL: none in particular */
};

/* Prints a finding, unless the check is ignored. EXIT_MEMORY. */
int lint_find(struct lint *lint, enum lint_check check, const struct lint_place *place, struct error *error,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same about `n` tensors of which the place is the first: "it VERB ...", which becomes "it and 3 others VERB ...". */
int lint_find_alike(struct lint *lint, enum lint_check check, const struct lint_place *place, size_t n, struct error *error,
                    const char *format, ...) __attribute__((format(printf, 6, 7)));

/* What --ignore calls a check. */
const char *lint_check_name(enum lint_check check);

/* The quantized tensor of that name, or NULL. */
const struct lint_weight *lint_weight(const struct lint *lint, const char *name);

/* The groups of checks, in the order in which they run; the first makes the list of weights. */
int lint_names(struct lint *lint, struct error *error);
int lint_meaning(struct lint *lint, struct error *error);
int lint_config(struct lint *lint, struct error *error);
int lint_shapes(struct lint *lint, struct error *error);
int lint_fused(struct lint *lint, struct error *error);
int lint_scaled(struct lint *lint, struct error *error);
int lint_order(struct lint *lint, struct error *error);
int lint_blocks(struct lint *lint, struct error *error);

#endif
