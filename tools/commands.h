/* SPDX-License-Identifier: MIT */
/* Declares the sub-commands of commands.def. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "options.h"

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"

#endif
