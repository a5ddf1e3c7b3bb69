/* SPDX-License-Identifier: MIT */
/* Asks a program every question, and keeps what it answers. */
#include "config.h"

#include "conform/conform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "conform/child.h"
#include "conform/explain.h"
#include "conform/print.h"
#include "conform/profile.h"

/* Copies parts of items that are together to requests, where all first parts come first, or back. */
static void rearrange(uint8_t *wire, uint8_t *together, const size_t parts[PARTS_MAX], size_t bytes, size_t n, bool back)
{
	size_t at = 0;

	for (int p = 0; p < PARTS_MAX && parts[p] != 0; at += parts[p++])
		for (size_t i = 0; i < n; i++, wire += parts[p]) {
			uint8_t *part = together + i * bytes + at;

			memcpy(back ? part : wire, back ? wire : part, parts[p]);
		}
}

/* The same numbers for the same question, whichever others are asked. */
static uint64_t seed_of(const struct question *q, uint64_t seed)
{
	for (const char *c = q->label; *c != '\0'; c++)
		seed = (seed ^ (uint8_t)*c) * UINT64_C(0x100000001B3);
	return seed;
}

/* What is held for one question. */
struct held {
	struct items items;
	uint8_t *expected, *got, *wire_in, *wire_out;
	uint64_t *indices;
};

static int hold(struct held *held, const struct question *q, size_t batch, struct error *error)
{
	const size_t n = held->items.n;

	held->expected = malloc(n * q->out_bytes);
	held->got = malloc(n * q->out_bytes);
	held->wire_in = malloc(batch * q->in_bytes);
	held->wire_out = malloc(batch * q->out_bytes);
	held->indices = malloc(n * sizeof *held->indices);
	if (held->items.out_of_memory || held->expected == NULL || held->got == NULL || held->wire_in == NULL ||
	    held->wire_out == NULL || held->indices == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		held->indices[i] = i;
	return EXIT_OK;
}

static void let_go(struct held *held)
{
	free(held->items.bytes);
	free(held->expected);
	free(held->got);
	free(held->wire_in);
	free(held->wire_out);
	free(held->indices);
}

static int ask_batches(struct child *child, const struct question *q, struct held *held, struct error *error)
{
	for (size_t first = 0; first < held->items.n; first += child->batch) {
		const size_t n = held->items.n - first < child->batch ? held->items.n - first : child->batch;
		char line[512];

		rearrange(held->wire_in, held->items.bytes + first * q->in_bytes, q->in, q->in_bytes, n, false);
		snprintf(line, sizeof line, "{\"op\":\"%s\"%s,\"first\":%zu,\"n\":%zu,\"bytes\":%zu}\n", op_name(q->op),
		         q->keys, first, n, n * q->in_bytes);
		int code = child_ask(child, q->label, line, held->wire_in, n * q->in_bytes, held->wire_out, n * q->out_bytes, error);
		if (code != EXIT_OK || (child->unsupported && first == 0))
			return code;
		if (child->unsupported)
			return fail(error, EXIT_INPUT, "%s: %s: not supported from item %zu on, after answers to those before",
			            child->command, q->label, first);
		rearrange(held->wire_out, held->got + first * q->out_bytes, q->out, q->out_bytes, n, true);
	}
	return EXIT_OK;
}

static int ask(struct outcome *outcome, struct child *child, const struct question *q, const struct conform_options *options,
               struct seen *seen, struct error *error)
{
	struct held held = {.items = {.item_bytes = q->in_bytes, .quick = options->quick, .random = seed_of(q, options->seed)}};
	struct finding findings[CLASSES_MAX];
	size_t n_findings = 0;

	operations[q->op]->items(q, &held.items);
	const size_t batch = held.items.n < child->batch ? held.items.n : child->batch;
	int code = hold(&held, q, batch, error);
	if (code == EXIT_OK)
		code = ask_batches(child, q, &held, error);
	outcome->unsupported = child->unsupported;
	outcome->n = held.items.n;
	const struct asked asked = {q, held.items.bytes, held.expected, held.got, held.indices, held.items.n, child->batch};
	if (code == EXIT_OK && !child->unsupported) {
		operations[q->op]->answer(q, &q->way, held.items.bytes, held.indices, held.items.n, held.expected);
		code = explain(findings, &n_findings, &outcome->n_differ, &asked, seen, error);
	}
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

static int check_options(const struct conform_options *options, struct error *error)
{
	size_t n = 0;
	int code = options->profile != NULL ? profile_check(options->profile, error) : EXIT_OK;

	if (code == EXIT_OK)
		code = visit(options, count, &n, error);
	if (code == EXIT_OK && n == 0)
		return fail(error, EXIT_USAGE, "conform: --only '%s': no question begins so%s; the first words are cast, decode, scale, mx, "
		            "mx-decode, nvfp4-tensor, nvfp4, nvfp4-decode, pack, unpack, dot, prune, function, row, attention",
		            options->only->n > 0 ? options->only->items[0] : "", options->profile != NULL ? " in this profile" : "");
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
