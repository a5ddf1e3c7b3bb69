/* SPDX-License-Identifier: MIT */
/* The text of `mxfp COMMAND --help`, made from the command's option table. */
#ifndef TOOLS_CLI_HELP_H
#define TOOLS_CLI_HELP_H

#include "cli/options.h"

/* Prints to stdout. Values of the options are their defaults. */
void help_print(const struct option_spec *options, const struct usage *usage);

#endif
