/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/utf8.h"

/* The bytes of a character that begins so, and the least and the greatest that its second may be; 0: none does. */
static size_t lead(unsigned char first, unsigned char *least, unsigned char *greatest)
{
	*least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
	*greatest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
	if (first < 0x80)
		return 1;
	if (first < 0xC2 || first > 0xF4)
		return 0;
	return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t utf8_length(const char *text, size_t n, bool *valid)
{
	const unsigned char *bytes = (const unsigned char *)text;
	unsigned char least, greatest;
	const size_t length = lead(bytes[0], &least, &greatest);
	size_t i = 1;

	while (i < length && i < n && bytes[i] >= least && bytes[i] <= greatest) {
		least = 0x80;
		greatest = 0xBF;
		i++;
	}
	*valid = i == length;
	return i;
}

uint32_t utf8_decode(const char *text, size_t *length)
{
	const unsigned char *bytes = (const unsigned char *)text;
	uint32_t character = bytes[0];
	unsigned char unused;

	*length = lead(bytes[0], &unused, &unused);
	if (*length > 1)
		character &= 0x7FU >> *length;
	for (size_t i = 1; i < *length; i++)
		character = character << 6 | (bytes[i] & 0x3FU);
	return character;
}

size_t utf8_encode(uint32_t character, char bytes[UTF8_MAX])
{
	const size_t length = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

	for (size_t i = length; i-- > 1; character >>= 6)
		bytes[i] = (char)(0x80 | (character & 0x3F));
	bytes[0] = (char)(length == 1 ? character : (0xF00U >> length & 0xFF) | character);
	return length;
}

int utf8_clean(const char *text, size_t n, struct pieces *out, struct error *error)
{
	size_t good = 0, at = 0;
	int code = EXIT_OK;

	if (n == 0)
		return EXIT_OK;
	while (at < n && code == EXIT_OK) {
		bool valid;
		const size_t length = utf8_length(text + at, n - at, &valid);

		if (!valid) {
			code = pieces_append(out, text + good, at - good, error);
			if (code == EXIT_OK)
				code = pieces_append(out, "\xEF\xBF\xBD", 3, error);
			good = at + length;
		}
		at += length;
	}
	return code == EXIT_OK ? pieces_append(out, text + good, n - good, error) : code;
}
