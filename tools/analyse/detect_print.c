/* SPDX-License-Identifier: MIT */
/* The results of detection, as text and as JSON. */
#include "config.h"

#include "analyse/detect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/printable.h"
#include "base/table.h"
#include "io/facts.h"

enum { WAY_TEXT = 128, ROWS = 8 };

static const char *choice_of(const struct detect_ways *ways, const struct detect_way *way)
{
	if (mxfp_format_get_info(ways->format)->tensor_scale)
		return mxfp_option_name(MXFP_OPTION_RECIPE, (int)way->recipe);
	return mxfp_option_name(MXFP_OPTION_RULE, (int)way->rule);
}

static const char *meaning_of(const struct detect_ways *ways, const struct detect_way *way)
{
	if (mxfp_format_get_info(ways->format)->tensor_scale)
		return mxfp_option_meaning(MXFP_OPTION_RECIPE, (int)way->recipe);
	return mxfp_option_meaning(MXFP_OPTION_RULE, (int)way->rule);
}

/* "rule" or "recipe" */
static const char *choice_title(const struct detect_ways *ways)
{
	return mxfp_format_get_info(ways->format)->tensor_scale ? "recipe" : "rule";
}

static const char *round_of(const struct detect_ways *ways, const struct detect_way *way)
{
	(void)ways;
	return mxfp_option_name(MXFP_OPTION_ROUND, (int)way->round);
}

static const char *via_of(const struct detect_ways *ways, const struct detect_way *way)
{
	(void)ways;
	return way->via == MXFP_FORMAT_F32 ? "-" : mxfp_format_get_info(way->via)->name;
}

static const char *way_text(const struct detect_ways *ways, const struct detect_way *way, char text[WAY_TEXT])
{
	bool direct = way->via == MXFP_FORMAT_F32;

	snprintf(text, WAY_TEXT, "%s %s, rounding %s%s%s%s", choice_title(ways), choice_of(ways, way),
	         round_of(ways, way), direct ? "" : ", via ", direct ? "" : via_of(ways, way),
	         way->no_negative_zero ? ", no -0" : "");
	return text;
}

/* Whether `a` comes before `b`: ways that were compared to the end, then the nearer, then the plainer. */
static bool is_before(const struct detect_result *result, size_t a, size_t b)
{
	double nearness_a = detect_nearness(&result->scores[a]), nearness_b = detect_nearness(&result->scores[b]);

	if (result->alive[a] != result->alive[b])
		return result->alive[a];
	if (nearness_a != nearness_b)
		return nearness_a > nearness_b;
	return a < b;
}

