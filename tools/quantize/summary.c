/* SPDX-License-Identifier: MIT */
/* Prints what was done to each tensor and why, as a table or as JSON. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/counts.h"
#include "io/facts.h"
#include "io/shape.h"
#include "model/decoded.h"
#include "model/model_output.h"
#include "quantize/quantize.h"

struct totals {
	uint64_t elements, bytes; /* of quantized tensors, after */
	size_t f64;
	struct mxfp_counts counts;
};

static struct totals sum_up(const struct quantize_plan *plan)
{
	struct totals totals = {0};

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];

		if (!entry->quantized)
			continue;
		totals.elements += entry->rows * entry->cols;
		totals.bytes += entry->output_bytes;
		totals.f64 += entry->source->dtype == DTYPE_F64;
		totals.counts.saturated += entry->counts.saturated;
		totals.counts.flushed += entry->counts.flushed;
		totals.counts.nan += entry->counts.nan;
		totals.counts.inf += entry->counts.inf;
	}
	return totals;
}

static double bits(uint64_t bytes, uint64_t elements)
{
	return elements == 0 ? 0 : 8 * (double)bytes / (double)elements;
}

static double entry_bits(const struct quantize_entry *entry)
{
	return bits(entry->output_bytes, entry->rows * entry->cols);
}

/* What a tensor has become: more than its format if its rule or sparsity is not that of most. */
static const char *entry_text(const struct quantize_plan *plan, const struct quantize_entry *entry,
                              char text[QUANTIZE_TEXT])
{
	struct quantize_choice as_most = plan->settings->choice;

	as_most.format = entry->choice.format;
	if (!entry->quantized)
		return "kept";
	return quantize_same(&as_most, &entry->choice) ? mxfp_format_get_info(entry->choice.format)->name
	                                               : quantize_text(&entry->choice, text);
}

static void add_row(struct table *table, const struct quantize_plan *plan, const struct quantize_entry *entry)
{
	const char *f64 = entry->quantized && entry->source->dtype == DTYPE_F64 ? ", rounded to f32 first" : "";
	char shape[SHAPE_TEXT], text[QUANTIZE_TEXT];

	table_name(table, entry->source->name);
	table_cell(table, "%s %s", dtype_info(entry->source->dtype)->name, shape_text(entry->stored, shape));
	table_cell(table, "%s", entry_text(plan, entry, text));
	table_cell(table, "%s%s%s", entry->reason, entry->padded ? ", rows padded" : "", f64);
	if (entry->quantized)
		table_cell(table, "%.3f", entry_bits(entry));
	else
		table_cell(table, "%g", dtype_bits(entry->source->dtype));
	if (entry->quantized && !plan->settings->dry_run) {
		table_cell(table, "%" PRIu64, entry->counts.saturated);
		table_cell(table, "%" PRIu64, entry->counts.flushed);
	} else {
		table_cell(table, "-");
		table_cell(table, "-");
	}
}

static int print_tensors(const struct quantize_plan *plan, struct error *error)
{
	static const char *const heading[] = {"tensor", "was", "is", "why", "bits", "saturated", "flushed"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 4};

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (!plan->entries[i].elsewhere)
			add_row(&table, plan, &plan->entries[i]);
	return table_print(&table, stdout, error);
}

static void print_choices(const struct quantize_plan *plan)
{
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	const struct quantize_settings *s = plan->settings;
	size_t n = quantize_choices(plan, choices), prefix = strlen("mxfp.");

	for (size_t i = 1; i < n; i++)
		printf("%s%s %s", i == 1 ? "" : ", ", choices[i].key + prefix, choices[i].value);
	putchar('\n');
	if (s->activations_lost != NULL)
		printf("activations are left as they are: layout %s cannot say %s of %s\n", s->layout->name, s->activations_lost,
		       mxfp_format_get_info(s->choice.format)->name);
}

/* What loaders of the layout make of the formats of dense weights, where that is other numbers or, with `all`, an error: the next one
   from entry *i on, of which `told` has the formats; NULL: none. */
