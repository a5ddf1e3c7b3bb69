/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/color.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const begins[] = {
	[COLOR_HEADING] = "\033[1m",
	[COLOR_ERROR] = "\033[1;31m",
	[COLOR_WARNING] = "\033[1;33m",
	[COLOR_NOTE] = "\033[36m",
};

/* Whether words are colored. An empty NO_COLOR does not count (no-color.org); a stream in memory has no descriptor. */
static bool is_colored(FILE *file)
{
	const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
	const int fd = fileno(file);

	return (none == NULL || *none == '\0') && terminal != NULL && *terminal != '\0' && strcmp(terminal, "dumb") != 0 &&
	       fd >= 0 && isatty(fd);
}

const char *color_begin(FILE *file, enum color color)
{
	return is_colored(file) ? begins[color] : "";
}

const char *color_end(FILE *file)
{
	return is_colored(file) ? "\033[0m" : "";
}
