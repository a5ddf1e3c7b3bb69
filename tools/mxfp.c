/* SPDX-License-Identifier: MIT */
/* The command mxfp: finds the sub-command, and alone prints failures and sets the exit code. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"
#include "mxfp/isa.h"
#include "nearest.h"
#include "output.h"

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "commands.def"
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* A descriptor 0..2 that the caller left closed would become that of the next file opened, and messages would end up
   in that file. Opened the wrong way round, it fails at its first use instead. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) == -1)
			return;
}

static int print_commands(void)
{
	printf("Usage: mxfp COMMAND [options]\n"
	       "Bit-exact low-precision numbers: MXFP8, MXFP6, MXFP4, MXINT8, NVFP4.\n\n");
	for (int i = 0; i < N_COMMANDS; i++)
		printf("  %-12s%s\n", commands[i]->name, commands[i]->summary);
	printf("\nmxfp COMMAND --help tells more; mxfp --version prints the version.\n"
	       "Exit: 0 done, 1 a check failed, 2 usage, 3 bad input, 4 I/O, 5 memory.\n");
	return EXIT_OK;
}

static int print_version(void)
{
	printf("mxfp %s\n", mxfp_version());
	return EXIT_OK;
}

static void print_error(const struct error *error)
{
	fprintf(stderr, "mxfp: %s\n", error->text);
}

/* A tier that does not exist changes nothing but the speed, so it is a warning. */
static void check_isa(void)
{
	struct error warning;

	if (mxfp_isa_status() != MXFP_OK) {
		fail(&warning, EXIT_OK, "warning: MXFP_ISA names no tier that is known, so %s runs / see mxfp info",
		     mxfp_isa_name(mxfp_isa_active()));
		print_error(&warning);
	}
}

static int run_command(int argc, char **argv, struct error *error)
{
	struct nearest nearest = {.word = argv[0]};

	for (int i = 0; i < N_COMMANDS; i++) {
		if (strcmp(argv[0], commands[i]->name) == 0) {
			check_isa();
			return commands[i]->run(argc, argv, error);
		}
		nearest_offer(&nearest, commands[i]->name);
	}
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "unknown command '%s': did you mean '%s'?", argv[0], nearest.best);
	return fail(error, EXIT_USAGE, "unknown command '%s' / mxfp --help lists them", argv[0]);
}

static int run(int argc, char **argv, struct error *error)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (word == NULL)
		return fail(error, EXIT_USAGE, "no command given / mxfp --help lists them");
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return print_commands();
	if (strcmp(word, "--version") == 0)
		return print_version();
	if (word[0] == '-')
		return fail(error, EXIT_USAGE,
		            "unknown option '%s': options follow a command / mxfp --help lists them", word);
	return run_command(argc - 1, argv + 1, error);
}

int main(int argc, char **argv)
{
	struct error error = {""};
	int code;

	hold_standard_descriptors();
	output_catch_signals();
	json_prepare();
	code = run(argc, argv, &error);
	/* What was printed counts as done only once the system has taken it. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code <= EXIT_CHECK)
		code = fail_errno(&error, "standard output", "cannot write");
	if (error.text[0] != '\0')
		print_error(&error);
	return code;
}
