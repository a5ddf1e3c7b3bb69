/* SPDX-License-Identifier: MIT */
/* Error texts. Names out of files end up in them, so nothing that could steer a terminal passes. */
#include "config.h"

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 200 };

/* Length of the UTF-8 sequence at `s` and its code point; 0 if it is not valid UTF-8. */
static size_t decode(const unsigned char *s, uint32_t *point)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : 2;

	if (s[0] >= 0x80 && (s[0] < 0xc0 || s[0] >= 0xf8))
		return 0;
	*point = length == 1 ? s[0] : s[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (s[i] & 0x3f);
	}
	return *point >= least[length] && *point <= 0x10ffff ? length : 0;
}

/* Controls, the line and paragraph separators, and what changes the direction of text. */
static bool steers(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
	       point == 0x200f || (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
	       (point >= 0xd800 && point < 0xe000);
}

/* Replaces what must not reach a terminal by '?', in place. */
static void sanitize(char *text)
{
	const unsigned char *in = (unsigned char *)text;
	char *out = text;

	while (*in != '\0') {
		uint32_t point = 0;
		size_t length = decode(in, &point);

		if (length == 0 || steers(point)) {
			*out++ = '?';
			in += length == 0 ? 1 : length;
			continue;
		}
		memmove(out, in, length);
		out += length;
		in += length;
	}
	*out = '\0';
}

int fail(struct error *error, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	sanitize(error->text);
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
	sanitize(error->text);
	return EXIT_INPUT;
}

int fail_memory(struct error *error)
{
	return fail(error, EXIT_MEMORY, "out of memory");
}

int fail_errno(struct error *error, const char *path, const char *what)
{
	int saved = errno;

	return fail(error, saved == ENOMEM ? EXIT_MEMORY : EXIT_IO, "%s: %s: %s", path, what, strerror(saved));
}
