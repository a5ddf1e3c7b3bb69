/* SPDX-License-Identifier: MIT */
/* Mixtures of formats, and the front of bits against error. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "analyse/advise.h"

size_t advise_best(const struct advice *advice, const struct advise_layer *layer, enum mxfp_format format)
{
	const struct variants *variants = &advice->options->variants;
	size_t best = variants->n;

	for (size_t v = 0; v < variants->n; v++)
		if (variants->items[v].format == format &&
		    (best == variants->n || layer->errors[v].sum < layer->errors[best].sum))
			best = v;
	return best;
}

static struct weight_error unit_error(const struct advice *advice, const struct unit *unit, size_t format)
{
	struct weight_error total = {0};

	for (size_t i = 0; i < unit->n; i++) {
		const struct advise_layer *layer = &advice->layers[advice->units.members[unit->first + i]];

		weight_error_add(&total, &layer->errors[advise_best(advice, layer, advice->formats[format])]);
	}
	return total;
}

/* An error whose sums are finite. */
static double summable(double error)
{
	return fmin(error, 1e200);
}

int advise_find_units(struct advice *advice, struct error *error)
{
	const char **names = calloc(advice->n_layers + 1, sizeof *names);
	int code = names == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t i = 0; i < advice->n_layers && code == EXIT_OK; i++)
		names[i] = advice->layers[i].tensor->name;
	if (code == EXIT_OK)
		code = units_make(&advice->units, names, advice->n_layers, error);
	free(names);
	if (code != EXIT_OK)
		return code;
	advice->choices = calloc(advice->units.n * advice->n_formats + 1, sizeof *advice->choices);
	if (advice->choices == NULL)
		return fail_memory(error);
	for (size_t u = 0; u < advice->units.n; u++)
		for (size_t f = 0; f < advice->n_formats; f++) {
			const struct weight_error of_unit = unit_error(advice, &advice->units.items[u], f);

			advice->choices[u * advice->n_formats + f] = (struct knapsack_option){of_unit.bytes, summable(of_unit.sum)};
		}
	return EXIT_OK;
}

/* The most bytes that are at most so many bits an element. */
static uint64_t capacity_of(uint64_t elements, double bits)
{
	const double bytes = bits * (double)elements / 8;
	struct weight_error at = {.elements = elements};

	if (!(bytes < 0x1p62))
		return UINT64_MAX;
	/* The product may have been rounded either way. */
	at.bytes = (uint64_t)bytes + 1;
	while (at.bytes > 0 && weight_error_bits(&at) > bits)
		at.bytes--;
	return at.bytes;
}

int advise_mix(struct advise_mix *mix, const struct advice *advice, double bits, struct error *error)
{
	const struct knapsack knapsack = {advice->units.n, advice->n_formats, advice->choices};
	uint64_t elements = 0;

	*mix = (struct advise_mix){calloc(advice->units.n + 1, sizeof *mix->formats), {0}, true};
	if (mix->formats == NULL)
		return fail_memory(error);
	for (size_t u = 0; u < advice->units.n; u++)
		elements += unit_error(advice, &advice->units.items[u], 0).elements;
	int code = knapsack_solve(mix->formats, &mix->exact, &knapsack, capacity_of(elements, bits), error);
	for (size_t u = 0; u < advice->units.n && code == EXIT_OK; u++) {
		const struct weight_error of_unit = unit_error(advice, &advice->units.items[u], mix->formats[u]);

		weight_error_add(&mix->total, &of_unit);
	}
	return code;
}

size_t *advise_of_layers(const struct advice *advice, const struct advise_mix *mix)
{
	size_t *formats = calloc(advice->n_layers + 1, sizeof *formats);

	for (size_t u = 0; u < advice->units.n && formats != NULL; u++) {
		const struct unit *unit = &advice->units.items[u];

		for (size_t i = 0; i < unit->n; i++)
			formats[advice->units.members[unit->first + i]] = mix->formats[u];
	}
	return formats;
}

double advise_share(const struct advice *advice, const struct advise_mix *mix, size_t format)
{
	uint64_t elements = 0;

	for (size_t u = 0; u < advice->units.n; u++)
		if (mix->formats[u] == format)
			elements += unit_error(advice, &advice->units.items[u], format).elements;
	return (double)elements / (double)mix->total.elements;
}

int advise_front(const struct advice *advice, advise_point *point, void *context, struct error *error)
{
	static const double quarter = 0.25;
	struct advise_mix least, most;
	int code = advise_mix(&least, advice, 0, error);

	if (code == EXIT_OK)
		code = point(advice, &least, weight_error_bits(&least.total), context, error);
	if (code == EXIT_OK) {
		code = advise_mix(&most, advice, HUGE_VAL, error);
		double from = weight_error_bits(&least.total), to = weight_error_bits(&most.total);

		for (double at = floor(from / quarter + 1) * quarter; at < to && code == EXIT_OK; at += quarter) {
			struct advise_mix mix;

			code = advise_mix(&mix, advice, at, error);
			if (code == EXIT_OK)
				code = point(advice, &mix, at, context, error);
			free(mix.formats);
		}
		if (code == EXIT_OK && to > from)
			code = point(advice, &most, to, context, error);
		free(most.formats);
	}
	free(least.formats);
	return code;
}
