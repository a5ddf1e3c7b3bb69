/* SPDX-License-Identifier: MIT */
/* Prints what calibration did. */
#include "config.h"

#include "calibrate/calibrate.h"

#include <math.h>
#include <stdio.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/facts.h"
#include "model/decoded.h"

enum {
	FEW = 8,  /* samples of each input, with fewer of which others are unlike them (doc/accuracy.md) */
	NAMED = 3 /* tensors of a list */
};

/* The part of the outputs' energy that is lost. */
static double part_of(const struct calibrate_row *row, double lost)
{
	return row->done.energy > 0 ? lost / row->done.energy : 0;
}

/* The ratio of signal to noise in dB; of no noise, infinite. */
static double decibels(double part)
{
	return part > 0 ? 10 * log10(1 / part) : (double)INFINITY;
}

static json_t *facts_of_row(const struct calibrate_row *row)
{
	return json_pack("{s:o, s:I, s:I, s:o, s:I, s:I, s:f, s:f}", "tensor", facts_text(row->name), "rows", (json_int_t)row->rows, "cols",
	                 (json_int_t)row->cols, "format", facts_text(row->format), "tokens", (json_int_t)row->tokens, "pooled",
	                 (json_int_t)row->pooled, "rounded_error", part_of(row, row->done.rounded), "calibrated_error",
	                 part_of(row, row->done.compensated));
}

static int print_json(const struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                      struct error *error)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < done->n_rows; i++)
		json_array_append_new(rows, facts_of_row(&done->rows[i]));
	json_t *facts = json_pack("{s:o, s:o, s:o, s:I, s:f, s:I, s:I, s:o, s:o, s:o}", "input", facts_text(settings->in), "output",
	                          facts_text(settings->out), "decoded_from",
	                          model->n_decoded > 0 ? facts_text(decoded_from(model)) : json_null(), "tokens", (json_int_t)done->n_tokens, "damping",
	                          settings->damping, "tensors_kept", (json_int_t)done->n_kept, "tensors_left", (json_int_t)done->n_left,
	                          "tensors", rows, "copied", carry_facts(&done->carry), "not_copied",
	                          carry_left_facts(&done->carry));
	facts = facts_set(facts, "command", settings->command != NULL ? facts_text(settings->command) : json_null());
	if (settings->inputs != NULL) {
		json_t *left = json_array();

		for (size_t i = 0; i < done->n_left; i++)
			json_array_append_new(left, facts_text(done->left[i]));
		json_object_del(facts, "tokens");
		json_object_set_new(facts, "activation_file", facts_text(settings->inputs->path));
		json_object_set_new(facts, "without_inputs", left);
	}
	return facts_print(stdout, facts, error);
}

/* Says what sums were made of, and what they leave open. */
static void print_tokens(const struct calibration *done)
{
	size_t widest = 0;

	for (size_t i = 0; i < done->n_rows; i++)
		widest = done->rows[i].cols > widest ? done->rows[i].cols : widest;
	printf("%zu tensors calibrated on %zu tokens, %zu kept; signal to noise of outputs beside the exact model's\n", done->n_rows,
	       done->n_tokens, done->n_kept);
	if (done->n_left > 0)
		printf("%zu of those kept, such as an embedding, would be quantized, but cannot be calibrated: mxfp quantize rounds them "
		       "to nearest, unless --ignore there keeps them\n", done->n_left);
	if (done->n_pooled > 0)
		printf("%zu matrices of experts that fewer tokens reach than they have inputs: calibrated by the tokens of all experts of "
		       "their layer\n", done->n_pooled);
	if (done->n_tokens < FEW * widest)
		printf("%zu tokens are few for layers of %zu inputs: on other texts errors are larger than these; take more, of many documents, "
		       "or more --damping\n", done->n_tokens, widest);
}

static void print_inputs(const struct calibration *done, const struct file *inputs)
{
	const struct calibrate_row *fewest = NULL;
	size_t n_few = 0;

	printf("%zu tensors calibrated on inputs of ", done->n_rows);
	print_printable(stdout, inputs->path);
	printf(", %zu kept; signal to noise of outputs beside those of exact weights and inputs\n", done->n_kept);
	if (done->n_left > 0) {
		printf("%zu of those kept would be quantized, but have no inputs: ", done->n_left);
		for (size_t i = 0; i < done->n_left && i < NAMED; i++) {
			fputs(i > 0 ? ", " : "", stdout);
			print_printable(stdout, done->left[i]);
		}
		if (done->n_left > NAMED)
			printf(" and %zu more", done->n_left - NAMED);
		puts("; mxfp quantize rounds them to nearest, unless --ignore there keeps them");
	}
	for (size_t i = 0; i < done->n_rows; i++) {
		const struct calibrate_row *row = &done->rows[i];

		n_few += row->tokens < FEW * row->cols;
		if (fewest == NULL || (double)row->tokens / (double)row->cols < (double)fewest->tokens / (double)fewest->cols)
			fewest = row;
	}
	if (n_few == 0)
		return;
	printf("%zu tensors have few rows of inputs, ", n_few);
	print_printable(stdout, fewest->name);
	printf(" %zu for %zu columns: on other inputs errors are larger than these; take more, or more --damping\n", fewest->tokens, fewest->cols);
}

int calibrate_print(const struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                    struct error *error)
{
	struct table table = {.n_columns = 5, .n_left = 3};

	if (settings->json)
		return print_json(done, settings, model, error);
	table_cell(&table, "tensor");
	table_cell(&table, "shape");
	table_cell(&table, "format");
	table_cell(&table, "rounded, dB");
	table_cell(&table, "calibrated, dB");
	for (size_t i = 0; i < done->n_rows; i++) {
		const struct calibrate_row *row = &done->rows[i];

		table_name(&table, row->name);
		table_cell(&table, "%zu x %zu", row->rows, row->cols);
		table_cell(&table, "%s", row->format);
		table_cell(&table, "%.1f", decibels(part_of(row, row->done.rounded)));
		table_cell(&table, "%.1f", decibels(part_of(row, row->done.compensated)));
	}
	const int code = table_print(&table, stdout, error);
	if (code != EXIT_OK)
		return code;
	if (settings->inputs != NULL)
		print_inputs(done, settings->inputs);
	else
		print_tokens(done);
	decoded_print(stdout, "", model);
	carry_print(&done->carry, stdout);
	fputs("written to ", stdout);
	print_printable(stdout, settings->out);
	putchar('\n');
	if (settings->command != NULL)
		printf("\n    %s\n", settings->command);
	return EXIT_OK;
}
