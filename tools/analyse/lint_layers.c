/* SPDX-License-Identifier: MIT */
/*
 * Compares layers with each other, of whatever family: tensors are missing where one layer alone lacks what layers with all
 * its others have. Two layers alike are a kind of layer that the family has, so nothing is said of these, nor where layers hold
 * differing numbers of layers, like the stages of Swin. Experts of a layer are all alike.
 */
#include "config.h"

#include "analyse/lint_whole.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 30, EXPERTS_MAX = 1 << 16, NAME_BYTES = 512 };

static const struct unlike {
	uint64_t layer;
	const char *name;
} unlike[] = {
#define UNLIKE(layer, name, source) {layer, name},
#include "analyse/lint_needed.def"
};

/* Whether the component before `end` counts layers, by its name. */
static bool is_layers(const char *name, size_t end)
{
	static const char *const words[] = {"layers", "layer", "h", "blk", "block", "blocks", "resblocks"};
	size_t start = end;

	while (start > 0 && name[start - 1] != '.')
		start--;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strlen(words[i]) == end - start && memcmp(words[i], name + start, end - start) == 0)
			return true;
	return false;
}

/* Digits of a component that is a number, at `at`; 0: it is none. */
static size_t digits_at(const char *name, size_t at)
{
	const size_t n = strspn(name + at, "0123456789");

	return n > 0 && n < 8 && name[at + n] == '.' && (n == 1 || name[at] != '0') ? n : 0;
}

bool lint_member_of(struct lint_member *member, const char *name)
{
	for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const size_t at = (size_t)(dot - name) + 1, n = digits_at(name, at);

		if (n == 0)
			continue;
		*member = (struct lint_member){name, at, strtoull(name + at, NULL, 10), name + at + n + 1};
		/* A number right behind it counts within a stage, as in timm's models. */
		return is_layers(name, at - 1) && member->number < LINT_LAYERS_MAX && digits_at(member->rest, 0) == 0;
	}
	return false;
}

/* Layers that stand in one place, as a table: which of the names behind the number each has. */
struct series {
	struct lint_whole *whole;
	const struct lint_member *first; /* whose `prefix` all share */
	size_t n_names, n_layers, words; /* words of 64 bits in a row */
	const char **names;
	size_t *counts;                  /* of layers that have each */
	uint64_t *numbers;               /* of layers, rising */
	uint64_t *rows;
	size_t *order;                   /* of layers, those with equal rows together */
};

static uint64_t *row_of(const struct series *s, size_t layer)
{
	return s->rows + layer * s->words;
}

static bool has(const struct series *s, size_t layer, size_t name)
{
	return (row_of(s, layer)[name / 64] >> name % 64 & 1) != 0;
}

/* How many layers stand within a layer, by the largest of their numbers. */
static uint64_t depth_of(const struct series *s, size_t layer)
{
	uint64_t depth = 0;

	for (size_t i = 0; i < s->n_names; i++) {
		struct lint_member inner;

		if (has(s, layer, i) && lint_member_of(&inner, s->names[i]) && inner.number + 1 > depth)
			depth = inner.number + 1;
	}
	return depth;
}

static bool differ_in_depth(const struct series *s)
{
	for (size_t i = 1; i < s->n_layers; i++)
		if (depth_of(s, i) != depth_of(s, 0))
			return true;
	return false;
}

static int compare_rows(const struct series *s, size_t a, size_t b)
{
	return memcmp(row_of(s, a), row_of(s, b), s->words * sizeof *s->rows);
}

/* Puts layers with equal rows together, in their order. */
static void sort_rows(struct series *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_layers; i++) {
		size_t at = n;

		while (at > 0 && compare_rows(s, s->order[at - 1], i) > 0)
			at--;
		memmove(s->order + at + 1, s->order + at, (n - at) * sizeof *s->order);
		s->order[at] = i;
		n++;
	}
}

/* How many names one layer lacks that another has; 0 if it has others instead. One name of its own is one that was renamed,
   if it lacks one. */
