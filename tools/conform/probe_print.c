/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe_print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/plural.h"
#include "io/facts.h"

/* A line of text that is built in pieces. */
struct line {
	size_t n;
	char text[1200];
};

static void say(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct line *line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	const int n = vsnprintf(line->text + line->n, sizeof line->text - line->n, format, arguments);
	va_end(arguments);
	if (n > 0)
		line->n = line->n + (size_t)n < sizeof line->text ? line->n + (size_t)n : sizeof line->text - 1;
}

/* The first additions of a step or a chain. */
static void say_parts(struct line *line, const struct level *level, const char *unit, bool many)
{
	const char *s = level->together > 1 || level->n > 1 ? "s" : "";

	if (level->together == 0) {
		say(line, "%s of %zu %s%s", many ? "chains" : "a chain", level->n, unit, s);
		if (level->period > 1) {
			say(line, ", in the order");
			for (size_t i = 0; i < 8 && i < level->n; i++)
				say(line, " %td", (ptrdiff_t)level->order[i % level->period] + (ptrdiff_t)(i / level->period) * level->distance);
			say(line, " ...");
		} else if (level->distance == 1 || level->distance == -1) {
			say(line, ", %s", level->distance > 0 ? "ascending" : "descending");
		} else {
			say(line, ", %td apart", level->distance);
		}
		return;
	}
	bool together = true;
	for (size_t i = 0; i < level->together; i++)
		together &= level->order[i] == i;
	say(line, "steps of %zu %ss", level->together, unit);
	for (size_t i = 0; !together && i < level->together && i < 8; i++)
		say(line, "%s%zu", i > 0 ? " " : " (", level->order[i]);
	say(line, "%s", together ? "" : level->together > 8 ? " ...)" : ")");
	if (level->n == 1)
		return;
	say(line, " and the sum so far, %zu of them", level->n);
	if (together && (level->distance == (ptrdiff_t)level->together || level->distance == -(ptrdiff_t)level->together))
		say(line, ", %s", level->distance > 0 ? "ascending" : "descending");
	else
		say(line, ", %td apart", level->distance);
}

/* The first additions first. */
static void say_levels(struct line *line, const struct level *levels, size_t n, size_t length)
{
	say_parts(line, &levels[n - 1], length > 1 ? "block" : "product", n > 1);
	for (size_t i = n - 1; i-- > 0;) {
		const struct level *level = &levels[i];

		if (level->sizes[0] != 0) {
			say(line, "; %zu of these, of", level->n);
			for (size_t k = 0; k < level->n; k++)
				say(line, "%s %zu", k > 0 ? "," : "", level->sizes[k] * length);
			say(line, " products");
		} else if (level->at_once) {
			say(line, "; %zu of these, %td apart, added at once", level->n, level->distance);
		} else if (level->n == 2) {
			say(line, "; pairs of these, %td", level->distance);
			for (; i > 0 && levels[i - 1].n == 2 && !levels[i - 1].at_once && levels[i - 1].sizes[0] == 0; i--)
				say(line, ", %td", levels[i - 1].distance);
			say(line, " apart");
		} else {
			say(line, "; %zu of these, %td apart, added one by one%s", level->n, level->distance < 0 ? -level->distance : level->distance,
			    level->distance < 0 ? " from the last on" : "");
			if (level->period > 1)
				say(line, ", in groups of %zu, the first of which go %zu %zu ...", level->period, level->order[0], level->order[1]);
		}
	}
}

static const char *const cuts[N_CUTS] = {
	[CUT_NEAREST] = "rounded to nearest even", [CUT_ZERO] = "cut toward zero", [CUT_DOWN] = "rounded down",
	[CUT_AWAY] = "rounded to nearest, ties away",
};

static const char *const measures[N_MEASURES] = {
	[MEASURE_OPERANDS] = "e_a + e_w", [MEASURE_PRODUCT] = "that of the product", [MEASURE_SCALES] = "that of the scales",
};

