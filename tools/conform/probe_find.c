/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe_find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 6, N_BATTERY = 1200, CHUNK = 256 };

void found_free(struct found *found)
{
	tree_free(&found->machine.tree);
	free(found->machine.rounded);
	found->machine.rounded = NULL;
}

static bool is_known(const struct known *k)
{
	return k->any && k->fraction && k->term && k->measure && k->lowest && k->bits && k->result;
}

bool found_all(const struct found *found)
{
	return found_equal(found) && (!found->has_several || is_known(&found->several)) && (!found->has_pair || is_known(&found->pair)) &&
	       (found->length == 1 || found->inside_known);
}

bool found_equal(const struct found *found)
{
	return found->has_order && found->n_equal == found->n;
}

double found_score(const struct found *found)
{
	/* Of two that give all answers that of more products is better: it may have passes. */
	return found->n == 0 ? 0 : (double)found->n_equal / (double)found->n + 1e-7 * (double)found->k + (found_all(found) ? 1e-8 : 0);
}

/* The order. */

struct masks {
	struct asker *asker;
	int one, most;     /* exponents of 1 and of M */
	bool subnormals;
	bool one_by_one;   /* a single 1 at a time: their sum might reach what is kept of M */
};

/* Puts 1 at all leaves. */
static bool put_ones(const struct masks *m)
{
	bool made = true;

	item_clear(m->asker);
	for (size_t i = 0; i < m->asker->n_leaves; i++)
		made &= item_put(m->asker, i, 1, 1, m->one, m->subnormals);
	return made;
}

/* Adds what is asked of two leaves. */
static void add_masks(const struct masks *m, size_t pivot, size_t other)
{
	struct asker *asker = m->asker;

	if (!m->one_by_one) {
		/* All are ones already, but the pivot. */
		item_put(asker, other, -1, 1, m->most, m->subnormals);
		item_add(asker);
		item_put(asker, other, 1, 1, m->one, m->subnormals);
		return;
	}
	for (size_t i = 0; i < asker->n_leaves; i++) {
		if (i == pivot || i == other)
			continue;
		item_clear(asker);
		item_put(asker, pivot, 1, 1, m->most, m->subnormals);
		item_put(asker, other, -1, 1, m->most, m->subnormals);
		item_put(asker, i, 1, 1, m->one, m->subnormals);
		item_add(asker);
	}
}

static int ask_masks(void *context, size_t pivot, const size_t *others, size_t n, size_t *lost, struct error *error)
{
	struct masks *m = context;
	const size_t n_leaves = m->asker->n_leaves, each = m->one_by_one ? n_leaves - 2 : 1, most = m->one_by_one ? 16 : CHUNK;
	int code = EXIT_OK;

	for (size_t from = 0; from < n && code == EXIT_OK; from += most) {
		const size_t chunk = n - from < most ? n - from : most;
		float *answers;

		items_clear(m->asker);
		put_ones(m);
		item_put(m->asker, pivot, 1, 1, m->most, m->subnormals);
		for (size_t i = from; i < from + chunk; i++)
			add_masks(m, pivot, others[i]);
		code = asker_ask(m->asker, &answers, error);
		for (size_t i = 0; i < chunk && answers != NULL; i++) {
			double left = 0;

			for (size_t k = 0; k < each; k++)
				left += ldexp((double)answers[i * each + k], -m->one);
			/* 0 stands for an answer that is no count. */
			lost[from + i] = left >= 0 && left <= (double)n_leaves && left == floor(left) ? n_leaves - (size_t)left : 0;
		}
		free(answers);
	}
	return code;
}

/* Chooses 1 and M as far apart as the format allows: subnormals help, if the machine keeps them. */
static int choose_masks(struct masks *m, enum answers answers_, bool *works, struct error *error)
{
	/* Of f16 all counts are normal numbers. */
	const int least = answers_ == ANSWERS_F16 ? -14 : -50;

	*works = false;
	for (int subnormals = 1; subnormals >= 0 && !*works; subnormals--) {
		float *answers;

		m->subnormals = subnormals != 0;
		m->most = products_high(m->asker) < 50 ? products_high(m->asker) : 50;
		m->one = products_low(m->asker, m->subnormals) > least ? products_low(m->asker, m->subnormals) : least;
		items_clear(m->asker);
		if (!put_ones(m))
			continue;
		item_add(m->asker);
		int code = asker_ask(m->asker, &answers, error);
		if (code != EXIT_OK || answers == NULL)
			return code;
		*works = (double)answers[0] == ldexp((double)m->asker->n_leaves, m->one);
		free(answers);
	}
	return EXIT_OK;
}

