/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe_tree.h"

#include <stdlib.h>
#include <string.h>

struct maker {
	struct tree *tree;
	size_t *set, *lost, *spare; /* leaves that are still to be placed, with their numbers of the pivot */
	uint64_t random;
	size_t n_asked, most; /* pairs of leaves, and how many a tree may take */
	tree_asker *ask;
	void *context;
};

bool tree_is_leaf(const struct tree *tree, size_t node)
{
	return node < tree->n_leaves;
}

static size_t count_children(const struct tree *tree, size_t node)
{
	size_t n = 0;

	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		n++;
	return n;
}

static size_t new_node(struct tree *tree)
{
	tree->nodes[tree->n_nodes] = (struct node){TREE_NONE, TREE_NONE, TREE_NONE, 0, TREE_NONE, false, false};
	return tree->n_nodes++;
}

static void adopt(struct tree *tree, size_t parent, size_t child)
{
	struct node *p = &tree->nodes[parent], *c = &tree->nodes[child];
	size_t *link = &p->first;

	while (*link != TREE_NONE && tree->nodes[*link].low < c->low)
		link = &tree->nodes[*link].next;
	c->next = *link;
	*link = child;
	c->parent = parent;
	p->leaves += c->leaves;
	p->low = c->low < p->low ? c->low : p->low;
}

/* Sorts the leaves [from, to) by what was lost, stably. */
static void sort_set(struct maker *m, size_t from, size_t to)
{
	size_t *counts = m->spare, n = m->tree->n_leaves;
	size_t *set = counts + n + 2, *lost = set + n;

	memset(counts, 0, (n + 2) * sizeof *counts);
	for (size_t i = from; i < to; i++)
		counts[m->lost[i] + 1]++;
	for (size_t i = 0; i < n; i++)
		counts[i + 1] += counts[i];
	for (size_t i = from; i < to; i++) {
		const size_t at = counts[m->lost[i]]++;

		set[at] = m->set[i];
		lost[at] = m->lost[i];
	}
	memcpy(m->set + from, set, (to - from) * sizeof *set);
	memcpy(m->lost + from, lost, (to - from) * sizeof *lost);
}

static void swap_leaves(struct maker *m, size_t i, size_t k)
{
	const size_t leaf = m->set[i], lost = m->lost[i];

	m->set[i] = m->set[k];
	m->lost[i] = m->lost[k];
	m->set[k] = leaf;
	m->lost[k] = lost;
}

/* Puts a random leaf of [from, to) first, and asks for the others with it. */
static int ask_pivot(struct maker *m, size_t from, size_t to, struct error *error)
{
	m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	swap_leaves(m, from, from + (size_t)(m->random >> 33) % (to - from));
	m->n_asked += to - from - 1;
	if (m->n_asked > m->most) {
		m->tree->consistent = false;
		return EXIT_OK;
	}
	int code = to - from > 1 ? m->ask(m->context, m->set[from], m->set + from + 1, to - from - 1, m->lost + from + 1, error) : EXIT_OK;
	for (size_t i = from + 1; i < to && code == EXIT_OK; i++)
		m->tree->consistent &= m->lost[i] >= 2 && m->lost[i] <= m->tree->n_leaves;
	return code;
}

static int grow(struct maker *m, size_t from, size_t to, size_t *node, struct error *error);

/* Makes [from, to) children of a node of `size` leaves: those that meet below it are of one child. */
static int split(struct maker *m, size_t parent, size_t size, size_t from, size_t to, struct error *error)
{
	int code = EXIT_OK, n_single = 0;

	while (from < to && code == EXIT_OK && m->tree->consistent) {
		size_t child, end = from + 1;

		/* Eight of many that meet no other below it: then none does, which random products will confirm. */
		if (n_single < 8 || to - from <= 64) {
			code = ask_pivot(m, from, to, error);
			for (size_t i = from + 1; i < to && code == EXIT_OK && m->tree->consistent; i++)
				if (m->lost[i] < size)
					swap_leaves(m, i, end++);
		}
		n_single += end == from + 1;
		if (code == EXIT_OK && m->tree->consistent)
			code = grow(m, from, end, &child, error);
		if (code == EXIT_OK && m->tree->consistent)
			adopt(m->tree, parent, child);
		from = end;
	}
	return code;
}

static bool has_leaves_alone(const struct tree *tree, size_t node)
{
	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		if (!tree_is_leaf(tree, child))
			return false;
	return true;
}