static const char *const insides[N_INSIDE] = {
	[INSIDE_TERMS] = "each product is a term", [INSIDE_ONE] = "the exact sum of its products is one term",
	[INSIDE_HALVES] = "the exact sum of each half's products is a term", [INSIDE_ROUNDED] = "the exact sum of its products, rounded, is one term",
	[INSIDE_CHAIN] = "its products are added one by one", [INSIDE_OWN_CHAIN] = "its products are a chain from zero, which is added",
	[INSIDE_TWOS] = "each 2 products are a sum, which is added", [INSIDE_FOURS] = "each 4 products are a sum, which is added",
	[INSIDE_EIGHTS] = "each 8 products are a sum, which is added", [INSIDE_SIXTEENS] = "each 16 products are a sum, which is added",
};

static void say_rule(struct line *line, const struct known *known, const struct rule *rule)
{
	if (!known->any) {
		say(line, "not determined");
		return;
	}
	if (rule->fraction == FRACTION_ALL) {
		say(line, "the exact sum is ");
	} else {
		say(line, "terms are aligned to the largest exponent");
		if (rule->measure != MEASURE_OPERANDS || !known->measure)
			say(line, " (%s)", known->measure ? measures[rule->measure] : "of operands or of the product: not determined");
		if (rule->lowest != LOWEST_NONE)
			say(line, ", at least 2^%d%s,", rule->lowest, known->lowest ? "" : " or so");
		say(line, " and %s at %d fraction bits%s; ", known->term ? cuts[rule->term] : "cut or rounded (not determined)", rule->fraction,
		    known->fraction ? "" : " or so");
		if (rule->apart)
			say(line, "their sum, at 32, and the sum so far, at 24, are rounded down and added, and that, at 31, rounded down; ");
		say(line, "the result is ");
	}
	say(line, "%s to %d bits%s", known->result ? cuts[rule->result] : "cut or rounded (not determined)", rule->bits,
	    known->bits ? "" : " or more");
}

static const char *const formats[N_ANSWERS] = {[ANSWERS_F32] = "f32", [ANSWERS_BF16] = "bf16", [ANSWERS_F16] = "f16"};

static const char *kept(enum answer answer)
{
	return answer == ANSWER_YES ? "kept" : answer == ANSWER_NO ? "flushed" : "not asked";
}

static void print_found(const struct found *f)
{
	const struct machine *m = &f->machine;
	const char *mark = found_equal(f) ? "" : " (not confirmed)";
	struct line line = {.n = 0};

	if (!f->has_order) {
		printf("- order: not determined\n");
		return;
	}
	if (f->n_levels > 0)
		say_levels(&line, f->levels, f->n_levels, f->length);
	else
		say(&line, "of no regular kind; --json has it");
	printf("- order (%zu products): %s\n", f->k, line.text);
	if (f->has_several) {
		line.n = 0;
		say_rule(&line, &f->several, &m->several);
		printf("- a step of several: %s%s\n", line.text, f->several.any ? mark : "");
	}
	if (f->has_pair) {
		line.n = 0;
		say_rule(&line, &f->pair, &m->pair);
		printf("- %s: %s%s\n", f->has_several ? "an addition of two" : "each addition", line.text, f->pair.any ? mark : "");
	}
	if (f->length > 1)
		printf("- in a block: %s%s\n", f->inside_known ? insides[m->inside] : "not determined", f->inside_known ? mark : "");
	if (f->products_seen == ANSWER_YES && f->n_leaves > 0)
		printf("- products: %s%s\n", f->n_rounded == f->n_leaves ? "rounded, then added" : f->n_rounded == 0 ? "not rounded" :
		       "fused with the addition, but the first of each sum", mark);
	printf("- subnormals: of A %s, of W %s, results %s%s\n", kept(f->operands_kept[0]), kept(f->operands_kept[1]), kept(f->results_kept),
	       m->sums_flushed != m->results_flushed ? ", sums of sums kept" : "");
	if (m->answers != ANSWERS_F32)
		printf("- answers: rounded to %s\n", formats[m->answers]);
	if (f->numbers == ANSWER_YES)
		printf("- codes of NaN and Inf: numbers\n");
	if (f->overflows != ANSWER_UNKNOWN)
		printf("- 2^128 - 2^128: %s\n", f->overflows == ANSWER_YES ? "NaN or Inf" : "0");
	printf("- so described: %zu of %zu dot products equal, and %zu of %zu with NaN or Inf%s\n", f->n_equal, f->n, f->n_special_equal,
	       f->n_special, found_equal(f) ? "" : ": it sums in another way");
}

