/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/number.h"

/* The most items of a class that ways are tried on, and the most ways. */
enum { SAMPLE = 400, WAYS_MAX = 160 };

static const struct {
	uint32_t operations;
	const char *meaning;
} quirks[] = {
#define QUIRK(id, operations, meaning) {operations, meaning},
#include "conform/quirk.def"
};

struct named {
	struct way way;
	char text[WAY_TEXT];
	int option;   /* that it chooses; -1: a quirk */
	int quirk;
	bool is_near; /* a tolerance, which is no way of its own */
};

struct ways {
	struct named list[WAYS_MAX];
	size_t n;
};

static bool is_tolerance(int quirk)
{
	return quirk == QUIRK_WITHIN_1 || quirk == QUIRK_WITHIN_4 || quirk == QUIRK_WITHIN_64;
}

/* Other values of the options of a question, then the quirks of its operation. */
static void list_ways(struct ways *ways, const struct question *q)
{
	ways->n = 0;
	for (int option = 0; option < N_CHOICES; option++)
		for (int value = 0; q->way.choice[option] >= 0 && mxfp_option_name((enum mxfp_option)option, value) != NULL; value++) {
			struct named *named = &ways->list[ways->n];

			if (ways->n == WAYS_MAX || value == q->way.choice[option] ||
			    (option == MXFP_OPTION_ROUND && value == MXFP_ROUND_SR) ||
			    (option == MXFP_OPTION_RULE && q->op == OP_SCALE && value == MXFP_RULE_MSE))
				continue;
			*named = (struct named){.way = q->way, .option = option};
			named->way.choice[option] = value;
			snprintf(named->text, sizeof named->text, "%s: %s", mxfp_option_name((enum mxfp_option)option, value),
			         mxfp_option_meaning((enum mxfp_option)option, value));
			ways->n++;
		}
	for (int quirk = 0; quirk < N_QUIRKS; quirk++) {
		struct named *named = &ways->list[ways->n];

		if (ways->n == WAYS_MAX || (quirks[quirk].operations >> q->op & 1) == 0)
			continue;
		*named = (struct named){.way = q->way, .option = -1, .quirk = quirk, .is_near = is_tolerance(quirk)};
		named->way.quirks[quirk / 64] |= UINT64_C(1) << quirk % 64;
		snprintf(named->text, sizeof named->text, "%s", quirks[quirk].meaning);
		ways->n++;
	}
}

/* Adds a way to another; false: they choose the same thing, or one is a tolerance. */
static bool combine(struct way *way, const struct question *q, const struct named *with)
{
	if (with->is_near || (with->option >= 0 && way->choice[with->option] != q->way.choice[with->option]))
		return false;
	if (with->option >= 0)
		way->choice[with->option] = with->way.choice[with->option];
	else
		way->quirks[with->quirk / 64] |= UINT64_C(1) << with->quirk % 64;
	return true;
}

/* What all items are. */
struct classes {
	uint8_t *of; /* items: the number of their class */
	size_t n;
};

/* Items of one class, those that differ first. */
struct sample {
	size_t n, n_differ;
	size_t items[SAMPLE];
};

static int64_t ordered(uint32_t x)
{
	return x >> 31 ? -(int64_t)(x & ~F32_SIGN) : (int64_t)x;
}

/* Whether numbers are at most so many units in the last place apart. */
static bool near(const struct question *q, const uint8_t *expected, const uint8_t *got, int64_t ulps)
{
	for (size_t i = 0; i < q->out_bytes; i += 4) {
		const uint32_t a = load_f32(expected + i), b = load_f32(got + i);

		if (f32_is_nan(a) != f32_is_nan(b) || (!f32_is_nan(a) && llabs(ordered(a) - ordered(b)) > ulps))
			return false;
	}
	return true;
}

static bool item_matches(const struct asked *a, const struct way *way, size_t i)
{
	uint8_t result[4096];
	const uint8_t *in = a->in + i * a->q->in_bytes, *got = a->got + i * a->q->out_bytes, *expected = a->expected + i * a->q->out_bytes;
	const struct operation *operation = operations[a->q->op];

	if (has_quirk(way, QUIRK_WITHIN_1) || has_quirk(way, QUIRK_WITHIN_4) || has_quirk(way, QUIRK_WITHIN_64))
		return near(a->q, expected, got, has_quirk(way, QUIRK_WITHIN_1) ? 1 : has_quirk(way, QUIRK_WITHIN_4) ? 4 : 64);
	operation->answer(a->q, way, in, a->indices + i, 1, result);
	return operation->same != NULL ? operation->same(a->q, in, result, got) : memcmp(result, got, a->q->out_bytes) == 0;
}

