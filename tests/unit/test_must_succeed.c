/* SPDX-License-Identifier: MIT */
/* A call of the library that fails ends the command with file and line, in a build without assertions too. */
#ifndef NDEBUG
#define NDEBUG
#endif
#include "base/must_succeed.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

/* Calls must_succeed(status) in a process of its own; its wait status, and what it printed. */
static int call(enum mxfp_status status, char *printed, size_t size, int *line)
{
	int ends[2], result;
	ssize_t n, length = 0;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	*line = __LINE__ + 4; /* of must_succeed() */
	if ((child = fork()) == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		must_succeed(status);
		_exit(0);
	}
	ck_assert_int_gt(child, 0);
	close(ends[1]);
	while (length + 1 < (ssize_t)size && (n = read(ends[0], printed + length, size - 1 - (size_t)length)) > 0)
		length += n;
	printed[length] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(child, &result, 0), child);
	return result;
}

TEST(assertions_are_compiled_out)
{
	assert(0);
}

TEST(failure_aborts_with_file_and_line)
{
	char printed[1024], place[64];
	int line, result = call(MXFP_ERR_FORMAT, printed, sizeof printed, &line);

	ck_assert(WIFSIGNALED(result));
	ck_assert_int_eq(WTERMSIG(result), SIGABRT);
	snprintf(place, sizeof place, "test_must_succeed.c:%d: ", line);
	ck_assert_ptr_nonnull(strstr(printed, place));
	ck_assert_ptr_nonnull(strstr(printed, mxfp_status_text(MXFP_ERR_FORMAT)));
}

TEST(success_goes_on_and_prints_nothing)
{
	char printed[1024];
	int line, result = call(MXFP_OK, printed, sizeof printed, &line);

	ck_assert(WIFEXITED(result));
	ck_assert_int_eq(WEXITSTATUS(result), 0);
	ck_assert_str_eq(printed, "");
}