static void print_names(const struct probed *p)
{
	if (p->n_names == 0)
		printf("- acc: none gives these answers (%zu dot products)\n\n", p->n);
	for (size_t i = 0; i < p->n_names; i++) {
		printf("%s%s", i == 0 ? "- acc: " : ", ", p->names[i].acc);
		if (p->names[i].pass != 0)
			printf(" with pass_k %u", p->names[i].pass);
	}
	if (p->n_names > 0 && p->answers != NULL)
		printf(", rounded to %s", p->answers);
	if (p->n_names > 0)
		printf(" (%zu of %zu dot products equal)\n\n", p->n, p->n);
}

static json_t *rule_facts(const struct known *k, const struct rule *r)
{
	static const char *const words[N_CUTS] = {[CUT_NEAREST] = "nearest", [CUT_ZERO] = "zero", [CUT_DOWN] = "down", [CUT_AWAY] = "nearest-away"};
	static const char *const exponents[N_MEASURES] = {
		[MEASURE_OPERANDS] = "operands", [MEASURE_PRODUCT] = "product", [MEASURE_SCALES] = "scales",
	};
	json_t *facts = json_object();

	if (!k->any)
		return facts;
	if (r->fraction != FRACTION_ALL) {
		facts = facts_set(facts, "fraction_bits", k->fraction ? json_integer(r->fraction) : json_null());
		facts = facts_set(facts, "terms", k->term ? json_string(words[r->term]) : json_null());
		facts = facts_set(facts, "exponent", k->measure ? json_string(exponents[r->measure]) : json_null());
		facts = facts_set(facts, "lowest_exponent", r->lowest != LOWEST_NONE && k->lowest ? json_integer(r->lowest) : json_null());
		facts = facts_set(facts, "sum_apart", json_boolean(r->apart));
	}
	facts = facts_set(facts, "result_bits", k->bits ? json_integer(r->bits) : json_null());
	return facts_set(facts, "result", k->result ? json_string(words[r->result]) : json_null());
}

/* A tree as nested arrays of the numbers of products. */
static json_t *tree_facts(const struct tree *tree, size_t node, size_t length)
{
	json_t *facts = json_array();

	if (tree_is_leaf(tree, node)) {
		json_decref(facts);
		return json_integer((json_int_t)(node * length));
	}
	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		facts = facts_append(facts, tree_facts(tree, child, length));
	return facts;
}

static json_t *level_facts(const struct level *level, size_t length)
{
	const size_t n = level->together > 0 ? level->together : level->period;
	json_t *order = json_array();

	for (size_t i = 0; i < n; i++)
		order = facts_append(order, json_integer((json_int_t)(level->order[i] * length)));
	json_t *sizes = level->sizes[0] != 0 ? json_array() : json_null();

	for (size_t i = 0; level->sizes[0] != 0 && i < level->n; i++)
		sizes = facts_append(sizes, json_integer((json_int_t)(level->sizes[i] * length)));
	return json_pack("{s:I, s:I, s:I, s:o, s:o}", "parts", (json_int_t)level->n, "distance", (json_int_t)level->distance * (json_int_t)length,
	                 "at_once", (json_int_t)(level->at_once ? level->n : level->together > 0 ? level->together : 1), "order", order, "sizes",
	                 sizes);
}