/* One item's answer. */
static int ask_one(struct asker *asker, float *answer, struct error *error)
{
	float *answers;

	items_clear(asker);
	item_add(asker);
	int code = asker_ask(asker, &answers, error);
	*answer = answers != NULL ? answers[0] : NAN;
	free(answers);
	return code;
}

/* Whether answers are rounded to bf16 or f16. */
static int find_answers(struct found *found, struct asker *asker, struct error *error)
{
	float sum = NAN, small = NAN;
	int code = EXIT_OK;

	for (int bits = 9; bits <= 12 && code == EXIT_OK; bits += 3) {
		item_clear(asker);
		if (!item_put(asker, 0, 1, 1, 0, false) || !item_put(asker, 1, 1, 1, -bits, false))
			return EXIT_OK;
		code = ask_one(asker, &sum, error);
		if (bits == 9 && sum == 1)
			found->machine.answers = ANSWERS_BF16;
	}
	item_clear(asker);
	if (code == EXIT_OK && found->machine.answers == ANSWERS_F32 && sum == 1 && item_put(asker, 0, 1, 1, -28, false)) {
		code = ask_one(asker, &small, error);
		found->machine.answers = small == 0 ? ANSWERS_F16 : ANSWERS_F32;
	}
	asker->top = found->machine.answers == ANSWERS_F16 ? 10 : asker->top;
	return code;
}

static int find_order(struct found *found, struct asker *asker, bool one_by_one, struct error *error)
{
	struct masks m = {.asker = asker, .one_by_one = one_by_one};
	bool works;
	int code = choose_masks(&m, found->machine.answers, &works, error);

	if (code != EXIT_OK || !works || asker->child->unsupported)
		return code;
	code = tree_make(&found->machine.tree, asker->n_leaves, asker->items.random, ask_masks, &m, error);
	found->has_order = code == EXIT_OK && found->machine.tree.consistent && !asker->child->unsupported;
	if (!found->has_order)
		return code;
	found->n_levels = tree_levels(&found->machine.tree, found->levels);
	found->machine.rounded = calloc(asker->n_leaves, sizeof(bool));
	return found->machine.rounded != NULL ? EXIT_OK : fail_memory(error);
}

/* The steps. */

/* Leaves that are next to each other in a node of several children: of a sum before, and of the node. */
static size_t several_slots(const struct tree *tree, size_t slots[SLOTS_MAX + 1])
{
	size_t best = TREE_NONE, n = 0;

	for (size_t node = tree->n_leaves; node < tree->n_nodes; node++) {
		bool has_sum = false;

		if (tree->nodes[node].leaves == 0 || !tree->nodes[node].several || (node != tree->root && tree->nodes[node].parent == TREE_NONE))
			continue;
		for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
			has_sum |= !tree_is_leaf(tree, child);
		/* The last: its result is seen as it is. */
		if (best == TREE_NONE || (has_sum && tree->nodes[node].leaves > tree->nodes[best].leaves))
			best = node;
	}
	if (best == TREE_NONE)
		return 0;
	for (size_t child = tree->nodes[best].first; child != TREE_NONE && n < SLOTS_MAX; child = tree->nodes[child].next) {
		slots[n++] = tree->nodes[child].low;
		/* Two of a sum before: its result is then seen with all its bits. */
		if (!tree_is_leaf(tree, child))
			slots[n++] = tree->nodes[tree->nodes[tree->nodes[child].first].next].low;
	}
	return n < SLOTS_MAX ? n : SLOTS_MAX;
}

/* Leaves of pairs that follow each other. */
static size_t pair_slots(const struct tree *tree, size_t *slots)
{
	size_t n = 0;

	for (size_t leaf = 0; leaf < tree->n_leaves && n < 3; leaf++) {
		n = 0;
		slots[n++] = leaf;
		for (size_t node = leaf, parent; (parent = tree->nodes[node].parent) != TREE_NONE && n < SLOTS_MAX; node = parent) {
			const size_t first = tree->nodes[parent].first;

			if (!tree->nodes[parent].several)
				slots[n++] = tree->nodes[first == node ? tree->nodes[first].next : first].low;
		}
	}
	return n >= 2 ? n : 0;
}

