/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/nfc.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "eval/utf8.h"

enum { MARKS_MAX = 1024 /* in a row; sorting them takes quadratic time, and texts have fewer than 30 */ };

static bool is_ascii(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

/* Refuses more combining marks in a row than MARKS_MAX. */
static int check_marks(const char *path, const char *text, size_t n, struct error *error)
{
	size_t marks = 0;

	for (size_t at = 0, length; at < n; at += length) {
		const uint32_t character = utf8_decode(text + at, &length);

		marks = utf8proc_get_property((utf8proc_int32_t)character)->combining_class != 0 ? marks + 1 : 0;
		if (marks > MARKS_MAX)
			return fail(error, EXIT_INPUT, "%s: the text has more than %d combining marks in a row", path, (int)MARKS_MAX);
	}
	return EXIT_OK;
}

static int compose(const char *path, const char *text, size_t n, struct pieces *out, struct error *error)
{
	utf8proc_uint8_t *composed = NULL;
	int code = check_marks(path, text, n, error);

	if (code != EXIT_OK)
		return code;
	const utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &composed,
	                                             UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	if (length < 0)
		return fail_memory(error);
	code = pieces_append(out, (const char *)composed, (size_t)length, error);
	free(composed);
	return code;
}

/* In parts that begin with an ASCII character: none of those joins what stands before it. */
int nfc_append(const char *path, const char *text, size_t n, struct pieces *out, struct error *error)
{
	int code = EXIT_OK;

	for (size_t at = 0, end; at < n && code == EXIT_OK; at = end) {
		end = at + 1;
		while (end < n && (unsigned char)text[end] >= 0x80)
			end++;
		code = is_ascii(text + at, end - at) ? pieces_append(out, text + at, end - at, error)
		                                     : compose(path, text + at, end - at, out, error);
	}
	return code;
}
