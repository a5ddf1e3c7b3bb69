/* SPDX-License-Identifier: MIT */
/*
 * Dynamic programming over lists of partial choices, with a bound that leaves few of them (Pisinger, "A minimal
 * algorithm for the multiple-choice knapsack problem", 1995, has the parts).
 *
 * Steps along the convex hulls of the units, those that save most error a byte first, end where one does not fit: what it
 * saves a byte is the price of a byte. For any price, a choice that fits has
 *
 *   error = sum of (error + price * bytes) - price * capacity + price * (capacity - bytes) >= the sum of each unit's least
 *   error + price * bytes, less price * capacity
 *
 * so whatever is dearer than a unit's least by more than the gap between this and a choice that is known to fit is in no
 * better choice. Most units have one option left then. For the others partial choices are kept of which no other one has
 * fewer bytes and less error, and which the same bound does not exclude.
 */
#include "config.h"

#include "analyse/knapsack.h"

#include <stdlib.h>

enum {
	STATES_MAX = 1 << 15, /* partial choices at a time; sums of real models' sizes have fewer values, */
	STATES_FEW = 64,      /* of many units fewer, but no fewer than these, */
	NODES_MAX = 1 << 24   /* so that there are no more nodes than these, 128 MiB of them */
};

struct item {
	uint64_t bytes;
	double error;
	size_t option;
};

/* The options of a unit that have more bytes, one after the other, and less error. */
struct choice {
	size_t n;
	struct item *items;
	size_t taken; /* in the best choice so far */
	size_t at;    /* on the hull */
};

struct step {
	size_t unit, to; /* items */
	uint64_t bytes;
	double saved;
};

/* A partial choice; `node` leads to the items of the units before. */
struct state {
	uint64_t bytes;
	double error;
	uint32_t node;
};

struct node {
	uint32_t before, item;
};

/* Of the units that have several options left, from one on. */
struct rest {
	uint64_t least_bytes, most_bytes;
	double least_cost;
};

struct solver {
	const struct knapsack *knapsack;
	uint64_t capacity;
	struct choice *choices;
	struct item *items;
	struct step *steps;
	size_t n_steps;
	double price, best, tolerance; /* of a byte; error of the best choice so far; of sums */
	size_t n_open, *open;          /* units with several options left */
	uint64_t unit;                 /* bytes of open units differ by multiples of it */
	struct rest *rests;            /* one more */
	size_t n_states, n_nodes, nodes_capacity;
	struct state *states, *merged;
	struct node *nodes;
	bool exact;
};

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->error != y->error)
		return x->error < y->error ? -1 : 1;
	return (x->option > y->option) - (x->option < y->option);
}

static void list_items(struct choice *choice, const struct knapsack_option *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		choice->items[i] = (struct item){options[i].bytes, options[i].error, i};
	qsort(choice->items, n, sizeof *choice->items, compare_items);
	for (size_t i = 0; i < n; i++)
		if (choice->n == 0 || choice->items[i].error < choice->items[choice->n - 1].error)
			choice->items[choice->n++] = choice->items[i];
}

static double saved_a_byte(const struct step *step)
{
	return step->saved / (double)step->bytes;
}

/* Adds the steps of a unit along its hull. */
static void add_steps(struct solver *s, size_t unit)
{
	const struct choice *choice = &s->choices[unit];

	for (size_t at = 0; at + 1 < choice->n;) {
		struct step best = {.bytes = 0};

		for (size_t to = at + 1; to < choice->n; to++) {
			const struct step step = {unit, to, choice->items[to].bytes - choice->items[at].bytes,
			                          choice->items[at].error - choice->items[to].error};

			if (best.bytes == 0 || saved_a_byte(&step) >= saved_a_byte(&best))
				best = step;
		}
		s->steps[s->n_steps++] = best;
		at = best.to;
	}
}

/* Steps of a unit save less and less a byte; where rounding makes that equal, later ones come later. */
static int compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	const double of_x = saved_a_byte(x), of_y = saved_a_byte(y);

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return (x->to > y->to) - (x->to < y->to);
}

