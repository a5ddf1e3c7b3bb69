/* SPDX-License-Identifier: MIT */
/*
 * Mixed precision: layers with the largest error in the format of most get a larger one, as many as the bits allow.
 *
 * weight_error.h measures every tensor in the format, rule, rounding and sparsity of the run. Units (fused.h) are
 * promoted from the largest mean error down, those of equal error by name; one that would exceed the bits is skipped.
 * Sums have a fixed order, so every run and every part of one decides the same.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyse/weight_error.h"
#include "base/progress.h"
#include "model/fused.h"
#include "quantize/preset.h"
#include "quantize/quantize.h"

/* A unit in the format of most. */
struct rank {
	const struct unit *unit;
	struct weight_error error;
	uint64_t promoted_bytes; /* 0: it cannot be promoted */
};

struct mixing {
	struct quantize_plan *plan;
	size_t n;                        /* tensors that are quantized: */
	struct quantize_entry **entries;
	struct units units;
	struct rank *ranks;              /* one per unit */
	struct progress progress;
};

static void advance(void *context, uint64_t bytes)
{
	progress_add(context, bytes);
}

static struct variant variant_of(const struct quantize_choice *choice)
{
	return (struct variant){
		.format = choice->format,
		.rule = (enum mxfp_rule)choice->rule,
		.recipe = (enum mxfp_recipe)choice->recipe,
		.sparsity = choice->sparsity,
	};
}

static int list_units(struct mixing *m, struct error *error)
{
	const char **names = calloc(m->plan->n_entries + 1, sizeof *names);
	int code = EXIT_OK;

	m->entries = calloc(m->plan->n_entries + 1, sizeof(struct quantize_entry *));
	if (names == NULL || m->entries == NULL)
		code = fail_memory(error);
	for (size_t i = 0; i < m->plan->n_entries && code == EXIT_OK; i++) {
		if (!m->plan->entries[i].quantized)
			continue;
		names[m->n] = m->plan->entries[i].source->name;
		m->entries[m->n++] = &m->plan->entries[i];
	}
	if (code == EXIT_OK)
		code = units_make(&m->units, names, m->n, error);
	free(names);
	if (code == EXIT_OK && (m->ranks = calloc(m->units.n + 1, sizeof *m->ranks)) == NULL)
		code = fail_memory(error);
	return code;
}

/* Returns the bytes of a promoted tensor, or 0 if the layout cannot hold it. */
static uint64_t promoted_bytes(const struct mixing *m, const struct quantize_entry *entry)
{
	struct quantize_entry promoted = *entry;
	struct variant_storage storage;

	promoted.choice.format = PRESET_PROMOTED;
	const struct variant variant = variant_of(&promoted.choice);
	if (!quantize_is_held(m->plan, &promoted) ||
	    !variant_storage(&storage, &variant, (size_t)entry->rows, (size_t)entry->cols))
		return 0;
	return storage.kept + storage.masks + storage.scales;
}

static int measure_unit(struct mixing *m, struct rank *rank, const struct measure_options *options, struct error *error)
{
	bool promotable = true;

	for (size_t i = 0; i < rank->unit->n; i++) {
		const struct quantize_entry *entry = m->entries[m->units.members[rank->unit->first + i]];
		uint64_t bytes = promoted_bytes(m, entry);
		struct weight_error errors;
		int code = weight_errors(&errors, entry->file, entry->source, options, error);

		if (code != EXIT_OK)
			return code;
		weight_error_add(&rank->error, &errors);
		rank->promoted_bytes += bytes;
		promotable &= bytes != 0;
	}
	if (!promotable)
		rank->promoted_bytes = 0;
	return EXIT_OK;
}