/* Leaves that meet in steps of several, or in pairs. */
static size_t step_slots(const struct found *found, bool several, size_t slots[SLOTS_MAX + 1])
{
	return several ? several_slots(&found->machine.tree, slots) : pair_slots(&found->machine.tree, slots);
}

/* The leaf that is lowest beside a leaf in its node. */
static size_t beside(const struct tree *tree, size_t leaf)
{
	const size_t first = tree->nodes[tree->nodes[leaf].parent].first;

	return tree->nodes[first == leaf ? tree->nodes[first].next : first].low;
}

/* Of two leaves that are added to each other the lower or the higher may be a sum by itself first. */
static void choose_first(struct found *found, int choice)
{
	const struct tree *tree = &found->machine.tree;

	for (size_t leaf = 0; leaf < tree->n_leaves; leaf++) {
		const size_t other = beside(tree, leaf), parent = tree->nodes[leaf].parent;

		found->machine.rounded[leaf] = !tree->nodes[parent].several && tree->nodes[other].parent == parent &&
		                               (choice == 1 ? leaf < other : choice == 2 && leaf > other);
	}
}

/* A significand from 1 to below 2 that the side's elements have. */
static double random_significand(struct asker *asker, int side)
{
	const unsigned bits = asker->side[side].element->kind == MXFP_KIND_FIXED ? 2 : asker->side[side].element->significand_bits;
	const uint64_t word = items_random(&asker->items);
	const uint64_t steps = (word >> 8) & ((UINT64_C(1) << bits) - 1);

	return word % 4 == 0 ? 1 + ldexp((double)steps, -(int)bits) : word % 4 == 1 ? 1.5 : 1;
}

/* A few products that tell ways to cut and round apart: the largest cancel, or fall away, or add up beyond their exponent. */
static bool put_battery(struct asker *asker, const size_t *slots, size_t n_slots)
{
	/* The largest of a block format have no choice of scale. */
	const int most = products_high(asker) - (asker->vary && asker->length > 1 ? 2 * (int)(items_random(&asker->items) % 4) : 0);
	const int high = most < asker->top ? most : asker->top, low = products_low(asker, false);
	const int span = high - low < 48 ? high - low : 48, kind = (int)(items_random(&asker->items) % 6);
	const size_t turn = items_random(&asker->items) % n_slots;
	/* 1.5 * 1.5 has an exponent more than its operands. */
	const bool carries = kind < 2 && turn % 2 == 0;
	const double m = kind >= 3 ? 1 : carries ? 1.5 : random_significand(asker, 0), mw = kind >= 3 ? 1 : carries ? 1.5 : random_significand(asker, 1);
	bool made = true;

	if (kind == 4) {
		/* What is left of one between two that cancel: 2^-t of them, or half as much more. */
		const uint64_t word = items_random(&asker->items);
		const int t = 8 + (int)(word % 24) < span ? 8 + (int)(word % 24) : span - 1;
		const size_t at = n_slots > 2 ? turn % (n_slots - 2) : 0;

		item_clear(asker);
		return n_slots > 2 && item_put(asker, slots[at], 1, 1, high - 1, false) && item_put(asker, slots[at + 2], -1, 1, high - 1, false) &&
		       item_put(asker, slots[at + 1], (word & 256 ? 1 : -1) * (word & 512 ? 1 : 1.5), 1, high - 1 - t, false);
	}
	if (kind == 5) {
		/* All add up to more bits than are kept, and the last of these is odd. */
		const uint64_t word = items_random(&asker->items);
		const int t = 8 + (int)(word % 24) < span ? 8 + (int)(word % 24) : span - 1;
		const double sign = word & 256 ? 1 : -1;

		item_clear(asker);
		for (size_t i = 1; i < n_slots; i++)
			made &= item_put(asker, slots[(i + turn) % n_slots], sign, 1, high - 1, false);
		return made && item_put(asker, slots[turn], (word & 512 ? sign : -sign) * (word & 1024 ? 1 : 1.5), 1, high - 1 - t, false);
	}
	item_clear(asker);
	for (size_t i = 0; i < n_slots; i++) {
		const size_t slot = slots[(i + turn) % n_slots];
		const uint64_t word = items_random(&asker->items);
		const bool large = kind == 0 ? i < 2 : kind == 1 ? i == 0 : kind == 2 ? false : i + 1 < n_slots;
		const double sign = kind == 0 && large ? (i == 0 ? 1 : -1) : word & 1 ? 1 : -1;
		/* Often near the least that there is. */
		const int below = (int)((word >> 8) % (uint64_t)span), small = (word & 12) == 0 ? high - span + below % 3 : high - 1 - below;

		if (!large && i > 1 && (word & 2) != 0)
			continue;
		made &= large ? item_put(asker, slot, sign * m, mw, high - 1, false) :
		        item_put(asker, slot, sign * random_significand(asker, 0), random_significand(asker, 1), small, false) ||
		        item_put(asker, slot, sign, 1, small, false);
	}
	return made;
}

