/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINARY32_LEAST = -126 };

struct term {
	double value;
	int exponent;
};

/* An addition: inputs [first, first + n) of the plan. */
struct addition {
	size_t first, n;
	bool several;
};

struct plan {
	size_t n_additions, n_inputs;
	struct addition *additions;
	size_t *inputs;          /* a leaf, or the number of leaves plus that of an addition before */
	size_t n_leaves;
	double *results;
	struct term *terms;
	double *partials;
};

static double whole(double q, double rest_below, enum cut cut)
{
	const double low = floor(q);
	double rest = q - low; /* exact */

	/* Of what is below q's last bit only the sign counts. */
	if (rest_below < 0 && rest == 0)
		return whole(low - 0.25, 0, cut);
	if (rest_below != 0 && (rest == 0 || rest == 0.5))
		rest += rest_below < 0 ? -0x1p-40 : 0x1p-40;
	switch (cut) {
	case CUT_NEAREST:
		return rest > 0.5 || (rest == 0.5 && fmod(low, 2) != 0) ? low + 1 : low;
	case CUT_AWAY:
		return rest > 0.5 || (rest == 0.5 && q > 0) ? low + 1 : low;
	case CUT_ZERO:
		return low < 0 && rest > 0 ? low + 1 : low;
	default:
		return low;
	}
}

/* Rounds high + low, |low| at most half the last bit of high, to so many bits. */
static double round_to(double high, double low, int bits, enum cut cut)
{
	int exponent;

	if (high == 0 || !isfinite(high) || bits >= 53)
		return high;
	const double significand = frexp(high, &exponent);
	/* A little below a power of two the unit is half as large. */
	exponent -= 1 + (fabs(significand) == 0.5 && low != 0 && (low < 0) != (high < 0));
	if (bits <= 24 && exponent < BINARY32_LEAST)
		exponent = BINARY32_LEAST;
	const int unit = exponent - (bits - 1);
	const double rounded = ldexp(whole(ldexp(high, -unit), low, cut), unit);
	return bits <= 24 && fabs(rounded) >= 0x1p128 ? copysign((double)INFINITY, rounded) : rounded;
}

/* Rounds to 24 bits, to nearest even, without limit of exponent. */
static double round_freely(double x)
{
	int exponent;
	const double significand = frexp(x, &exponent);

	return isfinite(x) ? ldexp(whole(ldexp(significand, 24), 0, CUT_NEAREST), exponent - 24) : x;
}

/* The exact sum: *high + *low, of which *low is what is left, as far as its sign goes. Shewchuk 1997, as Python's fsum. */
static void sum_exact(const struct term *terms, size_t n, double *partials, double *high, double *low)
{
	size_t n_partials = 0;

	for (size_t i = 0; i < n; i++) {
		double x = terms[i].value;
		size_t kept = 0;

		for (size_t k = 0; k < n_partials; k++) {
			double y = partials[k];

			if (fabs(x) < fabs(y)) {
				const double t = x;

				x = y;
				y = t;
			}
			const double sum = x + y, rest = y - (sum - x);
			if (rest != 0)
				partials[kept++] = rest;
			x = sum;
		}
		partials[kept++] = x;
		n_partials = kept;
	}
	*high = 0;
	*low = 0;
	while (n_partials > 0 && *low == 0) {
		const double x = *high, y = partials[--n_partials];

		*high = x + y;
		*low = y - (*high - x);
	}
}

/* A term cut to a multiple of 2^unit, in such units. */
static double cut_term(double value, int unit, enum cut cut)
{
	return whole(ldexp(value, -unit), 0, cut);
}

static int exponent_of(double value)
{
	const int exponent = value != 0 ? ilogb(value) : BINARY32_LEAST;

	return exponent > BINARY32_LEAST ? exponent : BINARY32_LEAST;
}

/* Rounded down to a multiple of 2^unit. */
static double down(double value, int unit)
{
	return ldexp(cut_term(value, unit, CUT_DOWN), unit);
}

