/* SPDX-License-Identifier: MIT */
/* Options that a command does not have: what was likely meant. */
#ifndef TOOLS_CLI_OPTIONS_UNKNOWN_H
#define TOOLS_CLI_OPTIONS_UNKNOWN_H

#include "cli/options.h"

/* fail(EXIT_USAGE) for --NAME, which the command's table does not have, or which may be short for several of its
   options. Says which option is near and which commands have one of that name. */
int options_fail_unknown(const char *command, const char *name, const struct option_spec *options, struct error *error);

/* EXIT_USAGE if a long option has a single dash: it would be taken for letters and a value, -output for -o utput. */
int options_refuse_single_dash(int argc, char **argv, const struct option_spec *options, struct error *error);

#endif
