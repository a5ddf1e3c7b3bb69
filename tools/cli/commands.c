/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/word.h"

const struct command_row command_rows[] = {
#define GROUP(title) {title, NULL},
#define COMMAND(name) {NULL, &command_##name},
#include "cli/commands.def"
	{NULL, NULL},
};

int command_find(const struct command **command, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};
	char cut[WORD_CUT];

	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++) {
		if (row->command == NULL)
			continue;
		*command = row->command;
		if (strcmp(name, row->command->name) == 0)
			return EXIT_OK;
		nearest_offer(&nearest, row->command->name);
	}
	nearest_offer(&nearest, "help");
	nearest_offer(&nearest, "--version");
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "unknown command '%s': did you mean '%s'?", name, nearest.best);
	return fail(error, EXIT_USAGE, "unknown command '%s'; mxfp --help lists them", word_cut(name, cut));
}

/* Which commands have an option of that name. */
struct owners {
	const char *option;
	size_t n;
	char commands[96];
};

static void add_owner(void *context, const struct option_spec *options, const struct usage *usage)
{
	struct owners *owners = context;
	const size_t used = strlen(owners->commands);

	while (options->kind != OPTION_END &&
	       (options->kind == OPTION_HEADING || strcmp(options->name, owners->option) != 0))
		options++;
	if (options->kind != OPTION_END && owners->n++ < 4)
		snprintf(owners->commands + used, sizeof owners->commands - used, "%s%.*s", used == 0 ? "" : ", ",
		         (int)strcspn(usage->synopsis, " "), usage->synopsis);
}

/* Adds to the error about an unknown option which commands have it. */
static void add_owners(const char *command, struct error *error)
{
	bool guessed;
	struct owners owners = {.option = options_unknown(&guessed)};
	const size_t n = strlen(error->text);

	if (owners.option == NULL)
		return;
	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++)
		if (row->command != NULL)
			options_view(row->command, add_owner, &owners);
	if (owners.n > 0)
		snprintf(error->text + n, sizeof error->text - n, " (mxfp %s ha%s it)", owners.commands,
		         owners.n == 1 ? "s" : "ve");
	else if (!guessed)
		snprintf(error->text + n, sizeof error->text - n, "; see mxfp %s --help", command);
}

int command_run(const struct command *command, int argc, char **argv, struct error *error)
{
	int code = command->run(argc, argv, error);

	if (code == EXIT_USAGE)
		add_owners(argv[0], error);
	return code;
}
