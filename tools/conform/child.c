/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/printable.h"

enum { EXCHANGE = 1, BATCH = 4096, BATCH_MAX = 1 << 16, WAIT_MS = 100, EXIT_SECONDS = 5 };

extern char **environ;

/* Whether the child has ended, and how. It stays a zombie, so that its number and its group's are no other's. */
static bool has_ended(const struct child *child, siginfo_t *how)
{
	*how = (siginfo_t){.si_pid = 0};
	return waitid(P_PID, (id_t)child->pid, how, WEXITED | WNOHANG | WNOWAIT) == 0 && how->si_pid == child->pid;
}

/* Waits a little for what the child says, and passes that on. */
static void listen_to(struct child *child)
{
	struct pollfd polled = {child->said.fd, POLLIN, 0};

	if (poll(&polled, 1, 10) > 0)
		said_pass(&child->said);
}

/* How the child ended, or that it has not. */
static void say_end(struct child *child, char *text, size_t n)
{
	siginfo_t how;

	for (int tries = 0; tries < 20 && !has_ended(child, &how); tries++)
		listen_to(child);
	if (how.si_pid == 0)
		snprintf(text, n, "closed its standard output");
	else if (how.si_code != CLD_EXITED)
		snprintf(text, n, "died of signal %d (%s)", how.si_status, strsignal(how.si_status));
	else if (how.si_status > 128)
		snprintf(text, n, "exited with status %d, which sh gives for signal %d (%s)", how.si_status, how.si_status - 128,
		         strsignal(how.si_status - 128));
	else
		snprintf(text, n, "exited with status %d", how.si_status);
}

void child_kill(struct child *child)
{
	if (child->pid == 0)
		return;
	if (child->in >= 0)
		close(child->in);
	close(child->out);
	/* The group, as sh may have started others. */
	kill(-child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) == -1 && errno == EINTR)
		;
	said_end(&child->said);
	child->pid = 0;
}

/* Makes the pipes of a child's standard input, output and error. */
static bool make_pipes(int pipes[3][2])
{
	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) != 0) {
			for (const int failed = errno; i-- > 0; errno = failed) {
				close(pipes[i][0]);
				close(pipes[i][1]);
			}
			return false;
		}
	return true;
}

static int start(struct child *child, struct error *error)
{
	int pipes[3][2];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	char *const argv[] = {"sh", "-c", (char *)child->command, NULL};

	if (!make_pipes(pipes))
		return fail_errno(error, child->command, "cannot make a pipe");
	sigemptyset(&defaults);
	for (int signal = 0; signal < 4; signal++)
		sigaddset(&defaults, (const int[]){SIGINT, SIGTERM, SIGHUP, SIGPIPE}[signal]);
	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_adddup2(&actions, pipes[i][i > 0], i);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	const int failed = posix_spawn(&child->pid, "/bin/sh", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	for (int i = 0; i < 3; i++) {
		close(pipes[i][i > 0]);
		fcntl(pipes[i][i == 0], F_SETFL, O_NONBLOCK);
	}
	child->in = pipes[0][1];
	child->out = pipes[1][0];
	child->said = (struct said){.fd = pipes[2][0]};
	if (failed != 0) {
		child->pid = 0;
		for (int i = 0; i < 3; i++)
			close(pipes[i][i == 0]);
		errno = failed;
		return fail_errno(error, child->command, "cannot start /bin/sh");
	}
	return EXIT_OK;
}

/* The bytes of a request that are still to be sent, and those of the answer that are still to come. */
struct exchange {
	const char *what;
	struct { const uint8_t *bytes; size_t n; } send[2];
	double deadline;
	size_t got, due; /* bytes after the answer's line; due 0: it has not come */
};

/* What came of an answer: "" if nothing did. */
static const char *say_came(const struct child *child, const struct exchange *x, char text[96])
{
	*text = '\0';
	if (x->due > 0)
		snprintf(text, 96, " after %zu of %zu bytes of its answer", x->got, x->due);
	else if (child->n_held > 0)
		snprintf(text, 96, " after %zu byte%s of its answer, without a newline", child->n_held, child->n_held == 1 ? "" : "s");
	return text;
}

/* Writes what the child takes now. */
static int send_some(struct child *child, struct exchange *x, struct error *error)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before;
	const int part = x->send[0].n == 0;

	/* Only while this is written, since SIGPIPE of standard output shall end the command. */
	sigaction(SIGPIPE, &ignore, &before);
	const ssize_t n = write(child->in, x->send[part].bytes, x->send[part].n);
	const int failed = errno;
	sigaction(SIGPIPE, &before, NULL);
	if (n >= 0) {
		x->send[part].bytes += n;
		x->send[part].n -= (size_t)n;
		return EXIT_OK;
	}
	if (failed == EAGAIN || failed == EINTR)
		return EXIT_OK;
	if (failed == EPIPE) {
		char text[128];

		say_end(child, text, sizeof text);
		return fail(error, EXIT_INPUT, "%s: %s: it read only a part of the request, and %s; run it by hand to see why",
		            child->command, x->what, text);
	}
	errno = failed;
	return fail_errno(error, child->command, "cannot write to it");
}

