/* SPDX-License-Identifier: MIT */
/*
 * How the command reports failure. A function that can fail returns an exit code, 0 for success, and on failure puts
 * one line into a struct error that its caller owns. Only main() prints it, as "mxfp: TEXT".
 */
#ifndef TOOLS_BASE_ERROR_H
#define TOOLS_BASE_ERROR_H

enum exit_code {
	EXIT_OK = 0,
	EXIT_CHECK = 1,  /* a requested check failed: tensors differ, a limit is missed */
	EXIT_USAGE = 2,  /* the command line is wrong */
	EXIT_INPUT = 3,  /* the contents of a file are wrong */
	EXIT_IO = 4,     /* the system refused to read or write */
	EXIT_MEMORY = 5, /* memory ran out */
	EXIT_UNCHECKED = 6, /* mxfp lint: it reads none of the weights, so that it could check nothing */
	EXIT_SIGNAL = 128 /* plus the signal's number */
};

struct error {
	char text[2048];
};

/* Formats the text, which names file, tensor, value and remedy in that order as far as they apply ("w.safetensors:
   tensor 'a': ..."), cutting it if it is long; control characters become '?'. Returns `code`. */
int fail(struct error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* fail(EXIT_INPUT) with "PATH: tensor 'TENSOR': " before the text; a long name is cut. */
int fail_tensor(struct error *error, const char *path, const char *tensor, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* fail(EXIT_MEMORY) with the text for it. */
int fail_memory(struct error *error);

/* fail(EXIT_IO) with "PATH: WHAT: strerror(errno)", and what to do where that is known; an empty path shows as ''. */
int fail_errno(struct error *error, const char *path, const char *what);

#endif
