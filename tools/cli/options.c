/* SPDX-License-Identifier: MIT */
/* Parses a sub-command's arguments by its option table. */
#include "config.h"

#include "cli/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/word.h"
#include "cli/help.h"
#include "model/choices.h"

enum { OPTIONS_MAX = 64, LONG_BASE = 256 };

/* getopt's view of a table: val of its row i is LONG_BASE + i, --help follows the last row. */
struct getopt_tables {
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 3];
};

static void fill_tables(struct getopt_tables *tables, const struct option_spec *options)
{
	char *letter = tables->shorts;
	struct option *row = tables->longs;

	*letter++ = ':'; /* tells a missing argument from an unknown option */
	for (int i = 0; options[i].kind != OPTION_END; i++) {
		int has_argument = options[i].kind != OPTION_FLAG;
		if (options[i].kind == OPTION_HEADING)
			continue;
		assert(row < tables->longs + OPTIONS_MAX);
		*row++ = (struct option){options[i].name, has_argument, NULL, LONG_BASE + i};
		if (options[i].letter == 0)
			continue;
		*letter++ = options[i].letter;
		if (has_argument)
			*letter++ = ':';
	}
	*row++ = (struct option){"help", no_argument, NULL, 'h'};
	*row = (struct option){NULL, 0, NULL, 0};
	*letter++ = 'h';
	*letter = '\0';
}

/* The row of what getopt_long returned or left in optopt, or NULL. */
static const struct option_spec *find_option(const struct option_spec *options, int found)
{
	if (found >= LONG_BASE)
		return &options[found - LONG_BASE];
	for (; options->kind != OPTION_END; options++)
		if (options->letter != 0 && options->letter == found)
			return options;
	return NULL;
}

/* Finds the options that a shortened name may be, and the one that a mistyped name is nearest to. */
static size_t find_meant(struct nearest *nearest, const struct option_spec *options, char shortened[128])
{
	size_t n = 0;

	shortened[0] = '\0';
	for (const struct option_spec *option = options; option->kind != OPTION_END; option++) {
		size_t used = strlen(shortened);

		if (option->kind == OPTION_HEADING)
			continue;
		nearest_offer(nearest, option->name);
		if (strncmp(option->name, nearest->word, strlen(nearest->word)) == 0 && n++ < 4)
			snprintf(shortened + used, 128 - used, "%s--%s", used == 0 ? "" : ", ", option->name);
	}
	nearest_offer(nearest, "help");
	return n;
}

/* What options_unknown() returns. */
static struct {
	char name[64];
	bool guessed;
} unknown;

const char *options_unknown(bool *guessed)
{
	*guessed = unknown.guessed;
	return unknown.name[0] != '\0' ? unknown.name : NULL;
}

static int fail_unknown(char **argv, const struct option_spec *options, struct error *error)
{
	const char *word = argv[optind - 1];
	char name[sizeof unknown.name], shortened[128], meant[128] = "";
	struct nearest nearest = {.word = name};

	if (optopt != 0)
		return fail(error, EXIT_USAGE, "%s: unknown option '-%c'; see mxfp %s --help", argv[0], optopt,
		            argv[0]);
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	if (strcmp(name, "isa") == 0)
		return fail(error, EXIT_USAGE, "%s: --isa stands before the command: mxfp --isa TIER %s", argv[0], argv[0]);
	if (find_meant(&nearest, options, shortened) > 1)
		return fail(error, EXIT_USAGE, "%s: '--%s' may be %s; write more of it", argv[0], name, shortened);
	if (nearest.best != NULL)
		snprintf(meant, sizeof meant, ": did you mean '--%s'?", nearest.best);
	memcpy(unknown.name, name, sizeof name);
	unknown.guessed = nearest.best != NULL;
	return fail(error, EXIT_USAGE, "%s: unknown option '--%s'%s", argv[0], name, meant);
}

/* Reports what getopt_long() refused: `found` is ':' or '?'. */
static int fail_getopt(int found, char **argv, const struct option_spec *options, struct error *error)
{
	const struct option_spec *option = optopt != 0 ? find_option(options, optopt) : NULL;

	if (found == ':' && option != NULL)
		return fail(error, EXIT_USAGE, "%s: option --%s needs a value: --%s %s", argv[0], option->name,
		            option->name, option->argument);
	if (option != NULL)
		return fail(error, EXIT_USAGE, "%s: option --%s takes no value", argv[0], option->name);
	return fail_unknown(argv, options, error);
}

