/* SPDX-License-Identifier: MIT */
/*
 * Walks the words before the last one through the command's option table, to see whether a value, an option or an
 * operand is due. What a value or an operand may be is told by the option's kind or by the word that stands for it in
 * the table and in the synopsis (FORMAT, FILE.md, N:M, a|b).
 */
#include "config.h"

#include "cli/completion.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/sparsity.h"
#include "base/suffix.h"
#include "cli/commands.h"
#include "model/choices.h"
#include "model/model.h"
#include "mxfp/engine.h"
#include "mxfp/isa.h"

struct request {
	const char *const *words;
	size_t n;              /* the last is to be completed */
	const char *typed;     /* the part of it that is completed, behind "--rule=" or "mxfp4," */
	const char *operand;   /* the first one before it, or NULL */
};

static const char *last_word(const struct request *r)
{
	return r->words[r->n - 1];
}

/* Whether a name is offered: not if a terminal or shell script could take it for more than a name. */
static bool is_plain(const char *name)
{
	for (; *name != '\0'; name++)
		if (iscntrl((unsigned char)*name))
			return false;
	return true;
}

static void offer(const struct request *r, const char *name, const char *meaning)
{
	if (strncmp(name, r->typed, strlen(r->typed)) == 0 && is_plain(name))
		printf("%.*s%s\t%s\n", (int)(r->typed - last_word(r)), last_word(r), name,
		       meaning != NULL ? meaning : "");
}

static void offer_files(const char *suffix)
{
	printf(":files\t%s\n", suffix);
}

static void offer_choices(const struct request *r, enum option_kind kind)
{
	struct choice choice;

	for (int i = 0; choice_at(kind, i, &choice); i++)
		offer(r, choice.name, choice.meaning);
}

static void offer_block_formats(const struct request *r)
{
	offer_choices(r, OPTION_BLOCK);
}

static void offer_element_formats(const struct request *r)
{
	offer_choices(r, OPTION_ELEMENT);
}

static void offer_rules(const struct request *r)
{
	offer_choices(r, OPTION_RULE);
}

static void offer_recipes(const struct request *r)
{
	offer_choices(r, OPTION_RECIPE);
}

static void offer_sparsities(const struct request *r)
{
	char text[SPARSITY_TEXT];

	for (size_t i = 0; mxfp_sparsity_pattern(i) != NULL; i++)
		offer(r, sparsity_text(*mxfp_sparsity_pattern(i), text), NULL);
}

static void offer_tiers(const struct request *r)
{
	for (int i = 0; mxfp_isa_name(i) != NULL; i++)
		offer(r, mxfp_isa_name(i), NULL);
}

static void offer_chips(const struct request *r)
{
	for (int i = 0; mxfp_engine_get_chip(i) != NULL; i++)
		offer(r, mxfp_engine_get_chip(i)->name, NULL);
}

static void offer_checks(const struct request *r)
{
#define LINT(id, name, severity, what, why) offer(r, name, what);
#include "analyse/lint.def"
}

static void offer_models(const struct request *r)
{
	(void)r;
	for (int i = 0; file_formats[i] != NULL; i++)
		offer_files(file_formats[i]->suffix);
	offer_files("/");
}

static void offer_any_file(const struct request *r)
{
	(void)r;
	offer_files("");
}

/* Offers the names of a model's tensors; none if it cannot be opened. */
static void offer_tensors_of(const struct request *r, const char *path)
{
	struct model model = {0};
	struct error error;

	if (model_open_any_order(&model, path, &error) == EXIT_OK)
		for (size_t f = 0; f < model.n_files; f++)
			for (size_t t = 0; t < model.files[f].n_tensors; t++)
				offer(r, model.files[f].tensors[t].name, NULL);
	model_close(&model);
}

static void offer_tensors(const struct request *r)
{
	if (r->operand != NULL)
		offer_tensors_of(r, r->operand);
}

/* Offers FILE or FILE:TENSOR. */
static void offer_matrices(const struct request *r)
{
	const char *colon = strrchr(r->typed, ':');
	char path[4096];

	if (colon == NULL) {
		offer_models(r);
	} else if ((size_t)(colon - r->typed) < sizeof path) {
		struct request tensor = *r;

		snprintf(path, sizeof path, "%.*s", (int)(colon - r->typed), r->typed);
		tensor.typed = colon + 1;
		offer_tensors_of(&tensor, path);
	}
}