/* Waits until something can be read, sends the request meanwhile, and passes on what the child says. */
static int await(struct child *child, struct exchange *x, struct error *error)
{
	for (;;) {
		const bool sends = x->send[0].n + x->send[1].n > 0;
		struct pollfd polled[3] = {{child->out, POLLIN, 0}, {sends ? child->in : -1, POLLOUT, 0}, {child->said.fd, POLLIN, 0}};
		char came[96];
		int code = interrupt_check(error);

		if (code == EXIT_OK && clock_seconds() > x->deadline)
			code = fail(error, EXIT_INPUT, "%s: %s: no whole answer within %g s%s%s%s; does it flush its output after each? "
			            "else give a larger --timeout", child->command, x->what, child->timeout,
			            *say_came(child, x, came) != '\0' ? ", it stopped" : "", came,
			            sends ? ", and it does not read the request" : "");
		if (code != EXIT_OK)
			return code;
		const int n = poll(polled, 3, WAIT_MS);
		if (n < 0 && errno != EINTR)
			return fail_errno(error, child->command, "cannot wait for it");
		if (n > 0 && polled[2].revents != 0)
			said_pass(&child->said);
		if (n > 0 && polled[0].revents != 0)
			return EXIT_OK;
		if (n > 0 && polled[1].revents != 0) {
			code = send_some(child, x, error);
			if (code != EXIT_OK)
				return code;
		}
	}
}

