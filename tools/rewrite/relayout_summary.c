/* SPDX-License-Identifier: MIT */
/* What becomes of each tensor in another layout, as a table. */
#include "config.h"

#include <stdio.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/shape.h"
#include "rewrite/relayout.h"

/* "codes as they are", or how they lie now. */
static const char *codes_text(const struct relayout_entry *entry)
{
	return entry->quantized.choice.layout->order->write == entry->choice.layout->order->write ? "as they are"
	                                                                                          : "reordered";
}

static void scale_text(char *text, size_t size, const struct relayout_scale *scale)
{
	switch (scale->how) {
	case RELAYOUT_ABSENT:
		snprintf(text, size, "-");
		break;
	case RELAYOUT_SAME:
		snprintf(text, size, "as it is");
		break;
	case RELAYOUT_INVERSE_EXACT:
		snprintf(text, size, "1/x, exact");
		break;
	case RELAYOUT_INVERSE_NOTED:
		snprintf(text, size, "1/x, as noted");
		break;
	case RELAYOUT_INVERSE_ROUNDED:
		snprintf(text, size, "1/x, rounded: %.1e", scale->change);
		break;
	case RELAYOUT_LEFT_OUT:
		snprintf(text, size, "left out");
		break;
	}
}

static void add_row(struct table *table, const struct relayout_plan *plan, const struct relayout_entry *entry)
{
	const struct tensor whole = {.rank = entry->quantized.shape.rank, .shape = entry->quantized.shape.dims};
	bool whole_known = entry->name != NULL;
	char shape[SHAPE_TEXT], scale[64], input[64];

	scale_text(scale, sizeof scale, &entry->scales[LAYOUT_TENSOR_SCALE]);
	scale_text(input, sizeof input, &entry->scales[LAYOUT_INPUT_SCALE]);
	table_cell(table, "%s", whole_known ? entry->name : entry->source->name);
	table_cell(table, "%s %s", whole_known ? mxfp_format_info(entry->quantized.choice.form->format)->name
	                                       : dtype_info(entry->source->dtype)->name,
	           shape_text(whole_known ? &whole : entry->source, shape));
	if (entry->what == RELAYOUT_DECODED)
		table_cell(table, "decoded to %s", mxfp_format_info(plan->settings->to)->name);
	else
		table_cell(table, "%s", entry->what == RELAYOUT_MOVED ? codes_text(entry) : "as they are");
	table_cell(table, "%s", scale);
	table_cell(table, "%s", input);
}

/* Tensors that are copied with their codes have one row. */
static bool has_row(const struct relayout_entry *entry)
{
	return entry->what != RELAYOUT_PART &&
	       (entry->name == NULL || entry->quantized.parts[LAYOUT_CODES] == entry->source);
}

static void print_totals(const struct relayout_plan *plan)
{
	size_t copied = 0, moved = 0, decoded = 0, rounded = 0, left_out = 0;
	double change = 0;

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];

		copied += has_row(entry) && entry->what == RELAYOUT_COPIED;
		moved += entry->what == RELAYOUT_MOVED;
		decoded += entry->what == RELAYOUT_DECODED;
		for (int part = 0; part < N_LAYOUT_PARTS; part++) {
			const struct relayout_scale *scale = &entry->scales[part];

			left_out += scale->how == RELAYOUT_LEFT_OUT;
			rounded += scale->how == RELAYOUT_INVERSE_ROUNDED;
			if (scale->how == RELAYOUT_INVERSE_ROUNDED && scale->change > change)
				change = scale->change;
		}
	}
	printf("%zu tensors brought into layout %s without a change to codes and block scales, %zu copied, %zu decoded\n",
	       moved, plan->settings->layout->name, copied, decoded);
	if (rounded > 0)
		printf("%zu scales were rounded, which changes numbers by at most %.1e of themselves\n", rounded, change);
	if (left_out > 0)
		printf("%zu scales of activations were left out: the layout has no place for them\n", left_out);
	carry_print(&plan->carry, stdout);
	printf("written to ");
	print_printable(stdout, plan->settings->out);
	putchar('\n');
}

int relayout_summary(const struct relayout_plan *plan, struct error *error)
{
	static const char *const heading[] = {"tensor", "held as", "codes", "tensor scale", "input scale"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 5};

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (has_row(&plan->entries[i]))
			add_row(&table, plan, &plan->entries[i]);
	int code = table_print(&table, stdout, error);
	if (code == EXIT_OK)
		print_totals(plan);
	return code;
}