/* How many of a sample match, or 0 as soon as one does not, if all must. */
static size_t matches(const struct asked *a, const struct way *way, const struct sample *sample, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < sample->n; i++) {
		const bool match = item_matches(a, way, sample->items[i]);

		if (all && !match)
			return 0;
		n += match;
	}
	return n;
}

/* Whether all items of a class match. */
static bool explains(const struct asked *a, const struct way *way, const struct classes *classes, size_t c, const struct sample *sample)
{
	if (matches(a, way, sample, true) == 0)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (classes->of[i] == c && !item_matches(a, way, i))
			return false;
	return true;
}

static void name_it(struct finding *f, const struct named *way)
{
	snprintf(f->ways[f->n_ways++], WAY_TEXT, "%s", way->text);
}

/* Says which way explains most of a class, if it explains half of what differs more than it contradicts of what does not. */
static void name_near(struct finding *f, const struct asked *a, const struct named *way, const struct sample *sample)
{
	size_t differing = 0, equal = 0;

	for (size_t i = 0; i < sample->n; i++)
		*(i < sample->n_differ ? &differing : &equal) += item_matches(a, &way->way, sample->items[i]);
	const size_t contradicted = sample->n - sample->n_differ - equal;
	if (differing > contradicted && 2 * (differing - contradicted) > sample->n_differ)
		snprintf(f->nearest, sizeof f->nearest, "nearly, %zu of %zu that differ, %zu of %zu others: %s", differing, sample->n_differ,
		         equal, sample->n - sample->n_differ, way->text);
}

/* Names the way that explains a class and has most of the others, or what comes near. Returns its number, or that of none. */
static size_t name_one(struct finding *f, const struct asked *a, const struct ways *ways, size_t counts[][CLASSES_MAX], size_t c,
                       const struct classes *classes, const struct sample *samples)
{
	size_t best = ways->n, best_total = 0, nearest = 0;

	for (size_t w = 0; w < ways->n; w++) {
		size_t total = 1;

		for (size_t other = 0; other < classes->n; other++)
			total += counts[w][other];
		if (counts[w][c] == samples[c].n && total > best_total && explains(a, &ways->list[w].way, classes, c, &samples[c])) {
			best = w;
			best_total = total;
		}
		if (counts[w][c] > counts[nearest][c])
			nearest = w;
	}
	if (best < ways->n)
		name_it(f, &ways->list[best]);
	else if (ways->n > 0)
		name_near(f, a, &ways->list[nearest], &samples[c]);
	return best;
}

/* Names two ways that explain a class together. */
static void name_two(struct finding *f, const struct asked *a, const struct ways *ways, bool known[WAYS_MAX + 1],
                     const struct classes *classes, size_t c, const struct sample *sample)
{
	for (size_t i = 0; i < ways->n; i++)
		for (size_t j = i + 1; j < ways->n; j++) {
			struct way way = a->q->way;

			if (!combine(&way, a->q, &ways->list[i]) || !combine(&way, a->q, &ways->list[j]) ||
			    !explains(a, &way, classes, c, sample))
				continue;
			name_it(f, &ways->list[i]);
			name_it(f, &ways->list[j]);
			known[i] = known[j] = true;
			return;
		}
}

/* Names three, of which two explain other classes. */
static void name_three(struct finding *f, const struct asked *a, const struct ways *ways, const bool known[WAYS_MAX + 1],
                       const struct classes *classes, size_t c, const struct sample *sample)
{
	for (size_t i = 0; i < ways->n; i++)
		for (size_t j = i + 1; j < ways->n && known[i]; j++)
			for (size_t k = 0; k < ways->n && known[j]; k++) {
				struct way way = a->q->way;

				if (k == i || k == j || !combine(&way, a->q, &ways->list[i]) || !combine(&way, a->q, &ways->list[j]) ||
				    !combine(&way, a->q, &ways->list[k]) || !explains(a, &way, classes, c, sample))
					continue;
				name_it(f, &ways->list[i]);
				name_it(f, &ways->list[j]);
				name_it(f, &ways->list[k]);
				return;
			}
}

