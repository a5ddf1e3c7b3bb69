/* SPDX-License-Identifier: MIT */
/* Asks a program every question, and keeps what it answers. */
#include "config.h"

#include "conform/conform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/nearest.h"
#include "conform/child.h"
#include "conform/explain.h"
#include "conform/print.h"
#include "conform/profile.h"

/* The same numbers for the same question, whichever others are asked. */
static uint64_t seed_of(const struct question *q, uint64_t seed)
{
	for (const char *c = q->label; *c != '\0'; c++)
		seed = (seed ^ (uint8_t)*c) * UINT64_C(0x100000001B3);
	return seed;
}

/* Of items with more bytes than these the first is asked alone: a program that does not support a question need not take megabytes
   of it, nor are these made. */
enum { LARGE = 512 };

/* What is held for one question. */
struct held {
	struct items items;
	uint8_t *expected, *got;
	uint64_t *indices;
};

/* Makes the items, at most so many, 0: all, and room for what is answered; answers that are there stay. */
static int hold(struct held *held, const struct question *q, const struct conform_options *options, size_t most, struct error *error)
{
	held->items.n = 0;
	held->items.most = most;
	held->items.random = seed_of(q, options->seed);
	operations[q->op]->items(q, &held->items);
	uint8_t *got = realloc(held->got, held->items.n * q->out_bytes + 1); /* of 0 bytes it would free */
	held->got = got != NULL ? got : held->got;
	return held->items.out_of_memory || got == NULL ? fail_memory(error) : EXIT_OK;
}