static const char *next_caution(const struct quantize_plan *plan, bool all, size_t *i, uint32_t *told, enum mxfp_format *format)
{
	while (*i < plan->n_entries) {
		const struct quantize_entry *entry = &plan->entries[(*i)++];
		bool misread;

		*format = entry->choice.format;
		if (!entry->quantized || entry->choice.sparsity.m != 0 || (*told >> *format & 1) != 0)
			continue;
		*told |= UINT32_C(1) << *format;
		const char *caution = layout_caution(plan->settings->layout, *format, &misread);
		if (caution != NULL && (all || misread))
			return caution;
	}
	return NULL;
}

static void print_cautions(FILE *file, const char *prefix, const struct quantize_plan *plan, bool all)
{
	enum mxfp_format format;
	const char *caution;
	uint32_t told = 0;
	size_t i = 0;

	while ((caution = next_caution(plan, all, &i, &told, &format)) != NULL)
		fprintf(file, "%s%s in layout %s: %s\n", prefix, mxfp_format_get_info(format)->name, plan->settings->layout->name,
		        caution);
}

static json_t *cautions_facts(const struct quantize_plan *plan)
{
	json_t *facts = json_array();
	enum mxfp_format format;
	const char *caution;
	uint32_t told = 0;
	size_t i = 0;

	while ((caution = next_caution(plan, true, &i, &told, &format)) != NULL)
		json_array_append_new(facts, json_pack("{s:s, s:s}", "weights", mxfp_format_get_info(format)->name, "text", caution));
	return facts;
}

static void print_part(const struct quantize_plan *plan)
{
	const struct part_choice *part = &plan->settings->part;
	size_t n = 0;

	for (size_t f = 0; f < plan->n_files; f++)
		n += plan->files[f].owner == part->number - 1;
	printf("part %" PRIu32 " of %" PRIu32 ": %zu of %zu files; sizes above are those of the whole model\n",
	       part->number, part->of, n, plan->n_files);
}

void quantize_losses(const struct quantize_plan *plan)
{
	const struct mxfp_counts counts = sum_up(plan).counts;

	if (counts.nan + counts.inf > 0)
		fprintf(stderr, "mxfp: %" PRIu64 " numbers were NaN and %" PRIu64 " Inf\n", counts.nan, counts.inf);
	decoded_print(stderr, "mxfp: ", plan->model);
	print_cautions(stderr, "mxfp: ", plan, false);
	carry_losses(&plan->carry, stderr);
}

static void print_totals(const struct quantize_plan *plan)
{
	const struct totals totals = sum_up(plan);
	const struct quantize_settings *settings = plan->settings;
	const uint64_t before = plan->model->data_bytes;

	printf("%zu of %zu tensors quantized: %" PRIu64 " elements, %.3f bits each\n", plan->n_quantized,
	       plan->n_entries, totals.elements, bits(totals.bytes, totals.elements));
	printf("%" PRIu64 " bytes of tensors, before %" PRIu64 " (%.1f %%)\n", plan->output_bytes, before,
	       before == 0 ? 100.0 : 100 * (double)plan->output_bytes / (double)before);
	if (!settings->dry_run)
		printf("saturated %" PRIu64 ", flushed to zero %" PRIu64 ", NaN %" PRIu64 ", Inf %" PRIu64 "\n",
		       totals.counts.saturated, totals.counts.flushed, totals.counts.nan, totals.counts.inf);
	decoded_print(stdout, "", plan->model);
	if (totals.f64 > 0)
		printf("%zu of them were F64 and first rounded to f32, to nearest even\n", totals.f64);
	print_cautions(stdout, "", plan, true);
	if (plan->model->is_directory && json_object_size(plan->model->config) == 0)
		puts("the model has no config.json: the one that is written says how weights are quantized, and loaders need more");
	carry_print(&plan->carry, stdout);
	if (quantize_makes_file(settings) && settings->layout->config != NULL)
		puts(model_output_alone);
	if (settings->part.of > 0)
		print_part(plan);
	if (settings->dry_run) {
		puts(settings->bits != 0 ? "dry run: nothing was written"
		                         : "dry run: nothing was read but headers, and nothing written");
	} else {
		printf("written to ");
		print_printable(stdout, settings->out);
		putchar('\n');
	}
}

