/* SPDX-License-Identifier: MIT */
/* The command mxfp: finds the sub-command, and alone prints failures and sets the exit code. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/color.h"
#include "base/interrupt.h"
#include "base/nearest.h"
#include "base/word.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/isa.h"
#include "io/json.h"
#include "mxfp/version.h"

/* A descriptor 0..2 that the caller left closed would become that of the next file opened, and messages would end up
   in that file. Opened the wrong way round, it fails at its first use instead. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) == -1)
			return;
}

/* Fits on a screen of 80 x 24 with a prompt below. */
static int print_commands(void)
{
	const char *group = "";

	printf("Usage: mxfp [--isa TIER] COMMAND [options], mxfp help COMMAND, mxfp --version\n");
	for (const struct command_row *row = command_rows; row->group != NULL || row->command != NULL; row++) {
		if (row->command != NULL)
			printf("%s%-8s%s%-13s%s\n", color_begin(stdout, COLOR_HEADING), group, color_end(stdout),
			       row->command->name, row->command->summary);
		group = row->group != NULL ? row->group : "";
	}
	return EXIT_OK;
}

static int print_version(void)
{
	printf("mxfp %s\n", mxfp_version());
	return EXIT_OK;
}

static void print_error(const struct error *error)
{
	fprintf(stderr, "%smxfp:%s %s\n", color_begin(stderr, COLOR_ERROR), color_end(stderr), error->text);
}

/* Takes --isa TIER or --isa=TIER off the front of the arguments, if it stands there. */
static int take_isa(int *argc, char ***argv, struct error *error)
{
	static const char option[] = "--isa";
	const size_t length = sizeof option - 1;
	const char *word = *argc > 1 ? (*argv)[1] : "", *tier = word + length + 1;
	int n_words = 1;

	if (strncmp(word, option, length) != 0 || (word[length] != '=' && word[length] != '\0'))
		return EXIT_OK;
	if (word[length] == '\0') {
		if (*argc == 2)
			return fail(error, EXIT_USAGE, "option --isa needs a value: mxfp --isa TIER COMMAND");
		tier = (*argv)[2];
		n_words = 2;
	}
	*argc -= n_words;
	*argv += n_words;
	return isa_set_limit(tier, error);
}

static int run_command(int argc, char **argv, struct error *error)
{
	const struct command *command;
	int code = command_find(&command, argv[0], error);

	if (code == EXIT_OK)
		code = isa_check_limit(error);
	return code == EXIT_OK ? command_run(command, argc, argv, error) : code;
}

/* mxfp completion words -- WORD..., which the scripts of mxfp completion ask; a question about all commands, like help. */
static bool asks_words(int argc, char **argv)
{
	return argc > 4 && strcmp(argv[1], "completion") == 0 && strcmp(argv[2], "words") == 0 && strcmp(argv[3], "--") == 0;
}

/* mxfp help [COMMAND], or --help */
static int help(int argc, char **argv, struct error *error)
{
	if (argc == 1)
		return print_commands();
	if (argc > 2)
		return fail(error, EXIT_USAGE, "%s: unexpected operand '%s'; mxfp help COMMAND", argv[0], argv[2]);
	return run_command(2, (char *[]){argv[1], "--help", NULL}, error);
}

/* An option before the command, where there are few. */
static int fail_option(const char *word, struct error *error)
{
	struct nearest nearest = {.word = word};
	char cut[WORD_CUT];

	nearest_offer(&nearest, "--help");
	nearest_offer(&nearest, "--version");
	nearest_offer(&nearest, "--isa");
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "unknown option '%s': did you mean '%s'?", word, nearest.best);
	return fail(error, EXIT_USAGE, "unknown option '%s': options follow a command; mxfp --help lists them", word_cut(word, cut));
}

static int run(int argc, char **argv, struct error *error)
{
	int code = take_isa(&argc, &argv, error);
	const char *word = argc > 1 ? argv[1] : NULL;

	if (code != EXIT_OK)
		return code;
	if (word == NULL)
		return fail(error, EXIT_USAGE, "no command given; mxfp --help lists them");
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return help(argc - 1, argv + 1, error);
	if (asks_words(argc, argv)) {
		completion_print((const char *const *)argv + 4, (size_t)argc - 4);
		return EXIT_OK;
	}
	if (strcmp(word, "help") == 0)
		return help(argc - 1, argv + 1, error);
	if (strcmp(word, "--version") == 0 && argc > 2)
		return fail(error, EXIT_USAGE, "--version: unexpected operand '%s'", argv[2]);
	if (strcmp(word, "--version") == 0)
		return print_version();
	if (word[0] == '-')
		return fail_option(word, error);
	return run_command(argc - 1, argv + 1, error);
}

int main(int argc, char **argv)
{
	struct error error = {""};
	int code;

	hold_standard_descriptors();
	interrupt_prepare();
	json_prepare();
	code = run(argc, argv, &error);
	/* What was printed counts as done only once the system has taken it. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && (code <= EXIT_CHECK || code == EXIT_UNCHECKED))
		code = fail_errno(&error, "standard output", "cannot write");
	if (error.text[0] != '\0')
		print_error(&error);
	interrupt_die(code);
	return code;
}