/* Computes what is expected. */
static int expect(struct held *held, const struct question *q, struct error *error)
{
	const size_t n = held->items.n;

	held->expected = malloc(n * q->out_bytes);
	held->indices = malloc(n * sizeof *held->indices);
	if (held->expected == NULL || held->indices == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		held->indices[i] = i;
	operations[q->op]->answer(q, &q->way, held->items.bytes, held->indices, n, held->expected);
	return EXIT_OK;
}

static void let_go(struct held *held)
{
	free(held->items.bytes);
	free(held->expected);
	free(held->got);
	free(held->indices);
}

static int ask(struct outcome *outcome, struct child *child, const struct question *q, const struct conform_options *options,
               struct seen *seen, struct error *error)
{
	struct held held = {.items = {.item_bytes = q->in_bytes, .quick = options->quick}};
	const size_t alone = q->in_bytes > LARGE;
	struct finding findings[CLASSES_MAX];
	size_t n_findings = 0;

	child->unsupported = false;
	int code = hold(&held, q, options, alone, error);
	if (code == EXIT_OK && alone > 0)
		code = question_ask(child, q, held.items.bytes, 0, alone, held.got, error);
	if (code == EXIT_OK && alone > 0 && !child->unsupported)
		code = hold(&held, q, options, 0, error);
	if (code == EXIT_OK && !child->unsupported)
		code = question_ask(child, q, held.items.bytes, alone, held.items.n, held.got, error);
	outcome->unsupported = child->unsupported;
	outcome->n = held.items.n;
	if (code == EXIT_OK && !child->unsupported)
		code = expect(&held, q, error);
	const struct asked asked = {q, held.items.bytes, held.expected, held.got, held.indices, held.items.n, child->batch, MATCHED_ALL};
	if (code == EXIT_OK && !child->unsupported)
		code = explain(findings, &n_findings, &outcome->n_differ, &asked, seen, error);
	if (code == EXIT_OK)
		code = outcome_keep(outcome, &asked, findings, n_findings, error);
	let_go(&held);
	return code;
}

/* Whether a label begins with these words. */
static bool begins(const char *label, const char *words)
{
	const size_t n = strlen(words);

	return strncmp(label, words, n) == 0 && (label[n] == '\0' || label[n] == ' ');
}

static bool is_wanted(const struct question *q, const struct conform_options *options)
{
	bool wanted = options->only->n == 0;

	for (size_t i = 0; i < options->only->n; i++)
		wanted |= begins(q->label, options->only->items[i]);
	return wanted && (options->profile == NULL || profile_has(options->profile, q->label, begins));
}

typedef int question_visitor(void *context, const struct question *q, struct error *error);

static int visit(const struct conform_options *options, question_visitor *visitor, void *context, struct error *error)
{
	int code = EXIT_OK;

	for (int op = 0; op < N_OPERATIONS; op++)
		for (size_t i = 0; i < operations[op]->n_questions && code == EXIT_OK; i++) {
			struct question q;

			if (operations[op]->question(&q, i) && is_wanted(&q, options))
				code = visitor(context, &q, error);
		}
	return code;
}

static int count(void *context, const struct question *q, struct error *error)
{
	(void)q;
	(void)error;
	++*(size_t *)context;
	return EXIT_OK;
}

struct run {
	struct child child;
	const struct conform_options *options;
	struct outcomes outcomes;
	struct seen seen;
	size_t n_whole; /* of these: answered */
};

static int visit_ask(void *context, const struct question *q, struct error *error)
{
	struct run *run = context;
	struct outcome *outcome = outcomes_add(&run->outcomes, q->op, q->label);

	int code = outcome != NULL ? ask(outcome, &run->child, q, run->options, &run->seen, error) : fail_memory(error);
	run->n_whole += code == EXIT_OK;
	return code;
}

static size_t count_words(const char *text)
{
	size_t n = 1;

	for (; *text != '\0'; text++)
		n += *text == ' ';
	return n;
}

/* The label that words were probably meant to begin. */
struct meant {
	struct nearest nearest;
	bool begins; /* it begins with them, within a word */
	char best[sizeof((struct question *)0)->label];
};

static int offer(void *context, const struct question *q, struct error *error)
{
	struct meant *meant = context;
	char label[sizeof q->label];

	(void)error;
	snprintf(label, sizeof label, "%s", q->label);
	for (size_t left = count_words(label), n = count_words(meant->nearest.word); left > n; left--)
		*strrchr(label, ' ') = '\0';
	if (meant->begins)
		return EXIT_OK;
	meant->begins = strncmp(label, meant->nearest.word, strlen(meant->nearest.word)) == 0;
	nearest_offer(&meant->nearest, label);
	if (meant->begins || meant->nearest.best == label)
		meant->nearest.best = strcpy(meant->best, label);
	return EXIT_OK;
}

/* EXIT_USAGE if no question begins with those words. */
static int check_only(struct conform_options options, const char *words, struct error *error)
{
	const struct string_list one = {1, {words}}, all = {.n = 0};
	struct meant meant = {.nearest = {.word = words}};
	const char *where = options.profile != NULL ? " in this profile" : "";
	size_t n = 0;

	options.only = &one;
	visit(&options, count, &n, error);
	if (n > 0)
		return EXIT_OK;
	options.only = &all;
	visit(&options, offer, &meant, error);
	if (meant.nearest.best != NULL)
		return fail(error, EXIT_USAGE, "conform: --only '%s': no question begins so%s: did you mean '%s'?", words, where, meant.best);
	return fail(error, EXIT_USAGE, "conform: --only '%s': no question begins so%s; the first words are cast, decode, scale, mx, "
	            "mx-decode, nvfp4-tensor, nvfp4, nvfp4-decode, pack, unpack, dot, prune, function, row, attention", words, where);
}

static int check_options(const struct conform_options *options, struct error *error)
{
	int code = options->profile != NULL ? profile_check(options->profile, error) : EXIT_OK;

	for (size_t i = 0; i < options->only->n && code == EXIT_OK; i++)
		code = check_only(*options, options->only->items[i], error);
	return code;
}

int conform_run(const struct conform_options *options, struct error *error)
{
	struct run run = {.options = options};
	int code = check_options(options, error);

	if (code != EXIT_OK)
		return code;
	interrupt_hold();
	code = child_start(&run.child, options->command, (double)options->timeout, error);
	if (code == EXIT_OK)
		code = visit(options, visit_ask, &run, error);
	if (code == EXIT_OK)
		code = child_end(&run.child, error);
	child_kill(&run.child);
	interrupt_release();
	if (code == EXIT_OK)
		code = outcomes_print(&run.outcomes, run.child.name, options, error);
	else if (code == EXIT_INPUT && run.n_whole > 0 && !options->json) {
		/* What was compared until then. */
		struct error ignored;

		run.outcomes.n = run.n_whole;
		outcomes_print(&run.outcomes, run.child.name, options, &ignored);
	}
	outcomes_free(&run.outcomes);
	return code;
}