static size_t lacks(const struct series *s, size_t layer, size_t than)
{
	size_t n = 0, n_own = 0;

	for (size_t i = 0; i < s->n_names; i++) {
		if (has(s, layer, i) == has(s, than, i))
			continue;
		if (has(s, layer, i) && s->counts[i] > 1)
			return 0;
		n_own += has(s, layer, i);
		n += has(s, than, i);
	}
	return n_own == 0 || s->whole->alike || (n_own == 1 && n == 1) ? n : 0;
}

static int miss(const struct series *s, size_t layer, size_t like, size_t others, struct error *error)
{
	char name[NAME_BYTES];
	int code = EXIT_OK;

	for (size_t i = 0; i < s->n_names && code == EXIT_OK; i++) {
		if (has(s, layer, i) || !has(s, like, i))
			continue;
		const int in = snprintf(name, sizeof name, "%.*s%" PRIu64, (int)s->first->prefix, s->first->name, s->numbers[layer]);
		if (in >= 0 && (size_t)in < sizeof name &&
		    snprintf(name + in, sizeof name - (size_t)in, ".%s", s->names[i]) < (int)sizeof name - in)
			code = lint_whole_miss(s->whole, name, (size_t)in, false, others, error);
	}
	return code;
}

/* What one layer lacks of those with which it shares most. */
static int compare_layers(struct series *s, struct error *error)
{
	int code = EXIT_OK;

	sort_rows(s);
	for (size_t i = 0, n; i < s->n_layers && code == EXIT_OK; i += n) {
		size_t least = 0, like = 0, others = 0;

		for (n = 1; i + n < s->n_layers && compare_rows(s, s->order[i], s->order[i + n]) == 0; n++)
			;
		if (n > 1 && !s->whole->alike)
			continue;
		for (size_t k = 0, same; k < s->n_layers; k += same) {
			for (same = 1; k + same < s->n_layers && compare_rows(s, s->order[k], s->order[k + same]) == 0; same++)
				;
			const size_t lacking = same > 1 || s->whole->alike ? lacks(s, s->order[i], s->order[k]) : 0;
			if (lacking > 0 && (least == 0 || lacking < least)) {
				least = lacking;
				like = s->order[k];
				others = same;
			}
		}
		for (size_t k = 0; k < n && least > 0 && code == EXIT_OK; k++)
			code = miss(s, s->order[i + k], like, others, error);
	}
	return code;
}

/* Whether they are the layers that the configuration counts, by the usual names of a language model's. */
static bool is_main(const struct series *s)
{
	static const char *const starts[] = {"layers.", "model.layers.", "h.", "transformer.h.", "gpt_neox.layers.", "language_model.layers.",
	                                     "model.language_model.layers.", "language_model.model.layers.", "blk."};

	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
		if (strlen(starts[i]) == s->first->prefix && strncmp(starts[i], s->first->name, s->first->prefix) == 0)
			return true;
	return false;
}

static int miss_layer(const struct series *s, uint64_t number, struct error *error)
{
	char name[NAME_BYTES];

	if (s->first->prefix + 8 > sizeof name)
		return EXIT_OK;
	snprintf(name, sizeof name, "%.*s%" PRIu64, (int)s->first->prefix, s->first->name, number);
	return lint_whole_miss(s->whole, name, s->first->prefix - 1, true, 0, error);
}

/* Layers of which nothing is there: numbers that are left out, and the last ones by the configuration. */
static int count_layers(const struct series *s, struct error *error)
{
	const uint64_t last = s->numbers[s->n_layers - 1];
	bool nested = false;
	int code = EXIT_OK;

	/* A list of plain functions and layers, as of nn.Sequential, leaves numbers out. */
	for (size_t i = 0; i < s->n_names; i++)
		nested |= strchr(s->names[i], '.') != NULL;
	if (!nested || s->n_layers < 2 || last + 1 - s->n_layers >= s->n_layers)
		return EXIT_OK;
	for (size_t i = 0; i < s->n_layers && code == EXIT_OK; i++)
		for (uint64_t number = i == 0 ? 0 : s->numbers[i - 1] + 1; number < s->numbers[i] && code == EXIT_OK; number++)
			code = miss_layer(s, number, error);
	for (uint64_t number = last + 1; is_main(s) && number < s->whole->layers && number < LINT_LAYERS_MAX && code == EXIT_OK; number++)
		code = miss_layer(s, number, error);
	return code;
}

