/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"

#include <string.h>

#include "base/nearest.h"

const struct command_row command_rows[] = {
#define GROUP(title) {title, NULL},
#define COMMAND(name) {NULL, &command_##name},
#include "cli/commands.def"
	{NULL, NULL},
};

int command_find(const struct command **command, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};

	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++) {
		if (row->command == NULL)
			continue;
		*command = row->command;
		if (strcmp(name, row->command->name) == 0)
			return EXIT_OK;
		nearest_offer(&nearest, row->command->name);
	}
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "unknown command '%s': did you mean '%s'?", name, nearest.best);
	return fail(error, EXIT_USAGE, "unknown command '%s' / mxfp --help lists them", name);
}
