/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/table.h"
#include "io/facts.h"

/* The most words of an item that are shown, and of operations a way was seen in. */
enum { WORDS = 6, NAMES_MAX = 64, MATCH_TEXT = 2 * NAMED_MAX * (WAY_TEXT + 8) };

struct outcome *outcomes_add(struct outcomes *outcomes, enum op op, const char *label)
{
	if (outcomes->n == outcomes->capacity) {
		const size_t capacity = 2 * outcomes->capacity + 64;
		struct outcome *list = realloc(outcomes->list, capacity * sizeof *list);

		if (list == NULL)
			return NULL;
		outcomes->list = list;
		outcomes->capacity = capacity;
	}
	struct outcome *outcome = &outcomes->list[outcomes->n++];
	*outcome = (struct outcome){.op = op};
	snprintf(outcome->label, sizeof outcome->label, "%s", label);
	return outcome;
}

void outcomes_free(struct outcomes *outcomes)
{
	for (size_t i = 0; i < outcomes->n; i++) {
		struct outcome *outcome = &outcomes->list[i];

		for (size_t k = 0; k < outcome->n_shown; k++) {
			free(outcome->shown[k].in);
			free(outcome->shown[k].expected);
			free(outcome->shown[k].got);
		}
		free(outcome->shown);
	}
	free(outcomes->list);
}

/* Words of an item from number `first` on, in hexadecimal, the most significant digit first; NULL: no memory. */
static char *words_of(const uint8_t *bytes, const size_t parts[PARTS_MAX], const size_t words[PARTS_MAX], size_t first)
{
	char *text = malloc(9 * WORDS + 32), *at = text;
	size_t number = 0;

	if (text == NULL)
		return NULL;
	*at = '\0';
	if (first > 0)
		at += sprintf(at, "[%zu]", first);
	for (int p = 0; p < PARTS_MAX && parts[p] != 0; bytes += parts[p++])
		for (size_t i = 0; i < parts[p]; i += words[p], number++) {
			if (number < first || number > first + WORDS)
				continue;
			if (number == first + WORDS) {
				at += sprintf(at, " ...");
				continue;
			}
			if (at > text)
				*at++ = ' ';
			for (size_t b = words[p]; b-- > 0;)
				at += sprintf(at, "%02X", bytes[i + b]);
		}
	return text;
}

/* The number of the first word of a result that differs, 0 if the result is short. */
static size_t first_difference(const struct question *q, const uint8_t *expected, const uint8_t *got)
{
	size_t number = 0, at = 0, n_words = 0;

	for (int p = 0; p < PARTS_MAX && q->out[p] != 0; p++)
		n_words += q->out[p] / q->out_word[p];
	for (int p = 0; p < PARTS_MAX && q->out[p] != 0 && n_words > WORDS; p++)
		for (size_t i = 0; i < q->out[p]; i += q->out_word[p], number++, at += q->out_word[p])
			if (memcmp(expected + at, got + at, q->out_word[p]) != 0)
				return number;
	return 0;
}

int outcome_keep(struct outcome *outcome, const struct asked *a, const struct finding *findings, size_t n, struct error *error)
{
	outcome->shown = calloc(n + 1, sizeof *outcome->shown);
	if (outcome->shown == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++) {
		struct shown *shown = &outcome->shown[outcome->n_shown++];
		const uint8_t *expected = a->expected + findings[i].first * a->q->out_bytes, *got = a->got + findings[i].first * a->q->out_bytes;
		const size_t first = first_difference(a->q, expected, got);

		shown->finding = findings[i];
		shown->in = words_of(a->in + findings[i].first * a->q->in_bytes, a->q->in, a->q->in_word, 0);
		shown->expected = words_of(expected, a->q->out, a->q->out_word, first);
		shown->got = words_of(got, a->q->out, a->q->out_word, first);
		if (shown->in == NULL || shown->expected == NULL || shown->got == NULL)
			return fail_memory(error);
	}
	return EXIT_OK;
}

/* Numbers of questions of an operation by what came of them. */
struct totals {
	size_t equal, differs, unsupported, items;
};

static struct totals totals_of(const struct outcomes *outcomes, int op)
{
	struct totals totals = {0};

	for (size_t i = 0; i < outcomes->n; i++) {
		const struct outcome *outcome = &outcomes->list[i];

		if (op != N_OPERATIONS && outcome->op != (enum op)op)
			continue;
		totals.unsupported += outcome->unsupported;
		totals.differs += outcome->n_differ > 0;
		totals.equal += !outcome->unsupported && outcome->n_differ == 0;
		totals.items += outcome->unsupported ? 0 : outcome->n;
	}
	return totals;
}

