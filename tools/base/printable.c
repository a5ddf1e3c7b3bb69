/* SPDX-License-Identifier: MIT */
#include "base/printable.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the length of the UTF-8 sequence at `s` and sets its code point; 0 if it is not valid UTF-8. */
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

/* Whether the character is a control, a line or paragraph separator, or changes the direction of text. */
static bool steers(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
	       point == 0x200f || (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
	       (point >= 0xd800 && point < 0xe000);
}

/* Returns the bytes of the character at `in`, at least 1, and sets whether it may be shown. */
static size_t measure(const char *in, bool *shown)
{
	uint32_t point = 0;
	size_t length = decode((const unsigned char *)in, &point);

	*shown = length != 0 && !steers(point);
	return length != 0 ? length : 1;
}

void make_printable(char *text)
{
	const char *in = text;
	char *out = text;
	bool shown;

	while (*in != '\0') {
		size_t length = measure(in, &shown);

		if (shown) {
			memmove(out, in, length);
			out += length;
		} else {
			*out++ = '?';
		}
		in += length;
	}
	*out = '\0';
}

int print_printable(FILE *stream, const char *text)
{
	int n = 0;
	bool shown;

	for (; *text != '\0'; n++) {
		size_t length = measure(text, &shown);

		if (shown)
			fwrite(text, 1, length, stream);
		else
			putc('?', stream);
		text += length;
	}
	return n;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Whether Markdown takes text[i] as more than itself: a colon in an address, which would become a link. */
static bool is_mark(const char *text, size_t i)
{
	if (text[i] == '_')
		return i == 0 || !is_word(text[i - 1]) || !is_word(text[i + 1]);
	if (text[i] == ':')
		return text[i + 1] == '/';
	return strchr("\\`*[]|~<>&", text[i]) != NULL;
}

static void print_mark(FILE *stream, char c)
{
	switch (c) {
	case '<': fputs("&lt;", stream); break;
	case '>': fputs("&gt;", stream); break;
	case '&': fputs("&amp;", stream); break;
	default: fprintf(stream, "\\%c", c); break;
	}
}

void print_markdown(FILE *stream, const char *text)
{
	bool shown;

	for (size_t i = 0; text[i] != '\0';) {
		const size_t length = measure(text + i, &shown);

		if (!shown)
			putc('?', stream);
		else if (length == 1 && is_mark(text, i))
			print_mark(stream, text[i]);
		else
			fwrite(text + i, 1, length, stream);
		i += length;
	}
}

void print_printable_json(FILE *stream, const char *json, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint32_t point = 0;
		size_t length = decode((const unsigned char *)json + i, &point);

		if (length != 0 && point >= 0x7f && steers(point))
			fprintf(stream, "\\u%04x", (unsigned)point);
		else
			fwrite(json + i, 1, length != 0 ? length : (length = 1), stream);
		i += length;
	}
}
