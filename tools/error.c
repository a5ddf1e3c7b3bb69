/* SPDX-License-Identifier: MIT */
/* Failures of the command as an exit code and one line of text. */
#include "config.h"

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail(struct error *error, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	/* Names come from files and command lines: they must not reach a terminal as control sequences. */
	for (unsigned char *c = (unsigned char *)error->text; *c != '\0'; c++)
		if (*c < 0x20 || *c == 0x7F)
			*c = '?';
	return code;
}

int fail_memory(struct error *error)
{
	return fail(error, EXIT_MEMORY, "out of memory");
}

int fail_errno(struct error *error, const char *path, const char *what)
{
	return fail(error, EXIT_IO, "%s: %s: %s", path, what, strerror(errno));
}
