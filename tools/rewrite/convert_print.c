/* SPDX-License-Identifier: MIT */
/* Prints what became of each tensor, as a table or as JSON. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/facts.h"
#include "io/shape.h"
#include "model/choices.h"
#include "model/model_output.h"
#include "model/scaled.h"
#include "rewrite/convert.h"

/* Returns "codes as they are", or how they lie now. */
static const char *codes_text(const struct convert_entry *entry)
{
	return entry->quantized.choice.layout->order->write == entry->choice.layout->order->write ? "as they are"
	                                                                                          : "reordered";
}

static void scale_text(char *text, size_t size, const struct convert_scale *scale)
{
	switch (scale->how) {
	case CONVERT_ABSENT:
		snprintf(text, size, "-");
		break;
	case CONVERT_SAME:
		snprintf(text, size, "as it is");
		break;
	case CONVERT_INVERSE_EXACT:
		snprintf(text, size, "1/x, exact");
		break;
	case CONVERT_INVERSE_NOTED:
		snprintf(text, size, "1/x, as noted");
		break;
	case CONVERT_INVERSE_ROUNDED:
		snprintf(text, size, "1/x, rounded: %.1e", scale->change);
		break;
	case CONVERT_LEFT_OUT:
		snprintf(text, size, "left out");
		break;
	case CONVERT_MADE:
		snprintf(text, size, "a power of two");
		break;
	}
}

/* What became of blocks, or in a dry run how many there are. */
static void changed_cell(struct table *table, const struct convert_plan *plan, const struct convert_entry *entry)
{
	const char *to = mxfp_format_get_info(entry->choice.form->format)->name;
	const struct convert_tally *t = entry->tally;

	if (plan->settings->dry_run)
		table_cell(table, "to %s: %" PRIu64 " blocks", to, convert_blocks_of(entry));
	else if (t->rounded == 0)
		table_cell(table, "to %s: %" PRIu64 " blocks exact", to, t->blocks);
	else
		table_cell(table, "to %s: %" PRIu64 " of %" PRIu64 " blocks exact, errors up to %.2g", to, t->blocks - t->rounded, t->blocks,
		           t->error);
}

static void add_row(struct table *table, const struct convert_plan *plan, const struct convert_entry *entry)
{
	const struct tensor whole = {.rank = entry->quantized.shape.rank, .shape = entry->quantized.shape.dims};
	bool whole_known = entry->name != NULL;
	char shape[SHAPE_TEXT], scale[64], input[64];

	scale_text(scale, sizeof scale, &entry->scales[LAYOUT_TENSOR_SCALE]);
	scale_text(input, sizeof input, &entry->scales[LAYOUT_INPUT_SCALE]);
	table_name(table, whole_known ? entry->name : entry->source->name);
	const struct scaled *scaled = scaled_of(entry->source->decoder);
	if (scaled != NULL)
		table_cell(table, "%s with scales %s", dtype_info(scaled->codes.dtype)->name, shape_text(entry->source, shape));
	else if (entry->source->decoder != NULL)
		table_cell(table, "nvfp4 with tensor scales %s", shape_text(entry->source, shape));
	else
		table_cell(table, "%s %s", whole_known ? mxfp_format_get_info(entry->quantized.choice.form->format)->name
	                                       : dtype_info(entry->source->dtype)->name,
	           shape_text(whole_known ? &whole : entry->source, shape));
	if (entry->what == CONVERT_DECODED)
		table_cell(table, "decoded to %s", mxfp_format_get_info(plan->settings->decode)->name);
	else if (entry->what == CONVERT_CHANGED)
		changed_cell(table, plan, entry);
	else
		table_cell(table, "%s", entry->what == CONVERT_MOVED ? codes_text(entry) : "as they are");
	table_cell(table, "%s", scale);
	table_cell(table, "%s", input);
}

/* Whether a tensor has a row of the table: parts have none, because their codes have one. */
static bool has_row(const struct convert_entry *entry)
{
	return entry->what != CONVERT_PART && !entry->elsewhere &&
	       (entry->name == NULL || entry->quantized.parts[LAYOUT_CODES] == entry->source);
}

struct totals {
	size_t copied, moved, changed, decoded, rounded, left_out;
	double change; /* the largest of those that are rounded */
	uint64_t planned;            /* blocks */
	struct convert_tally blocks;
};

static struct totals sum_up(const struct convert_plan *plan)
{
	struct totals totals = {0};

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct convert_entry *entry = &plan->entries[i];

		if (entry->elsewhere)
			continue;
		totals.copied += has_row(entry) && entry->what == CONVERT_COPIED;
		totals.moved += entry->what == CONVERT_MOVED;
		if (entry->what == CONVERT_CHANGED) {
			totals.changed++;
			totals.planned += convert_blocks_of(entry);
			convert_tally_add(&totals.blocks, entry->tally);
		}
		totals.decoded += entry->what == CONVERT_DECODED;
		for (int part = 0; part < N_LAYOUT_PARTS; part++) {
			const struct convert_scale *scale = &entry->scales[part];

			totals.left_out += scale->how == CONVERT_LEFT_OUT;
			totals.rounded += scale->how == CONVERT_INVERSE_ROUNDED;
			if (scale->how == CONVERT_INVERSE_ROUNDED && scale->change > totals.change)
				totals.change = scale->change;
		}
	}
	return totals;
}

