/* SPDX-License-Identifier: MIT */
#include "cli/options_unknown.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/commands.h"

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

int options_fail_unknown(const char *command, const char *name, const struct option_spec *options, struct error *error)
{
	struct nearest nearest = {.word = name};
	struct owners owners = {.option = name};
	char shortened[128], meant[128] = "", see[160] = "";

	if (strcmp(name, "isa") == 0)
		return fail(error, EXIT_USAGE, "%s: --isa stands before the command: mxfp --isa TIER %s", command,
		            command);
	if (find_meant(&nearest, options, shortened) > 1)
		return fail(error, EXIT_USAGE, "%s: '--%s' may be %s / write more of it", command, name, shortened);
	if (nearest.best != NULL)
		snprintf(meant, sizeof meant, ": did you mean '--%s'?", nearest.best);
	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++)
		if (row->command != NULL)
			options_view(row->command, add_owner, &owners);
	if (owners.n > 0)
		snprintf(see, sizeof see, " / mxfp %s ha%s it", owners.commands, owners.n == 1 ? "s" : "ve");
	else if (nearest.best == NULL)
		snprintf(see, sizeof see, " / see mxfp %s --help", command);
	return fail(error, EXIT_USAGE, "%s: unknown option '--%s'%s%s", command, name, meant, see);
}

int options_refuse_single_dash(int argc, char **argv, const struct option_spec *options, struct error *error)
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