/* Reads at most n bytes, at least one. */
static int receive_some(struct child *child, struct exchange *x, uint8_t *bytes, size_t n, size_t *got, struct error *error)
{
	for (;;) {
		char text[128], came[96];
		int code = await(child, x, error);

		if (code != EXIT_OK)
			return code;
		const ssize_t read_ = read(child->out, bytes, n);
		if (read_ > 0) {
			*got = (size_t)read_;
			return EXIT_OK;
		}
		if (read_ < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (read_ < 0)
			return fail_errno(error, child->command, "cannot read from it");
		say_end(child, text, sizeof text);
		if (*say_came(child, x, came) != '\0')
			return fail(error, EXIT_INPUT, "%s: %s: it %s%s; run it by hand to see why", child->command, x->what, text, came);
		return fail(error, EXIT_INPUT, "%s: %s: it %s in place of an answer; run it by hand to see why", child->command,
		            x->what, text);
	}
}

/* Takes a line, without its newline. */
static int receive_line(struct child *child, struct exchange *x, char line[CHILD_LINE], struct error *error)
{
	uint8_t *end;

	while ((end = memchr(child->held, '\n', child->n_held)) == NULL) {
		size_t got;

		if (child->n_held == sizeof child->held)
			return fail(error, EXIT_INPUT, "%s: %s: no newline in %d bytes where a line of JSON is due: '%.60s'", child->command,
			            x->what, CHILD_LINE, (memcpy(line, child->held, 60), line[60] = '\0', line));
		int code = receive_some(child, x, child->held + child->n_held, sizeof child->held - child->n_held, &got, error);
		if (code != EXIT_OK)
			return code;
		child->n_held += got;
	}
	const size_t n = (size_t)(end - child->held);
	memcpy(line, child->held, n);
	line[n] = '\0';
	child->n_held -= n + 1;
	memmove(child->held, end + 1, child->n_held);
	return EXIT_OK;
}

/* Takes an answer's line as JSON. */
static int receive_json(struct child *child, struct exchange *x, json_t **json, struct error *error)
{
	char line[CHILD_LINE];
	json_error_t problem;
	int code = receive_line(child, x, line, error);

	if (code != EXIT_OK)
		return code;
	*json = json_loads(line, JSON_REJECT_DUPLICATES, &problem);
	if (*json == NULL || !json_is_object(*json)) {
		const char *why = *json == NULL ? problem.text : "";

		json_decref(*json);
		*json = NULL;
		make_printable(line);
		make_printable(problem.text);
		return fail(error, EXIT_INPUT, "%s: %s: '%.60s' is not a JSON object%s%s; on standard output are answers alone",
		            child->command, x->what, line, *why != '\0' ? ": " : "", why);
	}
	return EXIT_OK;
}

/* What the child says before it is asked again is no answer to anything. */
static int check_silent(struct child *child, const char *what, struct error *error)
{
	struct pollfd polled = {child->out, POLLIN, 0};

	if (child->n_held == 0 && poll(&polled, 1, 0) > 0 && (polled.revents & POLLIN) != 0) {
		const ssize_t n = read(child->out, child->held, sizeof child->held);

		child->n_held = n > 0 ? (size_t)n : 0;
	}
	if (child->n_held > 0)
		return fail(error, EXIT_INPUT, "%s: before %s: more bytes than it announced%s", child->command, what,
		            child->name[0] == '\0' ? ": standard output is for answers alone" :
		            "; \"bytes\" counts all that follow the line, and those of a request are read before it is answered");
	return EXIT_OK;
}

static int send_request(struct child *child, struct exchange *x, json_t **json, struct error *error)
{
	int code = check_silent(child, x->what, error);

	if (code != EXIT_OK)
		return code;
	x->deadline = clock_seconds() + child->timeout;
	return receive_json(child, x, json, error);
}

/* Refuses keys that the exchange does not have: what they should mean would be passed over. */
static int check_keys(const struct child *child, const char *what, json_t *json, const char *const known[], struct error *error)
{
	const char *key;
	json_t *value;

	json_object_foreach(json, key, value) {
		size_t i = 0;

		(void)value;
		while (known[i] != NULL && strcmp(known[i], key) != 0)
			i++;
		if (known[i] == NULL) {
			char text[64];

			snprintf(text, sizeof text, "%s", key);
			make_printable(text);
			return fail(error, EXIT_INPUT, "%s: %s: unknown key '%s' in the answer; leave it out", child->command, what, text);
		}
	}
	return EXIT_OK;
}

static int take_hello(struct child *child, const json_t *json, struct error *error)
{
	const json_t *version = json_object_get(json, "version"), *batch = json_object_get(json, "batch"),
	             *name = json_object_get(json, "name");

	if (json_object_get(json, "unsupported") != NULL)
		return fail(error, EXIT_INPUT, "%s: hello: it cannot be refused; answer {\"version\":%d,\"name\":\"...\"}", child->command, EXCHANGE);
	if (!json_is_integer(version) || json_integer_value(version) != EXCHANGE)
		return fail(error, EXIT_INPUT, "%s: hello: \"version\" is not %d, the version of the exchange that mxfp speaks",
		            child->command, EXCHANGE);
	if (batch != NULL && (!json_is_integer(batch) || json_integer_value(batch) < 1))
		return fail(error, EXIT_INPUT, "%s: hello: \"batch\" is not a number from 1 on", child->command);
	if (name != NULL && !json_is_string(name))
		return fail(error, EXIT_INPUT, "%s: hello: \"name\" is not a string", child->command);
	child->batch = BATCH;
	if (batch != NULL)
		child->batch = json_integer_value(batch) < BATCH_MAX ? (size_t)json_integer_value(batch) : BATCH_MAX;
	snprintf(child->name, sizeof child->name, "%s", name != NULL ? json_string_value(name) : child->command);
	make_printable(child->name);
	return EXIT_OK;
}

int child_start(struct child *child, const char *command, double timeout, struct error *error)
{
	static const char hello[] = "{\"op\":\"hello\",\"version\":1}\n";
	struct exchange x = {.what = "hello", .send = {{(const uint8_t *)hello, sizeof hello - 1}, {NULL, 0}}};
	json_t *json = NULL;

	*child = (struct child){.command = command, .timeout = timeout};
	int code = start(child, error);
	if (code == EXIT_OK)
		code = send_request(child, &x, &json, error);
	if (code == EXIT_OK)
		code = check_keys(child, "hello", json, (const char *const[]){"version", "name", "batch", "unsupported", NULL}, error);
	if (code == EXIT_OK)
		code = take_hello(child, json, error);
	json_decref(json);
	return code;
}

int child_ask(struct child *child, const char *what, const char *line, const uint8_t *bytes, size_t n, uint8_t *answer,
              size_t n_answer, struct error *error)
{
	struct exchange x = {.what = what, .send = {{(const uint8_t *)line, strlen(line)}, {bytes, n}}};
	json_t *json = NULL;
	int code = send_request(child, &x, &json, error);
	const json_t *announced = json_object_get(json, "bytes");

	if (code == EXIT_OK)
		code = check_keys(child, what, json, (const char *const[]){"bytes", "unsupported", NULL}, error);
	child->unsupported = json_is_true(json_object_get(json, "unsupported"));
	if (code == EXIT_OK && !child->unsupported && announced != NULL && !json_is_integer(announced))
		code = fail(error, EXIT_INPUT, "%s: %s: \"bytes\" of the answer is not a whole number%s", child->command, what,
		            json_is_string(announced) ? ": write it without quotes" : "");
	else if (code == EXIT_OK && !child->unsupported && announced == NULL)
		code = fail(error, EXIT_INPUT, "%s: %s: the answer has neither \"bytes\" nor \"unsupported\"", child->command, what);
	const json_int_t n_announced = child->unsupported ? 0 : json_integer_value(announced);
	json_decref(json);
	if (code == EXIT_OK && !child->unsupported && n_announced != (json_int_t)n_answer)
		code = fail(error, EXIT_INPUT, "%s: %s: it answers %" JSON_INTEGER_FORMAT " bytes where %zu are due", child->command, what,
		            n_announced, n_answer);
	if (child->unsupported)
		n_answer = 0;
	size_t got = child->n_held < n_answer ? child->n_held : n_answer;
	if (code == EXIT_OK && got > 0) {
		memcpy(answer, child->held, got);
		child->n_held -= got;
		memmove(child->held, child->held + got, child->n_held);
	}
	while (code == EXIT_OK && got < n_answer) {
		size_t more = 0;

		x.got = got;
		x.due = n_answer;
		code = receive_some(child, &x, answer + got, n_answer - got, &more, error);
		got += more;
	}
	/* A refusal may come before all was read: what is left of the request is sent all the same. */
	while (code == EXIT_OK && x.send[0].n + x.send[1].n > 0) {
		struct pollfd polled[2] = {{child->in, POLLOUT, 0}, {child->said.fd, POLLIN, 0}};

		code = interrupt_check(error);
		const int n_ready = code == EXIT_OK ? poll(polled, 2, WAIT_MS) : 0;
		if (n_ready > 0 && polled[1].revents != 0)
			said_pass(&child->said);
		if (n_ready > 0 && polled[0].revents != 0)
			code = send_some(child, &x, error);
		if (code == EXIT_OK && clock_seconds() > x.deadline)
			code = fail(error, EXIT_INPUT, "%s: %s: it answered, and left the bytes of the request unread", child->command, what);
	}
	return code;
}

int child_end(struct child *child, struct error *error)
{
	const double deadline = clock_seconds() + (child->timeout < EXIT_SECONDS ? child->timeout : EXIT_SECONDS);
	siginfo_t how = {.si_pid = 0};
	int code = check_silent(child, "the end", error);

	close(child->in);
	child->in = -1;
	while (code == EXIT_OK && !has_ended(child, &how) && clock_seconds() < deadline) {
		code = interrupt_check(error);
		listen_to(child);
	}
	if (code == EXIT_OK)
		code = check_silent(child, "the end", error);
	if (code == EXIT_OK && how.si_pid == 0)
		code = fail(error, EXIT_INPUT, "%s: it does not exit at the end of its standard input", child->command);
	else if (code == EXIT_OK && (how.si_code != CLD_EXITED || how.si_status != 0))
		code = fail(error, EXIT_INPUT, "%s: all answers came, and it ended with %s %d", child->command,
		            how.si_code == CLD_EXITED ? "exit status" : "signal", how.si_status);
	child_kill(child);
	return code;
}