static json_t *kept_facts(enum answer answer)
{
	return answer == ANSWER_UNKNOWN ? json_null() : json_boolean(answer == ANSWER_YES);
}

static json_t *found_facts(const struct probed *p)
{
	const struct found *f = &p->found;
	json_t *facts = json_pack("{s:s, s:s, s:b, s:I}", "a", p->a, "w", p->w, "supported", (int)p->supported, "dot_products", (json_int_t)p->n);
	json_t *names = json_array(), *levels = json_array();

	for (size_t i = 0; i < p->n_names; i++)
		names = facts_append(names, json_pack("{s:s, s:I}", "acc", p->names[i].acc, "pass_k", (json_int_t)p->names[i].pass));
	facts = facts_set(facts, "names", names);
	for (size_t i = 0; i < f->n_levels; i++)
		levels = facts_append(levels, level_facts(&f->levels[i], f->length));
	facts = facts_set(facts, "order", f->n_levels > 0 ? json_incref(levels) : json_null());
	json_decref(levels);
	if (!f->has_order)
		return facts;
	if (f->n_levels == 0)
		facts = facts_set(facts, "tree", tree_facts(&f->machine.tree, f->machine.tree.root, f->length));
	if (f->has_several)
		facts = facts_set(facts, "step", rule_facts(&f->several, &f->machine.several));
	if (f->has_pair)
		facts = facts_set(facts, "addition", rule_facts(&f->pair, &f->machine.pair));
	if (f->length > 1)
		facts = facts_set(facts, "block", f->inside_known ? json_string(insides[f->machine.inside]) : json_null());
	facts = facts_set(facts, "nan_codes_are_numbers", kept_facts(f->numbers));
	facts = facts_set(facts, "answers", json_string(formats[f->machine.answers]));
	if (f->products_seen == ANSWER_YES && f->n_leaves > 0)
		facts = facts_set(facts, "rounded_products", json_integer((json_int_t)f->n_rounded));
	facts = facts_set(facts, "subnormals_kept", json_pack("{s:o, s:o, s:o, s:o}", "a", kept_facts(f->operands_kept[0]), "w",
	                                                      kept_facts(f->operands_kept[1]), "results", kept_facts(f->results_kept), "sums",
	                                                      f->results_kept == ANSWER_UNKNOWN ? json_null() :
	                                                      json_boolean(!f->machine.sums_flushed)));
	return facts_set(facts, "described", json_pack("{s:I, s:I, s:I, s:I, s:I}", "products", (json_int_t)f->k, "equal", (json_int_t)f->n_equal,
	                                               "of", (json_int_t)f->n, "special_equal", (json_int_t)f->n_special_equal, "special",
	                                               (json_int_t)f->n_special));
}

int probed_print(const struct probed *probed, size_t n, const char *name, const struct conform_options *options, struct error *error)
{
	size_t n_supported = 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < n; i++)
		n_supported += probed[i].supported;
	if (options->json) {
		json_t *pairs = json_array();

		for (size_t i = 0; i < n; i++)
			pairs = facts_append(pairs, found_facts(&probed[i]));
		code = facts_print(stdout, json_pack("{s:s, s:I, s:I, s:o}", "name", name, "seed", (json_int_t)options->seed, "products",
		                                     (json_int_t)options->products, "pairs", pairs), error);
	} else {
		printf("%s, seed %" PRIu64 ", %" PRIu64 " products\n\n", name, options->seed, options->products);
		for (size_t i = 0; i < n; i++)
			if (probed[i].supported) {
				printf("%s x %s\n", probed[i].a, probed[i].w);
				print_found(&probed[i].found);
				print_names(&probed[i]);
			}
	}
	if (code == EXIT_OK && n_supported == 0)
		return fail(error, EXIT_CHECK, "%s: nothing was probed: it answers dot with acc own for none of the %zu pairs of formats", name, n);
	return code;
}