/* What was rounded. Each line begins with `before`. */
static void print_rounded(const struct convert_plan *plan, const struct totals *totals, FILE *stream, const char *before)
{
	const struct convert_settings *s = plan->settings;
	const struct convert_tally *blocks = &totals->blocks;

	if (blocks->rounded > 0)
		fprintf(stream, "%s%" PRIu64 " blocks were rounded by %s %s, with errors of up to %.2g of a block's largest number\n", before,
		        blocks->rounded, mxfp_format_get_info(s->to)->tensor_scale ? "recipe" : "rule",
		        mxfp_format_get_info(s->to)->tensor_scale ? choice_name(OPTION_RECIPE, MXFP_RECIPE_TE)
		                                                  : choice_name(OPTION_RULE, s->rule), blocks->error);
	if (blocks->special > 0)
		fprintf(stream, "%s%" PRIu64 " %s a NaN or Inf, by --non-finite %s\n", before, blocks->special,
		        before[0] == '\0' ? "of them have" : "blocks have", choice_name(OPTION_NON_FINITE, s->non_finite));
}

/* What has no place in the output, and scales that were rounded; likewise. */
static void print_lost(const struct convert_plan *plan, const struct totals *totals, FILE *stream, const char *before)
{
	if (totals->rounded > 0)
		fprintf(stream, "%s%zu scales were rounded, which changes numbers by at most %.1e of themselves\n", before, totals->rounded,
		        totals->change);
	if (totals->left_out > 0)
		fprintf(stream, "%s%zu scales of activations were left out: the layout has no place for them\n", before, totals->left_out);
	if (plan->activations_lost)
		fprintf(stream, "%show activations are quantized was left out: layout %s does not say it of such weights\n", before,
		        plan->settings->layout->name);
	if (plan->cache_lost)
		fprintf(stream, "%skv_cache_scheme, how keys and values are quantized, was left out: %s%s has no place for it; their scales were "
		        "copied\n", before, convert_makes_file(plan->settings) ? "a file alone" : "layout ",
		        convert_makes_file(plan->settings) ? "" : plan->settings->layout->name);
}

/* How many blocks are exact in the other format, and by what the others are rounded. */
static void print_changed(const struct convert_plan *plan, const struct totals *totals)
{
	const struct convert_settings *s = plan->settings;
	const struct convert_tally *blocks = &totals->blocks;
	const char *to = mxfp_format_get_info(s->to)->name;

	if (s->dry_run) {
		printf("%zu tensors of %" PRIu64 " blocks to be changed to %s; their numbers decide how many are exact\n", totals->changed,
		       totals->planned, to);
		return;
	}
	printf("%zu tensors changed to %s: %" PRIu64 " of %" PRIu64 " blocks are exact\n", totals->changed, to,
	       blocks->blocks - blocks->rounded, blocks->blocks);
	print_rounded(plan, totals, stdout, "");
}

void convert_losses(const struct convert_plan *plan)
{
	const struct totals totals = sum_up(plan);

	print_rounded(plan, &totals, stderr, "mxfp: ");
	print_lost(plan, &totals, stderr, "mxfp: ");
	carry_losses(&plan->carry, stderr);
}

static void print_totals(const struct convert_plan *plan)
{
	const struct totals totals = sum_up(plan);

	if (plan->settings->to != OPTION_FORMAT_NONE)
		print_changed(plan, &totals);
	printf("%zu tensors brought into layout %s without a change to codes and block scales, %zu copied, %zu decoded\n",
	       totals.moved, plan->settings->layout->name, totals.copied, totals.decoded);
	print_lost(plan, &totals, stdout, "");
	carry_print(&plan->carry, stdout);
	if (convert_makes_file(plan->settings) && plan->n_held > 0 && plan->settings->layout->config != NULL)
		puts(model_output_alone);
	if (plan->settings->part.of > 0)
		printf("part %" PRIu32 " of %" PRIu32 "; mxfp merge merges them\n", plan->settings->part.number, plan->settings->part.of);
	if (plan->settings->delete_sources)
		printf("%zu shards of the source %s\n", plan->model->n_files, plan->settings->dry_run ? "would be deleted" : "deleted");
	if (plan->settings->dry_run)
		return;
	printf("written to ");
	print_printable(stdout, plan->settings->out);
	putchar('\n');
}

static json_t *tally_facts(const struct convert_tally *tally)
{
	return json_pack("{s:I, s:I, s:I, s:f}", "exact", (json_int_t)(tally->blocks - tally->rounded), "rounded",
	                 (json_int_t)tally->rounded, "not_finite", (json_int_t)tally->special, "largest_error", tally->error);
}

