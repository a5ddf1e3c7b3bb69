/* SPDX-License-Identifier: MIT */
/* Mixtures of formats, and the front of bits against error. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "analyse/advise.h"

static const double broken = 1e200; /* stands for what is not finite: sums of it are */

/* What it costs that a layer, or its unit, is in a variant. */
static double cost_of(const struct advice *advice, const struct advise_layer *layer, size_t variant)
{
	return advice->costs != NULL ? advice->costs[layer->unit * advice->options->variants.n + variant]
	                             : layer->errors[variant].sum;
}

size_t advise_best(const struct advice *advice, const struct advise_layer *layer, enum mxfp_format format)
{
	const struct variants *variants = &advice->options->variants;
	size_t best = variants->n;

	for (size_t v = 0; v < variants->n; v++)
		if (variants->items[v].format == format &&
		    (best == variants->n || cost_of(advice, layer, v) < cost_of(advice, layer, best)))
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

double advise_mix_cost(const struct advise_mix *mix)
{
	return mix->cost < broken ? mix->cost : (double)NAN;
}

/* What a unit costs in a format: the first of its layers tells the variant, if costs are those of units. */
static double unit_cost(const struct advice *advice, const struct unit *unit, size_t format,
                        const struct weight_error *of_unit)
{
	const struct advise_layer *layer = &advice->layers[advice->units.members[unit->first]];
	const double cost = advice->costs == NULL ? of_unit->sum
	                                          : cost_of(advice, layer, advise_best(advice, layer, advice->formats[format]));

	return fmin(cost, broken);
}

static void set_choices(struct advice *advice)
{
	for (size_t u = 0; u < advice->units.n; u++)
		for (size_t f = 0; f < advice->n_formats; f++) {
			const struct unit *unit = &advice->units.items[u];
			const struct weight_error of_unit = unit_error(advice, unit, f);

			advice->choices[u * advice->n_formats + f] =
				(struct knapsack_option){of_unit.bytes, unit_cost(advice, unit, f, &of_unit)};
		}
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
		for (size_t i = 0; i < advice->units.items[u].n; i++)
			advice->layers[advice->units.members[advice->units.items[u].first + i]].unit = u;
	set_choices(advice);
	return EXIT_OK;
}

void advise_choose_by(struct advice *advice, const double *costs)
{
	advice->costs = costs;
	set_choices(advice);
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

void advise_make_mix(struct advise_mix *mix, const struct advice *advice, size_t *formats)
{
	*mix = (struct advise_mix){.formats = formats, .exact = true};
	for (size_t u = 0; u < advice->units.n; u++) {
		const struct weight_error of_unit = unit_error(advice, &advice->units.items[u], formats[u]);

		weight_error_add(&mix->total, &of_unit);
		mix->cost += advice->choices[u * advice->n_formats + formats[u]].error;
	}
}

int advise_mix(struct advise_mix *mix, const struct advice *advice, double bits, struct error *error)
{
	const struct knapsack knapsack = {advice->units.n, advice->n_formats, advice->choices};
	size_t *formats = calloc(advice->units.n + 1, sizeof *formats);
	uint64_t elements = 0;
	bool exact;

	*mix = (struct advise_mix){.formats = formats};
	if (formats == NULL)
		return fail_memory(error);
	for (size_t u = 0; u < advice->units.n; u++)
		elements += unit_error(advice, &advice->units.items[u], 0).elements;
	int code = knapsack_solve(formats, &exact, &knapsack, capacity_of(elements, bits), error);
	if (code != EXIT_OK)
		return code;
	advise_make_mix(mix, advice, formats);
	mix->exact = exact;
	return EXIT_OK;
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