/* A battery of items on a few leaves, with its answers. */
struct battery {
	struct asker *asker;
	struct plan *plan;
	size_t slots[SLOTS_MAX + 1], n_slots, n;
	struct factor *a, *w;  /* of the slots of all items, where plans look for them */
	float *answers;
	size_t *order;         /* of items: what told rules apart is asked first */
};

static bool answer_is(float x, float y)
{
	return x == y || (isnan(x) && isnan(y));
}

/* The items' factors are those of whole rows; of these only slots are not zero. */
static bool battery_holds(const struct battery *b, const struct machine *machine)
{
	const size_t length = b->asker->length;
	struct factor *a = b->asker->a, *w = b->asker->w;

	for (size_t at = 0; at < b->n; at++) {
		const size_t i = b->order[at];

		for (size_t s = 0; s < b->n_slots; s++) {
			a[b->slots[s] * length] = b->a[i * b->n_slots + s];
			w[b->slots[s] * length] = b->w[i * b->n_slots + s];
		}
		if (!answer_is(plan_run(b->plan, machine, &(struct products){a, w, length}), b->answers[i])) {
			b->order[at] = b->order[at / 2];
			b->order[at / 2] = i;
			return false;
		}
	}
	return true;
}

static void battery_free(struct battery *b)
{
	plan_free(b->plan);
	free(b->a);
	free(b->w);
	free(b->answers);
	free(b->order);
}

/* Asks for the items that were added, and prepares to compare with them. */
static int battery_begin(struct battery *b, const struct machine *machine, struct error *error)
{
	const size_t length = b->asker->length;

	b->n = b->asker->items.n;
	b->plan = plan_make(machine, b->slots, b->n_slots);
	b->a = malloc((b->n * b->n_slots + 1) * sizeof *b->a);
	b->w = malloc((b->n * b->n_slots + 1) * sizeof *b->w);
	b->order = malloc((b->n + 1) * sizeof *b->order);
	if (b->plan == NULL || b->a == NULL || b->w == NULL || b->order == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < b->n; i++)
		b->order[i] = i;
	int code = asker_ask(b->asker, &b->answers, error);
	for (size_t i = 0; i < b->n && b->answers != NULL; i++) {
		const struct products p = item_products(b->asker, i);

		for (size_t s = 0; s < b->n_slots; s++) {
			b->a[i * b->n_slots + s] = p.a[b->slots[s] * length];
			b->w[i * b->n_slots + s] = p.w[b->slots[s] * length];
		}
	}
	/* All others are zeros of the least scale. */
	item_clear(b->asker);
	items_clear(b->asker);
	item_add(b->asker);
	item_products(b->asker, 0);
	items_clear(b->asker);
	return code;
}

/* What all rules that hold have in common. */
static void keep_rule(struct known *known, struct rule *rule, const struct rule *held)
{
	if (!known->any) {
		*rule = *held;
		*known = (struct known){true, true, true, true, true, true, true};
	}
	known->fraction &= held->fraction == rule->fraction;
	known->term &= held->term == rule->term;
	known->measure &= held->measure == rule->measure;
	known->bits &= held->bits == rule->bits;
	known->result &= held->result == rule->result;
}