static int largest_exponent(const struct rule *rule, const struct term *terms, size_t n)
{
	int most = rule->lowest;

	for (size_t i = 0; i < n; i++)
		most = terms[i].exponent > most ? terms[i].exponent : most;
	return most;
}

static double sum_cut(const struct rule *rule, const struct term *terms, size_t n, int most)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += cut_term(terms[i].value, most - rule->fraction, rule->term);
	return sum;
}

/* One step. The first term is the sum so far, if has_sum. */
static double add(bool flushed, const struct rule *rule, const struct term *terms, size_t n, bool has_sum, double *partials)
{
	double result, high, low;

	for (size_t i = 0; i < n; i++)
		if (!isfinite(terms[i].value)) {
			result = 0;
			for (size_t k = 0; k < n; k++)
				result += terms[k].value;
			return result;
		}
	if (n == 0)
		return 0;
	if (rule->fraction == FRACTION_ALL) {
		sum_exact(terms, n, partials, &high, &low);
		result = round_to(high, low, rule->bits, rule->result);
	} else if (rule->apart && has_sum) {
		const int own = largest_exponent(rule, terms + 1, n - 1), most = own > terms[0].exponent ? own : terms[0].exponent;
		const double sum = sum_cut(rule, terms + 1, n - 1, own) * ldexp(1, own - rule->fraction);

		result = down(sum, most - 32) + down(terms[0].value, most - 24);
		result = round_to(down(result, exponent_of(result) - 31), 0, rule->bits, rule->result);
	} else {
		const int most = largest_exponent(rule, terms, n);

		result = round_to(ldexp(sum_cut(rule, terms, n, most), most - rule->fraction), 0, rule->bits, rule->result);
	}
	return flushed && fabs(result) < 0x1p-126 ? 0 : result;
}

static double value_of(const struct machine *machine, int side, const struct factor *f)
{
	return f->subnormal && machine->operands_flushed[side] ? 0 : f->value;
}

/* Adds the terms of a leaf. */
static size_t leaf_terms(const struct machine *machine, const struct rule *rule, const struct products *p, size_t leaf, struct term *terms)
{
	const enum inside inside = p->length > 1 ? machine->inside : INSIDE_TERMS;
	const size_t each = inside == INSIDE_ONE || inside == INSIDE_ROUNDED ? p->length : inside == INSIDE_HALVES ? p->length / 2 : 1;
	size_t n = 0;

	for (size_t from = leaf * p->length; from < (leaf + 1) * p->length; from += each) {
		double sum = 0;
		int exponent = LOWEST_NONE;

		for (size_t i = from; i < from + each; i++) {
			const double product = value_of(machine, 0, &p->a[i]) * value_of(machine, 1, &p->w[i]);
			const int own = rule->measure == MEASURE_SCALES ? p->a[i].scale + p->w[i].scale : p->a[i].exponent + p->w[i].exponent;

			sum += product;
			if (product != 0)
				exponent = own > exponent ? own : exponent;
		}
		if (rule->measure == MEASURE_PRODUCT && sum != 0 && isfinite(sum))
			exponent = ilogb(sum);
		if (inside == INSIDE_ROUNDED)
			sum = round_freely(sum);
		if (machine->products_overflow && fabs(sum) >= 0x1p128)
			sum = copysign((double)INFINITY, sum);
		if (sum != 0 || (rule->measure == MEASURE_SCALES && exponent > LOWEST_NONE))
			terms[n++] = (struct term){sum, exponent};
	}
	return n;
}

static struct term sum_term(double value)
{
	return (struct term){value, isfinite(value) ? exponent_of(value) : 0};
}