/* More layers than the configuration says, the last of the same kind as one before: a layer that predicts ahead is not. */
static int find_surplus(const struct series *s, struct error *error)
{
	const size_t n = s->n_layers;

	if (s->whole->layers == 0 || !is_main(s) || s->numbers[n - 1] < s->whole->layers)
		return EXIT_OK;
	for (size_t i = 0; i < n && s->numbers[i] < s->whole->layers; i++)
		if (compare_rows(s, i, n - 1) == 0)
			return lint_find(s->whole->lint, LINT_SHAPE, &(struct lint_place){0}, error,
			                 "'%.*s' has layers up to number %" PRIu64 ", and by the configuration there are %" PRIu64,
			                 (int)s->first->prefix - 1, s->first->name, s->numbers[n - 1], s->whole->layers);
	return EXIT_OK;
}

/* Marks what a layer of some families need not have as if it had it. */
static void pardon(struct series *s)
{
	for (size_t k = 0; k < sizeof unlike / sizeof unlike[0] && !s->whole->gguf; k++)
		for (size_t i = 0; i < s->n_names; i++)
			for (size_t layer = 0; layer < s->n_layers && strcmp(s->names[i], unlike[k].name) == 0; layer++)
				if (s->numbers[layer] == unlike[k].layer)
					row_of(s, layer)[i / 64] |= (uint64_t)1 << i % 64;
}

/* Fills in a table of members that are sorted by their rests. EXIT_MEMORY. */
static int fill(struct series *s, const struct lint_member *members, size_t n, struct error *error)
{
	bool there[LINT_LAYERS_MAX] = {false};
	size_t number_of[LINT_LAYERS_MAX];

	for (size_t i = 0; i < n; i++) {
		there[members[i].number] = true;
		s->n_names += i == 0 || strcmp(members[i].rest, members[i - 1].rest) != 0;
	}
	for (size_t i = 0; i < LINT_LAYERS_MAX; i++) {
		number_of[i] = s->n_layers;
		s->n_layers += there[i];
	}
	s->words = (s->n_names - 1) / 64 + 1;
	if (s->n_layers * s->n_layers > STEPS_MAX / s->n_names) {
		s->n_layers = 0;
		return EXIT_OK;
	}
	s->names = malloc(s->n_names * sizeof *s->names);
	s->counts = calloc(s->n_names, sizeof *s->counts);
	s->numbers = malloc(s->n_layers * sizeof *s->numbers);
	s->order = malloc((s->n_layers + 1) * sizeof *s->order);
	s->rows = calloc(s->n_layers * s->words, sizeof *s->rows);
	if (s->names == NULL || s->counts == NULL || s->numbers == NULL || s->order == NULL || s->rows == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < LINT_LAYERS_MAX; i++)
		if (there[i])
			s->numbers[number_of[i]] = i;
	for (size_t i = 0, name = 0; i < n; i++) {
		name += i > 0 && strcmp(members[i].rest, members[i - 1].rest) != 0;
		s->names[name] = members[i].rest;
		s->counts[name] += !has(s, number_of[members[i].number], name);
		row_of(s, number_of[members[i].number])[name / 64] |= (uint64_t)1 << name % 64;
	}
	return EXIT_OK;
}

static int look_at(struct lint_whole *whole, const struct lint_member *members, size_t n, struct error *error)
{
	struct series s = {.whole = whole, .first = members};
	int code = fill(&s, members, n, error);

	if (code == EXIT_OK && s.n_layers > 0 && !differ_in_depth(&s)) {
		pardon(&s);
		code = count_layers(&s, error);
		if (code == EXIT_OK)
			code = compare_layers(&s, error);
		if (code == EXIT_OK)
			code = find_surplus(&s, error);
	}
	free(s.names);
	free(s.counts);
	free(s.numbers);
	free(s.order);
	free(s.rows);
	return code;
}