/* Tries all ways to align so many bits, all with the same result. */
static void try_terms(struct known *known, struct rule *rule, struct rule *now, struct rule tried, const struct battery *b,
                      const struct machine *machine)
{
	static const enum cut terms[] = {CUT_ZERO, CUT_DOWN, CUT_NEAREST};
	const int n_measures = b->asker->length > 1 ? N_MEASURES : MEASURE_SCALES;

	/* An exact sum has one way. */
	for (int choice = 0; choice < (tried.fraction == FRACTION_ALL ? 1 : 3 * n_measures * 2); choice++) {
		tried.term = terms[choice % 3];
		tried.measure = (enum measure)(choice / 3 % n_measures);
		tried.apart = choice >= 3 * n_measures;
		*now = tried;
		if ((!tried.apart || tried.fraction <= 31) && battery_holds(b, machine))
			keep_rule(known, rule, &tried);
	}
}

enum { FRACTION_LEAST = 4, FRACTION_MOST = 44, BITS_LEAST = 4, BITS_MOST = 29, BITS_BINARY64 = 53 };

/* The likeliest come first: one of several that hold is shown. */
static void try_results(struct known *known, struct rule *rule, struct rule *now, int fraction, const struct battery *b,
                        const struct machine *machine)
{
	static const int likely[] = {24, 14, BITS_BINARY64};

	for (int i = 0; i < 3 + BITS_MOST - BITS_LEAST + 1; i++) {
		const int bits = i < 3 ? likely[i] : BITS_LEAST + i - 3;

		for (int cut = 0; cut < (bits == BITS_BINARY64 ? 1 : N_CUTS) && (i < 3 || (bits != 24 && bits != 14)); cut++)
			try_terms(known, rule, now, (struct rule){.fraction = fraction, .lowest = LOWEST_NONE, .bits = bits, .result = (enum cut)cut}, b,
			          machine);
	}
}

/* Tries all rules. If an exact sum holds, so do those that keep more bits than can be seen. */
static void find_rule(struct known *known, struct rule *rule, const struct battery *b, struct machine *machine, bool several)
{
	struct rule *now = several ? &machine->several : &machine->pair;

	*known = (struct known){.any = false};
	try_results(known, rule, now, FRACTION_ALL, b, machine);
	for (int fraction = FRACTION_MOST; fraction >= FRACTION_LEAST && rule->fraction != FRACTION_ALL; fraction--)
		try_results(known, rule, now, fraction, b, machine);
	if (known->any)
		*now = *rule;
}

static int find_steps(struct found *found, struct asker *asker, bool several, struct error *error)
{
	struct battery b = {.asker = asker};
	struct rule rule = {.fraction = 0};

	b.n_slots = step_slots(found, several, b.slots);
	if (b.n_slots < 2)
		return EXIT_OK;
	*(several ? &found->has_several : &found->has_pair) = true;
	items_clear(asker);
	asker->vary = true;
	for (int i = 0; i < N_BATTERY; i++)
		if (put_battery(asker, b.slots, b.n_slots))
			item_add(asker);
	asker->vary = false;
	int code = battery_begin(&b, &found->machine, error);
	if (code == EXIT_OK && b.answers != NULL)
		find_rule(several ? &found->several : &found->pair, &rule, &b, &found->machine, several);
	for (int choice = 1; choice <= 2 && b.answers != NULL && !several && !found->pair.any && found->n_rounded == 0; choice++) {
		choose_first(found, choice);
		find_rule(&found->pair, &rule, &b, &found->machine, false);
	}
	battery_free(&b);
	return code;
}

/* Whether the product of each leaf is rounded before it is added to what is beside it. (1 + u)^2 - (1 + 2u) is then 0, where it has
   more bits than a sum keeps (exponent 0); or half of the least number that is kept, 2^(exponent - 1), is lost beside it. */