/* Each `of` products are a sum, which is added. */
static double run_sums(const struct plan *plan, const struct machine *machine, const struct rule *rule, const struct products *p,
                       size_t leaf, double sum, size_t of)
{
	for (size_t from = leaf * p->length; from < (leaf + 1) * p->length; from += of) {
		for (size_t i = 0; i < of; i++)
			plan->terms[i] = (struct term){value_of(machine, 0, &p->a[from + i]) * value_of(machine, 1, &p->w[from + i]),
			                               p->a[from + i].exponent + p->w[from + i].exponent};
		const double own = add(machine->results_flushed, rule, plan->terms, of, false, plan->partials);

		sum = add(machine->results_flushed, rule, (const struct term[]){sum_term(sum), sum_term(own)}, 2, true, plan->partials);
	}
	return sum;
}

static double run_chain(const struct plan *plan, const struct machine *machine, const struct rule *rule, const struct products *p,
                        size_t leaf, double sum)
{
	for (size_t i = leaf * p->length; i < (leaf + 1) * p->length; i++) {
		const double product = value_of(machine, 0, &p->a[i]) * value_of(machine, 1, &p->w[i]);
		const struct term terms[2] = {{sum, exponent_of(sum)}, {product, p->a[i].exponent + p->w[i].exponent}};

		sum = add(machine->results_flushed, rule, terms, 2, true, plan->partials);
	}
	return sum;
}


static double run_addition(const struct plan *plan, const struct machine *machine, const struct products *p, const struct addition *x)
{
	const struct rule *rule = x->several ? &machine->several : &machine->pair;
	bool has_sum = false, has_leaf = false;
	size_t n = 0;

	/* The sums so far come first. */
	for (size_t i = x->first; i < x->first + x->n; i++)
		if (plan->inputs[i] >= plan->n_leaves) {
			const double value = plan->results[plan->inputs[i] - plan->n_leaves];

			has_sum |= value != 0;
			if (value != 0)
				plan->terms[n++] = sum_term(value);
		} else {
			has_leaf = true;
		}
	if (p->length > 1 && machine->inside >= INSIDE_CHAIN) {
		double sum = n > 0 ? plan->terms[0].value : 0;

		if (n > 1)
			sum = add(machine->sums_flushed, rule, plan->terms, n, true, plan->partials);
		for (size_t i = x->first; i < x->first + x->n; i++)
			if (plan->inputs[i] < plan->n_leaves && machine->inside >= INSIDE_TWOS) {
				sum = run_sums(plan, machine, rule, p, plan->inputs[i], sum, (size_t)2 << (machine->inside - INSIDE_TWOS));
			} else if (plan->inputs[i] < plan->n_leaves) {
				const bool own = machine->inside == INSIDE_OWN_CHAIN;
				const double chain = run_chain(plan, machine, rule, p, plan->inputs[i], own ? 0 : sum);

				sum = own ? add(machine->sums_flushed, rule, (const struct term[]){sum_term(sum), sum_term(chain)}, 2, true, plan->partials) : chain;
			}
		return sum;
	}
	for (size_t i = x->first; i < x->first + x->n; i++)
		if (plan->inputs[i] < plan->n_leaves && machine->rounded[plan->inputs[i]]) {
			const size_t own = leaf_terms(machine, rule, p, plan->inputs[i], plan->terms + n);
			const double value = add(machine->results_flushed, rule, plan->terms + n, own, false, plan->partials);

			if (value != 0)
				plan->terms[n++] = sum_term(value);
			has_sum |= value != 0;
		}
	for (size_t i = x->first; i < x->first + x->n; i++)
		if (plan->inputs[i] < plan->n_leaves && !machine->rounded[plan->inputs[i]])
			n += leaf_terms(machine, rule, p, plan->inputs[i], plan->terms + n);
	return add(has_leaf ? machine->results_flushed : machine->sums_flushed, rule, plan->terms, n, has_sum, plan->partials);
}

static double round_answer(double x, enum answers answers)
{
	if (answers == ANSWERS_BF16)
		return round_to(x, 0, 8, CUT_NEAREST);
	if (answers == ANSWERS_F32 || x == 0 || !isfinite(x))
		return x;
	const int exponent = ilogb(x), unit = (exponent > -14 ? exponent : -14) - 10;
	const double rounded = ldexp(whole(ldexp(x, -unit), 0, CUT_NEAREST), unit);
	return fabs(rounded) >= 0x1p16 ? copysign((double)INFINITY, x) : rounded;
}