static int take_unsigned(uint64_t *taken, const char *where, const char *text, struct error *error)
{
	bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	char *end, cut[WORD_CUT];

	errno = 0;
	unsigned long long value = strtoull(text, &end, hexadecimal ? 16 : 10);
	/* strtoull() skips blanks and takes signs; neither is a number here. */
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || (hexadecimal && text[2] == '\0'))
		return fail(error, EXIT_USAGE, "%s: invalid value '%s': expected a number, decimal or 0x...", where, word_cut(text, cut));
	if (errno == ERANGE)
		return fail(error, EXIT_USAGE, "%s: invalid value '%s': it does not fit 64 bits", where, word_cut(text, cut));
	*taken = value;
	return EXIT_OK;
}

/* As many as the library starts; products take memory for each that may run. */
enum { THREADS_MAX = 1024 };

static int set_threads(const struct option_spec *option, const char *where, const char *text, struct error *error)
{
	uint64_t threads;
	int code = take_unsigned(&threads, where, text, error);

	if (code != EXIT_OK)
		return code;
	if (threads > THREADS_MAX)
		return fail(error, EXIT_USAGE, "%s: invalid value '%s': expected at most %d, or 0 for one a processor", where, text,
		            THREADS_MAX);
	*(unsigned *)option->value = (unsigned)threads;
	return EXIT_OK;
}

static int set_list(const struct option_spec *option, const char *where, const char *text, struct error *error)
{
	struct string_list *list = option->value;

	if (list->n == STRING_LIST_MAX)
		return fail(error, EXIT_USAGE, "%s: given more than %d times", where, STRING_LIST_MAX);
	list->items[list->n++] = text;
	return EXIT_OK;
}

/* Finds a value of a kind that is a choice, among those of the kind or those that the argument lists. */
static int find_value(int *value, const struct option_spec *option, const char *where, const char *text,
                      struct error *error)
{
	char words[CHOICE_WORDS_TEXT];
	const char *names[CHOICES_MAX];
	size_t n = choice_words(option->argument, words, names);
	bool known = choice_find(option->kind, text, value);
	int listed;

	if (n == 0)
		return known ? EXIT_OK : choice_fail(option->kind, where, text, error);
	for (size_t i = 0; i < n && known; i++)
		if (choice_find(option->kind, names[i], &listed) && listed == *value)
			return EXIT_OK;
	if (known)
		return fail(error, EXIT_USAGE, "%s: '%s' is not taken; give %s", where, text, option->argument);
	return nearest_fail(where, text, "known", names, n, error);
}

static int set_choice(const struct option_spec *option, const char *where, const char *text, struct error *error)
{
	int value, code = find_value(&value, option, where, text, error);

	if (code != EXIT_OK)
		return code;
	if (option->kind == OPTION_ELEMENT || option->kind == OPTION_BLOCK)
		*(enum mxfp_format *)option->value = (enum mxfp_format)value;
	else
		*(int *)option->value = value;
	return EXIT_OK;
}

static int set_option(const struct option_spec *option, const char *command, const char *text, struct error *error)
{
	char where[64];

	snprintf(where, sizeof where, "%s: --%s", command, option->name);
	switch (option->kind) {
	case OPTION_FLAG:
		*(bool *)option->value = true;
		return EXIT_OK;
	case OPTION_STRING:
		*(const char **)option->value = text;
		return EXIT_OK;
	case OPTION_LIST:
		return set_list(option, where, text, error);
	case OPTION_UNSIGNED:
		return take_unsigned(option->value, where, text, error);
	case OPTION_THREADS:
		return set_threads(option, where, text, error);
	default:
		return set_choice(option, where, text, error);
	}
}

/* What the command line gives, by the names in the command's table. */
static struct {
	const char *command;
	size_t n;
	const char *names[OPTIONS_MAX];
} given;