/* Whether a tensor says nothing of a layer: older files hold it, or calibration made it for some. */
static bool is_extra(const char *name)
{
	static const char *const parts[] = {"scale", "zero_point", "inv_freq", "masked_bias", ".attn.bias", "attention.bias", "position_ids",
	                                    "num_batches_tracked"};

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (strstr(name, parts[i]) != NULL)
			return true;
	return false;
}

/* Where the number of an expert is in a name; NULL: it is of none. */
static const char *expert_of(const char *name)
{
	static const char word[] = "experts.";
	const char *at = strstr(name, word);

	return at != NULL && (at == name || at[-1] == '.' || at[-1] == '_') && digits_at(at, sizeof word - 1) != 0 ? at + sizeof word - 1 : NULL;
}

/* The rest of a name with * for the number of an expert. EXIT_MEMORY. */
static int without_expert(struct lint_whole *whole, struct lint_member *member, struct error *error)
{
	const char *at = expert_of(member->rest);

	if (at == NULL)
		return EXIT_OK;
	const size_t size = strlen(member->rest) + 2;
	char *rest = arena_take(&whole->arena, size);
	if (rest == NULL)
		return fail_memory(error);
	snprintf(rest, size, "%.*s*%s", (int)(at - member->rest), member->rest, at + strspn(at, "0123456789"));
	member->rest = rest;
	return EXIT_OK;
}

static int compare_members(const void *a, const void *b)
{
	const struct lint_member *x = a, *y = b;
	int order = strncmp(x->name, y->name, x->prefix < y->prefix ? x->prefix : y->prefix);

	if (order == 0)
		order = (x->prefix > y->prefix) - (x->prefix < y->prefix);
	if (order == 0)
		order = strcmp(x->rest, y->rest);
	return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* A tensor of an expert. */
struct expert {
	const char *name, *rest;
	size_t prefix;
	uint64_t number;
};

static int compare_experts(const void *a, const void *b)
{
	const struct expert *x = a, *y = b;
	int order = strncmp(x->name, y->name, x->prefix < y->prefix ? x->prefix : y->prefix);

	if (order == 0)
		order = (x->prefix > y->prefix) - (x->prefix < y->prefix);
	if (order == 0)
		order = (x->number > y->number) - (x->number < y->number);
	return order != 0 ? order : strcmp(x->rest, y->rest);
}

/* Tensors of one expert, in the order of their rests, from `first` on. */
static size_t count_same(const struct expert *experts, size_t n)
{
	size_t same = 1;

	while (same < n && experts[same].number == experts[0].number)
		same++;
	return same;
}

/* Notes what an expert lacks of another. */
static int miss_parts(struct lint_whole *whole, const struct expert *expert, const struct expert *full, size_t n, struct error *error)
{
	char name[NAME_BYTES];
	struct lint_member member;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		if (snprintf(name, sizeof name, "%.*s%" PRIu64 ".%s", (int)expert->prefix, expert->name, expert->number, full[i].rest) >=
		            (int)sizeof name ||
		    lint_whole_has(whole, name))
			continue;
		const bool layered = lint_member_of(&member, name);
		code = lint_whole_miss(whole, name, layered ? (size_t)(member.rest - name) - 1 : 0, false, n, error);
	}
	return code;
}

