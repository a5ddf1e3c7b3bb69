/* SPDX-License-Identifier: MIT */
/* Which layers of a report have activations. */
#include <inttypes.h>
#include <stdio.h>

#include "report/report.h"

enum { WIDTHS_SHOWN = 6, WIDTHS_TEXT = 160 };

/* Row lengths, each once: those that are shown, and one more if there are others. */
struct widths {
	size_t n;
	uint64_t items[WIDTHS_SHOWN + 1];
};

static void add_width(struct widths *widths, const struct tensor *tensor)
{
	uint64_t rows, cols;

	tensor_matrix(tensor, &rows, &cols);
	for (size_t i = 0; i < widths->n; i++)
		if (widths->items[i] == cols)
			return;
	if (widths->n <= WIDTHS_SHOWN)
		widths->items[widths->n++] = cols;
}

/* "64, 96, ..."; six numbers of 20 digits fit. */
static const char *widths_text(char text[WIDTHS_TEXT], const struct widths *widths)
{
	size_t used = (size_t)snprintf(text, WIDTHS_TEXT, "%s", widths->n == 0 ? "none" : "");

	for (size_t i = 0; i < widths->n && i < WIDTHS_SHOWN; i++)
		used += (size_t)snprintf(text + used, WIDTHS_TEXT - used, "%s%" PRIu64, i == 0 ? "" : ", ",
		                         widths->items[i]);
	if (widths->n > WIDTHS_SHOWN)
		snprintf(text + used, WIDTHS_TEXT - used, ", ...");
	return text;
}

static int fail_none(const struct report *report, struct error *error)
{
	const struct file *file = report->options->input.file;
	struct widths needed = {0}, found = {0};
	char needed_text[WIDTHS_TEXT], found_text[WIDTHS_TEXT];

	for (size_t i = 0; i < report->n_layers; i++)
		add_width(&needed, report->layers[i].tensor);
	for (size_t i = 0; i < file->n_tensors; i++)
		add_width(&found, &file->tensors[i]);
	return fail(error, EXIT_INPUT, "%s: holds no activations for any tensor: rows of %s are needed, of %s found"
	            " / name each tensor in it like its layer, or put one alone into it", file->path,
	            widths_text(needed_text, &needed), widths_text(found_text, &found));
}

int report_check_inputs(struct report *report, struct error *error)
{
	report->n_covered = 0;
	for (size_t i = 0; i < report->n_layers; i++) {
		bool covers;
		int code = input_covers(&covers, &report->options->input, report->layers[i].tensor, error);

		if (code != EXIT_OK)
			return code;
		report->n_covered += covers;
	}
	return report->n_covered > 0 || report->n_layers == 0 ? EXIT_OK : fail_none(report, error);
}