static int explain_classes(struct finding *findings, const struct classes *classes, const struct asked *a, const struct sample *samples,
                           struct error *error)
{
	const size_t n = classes->n;
	struct ways *ways = malloc(sizeof *ways);
	size_t(*counts)[CLASSES_MAX] = calloc(WAYS_MAX, sizeof *counts);
	const bool whole = ways != NULL && counts != NULL;
	bool known[WAYS_MAX + 1] = {false};

	if (whole) {
		list_ways(ways, a->q);
		for (size_t w = 0; w < ways->n; w++)
			for (size_t c = 0; c < n; c++)
				counts[w][c] = matches(a, &ways->list[w].way, &samples[c], false);
		for (size_t c = 0; c < n; c++)
			if (findings[c].n_differ > 0)
				known[name_one(&findings[c], a, ways, counts, c, classes, samples)] = true;
		known[ways->n] = false;
		for (size_t c = 0; c < n; c++)
			if (findings[c].n_differ > 0 && findings[c].n_ways == 0)
				name_two(&findings[c], a, ways, known, classes, c, &samples[c]);
		for (size_t c = 0; c < n; c++)
			if (findings[c].n_differ > 0 && findings[c].n_ways == 0)
				name_three(&findings[c], a, ways, known, classes, c, &samples[c]);
	}
	free(ways);
	free(counts);
	return whole ? EXIT_OK : fail_memory(error);
}

static bool is_same(const struct asked *a, size_t i)
{
	const struct operation *operation = operations[a->q->op];
	const uint8_t *expected = a->expected + i * a->q->out_bytes, *got = a->got + i * a->q->out_bytes;

	return memcmp(expected, got, a->q->out_bytes) == 0 ||
	       (operation->same != NULL && operation->same(a->q, a->in + i * a->q->in_bytes, expected, got));
}

/* The class of an item among those known, or a new one. */
static size_t class_index(struct finding *findings, size_t *n, const struct asked *a, size_t i)
{
	const char *class = operations[a->q->op]->class_of(a->q, a->in + i * a->q->in_bytes, a->expected + i * a->q->out_bytes);

	for (size_t c = 0; c < *n; c++)
		if (strcmp(findings[c].class, class) == 0)
			return c;
	if (*n == CLASSES_MAX)
		return *n - 1;
	findings[*n] = (struct finding){.class = class};
	return (*n)++;
}

static void collect(struct finding *findings, struct sample *samples, struct classes *classes, const struct asked *a)
{
	/* What differs comes first, and leaves room for some that does not. */
	for (int equal = 0; equal < 2; equal++)
		for (size_t i = 0; i < a->n; i++) {
			if (is_same(a, i) != (equal == 1))
				continue;
			const size_t c = class_index(findings, &classes->n, a, i);
			struct sample *sample = &samples[c];

			classes->of[i] = (uint8_t)c;
			findings[c].n++;
			if (equal == 0 && findings[c].n_differ++ == 0)
				findings[c].first = i;
			if (sample->n < (size_t)(equal == 0 ? SAMPLE * 3 / 4 : SAMPLE)) {
				sample->items[sample->n++] = i;
				sample->n_differ += equal == 0;
			}
		}
}

int explain(struct finding findings[CLASSES_MAX], size_t *n_findings, size_t *n_differ, const struct asked *a, struct error *error)
{
	struct classes classes = {.n = 0};
	size_t kept = 0;

	*n_findings = *n_differ = 0;
	for (size_t i = 0; i < a->n; i++)
		*n_differ += !is_same(a, i);
	if (*n_differ == 0)
		return EXIT_OK;
	struct sample *samples = calloc(CLASSES_MAX, sizeof *samples);
	classes.of = malloc(a->n);
	int code = samples == NULL || classes.of == NULL ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK) {
		collect(findings, samples, &classes, a);
		code = explain_classes(findings, &classes, a, samples, error);
	}
	free(samples);
	free(classes.of);
	for (size_t c = 0; c < classes.n; c++)
		if (findings[c].n_differ > 0)
			findings[kept++] = findings[c];
	*n_findings = kept;
	return code;
}
