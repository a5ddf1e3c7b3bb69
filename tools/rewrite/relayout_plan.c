/* SPDX-License-Identifier: MIT */
/* Decides what becomes of each tensor in another layout, and prints it as a table. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/shape.h"
#include "rewrite/decode.h"
#include "rewrite/relayout.h"

/* Dense tensors go to dense ones. A sparse form is in one layout, so what is sparse stays as it is or is refused. */
static const struct layout_form *target_form(const struct relayout_plan *plan, const struct quantized *q)
{
	return layout_form(plan->settings->layout, q->choice.form->format, q->choice.form->sparse);
}

static int fail_not_held(const struct relayout_plan *plan, const struct relayout_entry *entry, const struct file *file,
                         const char *why, struct error *error)
{
	const struct layout_form *form = entry->quantized.choice.form;
	const char *sparse = form->sparse ? "sparse " : "", *format = mxfp_format_get_info(form->format)->name;

	if (why != NULL)
		return fail_tensor(error, file->path, entry->source->name, "layout %s does not hold it: %s; --to f32 decodes "
		                   "it", plan->settings->layout->name, why);
	return fail_tensor(error, file->path, entry->source->name, "is %s%s, which layout %s does not hold; --to f32 "
	                   "decodes it, or give another --layout", sparse, format, plan->settings->layout->name);
}

/* What the metadata notes as the number that a tensor scale is the rounded reciprocal of. */
static bool noted_inverse(const struct file *file, const char *part, float scale, float *noted)
{
	size_t size = sizeof RELAYOUT_INVERSE + strlen(part);
	char *key = malloc(size), *end;

	if (key == NULL)
		return false;
	snprintf(key, size, RELAYOUT_INVERSE "%s", part);
	const char *text = file_metadata(file, key);
	free(key);
	if (text == NULL)
		return false;
	*noted = strtof(text, &end);
	return end != text && *end == '\0' && 1 / *noted == scale;
}

static int invert(struct relayout_scale *scale, const struct relayout_plan *plan, const struct tensor *part,
                  const struct file *file, struct error *error)
{
	scale->is = 1 / scale->was;
	/* Both are binary32 numbers, so their product is exact in binary64. */
	scale->change = fabs((double)scale->is * (double)scale->was - 1);
	if (!isfinite(scale->is) || !isfinite(scale->was) || scale->is == 0)
		return fail_tensor(error, file->path, part->name, "is %g, whose reciprocal, which layout %s wants, is not an F32 "
		                   "number", (double)scale->was, plan->settings->layout->name);
	if (scale->change == 0)
		scale->how = RELAYOUT_INVERSE_EXACT;
	else if (noted_inverse(file, part->name, scale->was, &scale->is))
		scale->how = RELAYOUT_INVERSE_NOTED;
	else
		scale->how = RELAYOUT_INVERSE_ROUNDED;
	if (scale->how != RELAYOUT_INVERSE_ROUNDED || plan->settings->allow_rounding)
		return EXIT_OK;
	return fail_tensor(error, file->path, part->name, "is %.9g, and its reciprocal, which layout %s wants, has to be "
	                   "rounded: that changes numbers by %.1e of themselves; --allow-rounding accepts it, and notes "
	                   "the scale for the way back", (double)scale->was, plan->settings->layout->name, scale->change);
}

/* Reads a tensor scale and decides about it. */
static int plan_scale(struct relayout_plan *plan, struct relayout_entry *entry, enum layout_part part,
                      struct error *error)
{
	const struct tensor *source = entry->quantized.parts[part];
	const struct file *file = entry->quantized.files[part];
	struct relayout_scale *scale = &entry->scales[part];

