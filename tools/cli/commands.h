/* SPDX-License-Identifier: MIT */
/* The sub-commands of commands.def. */
#ifndef TOOLS_CLI_COMMANDS_H
#define TOOLS_CLI_COMMANDS_H

#include "cli/options.h"

#define GROUP(title)
#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.def"

/* A row of `mxfp --help`: a command, or the title of those that follow. */
struct command_row {
	const char *group;             /* NULL: a command */
	const struct command *command; /* NULL: a title */
};

/* In the order of commands.def; both are NULL in the row after the last. */
extern const struct command_row command_rows[];

/* Finds the command of that name. EXIT_USAGE with the name that was probably meant. */
int command_find(const struct command **command, const char *name, struct error *error);

/* Runs it; the error about an option that only other commands have names those. */
int command_run(const struct command *command, int argc, char **argv, struct error *error);

#endif