/* What the words in capitals stand for. For others, such as numbers, there is nothing to offer. */
static const struct {
	const char *word;
	void (*offer)(const struct request *r);
} meanings[] = {
	{"FORMAT", offer_block_formats}, {"ELEMENT", offer_element_formats}, {"RULE", offer_rules},
	{"RECIPE", offer_recipes},       {"N:M", offer_sparsities},          {"TIER", offer_tiers},
	{"CHIP", offer_chips},           {"PATTERN", offer_tensors},         {"IN", offer_models},
	{"MODEL", offer_models},         {"A", offer_matrices},              {"B", offer_matrices},
	{"W", offer_matrices},           {"MATRIX", offer_matrices},         {"VECTOR", offer_matrices},
	{"FILE", offer_any_file},        {"OUT", offer_any_file},            {"CODES", offer_any_file},
	{"SCALES", offer_any_file},      {"QUANTIZED", offer_models},        {"SOURCE", offer_models},
	{"CHECK", offer_checks},         {"PART", offer_models},
};

/* Offers one of the alternatives between the bars of an argument. */
static void offer_alternative(const struct request *r, const char *word)
{
	if (!isupper((unsigned char)word[0])) {
		offer(r, word, NULL);
	} else if (strchr(word, '.') != NULL) {
		offer_files(strchr(word, '.'));
		offer_files("/");
	}
	for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
		if (strcmp(word, meanings[i].word) == 0)
			meanings[i].offer(r);
}

/* Offers values for the word of an operand or an option's value: "IN", "f32|bf16", "FORMAT,...". */
static void offer_argument(struct request *r, const char *argument)
{
	const char *comma = strrchr(r->typed, ',');
	size_t length = suffix_stem(argument, ",...");
	char text[128], *rest = NULL;

	snprintf(text, sizeof text, "%.*s", (int)(length != 0 ? length : strlen(argument)), argument);
	if (length != 0 && comma != NULL)
		r->typed = comma + 1;
	for (char *word = strtok_r(text, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest))
		offer_alternative(r, word);
}

static void offer_value(struct request *r, const struct option_spec *option)
{
	if (choice_title(option->kind) != NULL && isupper((unsigned char)option->argument[0]))
		offer_choices(r, option->kind);
	else
		offer_argument(r, option->argument);
}

/* Returns the option of that long name, of `length` characters, or NULL. */
static const struct option_spec *find_long(const struct option_spec *options, const char *name, size_t length)
{
	for (; options->kind != OPTION_END; options++)
		if (options->kind != OPTION_HEADING && strlen(options->name) == length &&
		    strncmp(options->name, name, length) == 0)
			return options;
	return NULL;
}

static const struct option_spec *find_letter(const struct option_spec *options, char letter)
{
	for (; options->kind != OPTION_END; options++)
		if (options->letter == letter)
			return options;
	return NULL;
}

/* Returns the option whose value is the next word, if the word is an option without its value, else NULL. */
static const struct option_spec *open_option(const struct option_spec *options, const char *word)
{
	const struct option_spec *option;

	if (strncmp(word, "--", 2) == 0) {
		option = find_long(options, word + 2, strlen(word + 2));
		return option != NULL && option->kind != OPTION_FLAG ? option : NULL;
	}
	for (const char *letter = word + 1; *letter != '\0'; letter++) {
		option = find_letter(options, *letter);
		if (option == NULL || option->kind != OPTION_FLAG)
			return letter[1] == '\0' ? option : NULL;
	}
	return NULL;
}

static bool is_given(const struct request *r, const struct option_spec *option)
{
	for (size_t i = 0; i + 1 < r->n; i++) {
		const char *word = r->words[i];
		size_t length = strcspn(word, "=");

		if (word[0] == '-' && word[1] == option->letter && option->letter != 0)
			return true;
		if (strncmp(word, "--", 2) == 0 && find_long(option, word + 2, length - 2) == option)
			return true;
	}
	return false;
}

