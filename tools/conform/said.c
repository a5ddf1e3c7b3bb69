/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/said.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"

enum { AT_ONCE = 4096, ENDS = 64 /* times that much is more than a pipe holds */ };

/* How many of the last bytes begin a character of UTF-8, or an end of line, that has not come in full. */
static size_t unfinished(const uint8_t *bytes, size_t n)
{
	if (bytes[n - 1] == '\r')
		return 1;
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		const uint8_t lead = bytes[n - back];
		const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;

		if (lead < 0x80 || lead >= 0xC0)
			return length > back ? back : 0;
	}
	return 0;
}

/* Prints n bytes, behind which there is room for one more. */
static void print(struct said *said, char *text, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] != '\r' || i + 1 == n || text[i + 1] != '\n')
			text[kept++] = text[i] == '\0' ? '\1' : text[i] == '\r' ? '\n' : text[i];
	text[kept] = '\0';
	said->is_open = kept > 0 ? text[kept - 1] != '\n' : said->is_open;
	while (*text != '\0') {
		const size_t length = strcspn(text, "\n\t");
		const char end = text[length];

		text[length] = '\0';
		make_printable(text);
		fputs(text, stderr);
		if (end != '\0')
			putc(end, stderr);
		text += length + (end != '\0');
	}
}

bool said_pass(struct said *said)
{
	char text[sizeof said->held + AT_ONCE + 1];

	memcpy(text, said->held, said->n_held);
	const ssize_t got = said->fd >= 0 ? read(said->fd, text + said->n_held, AT_ONCE) : -1;
	if (got == 0) {
		close(said->fd);
		said->fd = -1;
	}
	if (got <= 0)
		return false;
	const size_t n = said->n_held + (size_t)got;
	said->n_held = unfinished((const uint8_t *)text, n);
	memcpy(said->held, text + n - said->n_held, said->n_held);
	print(said, text, n - said->n_held);
	return true;
}

void said_end(struct said *said)
{
	char text[sizeof said->held + 1];

	for (int i = 0; i < ENDS && said_pass(said); i++)
		;
	memcpy(text, said->held, said->n_held);
	print(said, text, said->n_held);
	if (said->is_open)
		putc('\n', stderr);
	said->n_held = 0;
	if (said->fd >= 0)
		close(said->fd);
	said->fd = -1;
}