static int find_rounded(struct found *found, struct asker *asker, int exponent, struct error *error)
{
	const struct tree *tree = &found->machine.tree;
	const unsigned bits = asker->side[0].element->significand_bits < 12 ? asker->side[0].element->significand_bits : 12;
	const double u = ldexp(1, -(int)bits);
	const int high = products_high(asker) < asker->top ? products_high(asker) : asker->top;
	size_t n = 0;
	float *answers;

	/* bf16 has no 2^-149. */
	if (asker->length > 1 || asker->side[0].element != asker->side[1].element || (exponent == -149 && found->machine.answers != ANSWERS_F32))
		return EXIT_OK;
	items_clear(asker);
	for (size_t leaf = 0; leaf < tree->n_leaves; leaf++) {
		item_clear(asker);
		if (!(exponent < 0 ? item_put(asker, leaf, 1, 1, exponent - 1, false) && item_put(asker, beside(tree, leaf), 1, 1, exponent, false) :
		              item_put(asker, leaf, 1 + u, 1 + u, high - 2, false) && item_put(asker, beside(tree, leaf), -(1 + 2 * u), 1, high - 2, false)))
			return EXIT_OK;
		item_add(asker);
	}
	int code = asker_ask(asker, &answers, error);
	for (size_t leaf = 0; leaf < tree->n_leaves && answers != NULL; leaf++)
		if (!tree->nodes[tree->nodes[leaf].parent].several) {
			found->machine.rounded[leaf] |= (double)answers[leaf] == (exponent < 0 ? ldexp(1, exponent) : 0);
			found->n_rounded += found->machine.rounded[leaf];
			n++;
		}
	free(answers);
	if (exponent < 0 || found->n_rounded > 0 || 2 * bits + 1 > 24)
		found->products_seen = ANSWER_YES;
	found->n_leaves = n;
	return code;
}

/* Whether codes of NaN and Inf are taken for numbers. */
static int find_numbers(struct found *found, struct asker *asker, struct error *error)
{
	int code = EXIT_OK;
	float answer;

	for (int s = 0; s < 2 && code == EXIT_OK; s++) {
		item_clear(asker);
		if (!item_special(asker, s))
			continue;
		code = ask_one(asker, &answer, error);
		if (isfinite(answer) && found->numbers != ANSWER_NO)
			found->numbers = ANSWER_YES;
		else
			found->numbers = ANSWER_NO;
	}
	for (int s = 0; s < 2 && found->numbers == ANSWER_YES; s++)
		side_take_numbers(&asker->side[s]);
	return code;
}

static int find_subnormals(struct found *found, struct asker *asker, struct error *error)
{
	int code = EXIT_OK;
	float answer;

	for (int s = 0; s < 2 && code == EXIT_OK; s++) {
		const struct side *side = &asker->side[s], *other = &asker->side[1 - s];

		if (side->scale != NULL || side->element->kind != MXFP_KIND_FLOAT)
			continue;
		item_clear(asker);
		if (!item_factor(asker, s, 0, 1, side->low - 1, true) || !item_factor(asker, 1 - s, 0, 1, other->high < 60 ? other->high : 60, false))
			continue;
		code = ask_one(asker, &answer, error);
		found->operands_kept[s] = answer != 0 ? ANSWER_YES : ANSWER_NO;
		found->machine.operands_flushed[s] = answer == 0;
	}
	item_clear(asker);
	if (code == EXIT_OK && item_put(asker, 0, 1, 1, -130, false)) {
		code = ask_one(asker, &answer, error);
		found->results_kept = answer != 0 ? ANSWER_YES : ANSWER_NO;
		found->machine.results_flushed = answer == 0;
	}
	const struct tree *tree = &found->machine.tree;
	size_t leaf = 0;
	/* The same of an addition of two sums, if there is one. */
	found->machine.sums_flushed = found->machine.results_flushed;
	for (size_t node = tree->root; node != TREE_NONE && found->machine.results_flushed;) {
		const size_t one = tree->nodes[node].first, two = tree->nodes[one].next;

		item_clear(asker);
		if (!tree->nodes[node].several && !tree_is_leaf(tree, one) && !tree_is_leaf(tree, two) &&
		    item_put(asker, tree->nodes[one].low, 1.5, 1, -126, false) && item_put(asker, tree->nodes[two].low, -1, 1, -126, false)) {
			code = ask_one(asker, &answer, error);
			found->machine.sums_flushed = answer == 0;
			break;
		}
		node = tree_is_leaf(tree, one) ? TREE_NONE : one;
	}
	/* A product of 2^128, and its negative in the same step, if there is one. */
	for (size_t i = tree->n_leaves; i-- > 0;)
		leaf = tree->nodes[tree->nodes[i].parent].several && tree->nodes[beside(tree, i)].parent == tree->nodes[i].parent ? i : leaf;
	item_clear(asker);
	if (code == EXIT_OK && item_put(asker, leaf, 1, 1, 128, false) && item_put(asker, beside(tree, leaf), -1, 1, 128, false)) {
		code = ask_one(asker, &answer, error);
		found->overflows = answer == 0 ? ANSWER_NO : ANSWER_YES;
		found->machine.products_overflow = answer != 0 && tree->nodes[tree->nodes[leaf].parent].several;
	}
	return code;
}