static int measure_units(struct mixing *m, struct error *error)
{
	const struct quantize_settings *s = m->plan->settings;
	const struct measure_options options = {
		.variants = {.n = 1, .items = {variant_of(&s->choice)}},
		.round = (enum mxfp_round)s->round,
		.seed = s->seed,
		.threads = s->threads,
		.advance = advance,
		.context = &m->progress,
	};
	uint64_t bytes = 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < m->n; i++)
		bytes += quantize_bytes_to_read(m->entries[i]);
	progress_start(&m->progress, "measuring", bytes, s->quiet);
	for (size_t i = 0; i < m->units.n && code == EXIT_OK; i++) {
		m->ranks[i].unit = &m->units.items[i];
		code = measure_unit(m, &m->ranks[i], &options, error);
	}
	progress_end(&m->progress);
	return code;
}

/* From the largest error down; units are in the order of their names. */
static int compare(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;
	double of_x = weight_error_mean(&x->error), of_y = weight_error_mean(&y->error);

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	return (x->unit > y->unit) - (x->unit < y->unit);
}

/* Sets what the tensors of a unit become, and why. */
static int settle(struct mixing *m, const struct rank *rank, bool promoted, struct error *error)
{
	const char *format = mxfp_format_get_info(m->plan->settings->choice.format)->name;
	char reason[160];

	for (size_t i = 0; i < rank->unit->n; i++) {
		struct quantize_entry *entry = m->entries[m->units.members[rank->unit->first + i]];

		snprintf(reason, sizeof reason, "%s, %.2f dB in %s%s", entry->reason, weight_error_sqnr(&rank->error), format,
		         promoted ? ": promoted" : "");
		entry->reason = arena_string(&m->plan->arena, reason);
		if (entry->reason == NULL)
			return fail_memory(error);
		if (promoted)
			entry->choice.format = PRESET_PROMOTED;
	}
	return EXIT_OK;
}

/* Fails unless the bits asked for are between those of no promotion and of all. */
static int check_bits(const struct mixing *m, struct weight_error *total, struct error *error)
{
	const struct quantize_settings *s = m->plan->settings;
	uint64_t bytes = 0;

	*total = (struct weight_error){0};
	for (size_t i = 0; i < m->units.n; i++) {
		const struct rank *rank = &m->ranks[i];

		weight_error_add(total, &rank->error);
		bytes += rank->promoted_bytes != 0 ? rank->promoted_bytes : rank->error.bytes;
	}
	const struct weight_error most = {.elements = total->elements, .bytes = bytes};
	double least_bits = weight_error_bits(total), most_bits = weight_error_bits(&most);
	if (total->elements == 0 || (s->bits >= least_bits && s->bits <= most_bits))
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: --bits %g: %s alone takes %.4f bits a weight, and %s %.4f; give a number "
	            "between them", m->plan->model->path, s->bits, mxfp_format_get_info(s->choice.format)->name,
	            ceil(least_bits * 1e4) / 1e4, mxfp_format_get_info(PRESET_PROMOTED)->name, floor(most_bits * 1e4) / 1e4);
}

static int promote(struct mixing *m, struct error *error)
{
	struct weight_error total;
	int code = check_bits(m, &total, error);

	qsort(m->ranks, m->units.n, sizeof *m->ranks, compare);
	for (size_t i = 0; i < m->units.n && code == EXIT_OK; i++) {
		const struct rank *rank = &m->ranks[i];
		struct weight_error then = total;

		then.bytes += rank->promoted_bytes - rank->error.bytes;
		bool fits = rank->promoted_bytes != 0 && weight_error_bits(&then) <= m->plan->settings->bits;
		if (fits)
			total = then;
		code = settle(m, rank, fits, error);
	}
	return code;
}

int quantize_mix(struct quantize_plan *plan, struct error *error)
{
	struct mixing m = {.plan = plan};
	int code = list_units(&m, error);

	if (code == EXIT_OK)
		code = measure_units(&m, error);
	if (code == EXIT_OK)
		code = promote(&m, error);
	units_free(&m.units);
	free(m.entries);
	free(m.ranks);
	return code;
}