float plan_run(const struct plan *plan, const struct machine *machine, const struct products *products)
{
	for (size_t i = 0; i < plan->n_additions; i++)
		plan->results[i] = run_addition(plan, machine, products, &plan->additions[i]);
	return plan->n_additions > 0 ? (float)round_answer((double)(float)plan->results[plan->n_additions - 1], machine->answers) : 0;
}

void plan_free(struct plan *plan)
{
	if (plan == NULL)
		return;
	free(plan->additions);
	free(plan->inputs);
	free(plan->results);
	free(plan->terms);
	free(plan->partials);
	free(plan);
}

/* The children of a node below which is a leaf that counts; `counts` has a flag for each node. */
static size_t count_children(const struct tree *tree, size_t node, const bool *counts, size_t *only)
{
	size_t n = 0;

	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		if (counts[child]) {
			*only = child;
			n++;
		}
	return n;
}

static size_t add_addition(struct plan *plan, const size_t *inputs, size_t n, bool several)
{
	plan->additions[plan->n_additions] = (struct addition){plan->n_inputs, n, several};
	memcpy(plan->inputs + plan->n_inputs, inputs, n * sizeof *inputs);
	plan->n_inputs += n;
	return plan->n_leaves + plan->n_additions++;
}

/* The input that stands for a node. Nodes that add nothing to a sum may still cut it, and a second one cuts no more. */
static size_t plan_node(struct plan *plan, const struct machine *machine, size_t node, const bool *counts)
{
	const struct tree *tree = &machine->tree;
	size_t only = TREE_NONE;
	bool passed[2] = {false, false};

	for (; !tree_is_leaf(tree, node) && count_children(tree, node, counts, &only) == 1 && !tree_is_leaf(tree, only); node = only)
		passed[tree->nodes[node].several] = true;
	if (tree_is_leaf(tree, node))
		return node;
	size_t n = 0, *inputs = malloc(count_children(tree, node, counts, &only) * sizeof *inputs);
	if (inputs == NULL)
		return TREE_NONE;
	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		if (counts[child] && (inputs[n++] = plan_node(plan, machine, child, counts)) == TREE_NONE) {
			free(inputs);
			return TREE_NONE;
		}
	size_t input = add_addition(plan, inputs, n, tree->nodes[node].several);
	for (int several = 1; several >= 0; several--)
		if (passed[several])
			input = add_addition(plan, &input, 1, several != 0);
	free(inputs);
	return input;
}

struct plan *plan_make(const struct machine *machine, const size_t *leaves, size_t n)
{
	const struct tree *tree = &machine->tree;
	struct plan *plan = calloc(1, sizeof *plan);
	bool *counts = calloc(tree->n_nodes + 1, sizeof *counts);
	bool made = false;

	if (plan != NULL && counts != NULL) {
		plan->n_leaves = tree->n_leaves;
		for (size_t i = 0; i < (leaves != NULL ? n : tree->n_leaves); i++)
			for (size_t node = leaves != NULL ? leaves[i] : i; node != TREE_NONE && !counts[node]; node = tree->nodes[node].parent)
				counts[node] = true;
		plan->additions = malloc((tree->n_nodes + 1) * sizeof *plan->additions);
		plan->inputs = malloc((tree->n_nodes + 1) * sizeof *plan->inputs);
		plan->results = malloc((tree->n_nodes + 1) * sizeof *plan->results);
		plan->terms = malloc((32 * tree->n_leaves + 2) * sizeof *plan->terms);
		plan->partials = malloc((32 * tree->n_leaves + 2) * sizeof *plan->partials);
		made = plan->additions != NULL && plan->inputs != NULL && plan->results != NULL && plan->terms != NULL && plan->partials != NULL &&
		       plan_node(plan, machine, tree->root, counts) != TREE_NONE;
	}
	free(counts);
	if (!made) {
		plan_free(plan);
		return NULL;
	}
	return plan;
}
