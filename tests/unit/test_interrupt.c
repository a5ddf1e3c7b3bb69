/* SPDX-License-Identifier: MIT */
/* Signals end a process at once, or after the output that it builds is gone; what was there is intact. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "io/output.h"
#include "unit/scratch.h"
#include "suite.h"

enum { SURVIVED = 100, FAILED = 101 };

static struct error error;
static struct output output;

/* Runs in a child process, whose signals do not last; its exit code, or 128 + n after signal n as a shell has it. */
static int in_child(int (*run)(int), int number)
{
	int status;

	fflush(NULL);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		signal(number, SIG_DFL); /* whatever the test's parent ignores */
		_exit(run(number));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	suite_compared(1);
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The directory "d" holds "out", a directory with this config.json, and nothing else. */
static void check_out(const char *text)
{
	size_t n;
	char *bytes = scratch_read(scratch_path("d/out/config.json"), &n);

	ck_assert_str_eq(bytes, text);
	free(bytes);
	ck_assert_uint_eq(scratch_count(scratch_path("d")), 1);
	suite_compared(1);
}

static int begin(void)
{
	int code = output_begin_directory(&output, scratch_path("d/out"), true, &error);
	char *path = code == EXIT_OK ? output_member(&output, "config.json") : NULL;

	if (path != NULL)
		code = output_write_file(path, "new", 3, &error);
	free(path);
	return code;
}

/* Is sent the signal while the directory is there, twice. */
static int end_while_built(int number)
{
	if (begin() != EXIT_OK || interrupt_check(&error) != EXIT_OK)
		return FAILED;
	raise(number);
	raise(number);
	if (interrupt_check(&error) != EXIT_SIGNAL + number)
		return FAILED;
	int code = output_commit(&output, &error);
	output_abandon(&output);
	interrupt_die(code);
	return SURVIVED;
}

static int end_after_commit(int number)
{
	if (begin() != EXIT_OK || output_commit(&output, &error) != EXIT_OK)
		return FAILED;
	raise(number);
	return SURVIVED;
}

/* A file has a name from the beginning, but nothing stands there. */
static int end_before_file(int number)
{
	if (output_begin_file(&output, scratch_path("d/file"), false, &error) != EXIT_OK)
		return FAILED;
	raise(number);
	return SURVIVED;
}

/* Of two files, the second is there to be cleaned up when the first is gone. */
static int end_while_second(int number)
{
	struct output other;

	if (output_begin_file(&output, scratch_path("d/file"), false, &error) != EXIT_OK ||
	    output_begin_file(&other, scratch_path("d/other"), false, &error) != EXIT_OK)
		return FAILED;
	output_build(&output);
	if (output_write_file(output_build(&other), "new", 3, &error) != EXIT_OK)
		return FAILED;
	output_build(&other);
	output_abandon(&output);
	raise(number);
	output_abandon(&other);
	if (interrupt_check(&error) != EXIT_SIGNAL + number)
		return FAILED;
	raise(number);
	return SURVIVED;
}

TEST(signals_end_the_process)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

	scratch_directory("d");
	scratch_directory("d/out");
	scratch_text("d/out/mxfp-part.json", "{}");
	scratch_write("d/out/config.json", "old", 3);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		int code = EXIT_SIGNAL + numbers[i];

		ck_assert_int_eq(in_child(end_before_file, numbers[i]), code);
		check_out("old");
		ck_assert_int_eq(in_child(end_while_built, numbers[i]), code);
		check_out("old");
		ck_assert_int_eq(in_child(end_while_second, numbers[i]), code);
		check_out("old");
	}
	ck_assert_int_eq(in_child(end_after_commit, SIGTERM), EXIT_SIGNAL + SIGTERM);
	check_out("new");
}

/* As under nohup, held or not. */
static int ignore(int number)
{
	signal(number, SIG_IGN);
	raise(number);
	interrupt_hold();
	raise(number);
	interrupt_release();
	raise(number);
	return interrupt_check(&error) == EXIT_OK ? SURVIVED : FAILED;
}

/* It becomes an error of write(). */
static int survive(int number)
{
	interrupt_prepare();
	raise(number);
	return interrupt_check(&error) == EXIT_OK ? SURVIVED : FAILED;
}

static int die_of_no_signal(int number)
{
	(void)number;
	interrupt_die(EXIT_OK);
	interrupt_die(EXIT_IO);
	return SURVIVED;
}

TEST(signals_that_do_not_end_it)
{
	ck_assert_int_eq(in_child(ignore, SIGHUP), SURVIVED);
	ck_assert_int_eq(in_child(ignore, SIGINT), SURVIVED);
	ck_assert_int_eq(in_child(ignore, SIGPIPE), SURVIVED);
	ck_assert_int_eq(in_child(survive, SIGXFSZ), SURVIVED);
	ck_assert_int_eq(in_child(die_of_no_signal, SIGTERM), SURVIVED);
}