static int print_totals(const struct outcomes *outcomes, struct error *error)
{
	struct table table = {.n_columns = 5, .n_left = 1};

	table_cell(&table, "operation");
	table_cell(&table, "equal");
	table_cell(&table, "differ");
	table_cell(&table, "not supported");
	table_cell(&table, "inputs");
	for (int op = 0; op < N_OPERATIONS; op++) {
		const struct totals totals = totals_of(outcomes, op);

		if (totals.equal + totals.differs + totals.unsupported == 0)
			continue;
		table_cell(&table, "%s", op_name((enum op)op));
		table_cell(&table, "%zu", totals.equal);
		table_cell(&table, "%zu", totals.differs);
		table_cell(&table, "%zu", totals.unsupported);
		table_cell(&table, "%zu", totals.items);
	}
	return table_print(&table, stdout, error);
}

static bool is_explained(const struct finding *f)
{
	return f->n_ways > 0 && f->nearest[0] == '\0';
}

/* What a class matches, in words. */
static const char *match_of(const struct finding *f, char text[MATCH_TEXT])
{
	*text = '\0';
	for (size_t i = 0; i < f->n_ways; i++)
		sprintf(text + strlen(text), "%s%s", i > 0 ? "; and " : "", f->ways[i]);
	sprintf(text + strlen(text), "%s%s", f->n_ways > 0 && f->nearest[0] != '\0' ? "; " : "", f->nearest);
	return text;
}

static int print_findings(const struct outcome *outcome, struct error *error)
{
	struct table table = {.n_columns = 6, .n_left = 6};

	printf("%s: %zu of %zu differ\n", outcome->label, outcome->n_differ, outcome->n);
	table_cell(&table, "class of input");
	table_cell(&table, "differ");
	table_cell(&table, "first input");
	table_cell(&table, "expected");
	table_cell(&table, "got");
	table_cell(&table, "the answers match instead");
	for (size_t i = 0; i < outcome->n_shown; i++) {
		const struct shown *shown = &outcome->shown[i];
		const struct finding *f = &shown->finding;
		char text[MATCH_TEXT];
		const char *match = match_of(f, text);

		table_cell(&table, "%s", f->class);
		table_cell(&table, "%zu of %zu", f->n_differ, f->n);
		table_cell(&table, "%s", shown->in);
		table_cell(&table, "%s", shown->expected);
		table_cell(&table, "%s", shown->got);
		table_cell(&table, "%s", *match != '\0' ? match : "nothing known");
	}
	return table_print(&table, stdout, error);
}

/* A way that answers match, and the questions in which they do. */
struct name {
	const char *way;
	size_t n_questions;
	const char *first, *last; /* labels */
};

/* Counts a way of a question, once. */
static size_t count_name(struct name names[NAMES_MAX], size_t n, const char *way, const char *label)
{
	size_t at = 0;

	while (at < n && strcmp(names[at].way, way) != 0)
		at++;
	if (at == NAMES_MAX)
		return n;
	if (at == n)
		names[n++] = (struct name){.way = way, .first = label};
	if (names[at].last != label)
		names[at].n_questions++;
	names[at].last = label;
	return n;
}

static size_t list_names(struct name names[NAMES_MAX], const struct outcomes *outcomes)
{
	size_t n = 0;

	for (size_t i = 0; i < outcomes->n; i++)
		for (size_t k = 0; k < outcomes->list[i].n_shown; k++) {
			const struct finding *f = &outcomes->list[i].shown[k].finding;

			for (size_t w = 0; w < f->n_ways; w++)
				n = count_name(names, n, f->ways[w], outcomes->list[i].label);
		}
	return n;
}

/* In how many classes a way is named, or could be. */
static size_t n_could(const struct outcomes *outcomes, const char *way)
{
	size_t n = 0;

	for (size_t i = 0; i < outcomes->n; i++)
		for (size_t k = 0; k < outcomes->list[i].n_shown; k++) {
			const struct finding *f = &outcomes->list[i].shown[k].finding;

			for (size_t w = 0; w < f->n_ways; w++) {
				bool could = strcmp(f->ways[w], way) == 0;

				for (size_t o = 0; o < OTHERS_MAX && f->others[w][o] != NULL; o++)
					could |= strcmp(f->others[w][o], way) == 0;
				n += could;
			}
		}
	return n;
}

/* Of ways that do the same in a question names the one that explains most classes of all questions. */
static void agree(struct outcomes *outcomes)
{
	for (size_t i = 0; i < outcomes->n; i++)
		for (size_t k = 0; k < outcomes->list[i].n_shown; k++) {
			struct finding *f = &outcomes->list[i].shown[k].finding;

			for (size_t w = 0; w < f->n_ways; w++) {
				size_t most = f->others[w][0] != NULL ? n_could(outcomes, f->ways[w]) : 0;

				for (size_t o = 0; o < OTHERS_MAX && f->others[w][o] != NULL; o++) {
					const size_t n = n_could(outcomes, f->others[w][o]);

					if (n > most)
						f->agreed[w] = f->others[w][o];
					most = n > most ? n : most;
				}
			}
		}
	for (size_t i = 0; i < outcomes->n; i++)
		for (size_t k = 0; k < outcomes->list[i].n_shown; k++) {
			struct finding *f = &outcomes->list[i].shown[k].finding;

			for (size_t w = 0; w < f->n_ways; w++)
				if (f->agreed[w] != NULL)
					snprintf(f->ways[w], WAY_TEXT, "%s", f->agreed[w]);
		}
}