/* An exact sum of which the sum before it is a term: that loses all its leaves but itself, and the others none. */
static void splice_exact(struct tree *tree, size_t node, size_t size)
{
	struct node *n = &tree->nodes[node];
	size_t before = n->first, sum = TREE_NONE;

	if (count_children(tree, node) != 2)
		return;
	sum = tree->nodes[before].next;
	if (tree->nodes[before].leaves + 1 != size || !tree->nodes[sum].exact || !has_leaves_alone(tree, sum)) {
		const size_t other = before;

		before = sum;
		sum = other;
	}
	/* Two products are no pair if their sum takes in what was before. */
	if (tree->nodes[before].leaves + 1 != size || tree_is_leaf(tree, sum) || !has_leaves_alone(tree, sum))
		return;
	size_t child = tree->nodes[sum].first;
	n->first = n->low = TREE_NONE;
	n->leaves = 0;
	n->exact = true;
	adopt(tree, node, before);
	while (child != TREE_NONE) {
		const size_t next = tree->nodes[child].next;

		adopt(tree, node, child);
		child = next;
	}
}

/* Makes the tree of the leaves [from, to), of which the first is the pivot that the others were asked with. */
static int grow(struct maker *m, size_t from, size_t to, size_t *node, struct error *error)
{
	struct tree *tree = m->tree;
	int code = EXIT_OK;
	size_t now = m->set[from];

	sort_set(m, from + 1, to);
	for (size_t at = from + 1; at < to && code == EXIT_OK && tree->consistent;) {
		const size_t size = m->lost[at], parent = new_node(tree);
		size_t end = at;

		while (end < to && m->lost[end] == size)
			end++;
		adopt(tree, parent, now);
		code = split(m, parent, size, at, end, error);
		if (code != EXIT_OK || !tree->consistent)
			break;
		if (tree->nodes[parent].leaves != size && size == 2)
			tree->nodes[parent].exact = true;
		else if (tree->nodes[parent].leaves != size)
			splice_exact(tree, parent, size);
		tree->consistent &= tree->nodes[parent].leaves == size || tree->nodes[parent].exact;
		now = parent;
		at = end;
	}
	*node = now;
	return code;
}

/* The first step of two leaves has no sum before it: it is one of several if the next step is. */
static void mark_several(struct tree *tree)
{
	for (size_t node = tree->n_leaves; node < tree->n_nodes; node++)
		tree->nodes[node].several = count_children(tree, node) > 2 || tree->nodes[node].exact;
	for (size_t node = tree->n_leaves; node < tree->n_nodes; node++) {
		const size_t parent = tree->nodes[node].parent;

		if (parent != TREE_NONE && count_children(tree, parent) == 3 && tree->nodes[parent].leaves == tree->nodes[node].leaves + 2 &&
		    tree->nodes[node].leaves == 2)
			tree->nodes[node].several = true;
	}
}

int tree_make(struct tree *tree, size_t n, uint64_t random, tree_asker *ask, void *context, struct error *error)
{
	/* Steps of 64 products take 32 for each leaf, other trees a few times the logarithm of n. */
	struct maker m = {.tree = tree, .random = random, .most = 64 * n, .ask = ask, .context = context};

	*tree = (struct tree){.n_leaves = n, .consistent = true, .nodes = calloc(2 * n, sizeof *tree->nodes)};
	m.set = malloc(2 * n * sizeof *m.set);
	m.spare = malloc((3 * n + 2) * sizeof *m.spare);
	int code = tree->nodes != NULL && m.set != NULL && m.spare != NULL ? EXIT_OK : fail_memory(error);
	if (code == EXIT_OK) {
		m.lost = m.set + n;
		for (size_t i = 0; i < n; i++) {
			m.set[i] = i;
			new_node(tree);
			tree->nodes[i].leaves = 1;
			tree->nodes[i].low = i;
		}
		code = ask_pivot(&m, 0, n, error);
	}
	if (code == EXIT_OK && tree->consistent)
		code = grow(&m, 0, n, &tree->root, error);
	if (code == EXIT_OK && tree->consistent)
		mark_several(tree);
	free(m.set);
	free(m.spare);
	return code;
}

void tree_free(struct tree *tree)
{
	free(tree->nodes);
	tree->nodes = NULL;
}

