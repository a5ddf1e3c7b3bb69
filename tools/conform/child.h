/* SPDX-License-Identifier: MIT */
/* A program that answers requests on its standard input and output: conformance/README.md. Whatever it does, a call ends in
   time, with an error that says what it did. */
#ifndef TOOLS_CONFORM_CHILD_H
#define TOOLS_CONFORM_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "conform/said.h"

enum { CHILD_LINE = 4096 };

struct child {
	const char *command;
	double timeout;      /* seconds for an answer */
	pid_t pid;           /* and its process group; 0: not running */
	int in, out;         /* our ends of its standard input and output */
	struct said said;    /* its standard error */
	uint8_t held[CHILD_LINE]; /* what was read and not yet taken */
	size_t n_held;
	char name[256];      /* of its hello */
	size_t batch;        /* the most items of a request */
	bool unsupported;    /* the last request was not supported */
};

/* Starts the command by sh -c and exchanges hellos. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int child_start(struct child *child, const char *command, double timeout, struct error *error);

/* Sends a line and n bytes, and takes an answer of n_answer bytes, or sets `unsupported`. `what` names the request in errors. */
int child_ask(struct child *child, const char *what, const char *line, const uint8_t *bytes, size_t n, uint8_t *answer,
              size_t n_answer, struct error *error);

/* Closes its input and waits for its end, which is an error if it does not come, or is none of exit status 0. */
int child_end(struct child *child, struct error *error);

/* Kills it and its children, if it runs. */
void child_kill(struct child *child);

#endif