static void sort(const struct detect_group *group, size_t order[DETECT_WAYS_MAX])
{
	for (size_t i = 0; i < group->ways->n; i++) {
		size_t k = i;

		for (; k > 0 && is_before(&group->result, i, order[k - 1]); k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 100 : 100.0 * (double)part / (double)whole;
}

/* The values that the living ways have of the choice that `value` tells, each once. Returns how many. */
static size_t find_values(const char *names[DETECT_WAYS_MAX], const struct detect_group *group,
                          const char *value(const struct detect_ways *ways, const struct detect_way *way))
{
	size_t n = 0;

	for (size_t i = 0; i < group->ways->n; i++) {
		const char *name = value(group->ways, &group->ways->items[i]);
		bool known = !group->result.alive[i];

		for (size_t k = 0; k < n && !known; k++)
			known = names[k] == name;
		if (!known)
			names[n++] = name;
	}
	return n;
}

/* Prints them as " A, B or C". */
static size_t print_values(const struct detect_group *group,
                           const char *value(const struct detect_ways *ways, const struct detect_way *way))
{
	const char *names[DETECT_WAYS_MAX];
	const size_t n = find_values(names, group, value);

	for (size_t i = 0; i < n; i++)
		printf("%s%s", i == 0 ? " " : i + 1 < n ? ", " : " or ", names[i]);
	return n;
}

/* A line for each rule or recipe: what it does, and whose it is. */
static void print_makers(const struct detect_group *group)
{
	const char *names[DETECT_WAYS_MAX], *meanings[DETECT_WAYS_MAX];
	const size_t n = find_values(names, group, choice_of);

	find_values(meanings, group, meaning_of);
	for (size_t i = 0; i < n; i++)
		printf("%s: %s\n", names[i], meanings[i]);
}

/* What all living ways have is said; what some can do without is not. */
static void print_exact(const struct detect_group *group)
{
	bool via = true, no_negative_zero = true;
	size_t n = 1;

	for (size_t i = 0; i < group->ways->n; i++) {
		const struct detect_way *way = &group->ways->items[i];

		if (!group->result.alive[i])
			continue;
		via &= way->via != MXFP_FORMAT_F32;
		no_negative_zero &= way->no_negative_zero;
	}
	printf("exact: %s", choice_title(group->ways));
	n *= print_values(group, choice_of);
	printf(", rounding");
	n *= print_values(group, round_of);
	if (via) {
		printf(", via");
		n *= print_values(group, via_of);
	}
	printf("%s%s\n", no_negative_zero ? ", no -0" : "",
	       n > 1 ? "; nothing in these data tells them apart" : "");
	print_makers(group);
}

static void print_nearest(const struct detect_group *group, size_t nearest)
{
	const struct detect_score *score = &group->result.scores[nearest];
	char text[WAY_TEXT];

	printf("none is exact; nearest: %s: %.2f %% of scales, %.2f %% of codes\n",
	       way_text(group->ways, &group->ways->items[nearest], text), percent(score->equal_scales, score->scales),
	       percent(score->equal_codes, score->elements));
	if (score->equal_scales == score->scales)
		puts("the scales are as it makes them; the codes were rounded otherwise: together (GPTQ), or "
		     "stochastically with another seed");
}

static int print_table(const struct detect_group *group, const size_t *order, struct error *error)
{
	struct table table = {.n_columns = 7, .n_left = 4};

	table_cell(&table, "%s", choice_title(group->ways));
	table_cell(&table, "rounding");
	table_cell(&table, "via");
	table_cell(&table, "-0");
	table_cell(&table, "equal scales %%");
	table_cell(&table, "equal codes %%");
	table_cell(&table, "compared");
	for (size_t i = 0; i < group->ways->n && i < ROWS; i++) {
		const struct detect_way *way = &group->ways->items[order[i]];
		const struct detect_score *score = &group->result.scores[order[i]];

		table_cell(&table, "%s", choice_of(group->ways, way));
		table_cell(&table, "%s", round_of(group->ways, way));
		table_cell(&table, "%s", via_of(group->ways, way));
		table_cell(&table, "%s", way->no_negative_zero ? "never" : "kept");
		table_cell(&table, "%.2f", percent(score->equal_scales, score->scales));
		table_cell(&table, "%.2f", percent(score->equal_codes, score->elements));
		table_cell(&table, "%" PRIu64, score->elements);
	}
	return table_print(&table, stdout, error);
}

static int print_group(const struct detect_group *group, struct error *error)
{
	size_t order[DETECT_WAYS_MAX];

	sort(group, order);
	printf("%s, %zu tensor%s", mxfp_format_get_info(group->ways->format)->name, group->n_tensors,
	       group->n_tensors == 1 ? " (" : "s (first: ");
	print_printable(stdout, group->first);
	puts(")");
	if (group->exact)
		print_exact(group);
	else
		print_nearest(group, order[0]);
	if (mxfp_format_get_info(group->ways->format)->tensor_scale)
		printf("tensor scales that follow from the tensor's own largest magnitude: %zu of %zu\n",
		       group->n_own_scale, group->n_tensors);
	if (group->n_squares > 0)
		printf("in squares of 32 x 32 that share a scale, as the metadata say: %zu of %zu\n", group->n_squares,
		       group->n_tensors);
	putchar('\n');
	return print_table(group, order, error);
}

int detect_print_text(const struct detection *d, struct error *error)
{
	int code = EXIT_OK;

	for (size_t g = 0; g < d->n_groups && code == EXIT_OK; g++)
		code = print_group(&d->groups[g], error);
	if (d->n_unmatched > 0) {
		printf("not compared, of a different shape in the source: %zu tensors (first: ", d->n_unmatched);
		print_printable(stdout, d->unmatched);
		puts(")");
	}
	return code;
}

static json_t *way_facts(const struct detect_group *group, size_t i)
{
	const struct detect_way *way = &group->ways->items[i];
	const struct detect_score *score = &group->result.scores[i];

	return json_pack("{s:s, s:s, s:s?, s:b, s:b, s:I, s:I, s:I, s:I}", choice_title(group->ways),
	                 choice_of(group->ways, way), "round", round_of(group->ways, way), "via",
	                 way->via == MXFP_FORMAT_F32 ? NULL : via_of(group->ways, way), "negative_zero",
	                 (int)!way->no_negative_zero, "exact", (int)(group->exact && group->result.alive[i]), "scales",
	                 (json_int_t)score->scales, "equal_scales", (json_int_t)score->equal_scales, "codes",
	                 (json_int_t)score->elements, "equal_codes", (json_int_t)score->equal_codes);
}

static json_t *group_facts(const struct detect_group *group)
{
	bool has_scale = mxfp_format_get_info(group->ways->format)->tensor_scale;
	size_t order[DETECT_WAYS_MAX];
	json_t *ways = json_array();

	sort(group, order);
	for (size_t i = 0; i < group->ways->n; i++)
		ways = facts_append(ways, way_facts(group, order[i]));
	return json_pack("{s:s, s:I, s:I, s:o, s:b, s:o, s:o}", "format", mxfp_format_get_info(group->ways->format)->name,
	                 "squares", (json_int_t)group->n_squares, "tensors", (json_int_t)group->n_tensors, "first", facts_text(group->first), "exact",
	                 (int)group->exact, "own_tensor_scale",
	                 has_scale ? json_integer((json_int_t)group->n_own_scale) : json_null(), "ways", ways);
}

int detect_print_json(const struct detection *d, const struct detect_settings *settings, struct error *error)
{
	json_t *groups = json_array();

	for (size_t g = 0; g < d->n_groups; g++)
		groups = facts_append(groups, group_facts(&d->groups[g]));
	return facts_print(stdout, json_pack("{s:o, s:o, s:b, s:I, s:o}", "quantized", facts_text(settings->quantized),
	                                     "source", facts_text(settings->source), "exact", (int)detect_all_exact(d),
	                                     "not_compared", (json_int_t)d->n_unmatched, "groups", groups), error);
}