/* Whether b is a, with each leaf moved by the same distance. */
static bool is_moved(const struct tree *tree, size_t a, size_t b)
{
	const struct node *x = &tree->nodes[a], *y = &tree->nodes[b];

	if (tree_is_leaf(tree, a) || tree_is_leaf(tree, b))
		return tree_is_leaf(tree, a) && tree_is_leaf(tree, b);
	if (x->leaves != y->leaves || x->exact != y->exact)
		return false;
	size_t c = x->first, d = y->first;
	for (; c != TREE_NONE && d != TREE_NONE; c = tree->nodes[c].next, d = tree->nodes[d].next)
		if (tree->nodes[c].low - x->low != tree->nodes[d].low - y->low || !is_moved(tree, c, d))
			return false;
	return c == d;
}

/* What is added to a sum, one part after the other. */
struct spine {
	size_t n;
	size_t *parts;        /* the first child that a part has, or a node whose children are the part */
	size_t together;      /* children of a part; 1: the part is itself a node */
};

/* Whether a child is itself a sum of leaves, to which its parent adds another sum. */
static bool begins_sums(const struct tree *tree, size_t node, size_t most)
{
	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		if (child != most && tree_is_leaf(tree, child))
			return false;
	size_t n_sums = 0;
	for (size_t child = tree->nodes[most].first; child != TREE_NONE; child = tree->nodes[child].next)
		n_sums += !tree_is_leaf(tree, child);
	return n_sums < 2;
}

/* The child of most leaves, where a node adds others to it; TREE_NONE: its children are alike, the first parts. */
static size_t spine_child(const struct tree *tree, size_t node)
{
	size_t most = tree->nodes[node].first;
	bool alike = true;

	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next) {
		alike &= is_moved(tree, tree->nodes[node].first, child);
		if (tree->nodes[child].leaves > tree->nodes[most].leaves)
			most = child;
	}
	return alike || begins_sums(tree, node, most) ? TREE_NONE : most;
}

/* The children of a node but one, at most `room`; returns how many there are. */
static size_t others_of(const struct tree *tree, size_t node, size_t but, size_t *others, size_t room)
{
	size_t n = 0;

	for (size_t child = tree->nodes[node].first; child != TREE_NONE; child = tree->nodes[child].next)
		if (child != but && n++ < room)
			others[n - 1] = child;
	return n;
}

/* Steps that add leaves at once: level->together of them. parts[i] is node i, from the first on. */
static bool steps_level(const struct tree *tree, const size_t *parts, size_t n, struct level *level)
{
	enum { MOST = 64 };
	size_t first[MOST] = {0}, others[MOST], before = 0;

	level->n = n;
	level->together = others_of(tree, parts[0], TREE_NONE, first, MOST);
	level->exact = tree->nodes[parts[0]].exact;
	if (level->together > MOST)
		return false;
	for (size_t i = 0; i < n; i++) {
		const size_t *now = i == 0 ? first : others;

		if (i > 0 && others_of(tree, parts[i], parts[i - 1], others, MOST) != level->together)
			return false;
		const size_t lowest = tree->nodes[now[0]].low;
		for (size_t k = 0; k < level->together; k++)
			if (!tree_is_leaf(tree, now[k]) || now[k] - lowest != first[k] - first[0])
				return false;
		if (i == 1)
			level->distance = (ptrdiff_t)lowest - (ptrdiff_t)before;
		if (i > 1 && (ptrdiff_t)lowest - (ptrdiff_t)before != level->distance)
			return false;
		before = lowest;
	}
	level->period = 1;
	for (size_t k = 0; k < level->together; k++)
		level->order[k] = first[k] - first[0];
	return true;
}

/* Whether the parts go in the same order in each `period`. */
static bool is_periodic(const struct tree *tree, const size_t *parts, size_t n, size_t period, ptrdiff_t *distance)
{
	const struct node *nodes = tree->nodes;

	*distance = n > period ? (ptrdiff_t)nodes[parts[period]].low - (ptrdiff_t)nodes[parts[0]].low : 0;
	if (n % period != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_moved(tree, parts[0], parts[i]) ||
		    (i >= period && (ptrdiff_t)nodes[parts[i]].low - (ptrdiff_t)nodes[parts[i - period]].low != *distance))
			return false;
	return true;
}