/* How a tensor is quantized, with the names that its file has for it. */
static json_t *choice_facts(const struct quantize_choice *choice)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(choice->format);
	char pattern[SPARSITY_TEXT];

	return json_pack("{s:s, s:s, s:s*, s:s*}", "weights", format->name, format->tensor_scale ? "recipe" : "rule",
	                 quantize_how(choice), "block", quantize_in_squares(choice) ? LAYOUT_SQUARES : NULL, "sparsity",
	                 choice->sparsity.m != 0 ? sparsity_text(choice->sparsity, pattern) : NULL);
}

static json_t *entry_facts(const struct quantize_plan *plan, const struct quantize_entry *entry)
{
	json_t *facts = json_pack("{s:s, s:s, s:o, s:b, s:s, s:I, s:I}", "name", entry->source->name, "dtype",
	                          dtype_info(entry->source->dtype)->name, "shape", shape_facts(entry->stored),
	                          "quantized", (int)entry->quantized, "reason", entry->reason, "bytes_before",
	                          (json_int_t)entry->source->size, "bytes_after",
	                          (json_int_t)entry->output_bytes);

	if (!entry->quantized)
		return facts;
	facts = facts_update(facts, choice_facts(&entry->choice));
	facts = facts_update(facts, json_pack("{s:f, s:b, s:b}", "bits_per_weight", entry_bits(entry), "padded",
	                                      (int)entry->padded, "rounded_from_f64",
	                                      (int)(entry->source->dtype == DTYPE_F64)));
	if (!plan->settings->dry_run && !entry->elsewhere)
		facts = facts_update(facts, counts_weights_facts(&entry->counts));
	return facts;
}

static json_t *head_facts(const struct quantize_plan *plan)
{
	const struct totals totals = sum_up(plan);
	const struct quantize_settings *s = plan->settings;
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	size_t n = quantize_choices(plan, choices), prefix = strlen("mxfp.");
	json_t *facts = json_pack(
		"{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:f}", "input", facts_text(s->in), "output",
		s->out != NULL ? facts_text(s->out) : json_null(), "dry_run", (int)s->dry_run, "tensors",
		(json_int_t)plan->n_entries, "tensors_quantized", (json_int_t)plan->n_quantized,
		"elements_quantized", (json_int_t)totals.elements, "bytes_before", (json_int_t)plan->model->data_bytes,
		"bytes_after", (json_int_t)plan->output_bytes, "bits_per_weight", bits(totals.bytes, totals.elements));

	for (size_t i = 0; i < n; i++)
		facts = facts_set(facts, choices[i].key + prefix, json_string(choices[i].value));
	facts = facts_set(facts, "decoded_from", plan->model->n_decoded > 0 ? facts_text(decoded_from(plan->model)) : json_null());
	facts = facts_set(facts, "cautions", cautions_facts(plan));
	facts = facts_set(facts, "copied", carry_facts(&plan->carry));
	facts = facts_set(facts, "not_copied", carry_left_facts(&plan->carry));
	return s->dry_run ? facts : facts_update(facts, counts_weights_facts(&totals.counts));
}

/* One tensor at a time: a tree of a large model would take far more memory than its header. */
static int print_json(const struct quantize_plan *plan, struct error *error)
{
	fputs("{\n\"summary\": ", stdout);
	int code = facts_print_part(stdout, head_facts(plan), JSON_INDENT(2), error);

	fputs(",\n\"tensors\": [", stdout);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		fputs(i == 0 ? "\n" : ",\n", stdout);
		code = facts_print_part(stdout, entry_facts(plan, &plan->entries[i]), 0, error);
	}
	fputs("\n]\n}\n", stdout);
	return code;
}

int quantize_summary(const struct quantize_plan *plan, struct error *error)
{
	if (plan->settings->json)
		return print_json(plan, error);
	int code = print_tensors(plan, error);
	if (code != EXIT_OK)
		return code;
	print_choices(plan);
	print_totals(plan);
	return EXIT_OK;
}