static void offer_options(const struct request *r, const struct option_spec *options)
{
	char name[64];

	for (; options->kind != OPTION_END; options++) {
		if (options->kind == OPTION_HEADING || (options->kind != OPTION_LIST && is_given(r, options)))
			continue;
		snprintf(name, sizeof name, "--%s", options->name);
		offer(r, name, options->help);
	}
	offer(r, "--help", "print what the command does and its options");
}

/* Copies the word of the synopsis that stands for the operand of that number, from 0 on; false if there is none. The
   word "IN..." stands for all that follow. */
static bool find_operand(const struct option_spec *options, const char *synopsis, size_t number, char text[64])
{
	char copy[256], *rest = NULL;
	const struct option_spec *option = NULL;
	size_t n = 0;

	snprintf(copy, sizeof copy, "%s", synopsis);
	strtok_r(copy, " []", &rest); /* the command */
	for (const char *word = strtok_r(NULL, " []", &rest); word != NULL; word = strtok_r(NULL, " []", &rest)) {
		bool is_value = option != NULL;

		option = word[0] == '-' ? open_option(options, word) : NULL;
		if (is_value || word[0] == '-' || strcmp(word, "|") == 0 || strcmp(word, "options") == 0)
			continue;
		size_t length = suffix_stem(word, "...");
		snprintf(text, 64, "%.*s", (int)(length != 0 ? length : strlen(word)), word);
		if (n++ == number || length != 0)
			return true;
	}
	return false;
}

/* With the command's table at hand: r->words[0] is the command. */
static void complete_argument(void *context, const struct option_spec *options, const struct usage *usage)
{
	struct request *r = context;
	const struct option_spec *open = NULL;
	bool only_operands = false;
	size_t n_operands = 0;
	char operand[64];

	for (size_t i = 1; i + 1 < r->n; i++) {
		const char *word = r->words[i];

		if (open != NULL) {
			open = NULL;
		} else if (only_operands || word[0] != '-' || word[1] == '\0') {
			r->operand = n_operands++ == 0 ? word : r->operand;
		} else if (strcmp(word, "--") == 0) {
			only_operands = true;
		} else {
			open = open_option(options, word);
		}
	}
	const char *last = last_word(r), *equals = strchr(last, '=');
	if (open != NULL) {
		offer_value(r, open);
	} else if (!only_operands && strncmp(last, "--", 2) == 0 && equals != NULL) {
		open = find_long(options, last + 2, (size_t)(equals - last) - 2);
		r->typed = equals + 1;
		if (open != NULL && open->kind != OPTION_FLAG)
			offer_value(r, open);
	} else if (!only_operands && last[0] == '-') {
		offer_options(r, options);
	} else if (find_operand(options, usage->synopsis, n_operands, operand)) {
		offer_argument(r, operand);
	} else if (!only_operands) {
		offer_options(r, options);
	}
}

static void offer_commands(const struct request *r)
{
	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++)
		if (row->command != NULL)
			offer(r, row->command->name, row->command->summary);
}

void completion_print(const char *const *words, size_t n)
{
	struct request r = {.words = words, .n = n, .typed = words[n - 1]};
	const struct command *command;
	struct error error;
	size_t taken = 0;

	if (n > 1 && strcmp(words[0], "--isa") == 0)
		taken = n > 2 ? 2 : 1;
	else if (n > 1 && strncmp(words[0], "--isa=", strlen("--isa=")) == 0)
		taken = 1;
	r.words += taken;
	r.n -= taken;
	if (n == 2 && taken == 1 && strcmp(words[0], "--isa") == 0) {
		offer_tiers(&r);
	} else if (r.n == 1) {
		offer_commands(&r);
		offer(&r, "help", "what a command does, and its options");
		offer(&r, "--help", "the commands");
		offer(&r, "--version", "the version");
		offer(&r, "--isa", "use no instruction-set tier above one");
	} else if (strcmp(r.words[0], "help") == 0) {
		offer_commands(&r);
	} else if (command_find(&command, r.words[0], &error) == EXIT_OK) {
		options_view(command, complete_argument, &r);
	}
}