/* How results are rounded, where terms are cut to fewer bits than results have: by sums below 2^-149. */
static int find_result(struct found *found, struct asker *asker, bool several, struct error *error)
{
	static const double sums[] = {1, 1.5, -1, -1.5};
	struct battery b = {.asker = asker};
	struct known *known = several ? &found->several : &found->pair;
	struct rule *rule = several ? &found->machine.several : &found->machine.pair;

	if (!known->any || known->result || rule->bits > 24 || found->machine.results_flushed)
		return EXIT_OK;
	b.n_slots = step_slots(found, several, b.slots);
	items_clear(asker);
	for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
		item_clear(asker);
		if (item_put(asker, b.slots[b.n_slots - 1], sums[i], 1, -150, false))
			item_add(asker);
	}
	if (asker->items.n == 0)
		return EXIT_OK;
	int code = battery_begin(&b, &found->machine, error);
	const enum cut before = rule->result;
	size_t n_held = 0;
	enum cut held = before;
	for (int cut = 0; cut < N_CUTS && b.answers != NULL; cut++) {
		rule->result = (enum cut)cut;
		if (battery_holds(&b, &found->machine)) {
			n_held++;
			held = rule->result;
		}
	}
	rule->result = held;
	known->result = n_held == 1;
	battery_free(&b);
	return code;
}

/* The least exponent that the largest one counts as: 2^-149 less a product that is cut, or not. */
static int find_lowest(struct found *found, struct asker *asker, bool several, struct error *error)
{
	struct battery b = {.asker = asker};
	struct known *known = several ? &found->several : &found->pair;
	struct rule *rule = several ? &found->machine.several : &found->machine.pair;

	if (!known->any || rule->fraction == FRACTION_ALL || rule->result == CUT_NEAREST || found->machine.results_flushed)
		return EXIT_OK;
	known->lowest = false;
	b.n_slots = step_slots(found, several, b.slots);
	items_clear(asker);
	for (int exponent = -150; exponent > -149 - 2 * rule->fraction; exponent--) {
		item_clear(asker);
		if (item_put(asker, b.slots[b.n_slots - 1], 1, 1, -149, false) && item_put(asker, b.slots[b.n_slots - 2], -1, 1, exponent, false))
			item_add(asker);
	}
	if (asker->items.n < 2)
		return EXIT_OK;
	int code = battery_begin(&b, &found->machine, error);
	size_t n_held = 0;
	int held = LOWEST_NONE;
	if (code == EXIT_OK && b.answers != NULL) {
		rule->lowest = LOWEST_NONE;
		if (battery_holds(&b, &found->machine)) {
			known->lowest = true;
		} else {
			for (rule->lowest = -90; rule->lowest > -200; rule->lowest--)
				if (battery_holds(&b, &found->machine)) {
					n_held++;
					held = rule->lowest;
				}
			rule->lowest = held;
			known->lowest = n_held == 1;
		}
	}
	battery_free(&b);
	return code;
}

