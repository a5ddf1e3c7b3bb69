/* SPDX-License-Identifier: MIT */
/* The result of `mxfp report`, and the forms in which it is written. */
#ifndef TOOLS_REPORT_REPORT_H
#define TOOLS_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyse/measure.h"
#include "base/error.h"
#include "base/table.h"
#include "model/model.h"
#include "model/quantized.h"
#include "model/select.h"
#include "model/target.h"

/* A tensor that is not measured. */
struct report_left_out {
	const struct tensor *tensor;
	const char *reason;
	bool includes; /* --include takes it */
};

/* The least SQNR in dB that weights may have in any variant; -Inf: none is asked for. */
struct report_limits {
	double tensor; /* of each tensor */
	double total;  /* of all tensors together */
};

/* What is at hand of each tensor that is measured; the rest may be in a record. */
struct report_layer {
	const struct file *file;
	const struct tensor *tensor;
	double *sqnr;    /* of the weights, one a variant */
	bool *zeroed;    /* whether more than half of the weights become zero, one a variant */
	bool non_finite; /* some are NaN or Inf, before or after */
	double gaussian; /* their yardstick in the first variant: against a quantized model each has its own */
	uint64_t record; /* where in the records, or REPORT_NO_RECORD */
};

#define REPORT_NO_RECORD UINT64_MAX

/* Of which layers everything is recorded. */
enum report_kept {
	REPORT_KEEP_NONE,
	REPORT_KEEP_WORST, /* what report_is_worst() may ask for */
	REPORT_KEEP_ALL
};

/* Layers that miss a limit. */
struct report_missed {
	size_t n;
	const struct report_layer *layer; /* the worst, in `variant` */
	struct variant variant;
	struct stats weights;
};

/* Layers whose loaders do not take them quantized in a layout that may be proposed. */
struct report_refused {
	const struct layout *layout; /* NULL: none is to be proposed */
	size_t n;
	uint64_t elements;
	const char *reason;          /* of the first */
};

enum { REPORT_LAYOUTS = 2, REPORT_CELL = 256 };

/* Whether a format will do for the model. */
enum report_answer {
	REPORT_UNKNOWN, /* nothing was measured, or there is no yardstick */
	REPORT_FINE,    /* no layer loses more than the yardstick says, */
	REPORT_MOSTLY,  /* or layers that have a small share of the weights do, */
	REPORT_NOT      /* or a large one */
};

/* What a report says first: of one variant, the best in MXFP4 if there is one, else the best of the smallest. */
struct report_verdict {
	enum report_answer answer; /* by the errors of weights */
	size_t variant;
	double gaussian;       /* its yardstick; NaN: it has none, or layers have their own */
	size_t n_broken;       /* layers of nothing but NaN and Inf */
	size_t n_non_finite;   /* layers with some NaN or Inf */
	size_t n_more;         /* layers that lose more than the format costs */
	double share_more;     /* their share of the weights */
	size_t n_more_promoted; /* of these, the ones in the larger format */
	size_t n_promoted;     /* all layers in the larger format; 0: it is not worth it */
	double share_left;     /* share of the weights that lose more and are not in the larger format */
	double bits, bits_more; /* a weight with promotion; how many more than without */
	bool activations_lose; /* more than normal ones would */
	const char *sentence;
	const char *details;   /* lines */
	const char *command;   /* to be run next, or NULL */
};

