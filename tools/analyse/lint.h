/* SPDX-License-Identifier: MIT */
/* Checks for faults that silently break quantized models. Each is a row of lint.def. */
#ifndef TOOLS_ANALYSE_LINT_H
#define TOOLS_ANALYSE_LINT_H

#include <jansson.h>
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
	const char *against;       /* the unquantized model, NULL: none is given */
	bool fix, force;
	const char *out;           /* of fix */
	unsigned threads;
	bool json, quiet;
	bool silent;               /* prints nothing: findings are counted */
};

struct lint;
struct lint_place;

/* What becomes of a finding. */
struct lint_fate {
	bool fixed;
	char text[1024]; /* what is fixed, with what was and will be there, or why not; empty: nothing is said */
};

/* Decides about findings as they are found. */
struct lint_mender {
	int (*decide)(void *context, const struct lint *lint, enum lint_check check, const struct lint_place *place,
	              struct lint_fate *fate, struct error *error);
	void *context;
	size_t n_fixed, n_not_fixed; /* errors and warnings; notes that stay are not counted */
};

/* A quantized tensor. */
struct lint_weight {
	const char *name;
	const struct file *file; /* of its codes */
	const struct tensor *codes;
	enum mxfp_format format;
	const struct layout *layout; /* NULL: sparse, which is ours alone */
};

/* What the checks leave out, for the summary: a model without findings is sound only as far as they go. */
struct lint_unseen {
	size_t n_unread;       /* tensors of which no check reads the numbers */
	const char *unread;    /* the first */
	const char *whole;     /* why it is not known whether tensors are missing, as a phrase; NULL: it is */
	char whole_text[160];  /* which may be this */
};

struct lint {
	const struct lint_settings *settings;
	const struct model *model;
	const struct model *original;  /* the unquantized model, NULL: none is given */
	struct lint_mender *mender;    /* NULL: nothing is fixed */
	bool ignored[N_LINT_CHECKS];
	size_t n_weights;
	struct lint_weight *weights; /* sorted by name */
	size_t n_scaled;             /* besides, of 8-bit floats with scales that are numbers (scaled.h) */
	bool *is_part;               /* of model->by_name: whether it is a part of one of these */
	const char **whole;          /* of model->by_name: the name of what it is, or is a part of, in the unquantized model */
	bool refused;                /* meaning.h refuses it, so that numbers of quantized tensors are not known */
	bool has_foreign;            /* some weights are of a layout that is known by name alone */
	bool names_unknown;          /* weights of layouts that are not read have other names than in the unquantized model */
	size_t counts[N_LINT_SEVERITIES];
	struct lint_unseen unseen;
	struct arena arena;          /* names of weights */
};

/* Whether settings skip a check. */
bool lint_ignores(const struct lint_settings *settings, enum lint_check check);

/* Goes through all checks and prints what they find. The settings, models and mender are set, the rest is zeroed; lint_free()
   follows in every case. EXIT_USAGE (an unknown name in `ignore`), EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int lint_run(struct lint *lint, struct error *error);

/* Prints the last line, or the last part of the JSON; `fixed` is a JSON object or NULL, and released. EXIT_MEMORY. */
int lint_print_summary(const struct lint *lint, json_t *fixed, struct error *error);

/* Whether it has quantized weights and none of them could be checked. */
bool lint_unchecked(const struct lint *lint);

void lint_free(struct lint *lint);

/* Where something was found. */
struct lint_place {
	const struct file *file; /* NULL: the model as a whole */
	const char *tensor;      /* NULL: none in particular */
	size_t order;            /* of a nibble order that an original shows: its number in column_order.h, plus 1; 0: none does */
	const char *missing;     /* of an input scale: its name; NULL: of none */
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

/* ModelOpt's file beside config.json, whose `quantization` has lists of modules, too: NULL if it is not there. EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY. */
#define LINT_SECOND_CONFIG "hf_quant_config.json"
int lint_second_config(const struct model *model, json_t **config, struct error *error);

/* Whether a target of a group is a class of modules, and no name. */
bool lint_is_class(const char *target);

/* Whether a tensor is what loaders take for the weight of a Linear: also of those that are seldom quantized. */
bool lint_is_linear(const struct model *model, const struct tensor *tensor);

/* The groups of checks, in the order in which they run; the first makes the list of weights. */
int lint_names(struct lint *lint, struct error *error);
int lint_meaning(struct lint *lint, struct error *error);
int lint_config(struct lint *lint, struct error *error);
int lint_shapes(struct lint *lint, struct error *error);
int lint_whole(struct lint *lint, struct error *error);
int lint_fused(struct lint *lint, struct error *error);
int lint_scaled(struct lint *lint, struct error *error);
int lint_inputs(struct lint *lint, struct error *error);
int lint_order(struct lint *lint, struct error *error);
int lint_blocks(struct lint *lint, struct error *error);

#endif