/* Takes the steps that fit; the first that does not gives the price. */
static void climb(struct solver *s)
{
	uint64_t bytes = 0;

	for (size_t u = 0; u < s->knapsack->n_units; u++)
		bytes += s->choices[u].items[0].bytes;
	for (size_t i = 0; i < s->n_steps && bytes <= s->capacity; i++) {
		const struct step *step = &s->steps[i];
		struct choice *choice = &s->choices[step->unit];
		const uint64_t more = choice->items[step->to].bytes - choice->items[choice->taken].bytes;

		if (more > s->capacity - bytes) {
			s->price = s->price == 0 ? saved_a_byte(step) : s->price;
			continue;
		}
		choice->taken = step->to;
		bytes += more;
	}
	for (size_t u = 0; u < s->knapsack->n_units; u++) {
		s->best += s->choices[u].items[s->choices[u].taken].error;
		s->tolerance += 1e-12 * s->choices[u].items[0].error;
	}
}

static double cost(const struct solver *s, const struct item *item)
{
	return item->error + s->price * (double)item->bytes;
}

static double least_cost(const struct solver *s, const struct choice *choice)
{
	double least = cost(s, &choice->items[0]);

	for (size_t i = 1; i < choice->n; i++)
		least = cost(s, &choice->items[i]) < least ? cost(s, &choice->items[i]) : least;
	return least;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Leaves out the items that are in no better choice, and makes the first state of the units that have one left. */
static void reduce(struct solver *s)
{
	double bound = -s->price * (double)s->capacity;
	struct state first = {0};

	for (size_t u = 0; u < s->knapsack->n_units; u++)
		bound += least_cost(s, &s->choices[u]);
	for (size_t u = 0; u < s->knapsack->n_units; u++) {
		struct choice *choice = &s->choices[u];
		const double least = least_cost(s, choice);
		const size_t taken = choice->taken, n = choice->n;

		choice->n = 0;
		for (size_t i = 0; i < n; i++) {
			if (bound + cost(s, &choice->items[i]) - least > s->best + s->tolerance && i != taken)
				continue;
			if (i == taken)
				choice->taken = choice->n;
			choice->items[choice->n++] = choice->items[i];
		}
		if (choice->n > 1) {
			s->open[s->n_open++] = u;
		} else {
			first.bytes += choice->items[0].bytes;
			first.error += choice->items[0].error;
		}
	}
	s->states[s->n_states++] = first;
	s->rests[s->n_open] = (struct rest){0};
	for (size_t k = s->n_open; k-- > 0;) {
		const struct choice *choice = &s->choices[s->open[k]];

		s->rests[k] = s->rests[k + 1];
		s->rests[k].least_bytes += choice->items[0].bytes;
		s->rests[k].most_bytes += choice->items[choice->n - 1].bytes;
		s->rests[k].least_cost += least_cost(s, choice);
		for (size_t i = 1; i < choice->n; i++)
			s->unit = common_divisor(choice->items[i].bytes - choice->items[0].bytes, s->unit);
	}
}

/* Whether a state with the units from `rest` on can still become a better choice. */
static bool can_win(const struct solver *s, const struct state *state, const struct rest *rest)
{
	const uint64_t most = state->bytes + rest->most_bytes;
	const double unused = most < s->capacity ? (double)(s->capacity - most) : 0;

	return state->bytes + rest->least_bytes <= s->capacity &&
	       state->error + s->price * (double)state->bytes + rest->least_cost - s->price * (double)s->capacity +
	       s->price * unused <= s->best + s->tolerance;
}

static int take_node(struct solver *s, uint32_t before, size_t item, uint32_t *node, struct error *error)
{
	if (s->n_nodes == s->nodes_capacity) {
		const size_t capacity = 2 * s->nodes_capacity + 1024;
		struct node *grown = capacity < UINT32_MAX ? realloc(s->nodes, capacity * sizeof *grown) : NULL;

		if (grown == NULL)
			return fail_memory(error);
		s->nodes = grown;
		s->nodes_capacity = capacity;
	}
	*node = (uint32_t)s->n_nodes;
	s->nodes[s->n_nodes++] = (struct node){before, (uint32_t)item};
	return EXIT_OK;
}

/* The state that comes next of those that the items of a unit make of the states, of which `at` are done for each. */
static struct state next_state(const struct solver *s, const struct choice *choice, size_t *at, size_t *item)
{
	struct state next = {.bytes = UINT64_MAX};

	*item = choice->n;
	for (size_t i = 0; i < choice->n; i++) {
		if (at[i] == s->n_states)
			continue;
		struct state state = s->states[at[i]];
		state.bytes += choice->items[i].bytes;
		state.error += choice->items[i].error;
		if (*item == choice->n || state.bytes < next.bytes || (state.bytes == next.bytes && state.error < next.error)) {
			next = state;
			*item = i;
		}
	}
	if (*item < choice->n)
		at[*item]++;
	return next;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Makes the states with one unit more. Too many are thinned: one stays of those of about the same bytes. */
static int add_unit(struct solver *s, size_t k, size_t *at, struct error *error)
{
	const struct choice *choice = &s->choices[s->open[k]];
	const struct rest *rest = &s->rests[k + 1];
	const uint64_t first = s->states[0].bytes + choice->items[0].bytes;
	const uint64_t last = s->states[s->n_states - 1].bytes + choice->items[choice->n - 1].bytes;
	const uint64_t most = least(STATES_MAX, NODES_MAX / s->n_open > STATES_FEW ? NODES_MAX / s->n_open : STATES_FEW);
	/* At one common divisor a grain no two states have one cell. */
	const uint64_t grain = s->n_states * choice->n <= most ? 1 : ((last - first) / s->unit / most + 1) * s->unit;
	uint64_t cell = 0;
	size_t n = 0;

	for (size_t i = 0; i < choice->n; i++)
		at[i] = 0;
	for (;;) {
		size_t item;
		struct state state = next_state(s, choice, at, &item);

		if (item == choice->n)
			break;
		if ((n > 0 && state.error >= s->merged[n - 1].error) || !can_win(s, &state, rest))
			continue;
		if (n > 0 && (state.bytes - first) / grain == cell) {
			s->exact = false;
			continue;
		}
		cell = (state.bytes - first) / grain;
		if (take_node(s, state.node, item, &state.node, error) != EXIT_OK)
			return EXIT_MEMORY;
		s->merged[n++] = state;
	}
	struct state *before = s->states;
	s->states = s->merged;
	s->merged = before;
	s->n_states = n;
	return EXIT_OK;
}

static int search(struct solver *s, struct error *error)
{
	size_t *at = calloc(s->knapsack->n_options + 1, sizeof *at);
	int code = at == NULL ? fail_memory(error) : EXIT_OK;

	reduce(s);
	for (size_t k = 0; k < s->n_open && s->n_states > 0 && code == EXIT_OK; k++)
		code = add_unit(s, k, at, error);
	free(at);
	if (code != EXIT_OK || s->n_states == 0)
		return code;
	/* The last one has the least error. */
	uint32_t node = s->states[s->n_states - 1].node;
	for (size_t k = s->n_open; k-- > 0; node = s->nodes[node].before)
		s->choices[s->open[k]].taken = s->nodes[node].item;
	return EXIT_OK;
}

static bool begin(struct solver *s)
{
	const size_t n = s->knapsack->n_units, all = n * s->knapsack->n_options;

	s->choices = calloc(n + 1, sizeof *s->choices);
	s->items = calloc(all + 1, sizeof *s->items);
	s->steps = calloc(all + 1, sizeof *s->steps);
	s->open = calloc(n + 1, sizeof *s->open);
	s->rests = calloc(n + 1, sizeof *s->rests);
	s->states = malloc((STATES_MAX + 1) * sizeof *s->states);
	s->merged = malloc((STATES_MAX + 1) * sizeof *s->merged);
	return s->choices != NULL && s->items != NULL && s->steps != NULL && s->open != NULL && s->rests != NULL &&
	       s->states != NULL && s->merged != NULL;
}

int knapsack_solve(size_t *chosen, bool *exact, const struct knapsack *knapsack, uint64_t capacity,
                   struct error *error)
{
	struct solver s = {.knapsack = knapsack, .capacity = capacity, .exact = true};
	int code = begin(&s) ? EXIT_OK : fail_memory(error);

	for (size_t u = 0; u < knapsack->n_units && code == EXIT_OK; u++) {
		s.choices[u].items = s.items + u * knapsack->n_options;
		list_items(&s.choices[u], knapsack->options + u * knapsack->n_options, knapsack->n_options);
		add_steps(&s, u);
	}
	if (code == EXIT_OK) {
		qsort(s.steps, s.n_steps, sizeof *s.steps, compare_steps);
		climb(&s);
	}
	if (code == EXIT_OK && s.price > 0)
		code = search(&s, error);
	for (size_t u = 0; u < knapsack->n_units && code == EXIT_OK; u++)
		chosen[u] = s.choices[u].items[s.choices[u].taken].option;
	*exact = s.exact;
	free(s.choices);
	free(s.items);
	free(s.steps);
	free(s.open);
	free(s.rests);
	free(s.states);
	free(s.merged);
	free(s.nodes);
	return code;
}