static json_t *head_facts(const struct convert_plan *plan)
{
	const struct totals totals = sum_up(plan);
	const struct convert_settings *s = plan->settings;

	json_t *facts = json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:s?, s:o, s:o}", "input", facts_text(s->in), "output",
	                 facts_text(s->out), "layout", s->layout->name, "tensors_moved", (json_int_t)totals.moved,
	                 "tensors_copied", (json_int_t)totals.copied, "tensors_decoded", (json_int_t)totals.decoded,
	                 "scales_rounded", (json_int_t)totals.rounded, "largest_change", totals.change, "scales_left_out",
	                 (json_int_t)totals.left_out, "kv_cache_scheme",
	                 plan->cache_lost      ? "left out"
	                 : plan->cache != NULL ? "kept"
	                                       : NULL,
	                 "copied", carry_facts(&plan->carry), "not_copied", carry_left_facts(&plan->carry));
	if (s->to == OPTION_FORMAT_NONE)
		return facts;
	return facts_update(facts, json_pack("{s:s, s:I, s:b, s:o}", "to", mxfp_format_get_info(s->to)->name, "tensors_changed",
	                                     (json_int_t)totals.changed, "dry_run", s->dry_run, "blocks",
	                                     s->dry_run ? json_integer((json_int_t)totals.planned) : tally_facts(&totals.blocks)));
}

/* null for a scale that there is none of. */
static json_t *scale_facts(const struct convert_scale *scale)
{
	static const char *const names[] = {
		[CONVERT_SAME] = "same",
		[CONVERT_INVERSE_EXACT] = "reciprocal",
		[CONVERT_INVERSE_NOTED] = "reciprocal, as noted",
		[CONVERT_INVERSE_ROUNDED] = "reciprocal, rounded",
		[CONVERT_LEFT_OUT] = "left out",
		[CONVERT_MADE] = "made",
	};

	if (scale->how == CONVERT_ABSENT)
		return json_null();
	json_t *facts = json_pack("{s:s}", "became", names[scale->how]);
	if (scale->how == CONVERT_LEFT_OUT || scale->how == CONVERT_MADE)
		return facts;
	return facts_update(facts, json_pack("{s:o, s:o, s:f}", "was", facts_number((double)scale->was), "is",
	                                     facts_number((double)scale->is), "change", scale->change));
}

static json_t *entry_facts(const struct convert_plan *plan, const struct convert_entry *entry)
{
	static const char *const names[] = {
		[CONVERT_COPIED] = "copied", [CONVERT_MOVED] = "moved", [CONVERT_CHANGED] = "changed", [CONVERT_DECODED] = "decoded",
	};
	const struct tensor whole = {
		.name = entry->name,
		.rank = entry->quantized.shape.rank,
		.shape = entry->quantized.shape.dims,
	};
	const bool held = entry->name != NULL;

	json_t *facts = json_pack("{s:s, s:s, s:o, s:s, s:s*, s:o, s:o}", "name", held ? entry->name : entry->source->name,
	                 held ? "weights" : "dtype",
	                 held ? mxfp_format_get_info(entry->quantized.choice.form->format)->name
	                      : dtype_info(entry->source->dtype)->name,
	                 "shape", shape_facts(held ? &whole : entry->source), "became", names[entry->what], "to",
	                 entry->what == CONVERT_DECODED   ? mxfp_format_get_info(plan->settings->decode)->name
	                 : entry->what == CONVERT_CHANGED ? mxfp_format_get_info(plan->settings->to)->name
	                                                  : NULL,
	                 "tensor_scale", scale_facts(&entry->scales[LAYOUT_TENSOR_SCALE]), "input_scale",
	                 scale_facts(&entry->scales[LAYOUT_INPUT_SCALE]));
	if (entry->what != CONVERT_CHANGED)
		return facts;
	return facts_update(facts, json_pack("{s:o}", "blocks", plan->settings->dry_run
	                                                                ? json_integer((json_int_t)convert_blocks_of(entry))
	                                                                : tally_facts(entry->tally)));
}

/* One tensor at a time, for large models. */
static int print_json(const struct convert_plan *plan, struct error *error)
{
	bool first = true;

	fputs("{\n\"summary\": ", stdout);
	int code = facts_print_part(stdout, head_facts(plan), JSON_INDENT(2), error);

	fputs(",\n\"tensors\": [", stdout);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		if (!has_row(&plan->entries[i]))
			continue;
		fputs(first ? "\n" : ",\n", stdout);
		first = false;
		code = facts_print_part(stdout, entry_facts(plan, &plan->entries[i]), 0, error);
	}
	fputs("\n]\n}\n", stdout);
	return code;
}

int convert_summary(const struct convert_plan *plan, struct error *error)
{
	static const char *const heading[] = {"tensor", "held as", "codes", "tensor scale", "input scale"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 5};

	if (plan->settings->json)
		return print_json(plan, error);
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
