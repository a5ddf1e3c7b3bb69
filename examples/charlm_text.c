/* SPDX-License-Identifier: MIT */
#include "charlm_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MIN = 1024, TEXT_MAX = 1 << 20, STRETCH = 512, STRETCHES = 10 };

/* Replaces characters by their numbers, in place. */
static int number_symbols(struct charlm_text *text, const char *path, struct error *error)
{
	for (size_t i = 0; i < text->n; i++) {
		uint8_t c = text->symbols[i];

		if (c != '\n' && (c < ' ' || c > '~'))
			return fail(error, EXIT_INPUT, "%s: byte %zu is 0x%02x: only newlines and printable ASCII are known",
			            path, i, (unsigned)c);
		text->symbols[i] = c == '\n' ? 0 : (uint8_t)(c - ' ' + 1);
	}
	return EXIT_OK;
}

static int read_stream(struct charlm_text *text, FILE *stream, const char *path, struct error *error)
{
	text->symbols = malloc(TEXT_MAX + 1);
	if (!text->symbols)
		return fail_memory(error);
	text->n = fread(text->symbols, 1, TEXT_MAX + 1, stream);
	if (ferror(stream))
		return fail_errno(error, path, "read");
	if (text->n < TEXT_MIN || text->n > TEXT_MAX)
		return fail(error, EXIT_INPUT, "%s: a text has %d to %d characters", path, TEXT_MIN, TEXT_MAX);
	return number_symbols(text, path, error);
}

int charlm_text_read(struct charlm_text *text, const char *path, struct error *error)
{
	FILE *stream = fopen(path, "rb");
	int code;

	*text = (struct charlm_text){0};
	if (!stream)
		return fail_errno(error, path, "open");
	code = read_stream(text, stream, path, error);
	fclose(stream);
	if (code)
		charlm_text_free(text);
	return code;
}

void charlm_text_free(struct charlm_text *text)
{
	free(text->symbols);
	*text = (struct charlm_text){0};
}

bool charlm_text_held_out(size_t position)
{
	return position / STRETCH % STRETCHES == STRETCHES - 1;
}