/* Experts that stand in one place: each has what any has, and there are as many as the configuration says, or numbers. */
static int look_at_experts(struct lint_whole *whole, const struct expert *experts, size_t n, uint64_t most, struct error *error)
{
	const uint64_t last = experts[n - 1].number + 1, all = whole->experts == most && last < most ? most : last;
	const struct expert *full = experts;
	size_t n_full = 0, n_there = 0;
	int code = EXIT_OK;

	for (size_t i = 0, same; i < n; i += same, n_there++) {
		same = count_same(experts + i, n - i);
		if (same > n_full) {
			full = experts + i;
			n_full = same;
		}
	}
	for (size_t i = 0, same; i < n && code == EXIT_OK; i += same) {
		same = count_same(experts + i, n - i);
		/* Beyond their number there may be some that do nothing: LongcatFlashExperts. */
		if (same < n_full && (whole->experts == 0 || experts[i].number < whole->experts))
			code = miss_parts(whole, experts + i, full, n_full, error);
	}
	if (code != EXIT_OK || n_there == all)
		return code;
	return lint_find(whole->lint, LINT_MISSING, &(struct lint_place){0}, error, "%" PRIu64 " of %" PRIu64 " experts are missing in '%.*s'",
	                 all - n_there, all, (int)experts->prefix - 1, experts->name);
}

static bool same_place(const struct expert *a, const struct expert *b)
{
	return a->prefix == b->prefix && strncmp(a->name, b->name, a->prefix) == 0;
}

static int compare_all_experts(struct lint_whole *whole, struct error *error)
{
	struct expert *experts = malloc((whole->n_names + 1) * sizeof *experts);
	size_t n = 0;
	uint64_t most = 0;
	int code = experts != NULL ? EXIT_OK : fail_memory(error);

	for (size_t i = 0; i < whole->n_names && code == EXIT_OK; i++) {
		const char *at = expert_of(whole->names[i]);

		if (at == NULL || is_extra(whole->names[i]))
			continue;
		experts[n] = (struct expert){whole->names[i], strchr(at, '.') + 1, (size_t)(at - whole->names[i]), strtoull(at, NULL, 10)};
		if (experts[n].number >= EXPERTS_MAX)
			continue;
		most = experts[n].number + 1 > most ? experts[n].number + 1 : most;
		n++;
	}
	/* What the family is known to need, it needs of as many experts as the configuration says. */
	if (whole->lint->unseen.whole == NULL && whole->experts > most && whole->experts <= EXPERTS_MAX)
		most = whole->experts;
	if (n > 0)
		qsort(experts, n, sizeof *experts, compare_experts);
	for (size_t i = 0, same; i < n && code == EXIT_OK; i += same) {
		for (same = 1; i + same < n && same_place(&experts[i], &experts[i + same]); same++)
			;
		code = look_at_experts(whole, experts + i, same, most, error);
	}
	free(experts);
	return code;
}

int lint_layers(struct lint_whole *whole, struct error *error)
{
	const json_t *config = whole->lint->model->config;
	struct lint_member *members = malloc((whole->n_names + 1) * sizeof *members);
	size_t n = 0;
	int code = members != NULL ? EXIT_OK : fail_memory(error);

	/* Stages of models of images; kinds of layers that a search made, of which some are nothing. */
	if (json_object_get(config, "depths") != NULL || json_object_get(config, "block_configs") != NULL) {
		whole->lint->unseen.whole = "by depths or block_configs of config.json each layer has other tensors";
		free(members);
		return code;
	}
	if (json_is_true(json_object_get(config, "is_encoder_decoder")) || json_object_get(config, "decoder_layers") != NULL)
		whole->layers = 0;
	for (size_t i = 0; i < whole->n_names && code == EXIT_OK; i++) {
		if (is_extra(whole->names[i]) || !lint_member_of(&members[n], whole->names[i]))
			continue;
		code = without_expert(whole, &members[n++], error);
	}
	if (n > 0)
		qsort(members, n, sizeof *members, compare_members);
	for (size_t i = 0, same; i < n && code == EXIT_OK; i += same) {
		for (same = 1; i + same < n && members[i].prefix == members[i + same].prefix &&
		               strncmp(members[i].name, members[i + same].name, members[i].prefix) == 0; same++)
			;
		code = look_at(whole, members + i, same, error);
	}
	free(members);
	return code == EXIT_OK ? compare_all_experts(whole, error) : code;
}
