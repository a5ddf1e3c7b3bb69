/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

enum { N_SIGNALS = sizeof numbers / sizeof numbers[0] };

static struct sigaction before[N_SIGNALS]; /* the actions that the first hold replaced */
static unsigned n_holds;
static volatile sig_atomic_t caught;

static void note(int number)
{
	caught = number;
}

void interrupt_prepare(void)
{
	struct sigaction action = {.sa_handler = SIG_IGN};

	sigemptyset(&action.sa_mask);
	sigaction(SIGXFSZ, &action, NULL);
}

void interrupt_hold(void)
{
	struct sigaction action = {.sa_handler = note};

	/* No SA_RESTART: a signal also ends a read from a terminal or a pipe. */
	sigemptyset(&action.sa_mask);
	if (n_holds++ > 0)
		return;
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

void interrupt_release(void)
{
	if (--n_holds > 0)
		return;
	for (size_t i = 0; i < N_SIGNALS; i++)
		sigaction(numbers[i], &before[i], NULL);
}

int interrupt_check(struct error *error)
{
	int number = caught;

	if (number == 0)
		return EXIT_OK;
	return fail(error, EXIT_SIGNAL + number, "stopped by signal %d (%s)", number, strsignal(number));
}

void interrupt_die(int code)
{
	if (code <= EXIT_SIGNAL)
		return;
	signal(code - EXIT_SIGNAL, SIG_DFL);
	raise(code - EXIT_SIGNAL);
}