struct report {
	const struct model *model;
	const struct measure_options *options;
	struct report_limits limits;
	enum report_kept kept;
	size_t n_layers;
	struct report_layer *layers;
	size_t n_covered;        /* layers with activations */
	uint64_t input_rows;     /* the most rows of activations of a layer */
	size_t n_skipped;
	struct report_left_out *skipped;
	struct report_refused refused[REPORT_LAYOUTS]; /* the default of mxfp quantize, and another */
	struct report_missed missed;             /* limits.tensor */
	struct measurement totals[VARIANTS_MAX]; /* over the layers, one a variant */
	struct input_stats inputs[N_ACTIVATION_KINDS];
	const struct select *select;
	bool pad_tail;
	enum target target;      /* what is recommended is for */
	struct report_verdict verdict;
	const struct report_evaluation *evaluation; /* evaluation.h; NULL: the model is not run */
	struct arena arena;      /* tensors that are turned, and texts of the verdict */
	double *sqnr;            /* memory of the layers */
	bool *zeroed;
	struct report_records {
		FILE *file;          /* a temporary one; NULL: in memory */
		char *bytes;
		uint64_t n, room;
	} records;
	struct report_worst {
		double sqnr;
		size_t layer;
	} *worst[VARIANTS_MAX];      /* layers with the least SQNR of each variant so far, the least first */
	size_t n_worst;              /* of each */
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

/* Whether of some layer not all rows have their products measured. */
bool report_samples_rows(const struct report *report);

/* Bytes and elements of all tensors of the model, and the bytes once those that are measured are a variant. */
struct report_whole {
	uint64_t source, quantized, elements;
};
struct report_whole report_whole(const struct report *report, size_t v);

/* The yardstick of a variant, of all layers in one, and of a layer in it: what the format costs standard normal numbers,
   SQNR in dB. NaN: there is none, as of pruned weights, or each layer has its own. */
double report_yardstick(const struct report *report, const struct variant *variant);
double report_gaussian(const struct report *report, size_t v);
double report_layer_gaussian(const struct report *report, const struct report_layer *layer, size_t v);

/* SQNR of the layer in the middle of a variant; NaN without layers. EXIT_MEMORY. */
int report_median(double *median, const struct report *report, size_t v, struct error *error);

/* A layer loses more than its format costs if its SQNR is under the yardstick by more than this, which is a quarter more
   noise. Small layers of normal numbers stray from it by less. */
#define REPORT_TOLERANCE_DB 1.0

/* The variant that the verdict is about, and what it is called: "W4A8", "NVFP4". Returns `text`. */
size_t report_judged(const struct report *report);
const char *report_way(char text[REPORT_CELL], const struct report *report, const struct variant *variant);

/* Fills in report->verdict, after report_measure(). EXIT_MEMORY. */
int report_judge(struct report *report, struct error *error);

/* Whether it will do: by the predictions if the model was run, else not if its weights are not fit for it, and unknown. */
enum report_answer report_answer(const struct report *report);

/* Whether a variant is on the Pareto front of the totals: none has fewer bits and no more error, or as many bits and
   less error. */
bool report_on_front(const struct report *report, size_t v);

/* Of "SQNR=N" and "total-SQNR=N". EXIT_USAGE. */
int report_limits_parse(struct report_limits *limits, const struct string_list *texts, struct error *error);

/* EXIT_CHECK: a limit is missed, by the tensor and variant that the error names and perhaps by more; or nothing was
   measured that could keep it. */
int report_check_limits(const struct report *report, struct error *error);

/* Notes a measurement of a layer that misses the limit of each tensor. */
void report_note_missed(struct report *report, const struct report_layer *layer, const struct measurement *m);

/* SQNR with its unit; "exact" without any error, "-" without a measurement. Returns `text`. */
const char *report_sqnr(char text[REPORT_CELL], double sqnr);

/* Cells of a table: SQNR without its unit; a number, "-" if it is not finite. */
void report_sqnr_cell(struct table *table, double sqnr);
void report_number_cell(struct table *table, double x);

/* Measures the layers and adds them up. As measure_layer(). */
int report_measure(struct report *report, struct error *error);

/* A layer as it was measured, which is released by layer_free(); it must have a record. EXIT_MEMORY, EXIT_IO. */
int report_load(const struct report *report, size_t i, struct layer *layer, struct error *error);

/* Whether all layers are few enough for a page, and if not, whether layer i is among the worst of some variant. */
bool report_is_small(const struct report *report);
bool report_is_worst(const struct report *report, size_t i);

void report_free(struct report *report);

/* How JSON is written. */
enum report_json_form {
	REPORT_JSON,     /* indented, with every layer */
	REPORT_JSON_PAGE /* in one line without a "<", with everything of the worst layers and little of the others */
};

/* Writes JSON. Numbers that are NaN or Inf are null. EXIT_MEMORY, EXIT_IO; what the stream does not take is left to
   ferror(). */
int report_json(const struct report *report, FILE *file, enum report_json_form form, struct error *error);

/* The JSON in a page of its own, unless the build lacks what that takes. As report_json(). */
bool report_html_is_built(void);
int report_html(const struct report *report, FILE *file, struct error *error);

/* Markdown with aligned tables: the summary and the worst layers, and with `full` every tensor, the
   histograms of the scales and what was not measured. As report_json(). */
int report_markdown(const struct report *report, FILE *file, bool full, struct error *error);

#endif