/* Parts that are added one by one; which of the first two comes first is not seen. */
static bool parts_level(const struct tree *tree, size_t *parts, size_t n, struct level *level)
{
	level->n = n;
	level->together = 0;
	level->exact = false;
	for (size_t period = 1; period <= 64 && period < n; period *= 2)
		for (int turn = 0; turn < 2; turn++) {
			const size_t other = parts[0];
			size_t low = TREE_NONE;

			if (turn == 1) {
				parts[0] = parts[1];
				parts[1] = other;
			}
			/* Two alone are in ascending order. */
			if (is_periodic(tree, parts, n, period, &level->distance) && (n > 2 || level->distance > 0)) {
				level->period = period;
				for (size_t i = 0; i < period; i++)
					low = tree->nodes[parts[i]].low < low ? tree->nodes[parts[i]].low : low;
				for (size_t i = 0; i < period; i++)
					level->order[i] = tree->nodes[parts[i]].low - low;
				return true;
			}
			if (turn == 1) {
				parts[1] = parts[0];
				parts[0] = other;
			}
		}
	return false;
}

static size_t levels_of(const struct tree *tree, size_t node, struct level levels[LEVELS_MAX]);

/* Parts that follow each other and have the same order, but are not of the same length. */
static bool ragged_level(const struct tree *tree, const size_t *parts, size_t n, struct level *level)
{
	struct level levels[2][LEVELS_MAX];
	size_t n_levels = 0;

	*level = (struct level){.n = n, .period = 1};
	for (size_t i = 0; i < n; i++) {
		if (n > SIZES_MAX || tree_is_leaf(tree, parts[i]) || (i > 0 && tree->nodes[parts[i]].low < tree->nodes[parts[i - 1]].low))
			return false;
		const size_t own = levels_of(tree, parts[i], levels[i > 0]);
		if (own == 0 || (i > 0 && own != n_levels))
			return false;
		n_levels = own;
		for (size_t k = 0; k < own; k++)
			if (levels[0][k].together != levels[i > 0][k].together || (levels[0][k].distance != levels[i > 0][k].distance && k + 1 == own))
				return false;
		level->sizes[i] = tree->nodes[parts[i]].leaves;
	}
	return true;
}

/* Sums that one step adds. */
static bool sums_level(const struct tree *tree, size_t node, size_t *parts, struct level *level)
{
	level->n = others_of(tree, node, TREE_NONE, parts, tree->n_leaves);
	level->at_once = true;
	level->period = 1;
	return is_periodic(tree, parts, level->n, 1, &level->distance);
}

/* Describes one node; *below is what its parts are, TREE_NONE: leaves. */
static bool find_level(const struct tree *tree, size_t node, size_t *parts, struct level *level, size_t *below)
{
	size_t n = 0, child, at = node, room = tree->n_leaves + 1;

	/* From the last part to the first, at the end of the array. */
	for (; (child = spine_child(tree, at)) != TREE_NONE; at = child) {
		if (tree_is_leaf(tree, child))
			return false;
		parts[room - ++n] = at;
	}
	*below = TREE_NONE;
	/* The node at the end has the first parts. */
	if (tree->nodes[at].several) {
		parts[room - ++n] = at;
		if (!tree_is_leaf(tree, tree->nodes[at].first) && n == 1) {
			*below = tree->nodes[at].first;
			return sums_level(tree, at, parts, level);
		}
		memmove(parts, parts + room - n, n * sizeof *parts);
		return steps_level(tree, parts, n, level);
	}
	size_t first[2];
	others_of(tree, at, TREE_NONE, first, 2);
	memmove(parts + 2, parts + room - n, n * sizeof *parts);
	for (size_t i = n + 1; i >= 2; i--) {
		size_t added;

		if (others_of(tree, parts[i], i > 2 ? parts[i - 1] : at, &added, 1) != 1)
			return false;
		parts[i] = added;
	}
	memcpy(parts, first, sizeof first);
	if (!parts_level(tree, parts, n + 2, level) && !ragged_level(tree, parts, n + 2, level))
		return false;
	*below = tree_is_leaf(tree, parts[0]) ? TREE_NONE : parts[0];
	return true;
}

static size_t levels_of(const struct tree *tree, size_t node, struct level levels[LEVELS_MAX])
{
	size_t *parts = malloc((tree->n_leaves + 2) * sizeof *parts), n = 0;
	bool regular = parts != NULL && !tree_is_leaf(tree, node);

	while (regular && node != TREE_NONE && n < LEVELS_MAX) {
		levels[n] = (struct level){.n = 0};
		regular = find_level(tree, node, parts, &levels[n++], &node);
	}
	free(parts);
	return regular && node == TREE_NONE ? n : 0;
}

size_t tree_levels(const struct tree *tree, struct level levels[LEVELS_MAX])
{
	return levels_of(tree, tree->root, levels);
}