	if (source->dtype != DTYPE_F32 || tensor_elements(source) != 1)
		return fail_tensor(error, file->path, source->name, "is not one F32 number");
	int code = file_read(file, source, 0, &scale->was, sizeof scale->was, error);
	dtype_swap(DTYPE_F32, &scale->was, sizeof scale->was);
	if (code != EXIT_OK)
		return code;
	scale->is = scale->was;
	scale->how = RELAYOUT_SAME;
	if (entry->quantized.choice.layout->divides == entry->choice.layout->divides)
		return EXIT_OK;
	return invert(scale, plan, source, file, error);
}

/* Where a layout has no tensor scale for want of a convention to multiply or divide by, there is none to carry. */
static bool holds_input_scale(const struct relayout_entry *entry)
{
	bool fits;

	if (!mxfp_format_get_info(entry->choice.form->format)->tensor_scale &&
	    entry->choice.layout->divides != entry->quantized.choice.layout->divides)
		return false;
	char *name = layout_part_name(entry->choice.form, LAYOUT_INPUT_SCALE, entry->name, &fits);
	free(name);
	return fits;
}

static int plan_scales(struct relayout_plan *plan, struct relayout_entry *entry, struct error *error)
{
	int code = EXIT_OK;

	if (layout_has(&entry->choice, LAYOUT_TENSOR_SCALE)) {
		entry->scales[LAYOUT_TENSOR_SCALE] = (struct relayout_scale){RELAYOUT_SAME, 1, 1, 0};
		if (entry->quantized.parts[LAYOUT_TENSOR_SCALE] != NULL)
			code = plan_scale(plan, entry, LAYOUT_TENSOR_SCALE, error);
	}
	if (code != EXIT_OK || entry->quantized.parts[LAYOUT_INPUT_SCALE] == NULL)
		return code;
	if (holds_input_scale(entry))
		return plan_scale(plan, entry, LAYOUT_INPUT_SCALE, error);
	entry->scales[LAYOUT_INPUT_SCALE].how = RELAYOUT_LEFT_OUT;
	return EXIT_OK;
}

/* The tensor as it was before it was quantized. */
static struct tensor original(const struct relayout_entry *entry)
{
	return (struct tensor){
		.name = entry->name,
		.dtype = DTYPE_F32,
		.rank = entry->quantized.shape.rank,
		.shape = entry->quantized.shape.dims,
	};
}

static int plan_parts(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      struct error *error)
{
	const struct tensor whole = original(entry);
	const struct file *other;

	for (int i = 0; i < N_LAYOUT_PARTS; i++) {
		enum layout_part part = (enum layout_part)i;
		enum relayout_how how = entry->scales[part].how;
		bool carried = part == LAYOUT_INPUT_SCALE && how != RELAYOUT_ABSENT && how != RELAYOUT_LEFT_OUT;

		if (!carried && !layout_has(&entry->choice, part))
			continue;
		if (!layout_describe(&entry->choice, part, &whole, &plan->arena, &entry->parts[part]))
			return fail_memory(error);
		const char *name = entry->parts[part].name;
		const struct tensor *there = model_find(plan->model, name, &other);
		bool own = there == NULL;
		for (int k = 0; k < N_LAYOUT_PARTS; k++)
			own |= there == entry->quantized.parts[k];
		if (!own)
			return fail_tensor(error, file->path, entry->source->name, "in layout %s it needs the name '%s', which "
			                   "another tensor has", plan->settings->layout->name, name);
	}
	return EXIT_OK;
}

static int plan_decoded(struct relayout_plan *plan, struct relayout_entry *entry)
{
	entry->what = RELAYOUT_DECODED;
	entry->parts[0] = original(entry);
	entry->parts[0].dtype = decode_dtype(plan->settings->to);
	return EXIT_OK;
}