/* How products of a block are summed: the way that gives the answers to random rows. */
static int find_inside(struct found *found, struct asker *asker, struct error *error)
{
	struct plan *plan;
	float *answers;

	if (asker->length == 1)
		return EXIT_OK;
	items_clear(asker);
	for (int i = 0; i < 200; i++) {
		item_random(asker, i % STYLE_SPECIAL);
		item_add(asker);
	}
	/* Blocks whose products lie where they are cut, beside two that cancel. */
	size_t slots[SLOTS_MAX + 1];
	const size_t n_slots = step_slots(found, found->has_several, slots);
	for (int i = 0; i < 400 && n_slots > 2; i++) {
		const int high = products_high(asker) < asker->top ? products_high(asker) - 4 : asker->top;
		const size_t turn = items_random(&asker->items) % n_slots;

		item_clear(asker);
		for (size_t k = 0; k < n_slots; k++) {
			const size_t slot = slots[(k + turn) % n_slots];

			if (k < 2)
				item_put(asker, slot, k == 0 ? 1 : -1, 1, high, false);
			else
				item_block(asker, slot, high - 20 - (int)(items_random(&asker->items) % 24));
		}
		item_add(asker);
	}
	int code = asker_ask(asker, &answers, error);
	if (answers == NULL)
		return code;
	plan = plan_make(&found->machine, NULL, 0);
	if (plan == NULL) {
		free(answers);
		return fail_memory(error);
	}
	/* One that holds first is shown; if it is exact, others that do are the same. */
	const struct rule *rule = found->has_several ? &found->machine.several : &found->machine.pair;
	int n_held = 0, first = 0;
	for (int choice = 0; choice < 3 * N_INSIDE && (n_held == 0 || rule->fraction != FRACTION_ALL); choice++) {
		bool holds = true;

		/* A sum of few bits is the same when it is rounded. */
		if (n_held > 0 && first / 3 == INSIDE_ONE && choice / 3 == INSIDE_ROUNDED)
			continue;
		found->machine.inside = (enum inside)(choice / 3);
		choose_first(found, (choice + 1) % 3);
		for (size_t i = 0; i < asker->items.n && holds; i++) {
			const struct products p = item_products(asker, i);

			holds = answer_is(plan_run(plan, &found->machine, &p), answers[i]);
		}
		if (holds && n_held++ == 0)
			first = choice;
		/* Which of two comes first may be of no effect. */
		if (holds)
			choice += 2 - choice % 3;
	}
	found->machine.inside = (enum inside)(first / 3);
	choose_first(found, (first + 1) % 3);
	found->inside_known = n_held == 1;
	plan_free(plan);
	free(answers);
	return code;
}

int find_machine(struct found *found, struct asker *asker, bool one_by_one, struct error *error)
{
	*found = (struct found){.k = asker->k, .length = asker->length};
	found->machine.several = found->machine.pair = (struct rule){FRACTION_ALL, CUT_ZERO, MEASURE_OPERANDS, LOWEST_NONE, false, 24, CUT_NEAREST};
	int code = find_answers(found, asker, error);
	if (code == EXIT_OK && !asker->child->unsupported)
		code = find_order(found, asker, one_by_one, error);
	if (code != EXIT_OK || !found->has_order)
		return code;
	code = find_numbers(found, asker, error);
	if (code == EXIT_OK)
		code = find_rounded(found, asker, 0, error);
	if (code == EXIT_OK)
		code = find_steps(found, asker, true, error);
	if (code == EXIT_OK)
		code = find_steps(found, asker, false, error);
	if (code == EXIT_OK)
		code = find_subnormals(found, asker, error);
	if (code == EXIT_OK && found->pair.any && found->n_rounded == 0 && found->machine.pair.result == CUT_NEAREST)
		code = find_rounded(found, asker, found->machine.results_flushed ? -126 : -149, error);
	for (int several = 0; several < 2 && code == EXIT_OK; several++)
		code = find_result(found, asker, several != 0, error);
	if (code == EXIT_OK)
		code = find_lowest(found, asker, true, error);
	if (code == EXIT_OK)
		code = find_lowest(found, asker, false, error);
	if (code == EXIT_OK)
		code = find_inside(found, asker, error);
	return code;
}

int find_equal(struct found *found, struct asker *asker, const float *answers, size_t n_special, struct error *error)
{
	struct plan *plan = plan_make(&found->machine, NULL, 0);

	if (plan == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < asker->items.n; i++) {
		const struct products p = item_products(asker, i);
		const bool equal = answer_is(plan_run(plan, &found->machine, &p), answers[i]), special = i + n_special >= asker->items.n;

		*(special ? &found->n_special : &found->n) += 1;
		*(special ? &found->n_special_equal : &found->n_equal) += equal;
	}
	plan_free(plan);
	return EXIT_OK;
}