/* Says how many classes that differ have no name, or for a part of their results alone. */
static void print_unnamed(const struct outcomes *outcomes)
{
	size_t n = 0, n_unnamed = 0, n_unnamed_sums = 0;

	for (size_t i = 0; i < outcomes->n; i++)
		for (size_t k = 0; k < outcomes->list[i].n_shown; k++, n++) {
			const bool unnamed = !is_explained(&outcomes->list[i].shown[k].finding);

			n_unnamed += unnamed;
			n_unnamed_sums += unnamed && outcomes->list[i].op == OP_DOT;
		}
	if (n_unnamed > 0)
		printf("%zu of the %zu classes in the tables have no name, or one for a part alone.\n", n_unnamed, n);
	if (n_unnamed_sums > 0)
		printf("mxfp conform CMD --probe describes how products are summed: in what order, aligned and rounded how.\n");
}

static int print_text(const struct outcomes *outcomes, const char *name, const struct conform_options *options, struct error *error)
{
	struct name names[NAMES_MAX];
	const size_t n_names = list_names(names, outcomes);
	int code;

	printf("%s, seed %" PRIu64 "%s%s\n\n", name, options->seed, options->profile != NULL ? ", profile " : "",
	       options->profile != NULL ? options->profile : "");
	code = print_totals(outcomes, error);
	for (size_t i = 0; i < outcomes->n && code == EXIT_OK; i++)
		if (outcomes->list[i].n_differ > 0)
			code = print_findings(&outcomes->list[i], error);
	if (n_names > 0)
		printf("The answers match instead:\n");
	for (size_t i = 0; i < n_names; i++)
		printf("- %s (%s%s)\n", names[i].way, names[i].first, names[i].n_questions > 1 ? " and others" : "");
	if (code == EXIT_OK)
		print_unnamed(outcomes);
	return code;
}

static json_t *finding_facts(const struct shown *shown)
{
	const struct finding *f = &shown->finding;
	char text[MATCH_TEXT];
	const char *match = match_of(f, text);

	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:b, s:s?}", "class", f->class, "inputs", (json_int_t)f->n, "differ",
	                 (json_int_t)f->n_differ, "input", shown->in, "expected", shown->expected, "got", shown->got, "explained",
	                 (int)is_explained(f), "match", *match != '\0' ? match : NULL);
}

static json_t *outcome_facts(const struct outcome *outcome)
{
	json_t *findings = json_array();

	for (size_t i = 0; i < outcome->n_shown; i++)
		findings = facts_append(findings, finding_facts(&outcome->shown[i]));
	return json_pack("{s:s, s:s, s:I, s:I, s:o}", "question", outcome->label, "result",
	                 outcome->unsupported ? "unsupported" : outcome->n_differ > 0 ? "differs" : "equal", "inputs",
	                 (json_int_t)(outcome->unsupported ? 0 : outcome->n), "differ", (json_int_t)outcome->n_differ, "classes", findings);
}

static int print_json(const struct outcomes *outcomes, const char *name, const struct conform_options *options, struct error *error)
{
	json_t *questions = json_array(), *matches = json_array();
	struct name names[NAMES_MAX];
	const size_t n_names = list_names(names, outcomes);
	const struct totals totals = totals_of(outcomes, N_OPERATIONS);

	for (size_t i = 0; i < outcomes->n; i++)
		questions = facts_append(questions, outcome_facts(&outcomes->list[i]));
	for (size_t i = 0; i < n_names; i++)
		matches = facts_append(matches, json_string(names[i].way));
	return facts_print(stdout, json_pack("{s:s, s:I, s:s?, s:I, s:I, s:I, s:o, s:o}", "name", name, "seed", (json_int_t)options->seed,
	                                     "profile", options->profile, "equal", (json_int_t)totals.equal, "differ",
	                                     (json_int_t)totals.differs, "unsupported", (json_int_t)totals.unsupported, "match", matches,
	                                     "questions", questions), error);
}

int outcomes_print(struct outcomes *outcomes, const char *name, const struct conform_options *options, struct error *error)
{
	agree(outcomes);
	int code = options->json ? print_json(outcomes, name, options, error) : print_text(outcomes, name, options, error);

	const struct totals totals = totals_of(outcomes, N_OPERATIONS);

	if (code != EXIT_OK)
		return code;
	if (totals.equal + totals.differs == 0)
		return fail(error, EXIT_CHECK, "%s: nothing was compared: it supports none of the %zu questions that were asked", name,
		            totals.unsupported);
	if (totals.differs == 0)
		return EXIT_OK;
	return fail(error, EXIT_CHECK, "%s: answers differ from the contract in %zu of %zu questions that it supports", name,
	            totals.differs, totals.differs + totals.equal);
}
