/* SPDX-License-Identifier: MIT */
/* The limits of mxfp report --fail-under: parsing and checking them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

static int parse_limit(struct report_limits *limits, const char *text, struct error *error)
{
	const struct {
		const char *name;
		double *limit;
	} known[] = {{"SQNR=", &limits->tensor}, {"total-SQNR=", &limits->total}};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t length = strlen(known[i].name);
		char *end;

		if (strncmp(text, known[i].name, length) != 0)
			continue;
		const char *number = text + length;
		*known[i].limit = strtod(number, &end);
		if (end == number || *end != '\0' || !isfinite(*known[i].limit))
			return fail(error, EXIT_USAGE, "--fail-under: '%s' is not a number of dB", number);
		return EXIT_OK;
	}
	return fail(error, EXIT_USAGE, "--fail-under: '%s' names no limit; give SQNR=N for each tensor, or total-SQNR=N",
	            text);
}

int report_limits_parse(struct report_limits *limits, const struct string_list *texts, struct error *error)
{
	*limits = (struct report_limits){-(double)INFINITY, -(double)INFINITY};
	for (size_t i = 0; i < texts->n; i++) {
		int code = parse_limit(limits, texts->items[i], error);

		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

/* A measurement without a number, of elements that are all NaN or Inf, misses every limit; one of no elements none. */
static bool misses(const struct measurement *m, double limit)
{
	return isfinite(limit) && m->elements > 0 && !(stats_sqnr(&m->errors.stats) >= limit);
}

void report_note_missed(struct report *report, const struct report_layer *layer, const struct measurement *m)
{
	struct report_missed *missed = &report->missed;

	if (!misses(m, report->limits.tensor))
		return;
	if (missed->n++ > 0 && stats_sqnr(&m->errors.stats) >= stats_sqnr(&missed->weights))
		return;
	missed->layer = layer;
	missed->variant = m->variant;
	missed->weights = m->errors.stats;
}

static int fail_limit(const char *path, const char *what, const struct variant *variant, const struct stats *weights,
                      double limit, struct error *error)
{
	char sqnr[REPORT_CELL], format[VARIANT_TEXT];

	return fail(error, EXIT_CHECK, "%.400s: %.600s: %s %s: SQNR of the weights is under %g dB: %s", path, what,
	            variant_format(variant, format), variant_choice(variant), limit,
	            report_sqnr(sqnr, stats_sqnr(weights)));
}

/* Names the worst tensor of those under the limit. */
static int check_tensors(const struct report *report, struct error *error)
{
	const struct report_missed *missed = &report->missed;
	char what[REPORT_CELL * 4];

	if (missed->n == 0)
		return EXIT_OK;
	snprintf(what, sizeof what, "tensor '%.400s', the worst of %zu", missed->layer->tensor->name, missed->n);
	return fail_limit(missed->layer->file->path, what, &missed->variant, &missed->weights, report->limits.tensor,
	                  error);
}

static int check_totals(const struct report *report, double limit, struct error *error)
{
	for (size_t v = 0; v < report->options->variants.n; v++)
		if (misses(&report->totals[v], limit))
			return fail_limit(report->model->path, "total", &report->totals[v].variant,
			                  &report->totals[v].errors.stats, limit, error);
	return EXIT_OK;
}

int report_check_limits(const struct report *report, struct error *error)
{
	const struct report_limits *limits = &report->limits;
	bool asked = isfinite(limits->tensor) || isfinite(limits->total);

	if (asked && report->n_layers == 0)
		return fail(error, EXIT_CHECK, "%s: no tensor was measured, so --fail-under tells nothing; the report says why",
		            report->model->path);
	int code = check_tensors(report, error);
	return code == EXIT_OK ? check_totals(report, limits->total, error) : code;
}
