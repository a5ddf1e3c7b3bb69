/* SPDX-License-Identifier: MIT */
/* Formats error texts. They contain names from files, so nothing that could control a terminal passes. */
#include "config.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

enum { NAME_SHOWN = 200 };

int fail(struct error *error, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	make_printable(error->text);
	return code;
}

int fail_tensor(struct error *error, const char *path, const char *tensor, const char *format, ...)
{
	size_t size = sizeof error->text;
	va_list arguments;
	int n = snprintf(error->text, size, "%s: tensor '%.*s%s': ", path, NAME_SHOWN, tensor,
	                 strnlen(tensor, NAME_SHOWN + 1) > NAME_SHOWN ? "..." : "");

	va_start(arguments, format);
	if (n >= 0 && (size_t)n < size)
		vsnprintf(error->text + n, size - (size_t)n, format, arguments);
	va_end(arguments);
	make_printable(error->text);
	return EXIT_INPUT;
}

int fail_memory(struct error *error)
{
	return fail(error, EXIT_MEMORY, "out of memory");
}

/* What can be done about a failure of the system, where that is known. */
static const char *remedy_of(const char *what, int number)
{
	static const struct {
		const char *what;
		int number;
		const char *remedy;
	} rows[] = {
		{"cannot create", ENAMETOOLONG, "; while it is written, .partial is added to it: give a shorter one"},
		{"cannot create", ENOENT, "; make the directory that it is to be in"},
		{"cannot create", EACCES, "; name one in a directory that you may write to"},
		{"cannot create", EROFS, "; name one in a directory that you may write to"},
		{"cannot open", EACCES, "; change its permissions, or run as a user who may read it"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].number == number && strcmp(rows[i].what, what) == 0)
			return rows[i].remedy;
	return "";
}

int fail_errno(struct error *error, const char *path, const char *what)
{
	int saved = errno;

	return fail(error, saved == ENOMEM ? EXIT_MEMORY : EXIT_IO, "%s: %s: %s%s", *path != '\0' ? path : "''", what,
	            strerror(saved), remedy_of(what, saved));
}
