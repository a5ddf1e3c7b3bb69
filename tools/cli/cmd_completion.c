/* SPDX-License-Identifier: MIT */
/* mxfp completion: prints what a shell needs to complete command lines. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/completion_scripts.h"

static int run(int argc, char **argv, struct error *error)
{
	static const struct usage usage = {
		"completion bash|zsh|fish",
		"Prints the completion script of mxfp for a shell. It completes commands, options\n"
		"and their values, files and tensor names. make install puts the scripts where\n"
		"the shells look for them; otherwise load them as below. The scripts get their\n"
		"candidates for the last WORD from \"mxfp completion words -- WORD...\".",
		"  source <(mxfp completion bash)      # in .bashrc; zsh likewise, after compinit\n"
		"  mxfp completion fish | source       # in config.fish",
	};
	const struct option_spec options[] = {
		{.kind = OPTION_END},
	};
	enum { N_SCRIPTS = sizeof completion_scripts / sizeof completion_scripts[0] };
	const char *shell, *names[N_SCRIPTS];

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &shell, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	for (size_t i = 0; i < N_SCRIPTS; i++) {
		if (strcmp(shell, completion_scripts[i].shell) == 0) {
			fputs(completion_scripts[i].text, stdout);
			return EXIT_OK;
		}
		names[i] = completion_scripts[i].shell;
	}
	return nearest_fail("completion", shell, "shells", names, N_SCRIPTS, error);
}

const struct command command_completion = {"completion", "print completion scripts for bash, zsh and fish", run};
