/* SPDX-License-Identifier: MIT */
/* Reads recipes. An unknown key or value is an error: a misspelt word must not change what is quantized. */
#include "config.h"

#include "quantize/recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/sparsity.h"
#include "io/json.h"
#include "model/choices.h"

enum { BYTES_MAX = 1 << 24, RULES_MAX = 1000, PLACE = 64, WHERE = 1024, RECIPE_VERSION = 1 };

/* An object of the recipe and its place, "rules[2]"; "" is the whole. */
struct part {
	const struct recipe *recipe;
	char place[PLACE];
	const json_t *object;
};

/* "FILE: PLACE.KEY: ..." */
static int fail_at(const struct part *part, const char *key, struct error *error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static const char *where_is(const struct part *part, const char *key, char where[WHERE])
{
	snprintf(where, WHERE, "%.700s: %s%s%s", part->recipe->path, part->place,
	         part->place[0] != '\0' && key[0] != '\0' ? "." : "", key);
	return where;
}

static int fail_at(const struct part *part, const char *key, struct error *error, const char *format, ...)
{
	char where[WHERE], what[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	where_is(part, key, where);
	return fail(error, EXIT_INPUT, "%s%s%s", where, part->place[0] == '\0' && key[0] == '\0' ? "" : ": ", what);
}

/* Checks that the object has no other keys than these, NULL last. */
static int check_keys(const struct part *part, const char *const *known, struct error *error)
{
	const char *key;
	json_t *value;

	if (!json_is_object(part->object))
		return fail_at(part, "", error, "is not an object; write {...}");
	json_object_foreach ((json_t *)part->object, key, value) {
		struct nearest nearest = {.word = key};
		char list[256] = "";
		size_t used = 0, i;

		for (i = 0; known[i] != NULL && strcmp(known[i], key) != 0; i++) {
			nearest_offer(&nearest, known[i]);
			used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ", known[i]);
		}
		if (known[i] != NULL)
			continue;
		if (nearest.best != NULL)
			return fail_at(part, "", error, "unknown key '%.60s': did you mean '%s'?", key, nearest.best);
		return fail_at(part, "", error, "unknown key '%.60s': keys are %s", key, list);
	}
	return EXIT_OK;
}

/* Takes the text of a key; NULL if the key is not there. */
static int take_text(const struct part *part, const char *key, const char **text, struct error *error)
{
	const json_t *value = json_object_get(part->object, key);

	*text = json_string_value(value);
	if (value == NULL || *text != NULL)
		return EXIT_OK;
	return fail_at(part, key, error, "is not a string; write \"...\"");
}

/* Takes a value of the library's tables. */
static int take_choice(const struct part *part, const char *key, enum option_kind kind, bool *has, int *value,
                       struct error *error)
{
	const char *text;
	char where[WHERE];
	int code = take_text(part, key, &text, error);

	*has = text != NULL;
	if (code != EXIT_OK || text == NULL || choice_find(kind, text, value))
		return code;
	choice_fail(kind, where_is(part, key, where), text, error);
	return EXIT_INPUT;
}

static int take_sparsity(const struct part *part, struct recipe_change *change, struct error *error)
{
	const char *text;
	char where[WHERE];
	int code = take_text(part, "sparsity", &text, error);

	change->has_sparsity = text != NULL;
	if (code != EXIT_OK || text == NULL || strcmp(text, RECIPE_NONE) == 0)
		return code;
	if (sparsity_parse(text, where_is(part, "sparsity", where), &change->choice.sparsity, error) != EXIT_OK)
		return EXIT_INPUT;
	return EXIT_OK;
}

static int take_block(const struct part *part, struct recipe_change *change, struct error *error)
{
	const char *text;
	char where[WHERE];
	int code = take_text(part, "block", &text, error);

	change->has_block = text != NULL;
	if (code == EXIT_OK && text != NULL &&
	    quantize_block(&change->choice.squares, text, where_is(part, "block", where), error) != EXIT_OK)
		return EXIT_INPUT;
	return code;
}

/* Takes what a part says about how to quantize. */
static int take_change(const struct part *part, struct recipe_change *change, struct error *error)
{
	int format = 0;
	int code = take_choice(part, "format", OPTION_BLOCK, &change->has_format, &format, error);

	change->choice.format = (enum mxfp_format)format;
	if (code == EXIT_OK)
		code = take_choice(part, "rule", OPTION_RULE, &change->has_rule, &change->choice.rule, error);
	if (code == EXIT_OK)
		code = take_choice(part, "nvfp4_recipe", OPTION_RECIPE, &change->has_recipe, &change->choice.recipe, error);
	if (code == EXIT_OK)
		code = take_block(part, change, error);
	if (code == EXIT_OK)
		code = take_sparsity(part, change, error);
	if (code != EXIT_OK || !change->has_format)
		return code;
	const struct mxfp_format_info *info = mxfp_format_get_info(change->choice.format);
	if (change->has_rule && info->tensor_scale)
		return fail_at(part, "rule", error, "%s has recipes and no rules; give nvfp4_recipe", info->name);
	if (change->choice.squares && info->tensor_scale)
		return fail_at(part, "block", error, "%s has blocks of 16 and no squares; leave it out", info->name);
	if (change->has_recipe && !info->tensor_scale)
		return fail_at(part, "nvfp4_recipe", error, "%s has rules and no recipes; give rule", info->name);
	return EXIT_OK;
}

/* Takes a pattern, or a list of them. */
static int take_patterns(const struct part *part, const char *key, struct patterns *patterns, struct error *error)
{
	const json_t *value = json_object_get(part->object, key);
	size_t n = json_is_array(value) ? json_array_size(value) : 1;
	const char **texts;
	char where[WHERE];

	if (n == 0)
		return fail_at(part, key, error, "is empty; give a pattern on names, or several");
	texts = calloc(n, sizeof *texts);
	if (texts == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++) {
		texts[i] = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
		if (texts[i] == NULL) {
			free(texts);
			return fail_at(part, key, error, "is neither a string nor a list of strings; give a pattern on names, or "
			               "several");
		}
	}
	int code = patterns_compile(patterns, texts, n, where_is(part, key, where), error);
	free(texts);
	return code == EXIT_USAGE ? EXIT_INPUT : code;
}

/* Takes true or false; false if the key is not there. */
static int take_boolean(const struct part *part, const char *key, bool *value, struct error *error)
{
	const json_t *found = json_object_get(part->object, key);

	*value = json_is_true(found);
	if (found == NULL || json_is_boolean(found))
		return EXIT_OK;
	return fail_at(part, key, error, "is neither true nor false");
}

static int take_rule(const struct part *part, struct recipe_rule *rule, struct error *error)
{
	static const char *const keys[] = {"match", "keep", "format", "rule", "nvfp4_recipe", "block", "sparsity", NULL};
	const struct recipe_change *change = &rule->change;
	int code = check_keys(part, keys, error);

	if (code == EXIT_OK && json_object_get(part->object, "match") == NULL)
		code = fail_at(part, "match", error, "is missing; give a pattern on names, or several");
	if (code == EXIT_OK)
		code = take_patterns(part, "match", &rule->match, error);
	if (code == EXIT_OK)
		code = take_boolean(part, "keep", &rule->keep, error);
	if (code == EXIT_OK)
		code = take_change(part, &rule->change, error);
	if (code != EXIT_OK)
		return code;
	bool changes = change->has_format || change->has_rule || change->has_recipe || change->has_block ||
	               change->has_sparsity;
	if (rule->keep && changes)
		return fail_at(part, "keep", error, "what is kept has no format; leave one of them out");
	if (!rule->keep && !changes)
		return fail_at(part, "", error, "says nothing; give format, rule, nvfp4_recipe, block, sparsity or keep");
	return EXIT_OK;
}

static int take_rules(const struct part *whole, struct recipe *recipe, struct error *error)
{
	const json_t *rules = json_object_get(whole->object, "rules");
	size_t n = json_array_size(rules);
	int code = EXIT_OK;

	if (rules == NULL)
		return EXIT_OK;
	if (!json_is_array(rules))
		return fail_at(whole, "rules", error, "is not a list; write [{...}, ...]");
	if (n > RULES_MAX)
		return fail_at(whole, "rules", error, "are %zu, more than %d; match may be a list of patterns", n,
		               (int)RULES_MAX);
	recipe->rules = calloc(n + 1, sizeof *recipe->rules);
	if (recipe->rules == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		struct part part = {.recipe = recipe, .object = json_array_get(rules, i)};

		snprintf(part.place, PLACE, "rules[%zu]", i);
		code = take_rule(&part, &recipe->rules[recipe->n_rules++], error);
	}
	return code;
}

static int take_default(const struct part *whole, struct recipe *recipe, struct error *error)
{
	static const char *const keys[] = {"format", "rule", "nvfp4_recipe", "block", "sparsity", NULL};
	const struct part part = {recipe, "default", json_object_get(whole->object, "default")};

	if (part.object == NULL)
		return EXIT_OK;
	int code = check_keys(&part, keys, error);
	return code != EXIT_OK ? code : take_change(&part, &recipe->by_default, error);
}

static int take_all(const struct part *whole, struct recipe *recipe, struct error *error)
{
	static const char *const keys[] = {"version", "default", "activations", "fuse", "include", "rules", NULL};
	const json_t *version = json_object_get(whole->object, "version");
	int code = check_keys(whole, keys, error);

	if (code == EXIT_OK && (!json_is_integer(version) || json_integer_value(version) != RECIPE_VERSION))
		code = fail_at(whole, "version", error, "is not %d, the only one there is; write \"version\": %d",
		               (int)RECIPE_VERSION, (int)RECIPE_VERSION);
	if (code == EXIT_OK)
		code = take_text(whole, "activations", &recipe->activations, error);
	if (code == EXIT_OK)
		code = take_boolean(whole, "fuse", &recipe->fuse, error);
	if (code == EXIT_OK && json_object_get(whole->object, "include") != NULL)
		code = take_patterns(whole, "include", &recipe->include, error);
	if (code == EXIT_OK)
		code = take_default(whole, recipe, error);
	return code != EXIT_OK ? code : take_rules(whole, recipe, error);
}

int recipe_take(struct recipe *recipe, const char *path, json_t *json, struct error *error)
{
	*recipe = (struct recipe){.path = strdup(path), .json = json};
	const struct part whole = {recipe, "", json};
	return recipe->path == NULL ? fail_memory(error) : take_all(&whole, recipe, error);
}

int recipe_read(struct recipe *recipe, const char *path, struct error *error)
{
	json_t *json = NULL;
	int code = json_read(descriptor_open, path, BYTES_MAX, &json, error);

	*recipe = (struct recipe){.path = NULL};
	return code != EXIT_OK ? code : recipe_take(recipe, path, json, error);
}

int recipe_check(const struct recipe *recipe, const struct model *model, struct error *error)
{
	char where[WHERE];
	int code = patterns_check(&recipe->include, "include of the recipe", model, error);

	for (size_t i = 0; i < recipe->n_rules && code == EXIT_OK; i++) {
		snprintf(where, sizeof where, "%.700s: rules[%zu].match", recipe->path, i);
		code = patterns_check(&recipe->rules[i].match, where, model, error);
	}
	return code;
}

const struct recipe_rule *recipe_find(const struct recipe *recipe, const char *tensor)
{
	for (size_t i = 0; i < recipe->n_rules; i++)
		if (patterns_match(&recipe->rules[i].match, tensor))
			return &recipe->rules[i];
	return NULL;
}

void recipe_apply(const struct recipe_change *change, struct quantize_choice *choice)
{
	if (change->has_format)
		choice->format = change->choice.format;
	if (change->has_sparsity)
		choice->sparsity = change->choice.sparsity;
	if (change->has_rule)
		choice->rule = change->choice.rule;
	if (change->has_recipe)
		choice->recipe = change->choice.recipe;
	if (change->has_block)
		choice->squares = change->choice.squares;
}

static void add_uses(struct recipe_uses *uses, const struct quantize_choice *choice, const struct recipe_change *change)
{
	const bool has_recipe = mxfp_format_get_info(choice->format)->tensor_scale;

	uses->rule |= !has_recipe && !change->has_rule;
	uses->block |= !has_recipe && !change->has_block;
	uses->nvfp4_recipe |= has_recipe && !change->has_recipe;
	uses->pad_tail |= choice->sparsity.m == 0;
	uses->fuse |= has_recipe && !layout_recipe_unscaled((enum mxfp_recipe)choice->recipe);
}

struct recipe_uses recipe_uses(const struct recipe *recipe, const struct quantize_choice *choice)
{
	static const struct recipe_change nothing;
	struct recipe_uses uses = {.rule = false};

	add_uses(&uses, choice, &nothing);
	for (size_t i = 0; recipe != NULL && i < recipe->n_rules; i++) {
		const struct recipe_rule *rule = &recipe->rules[i];
		struct quantize_choice changed = *choice;

		recipe_apply(&rule->change, &changed);
		if (!rule->keep)
			add_uses(&uses, &changed, &rule->change);
	}
	return uses;
}

void recipe_free(struct recipe *recipe)
{
	for (size_t i = 0; i < recipe->n_rules; i++)
		patterns_free(&recipe->rules[i].match);
	patterns_free(&recipe->include);
	free(recipe->rules);
	free(recipe->path);
	json_decref(recipe->json);
	*recipe = (struct recipe){0};
}
