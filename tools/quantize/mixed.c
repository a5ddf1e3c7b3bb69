/* SPDX-License-Identifier: MIT */
/*
 * Mixed precision: layers with the largest error in the format of most get a larger one, as many as the bits allow.
 *
 * weight_error.h measures every tensor in the format, rule, rounding and sparsity of the run. Units (fused.h) are
 * promoted from the largest mean error down, those of equal error by name; one that would exceed the bits is skipped.
 * Sums have a fixed order, so every run and every part of one decides the same. Ranks share the measuring.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyse/weight_error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "model/fused.h"
#include "quantize/preset.h"
#include "quantize/quantize.h"
#include "quantize/ranks.h"

/* A unit in the format of most. */
struct rank {
	const struct unit *unit;
	struct weight_error error;
	uint64_t promoted_bytes; /* 0: it cannot be promoted */
};

struct mixing {
	struct quantize_plan *plan;
	size_t n;                        /* of entries: tensors that are quantized */
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
		.squares = quantize_in_squares(choice),
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

/* The same of a unit. */
static uint64_t promoted_unit(const struct mixing *m, const struct unit *unit)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < unit->n; i++) {
		const uint64_t bytes = promoted_bytes(m, m->entries[m->units.members[unit->first + i]]);

		if (bytes == 0)
			return 0;
		sum += bytes;
	}
	return sum;
}

static int measure_unit(const struct mixing *m, const struct unit *unit, struct weight_error *sum,
                        const struct measure_options *options, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < unit->n && code == EXIT_OK; i++) {
		const struct quantize_entry *entry = m->entries[m->units.members[unit->first + i]];
		struct weight_error errors;

		code = weight_errors(&errors, entry->file, entry->source, options, error);
		if (code == EXIT_OK)
			weight_error_add(sum, &errors);
	}
	return code;
}

/* How many numbers may be in memory at once. A row, or the rows of a square, are the least. */
static int numbers_in_memory(const struct mixing *m, size_t *numbers, struct error *error)
{
	const uint64_t given = m->plan->settings->memory_bytes, other = memory_used() + MEASURE_OTHER_BYTES;
	const struct quantize_choice *choice = &m->plan->settings->choice;
	uint64_t row = 1;

	*numbers = 0;
	if (given == 0)
		return EXIT_OK;
	for (size_t i = 0; i < m->n; i++)
		if (m->entries[i]->cols > row)
			row = m->entries[i]->cols;
	if (quantize_in_squares(choice) && row <= UINT64_MAX / QUANTIZE_SQUARE / MEASURE_NUMBER_BYTES)
		row *= QUANTIZE_SQUARE;
	if (given < other || (given - other) / MEASURE_NUMBER_BYTES < row)
		return fail(error, EXIT_USAGE, "quantize: --mem: %" PRIu64 " bytes are too few to measure this model; give "
		            "--mem %" PRIu64 "M or more", given, ((other + row * MEASURE_NUMBER_BYTES) >> 20) + 1);
	*numbers = (size_t)((given - other) / MEASURE_NUMBER_BYTES);
	return EXIT_OK;
}

static uint64_t bytes_of(const struct mixing *m, const struct unit *unit)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < unit->n; i++)
		bytes += quantize_bytes_to_read(m->entries[m->units.members[unit->first + i]]);
	return bytes;
}

/* Whether rank 0 has as many units: each machine may have a copy of the model, and it may be another. */
static int check_ranks(const struct mixing *m, struct error *error)
{
	size_t first = m->units.n;

	ranks_tell(0, &first, sizeof first);
	return ranks_share(first == m->units.n ? EXIT_OK
	                                       : fail(error, EXIT_INPUT, "%s: is not the model that rank 0 sees under that "
	                                              "name", m->plan->model->path), error);
}

/* Measures those units whose middle is in this rank's part of the bytes, and puts together what all ranks measured. */
static int measure_share(const struct mixing *m, struct weight_error *errors, const struct measure_options *options,
                         uint64_t total, struct error *error)
{
	uint64_t before = 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < m->units.n && code == EXIT_OK; i++) {
		const uint64_t bytes = bytes_of(m, &m->units.items[i]);
		const double middle = (double)before + (double)bytes / 2;

		before += bytes;
		if (total == 0 || (unsigned)(middle / (double)total * ranks_number()) == ranks_own())
			code = measure_unit(m, &m->units.items[i], &errors[i], options, error);
	}
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		ranks_join(errors, m->units.n * sizeof *errors);
	return code;
}

static int measure_units(struct mixing *m, struct error *error)
{
	const struct quantize_settings *s = m->plan->settings;
	struct measure_options options = {
		.variants = {.n = 1, .items = {variant_of(&s->choice)}},
		.round = (enum mxfp_round)s->round,
		.seed = s->seed,
		.threads = s->threads,
		.advance = advance,
		.context = &m->progress,
	};
	struct weight_error *errors = calloc(m->units.n + 1, sizeof *errors);
	uint64_t bytes = 0;
	int code = errors == NULL ? fail_memory(error) : numbers_in_memory(m, &options.numbers, error);

	for (size_t i = 0; i < m->units.n; i++)
		bytes += bytes_of(m, &m->units.items[i]);
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		code = check_ranks(m, error);
	progress_start(&m->progress, "measuring", bytes / ranks_number(), s->quiet || ranks_own() > 0);
	if (code == EXIT_OK)
		code = measure_share(m, errors, &options, bytes, error);
	progress_end(&m->progress);
	for (size_t i = 0; i < m->units.n && code == EXIT_OK; i++)
		m->ranks[i] = (struct rank){&m->units.items[i], errors[i], promoted_unit(m, &m->units.items[i])};
	free(errors);
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