/* Whether a word looks like a long option: "-o --force" names no file. */
static bool is_long_option(const char *word)
{
	return strncmp(word, "--", 2) == 0 && islower((unsigned char)word[2]) &&
	       word[2 + strspn(word + 2, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

/* Takes an option that getopt_long() found, with `text` for its value, which may be the rest of a word. */
static int take_option(const struct option_spec *option, char **argv, const char *text, struct error *error)
{
	if (text != NULL && text == argv[optind - 1] && is_long_option(text))
		return fail(error, EXIT_USAGE, "%s: option --%s needs a value, and '%s' is an option; --%s=%s takes it", argv[0],
		            option->name, text, option->name, text);
	const int code = set_option(option, argv[0], text, error);

	if (code == EXIT_OK && !options_given(option->name))
		given.names[given.n++] = option->name;
	return code;
}

static int take_operands(int argc, char **argv, size_t min, size_t max, const char **operands, struct error *error)
{
	size_t n = (size_t)(argc - optind);
	char cut[WORD_CUT];

	if (n < min)
		return fail(error, EXIT_USAGE, "%s: %s; see mxfp %s --help", argv[0],
		            n == 0 ? "missing operand" : "too few operands", argv[0]);
	if (n > max)
		return fail(error, EXIT_USAGE, "%s: unexpected operand '%s'; see mxfp %s --help", argv[0],
		            word_cut(argv[(size_t)optind + max], cut), argv[0]);
	for (size_t i = 0; i < n; i++)
		operands[i] = argv[(size_t)optind + i];
	return EXIT_OK;
}

/* While a command's table is looked at: options_parse() calls it and does no more. */
static struct {
	options_viewer *view;
	void *context;
} viewer;

void options_view(const struct command *command, options_viewer *view, void *context)
{
	struct error error;
	char *argv[] = {(char *)(uintptr_t)command->name, NULL};

	viewer.view = view;
	viewer.context = context;
	command->run(1, argv, &error);
	viewer.view = NULL;
}

/* Whether --help comes before the first mistake. Called before parsing, while values are still the defaults. */
static bool wants_help(int argc, char **argv, const struct getopt_tables *tables)
{
	int found;

	optind = 0;
	do
		found = getopt_long(argc, argv, tables->shorts, tables->longs, NULL);
	while (found != -1 && found != 'h' && found != '?' && found != ':');
	return found == 'h';
}

/* A long option with a single dash would be taken for letters and a value, -output for -o utput. */
static int refuse_single_dash(int argc, char **argv, const struct option_spec *options, struct error *error)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *word = argv[i], *name = word + 1;

		if (word[0] != '-' || word[1] == '-' || word[1] == '\0' || word[2] == '\0')
			continue;
		for (const struct option_spec *option = options; option->kind != OPTION_END; option++)
			if (option->kind != OPTION_HEADING && strlen(option->name) == strcspn(name, "=") &&
			    strncmp(option->name, name, strcspn(name, "=")) == 0)
				return fail(error, EXIT_USAGE, "%s: unknown option '%s': did you mean '-%s'?", argv[0],
				            word, word);
	}
	return EXIT_OK;
}

enum parsed options_parse(int argc, char **argv, const struct option_spec *options, const struct usage *usage,
                          size_t min, size_t max, const char **operands, struct error *error)
{
	struct getopt_tables tables;
	int found, code = EXIT_OK;

	if (viewer.view != NULL) {
		viewer.view(viewer.context, options, usage);
		return PARSED_HELP;
	}
	fill_tables(&tables, options);
	opterr = 0;
	if (wants_help(argc, argv, &tables)) {
		help_print(options, usage);
		return PARSED_HELP;
	}
	code = refuse_single_dash(argc, argv, options, error);
	given.command = argv[0];
	given.n = 0;
	optind = 0;
	while (code == EXIT_OK && (found = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (found == '?' || found == ':')
			code = fail_getopt(found, argv, options, error);
		else
			code = take_option(find_option(options, found), argv, optarg, error);
	}
	if (code == EXIT_OK)
		code = take_operands(argc, argv, min, max, operands, error);
	return code == EXIT_OK ? PARSED_RUN : PARSED_ERROR;
}

bool options_given(const char *name)
{
	for (size_t i = 0; i < given.n; i++)
		if (strcmp(given.names[i], name) == 0)
			return true;
	return false;
}

int options_check_used(const struct option_use *uses, struct error *error)
{
	for (; uses->name != NULL; uses++)
		if (!uses->used && options_given(uses->name))
			return fail(error, EXIT_USAGE, "%s: --%s: is for %s; leave it out", given.command, uses->name, uses->use);
	return EXIT_OK;
}

int options_check_weights(const struct recipe_uses *w, struct error *error)
{
	const struct option_use uses[] = {
		{"rule", w->rule, "the MX formats"},
		{"nvfp4-recipe", w->nvfp4_recipe, "nvfp4"},
		{"block", w->block, "the MX formats"},
		{"fuse", w->fuse, "nvfp4 with a tensor scale"},
		{"pad-tail", w->pad_tail, "dense weights, in layouts that hold padded rows"},
		{NULL, true, NULL},
	};

	return options_check_used(uses, error);
}
