/* SPDX-License-Identifier: MIT */
/* mxfp conform: compares a program's answers with the contract's, and names what they match instead. */
#include "config.h"

#include <string.h>

#include "cli/commands.h"
#include "conform/conform.h"
#include "conform/probe.h"

static int run(int argc, char **argv, struct error *error)
{
	static const struct usage usage = {
		"conform CMD [options]",
		"Starts the program CMD by sh -c, asks it for casts, values, blocks, products\n"
		"on its standard input and output, as conformance/README.md has it, and compares\n"
		"each answer with doc/numerics.md. Of what differs it says for each class of\n"
		"input what the answers match instead: another rounding, scale rule, order, ...\n"
		"Exit status: 0 if all that is supported is equal, 1 if not.\n"
		"With --probe it asks for dot products alone, summed as the machine sums them,\n"
		"and says how that is: order, alignment, rounding, and which --acc it equals.",
		"  mxfp conform ./caster --only 'cast e4m3'\n"
		"  mxfp conform 'python3 quantizer.py' --quick --json\n"
		"  mxfp conform ./gpu --probe --only 'bf16 bf16'",
	};
	struct string_list only = {.n = 0};
	struct conform_options conform = {.only = &only, .timeout = 30, .products = 1024};
	const struct option_spec options[] = {
		{"only", 0, OPTION_LIST, "WORDS", "ask only questions that begin so, such as 'cast e4m3'; may be repeated", &only},
		{"like", 0, OPTION_STRING, "NAME", "ask only what this package or standard is known to do", &conform.profile},
		{"probe", 0, OPTION_FLAG, NULL, "find out how products are summed; --only names a pair: 'bf16 bf16'", &conform.probe},
		{"products", 0, OPTION_UNSIGNED, "N", "how many a dot product of --probe has: a multiple of 64 from 64 to 4096", &conform.products},
		{"quick", 0, OPTION_FLAG, NULL, "ask with fewer inputs: all edges, less at random", &conform.quick},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of random inputs", &conform.seed},
		{"timeout", 0, OPTION_UNSIGNED, "SECONDS", "how long an answer may take", &conform.timeout},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &conform.json},
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &conform.command, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	const struct option_use uses[] = {
		{"like", !conform.probe, "for questions that the contract answers"},
		{"products", conform.probe, "for --probe"},
		{.name = NULL},
	};
	const int code = options_check_used(uses, error);
	if (code != EXIT_OK)
		return code;
	if (conform.command[strspn(conform.command, " \t\n")] == '\0')
		return fail(error, EXIT_USAGE, "conform: CMD is empty: it is the program to ask, such as ./caster");
	if (conform.timeout == 0 || conform.timeout > 86400)
		return fail(error, EXIT_USAGE, "conform: --timeout is from 1 to 86400 seconds");
	return conform.probe ? probe_run(&conform, error) : conform_run(&conform, error);
}

const struct command command_conform = {"conform", "check a program against the contract", run};
