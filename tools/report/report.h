/* SPDX-License-Identifier: MIT */
/* The result of `mxfp report`, and the forms in which it is written. */
#ifndef TOOLS_REPORT_REPORT_H
#define TOOLS_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyse/measure.h"
#include "base/error.h"
#include "base/table.h"
#include "model/model.h"
#include "model/quantized.h"
#include "model/select.h"

/* A tensor that is not measured. */
struct report_left_out {
	const struct tensor *tensor;
	const char *reason;
};

struct report {
	const struct model *model;
	const struct measure_options *options;
	size_t n_layers;
	struct layer *layers;
	size_t n_covered;        /* layers that there are activations for */
	size_t n_skipped;
	struct report_left_out *skipped;
	struct measurement totals[VARIANTS_MAX]; /* over the layers, one a variant */
	struct input_stats inputs[N_ACTIVATION_KINDS];
	struct arena arena;      /* tensors that are turned */
};

/* Makes the one variant that a quantized model has, from the first tensor of `model` that it holds
   in quantized form. EXIT_INPUT if there is none; EXIT_MEMORY, EXIT_IO. */
int report_against_variant(struct variants *variants, const struct model *model, const struct model *against,
                           struct error *error);

/* Sets the totals up and sorts the model's tensors into layers, in file order, and those left out:
   without `pad_tail`, also those whose rows are no multiple of every variant's block; against a
   quantized model, those that are not in it. The caller sets the first two members, and
   report_free() follows in any case. EXIT_MEMORY, EXIT_IO, EXIT_INPUT; EXIT_USAGE for a pattern
   that matches nothing. */
int report_select(struct report *report, const struct select *select, bool pad_tail, struct error *error);

/* Bytes of the layers in their files. */
uint64_t report_bytes(const struct report *report);

/* Whether a variant is on the Pareto front of the totals: none has fewer bits and no more error, or as many bits and
   less error. */
bool report_on_front(const struct report *report, size_t v);

/* The least SQNR in dB that weights may have in any variant; -Inf: none is asked for. */
struct report_limits {
	double tensor; /* of each tensor, */
	double total;  /* and of all of them together */
};

/* Of "SQNR=N" and "total-SQNR=N". EXIT_USAGE. */
int report_limits_parse(struct report_limits *limits, const struct string_list *texts, struct error *error);

/* EXIT_CHECK: a limit is missed, by the tensor and variant that the error names and perhaps by more; or nothing was
   measured that could keep it. */
int report_check_limits(const struct report *report, const struct report_limits *limits, struct error *error);

enum { REPORT_CELL = 256 };

/* SQNR with its unit; "exact" without any error, "-" without a measurement. Returns `text`. */
const char *report_sqnr(char text[REPORT_CELL], const struct stats *stats);

/* Cells of a table: SQNR without its unit; a number, "-" if it is not finite. */
void report_sqnr_cell(struct table *table, const struct stats *stats);
void report_number_cell(struct table *table, double x);

/* Measures the layers and adds them up. As measure_layer(). */
int report_measure(struct report *report, struct error *error);

void report_free(struct report *report);

/* How reals are written, with 12 significant digits. */
#define REPORT_JSON_REALS JSON_REAL_PRECISION(12)

/* Everything as JSON, or NULL if memory ran out. Numbers that are NaN or Inf are null. */
json_t *report_json(const struct report *report);

/* The JSON in a page of its own, unless the build lacks what that takes. EXIT_MEMORY. */
bool report_html_is_built(void);
int report_html(const struct report *report, FILE *file, struct error *error);

/* Markdown with aligned tables: the summary and the worst layers, and with `full` every tensor, the
   histograms of the scales and what was not measured. EXIT_MEMORY. */
int report_markdown(const struct report *report, FILE *file, bool full, struct error *error);

#endif
