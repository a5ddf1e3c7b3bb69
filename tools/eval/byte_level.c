/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/byte_level.h"

#include "eval/utf8.h"

static bool is_visible(unsigned byte)
{
	return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static uint32_t character_of(unsigned char byte)
{
	uint32_t hidden = 0x100;

	if (is_visible(byte))
		return byte;
	for (unsigned b = 0; b < byte; b++)
		hidden += is_visible(b) ? 0 : 1;
	return hidden;
}

/* Whether a character is of the alphabet. */
static bool byte_of(uint32_t character, unsigned char *byte)
{
	uint32_t hidden = 0xFF;

	if (character < 0x100) {
		*byte = (unsigned char)character;
		return is_visible(character);
	}
	for (unsigned b = 0; b < 0x100; b++) {
		hidden += is_visible(b) ? 0 : 1;
		*byte = (unsigned char)b;
		if (hidden == character && !is_visible(b))
			return true;
	}
	return false;
}

int byte_level_encode(const char *bytes, size_t n, struct pieces *out, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		char character[UTF8_MAX];
		const size_t length = utf8_encode(character_of((unsigned char)bytes[i]), character);

		code = pieces_append(out, character, length, error);
	}
	return code;
}

int byte_level_decode(const char *text, size_t n, struct pieces *out, struct error *error)
{
	const size_t start = out->n_bytes;
	int code = EXIT_OK;

	for (size_t at = 0, length; at < n && code == EXIT_OK; at += length) {
		bool valid;
		unsigned char byte;

		length = utf8_length(text + at, n - at, &valid);
		if (!valid || !byte_of(utf8_decode(text + at, &length), &byte)) {
			out->n_bytes = start;
			return pieces_append(out, text, n, error);
		}
		code = pieces_append(out, (const char *)&byte, 1, error);
	}
	return code;
}
