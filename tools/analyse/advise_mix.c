/* SPDX-License-Identifier: MIT */
/* Mixtures of formats: the steps between them, and the front of bits against error. */
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

static double saved_a_byte(const struct advise_step *step)
{
	return step->saved / (double)step->bytes;
}

/* Adds the steps of a unit: the lower convex hull of error against bytes, from its smallest format on. */
static void add_steps(struct advice *advice, size_t unit)
{
	struct weight_error errors[FORMATS_MAX];
	size_t at = 0;

	for (size_t f = 0; f < advice->n_formats; f++) {
		errors[f] = unit_error(advice, &advice->units.items[unit], f);
		if (errors[f].bytes < errors[at].bytes ||
		    (errors[f].bytes == errors[at].bytes && errors[f].sum < errors[at].sum))
			at = f;
	}
	advice->smallest[unit] = at;
	for (;;) {
		struct advise_step best = {.unit = unit, .from = at, .to = at};

		for (size_t f = 0; f < advice->n_formats; f++) {
			struct advise_step step = {unit, at, f, errors[f].bytes - errors[at].bytes,
			                           errors[at].sum - errors[f].sum};

			if (errors[f].bytes > errors[at].bytes && step.saved > 0 &&
			    (best.to == at || saved_a_byte(&step) > saved_a_byte(&best)))
				best = step;
		}
		if (best.to == at)
			return;
		advice->steps[advice->n_steps++] = best;
		at = best.to;
	}
}

/* Steps of a unit save less and less a byte; where rounding makes that equal, more bytes come later. */
static int compare(const void *a, const void *b)
{
	const struct advise_step *x = a, *y = b;
	double of_x = saved_a_byte(x), of_y = saved_a_byte(y);

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->saved > y->saved ? -1 : x->saved < y->saved;
}

int advise_find_steps(struct advice *advice, struct error *error)
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
	advice->smallest = calloc(advice->units.n + 1, sizeof *advice->smallest);
	advice->steps = calloc(advice->units.n * advice->n_formats + 1, sizeof *advice->steps);
	if (advice->smallest == NULL || advice->steps == NULL)
		return fail_memory(error);
	for (size_t u = 0; u < advice->units.n; u++)
		add_steps(advice, u);
	qsort(advice->steps, advice->n_steps, sizeof *advice->steps, compare);
	return EXIT_OK;
}

int advise_mix(struct advise_mix *mix, const struct advice *advice, double bits, struct error *error)
{
	*mix = (struct advise_mix){calloc(advice->units.n + 1, sizeof *mix->formats), {0}};
	if (mix->formats == NULL)
		return fail_memory(error);
	for (size_t u = 0; u < advice->units.n; u++) {
		const struct weight_error start = unit_error(advice, &advice->units.items[u], advice->smallest[u]);

		mix->formats[u] = advice->smallest[u];
		weight_error_add(&mix->total, &start);
	}
	for (size_t i = 0; i < advice->n_steps; i++) {
		const struct advise_step *step = &advice->steps[i];
		struct weight_error then = mix->total;

		then.bytes += step->bytes;
		then.sum -= step->saved;
		if (mix->formats[step->unit] != step->from || weight_error_bits(&then) > bits)
			continue;
		mix->formats[step->unit] = step->to;
		mix->total = then;
	}
	/* Anew, so that what is left is no difference of large sums. */
	mix->total = (struct weight_error){0};
	for (size_t u = 0; u < advice->units.n; u++) {
		const struct weight_error error_of = unit_error(advice, &advice->units.items[u], mix->formats[u]);

		weight_error_add(&mix->total, &error_of);
	}
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