static int plan_codes(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      struct error *error)
{
	const struct tensor whole = original(entry);

	entry->what = RELAYOUT_MOVED;
	entry->choice = (struct layout_choice){
		.layout = plan->settings->layout,
		.form = target_form(plan, &entry->quantized),
		.sparsity = entry->quantized.choice.sparsity,
		.unscaled = entry->quantized.tensor_scale == 1,
	};
	const char *why = entry->choice.form != NULL ? layout_refuses(&entry->choice, &whole) : NULL;
	if (entry->choice.form == NULL || why != NULL)
		return plan->settings->to != OPTION_FORMAT_NONE ? plan_decoded(plan, entry)
		                                                : fail_not_held(plan, entry, file, why, error);
	int code = plan_scales(plan, entry, error);
	return code != EXIT_OK ? code : plan_parts(plan, entry, file, error);
}

static int plan_copied(const struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                       struct error *error)
{
	entry->parts[0] = *entry->source;
	if (plan->settings->layout->file_format == file->format || dtype_info(entry->source->dtype)->block_elements == 1)
		return EXIT_OK;
	if (entry->source->dtype == DTYPE_Q8_0 && plan->settings->to != OPTION_FORMAT_NONE) {
		entry->what = RELAYOUT_DECODED;
		entry->parts[0].dtype = decode_dtype(plan->settings->to);
		return EXIT_OK;
	}
	return fail_tensor(error, file->path, entry->source->name, "is %s, which %s files do not hold; %s--layout gguf "
	                   "does", dtype_info(entry->source->dtype)->name, plan->settings->layout->file_format->name,
	                   entry->source->dtype == DTYPE_Q8_0 ? "--to f32 decodes it, and " : "");
}

static int plan_entry(struct relayout_plan *plan, struct relayout_entry *entry, const struct file *file,
                      const struct tensor *tensor, struct error *error)
{
	entry->source = tensor;
	entry->what = RELAYOUT_COPIED;
	int code = quantized_owner(&entry->quantized, &entry->name, plan->model, tensor, &plan->arena, error);
	if (code != EXIT_OK)
		return code;
	/* What is in the layout already is copied part by part. */
	if (entry->name == NULL || (entry->quantized.choice.layout == plan->settings->layout &&
	                            entry->quantized.choice.form == target_form(plan, &entry->quantized)))
		return plan_copied(plan, entry, file, error);
	if (entry->quantized.parts[LAYOUT_CODES] == tensor)
		return plan_codes(plan, entry, file, error);
	entry->what = RELAYOUT_PART;
	return EXIT_OK;
}

static int plan_entries(struct relayout_plan *plan, struct error *error)
{
	const struct model *model = plan->model;
	int code = EXIT_OK;

	for (size_t f = 0; f < model->n_files; f++)
		plan->n_entries += model->files[f].n_tensors;
	struct relayout_entry *entry = plan->entries = calloc(plan->n_entries + 1, sizeof *plan->entries);
	if (entry == NULL)
		return fail_memory(error);
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++) {
			code = plan_entry(plan, entry, &model->files[f], &model->files[f].tensors[t], error);
			plan->n_held += entry->name != NULL && entry->quantized.parts[LAYOUT_CODES] == entry->source &&
			                entry->what != RELAYOUT_DECODED;
			entry++;
		}
	return code;
}

int relayout_plan(struct relayout_plan *plan, const struct relayout_settings *settings, const struct model *model,
                  struct error *error)
{
	*plan = (struct relayout_plan){.settings = settings, .model = model};
	int code = carry_list(&plan->carry, model, error);

	return code != EXIT_OK ? code : plan_entries(plan, error);
}

void relayout_plan_free(struct relayout_plan *plan)
{
	carry_free(&plan->carry);
	free(plan->entries);
	arena_free(&plan->arena);
	*plan = (struct relayout_plan){0};
}

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
	table_cell(table, "%s %s", whole_known ? mxfp_format_get_info(entry->quantized.choice.form->format)->name
	                                       : dtype_info(entry->source->dtype)->name,
	           shape_text(whole_known ? &whole : entry->source, shape));
	if (entry->what == RELAYOUT_DECODED)
		table_cell(table, "decoded to %s", mxfp_format_get_info(plan->settings->to)->name);
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
