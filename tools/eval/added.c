/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/added.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "eval/utf8.h"

int added_add(struct added *added, struct added_token token, struct error *error)
{
	if (added->n == added->room) {
		const size_t room = 2 * added->room + 16;
		struct added_token *grown = realloc(added->tokens, room * sizeof *grown);

		if (grown == NULL)
			return fail_memory(error);
		added->tokens = grown;
		added->room = room;
	}
	added->tokens[added->n++] = token;
	return EXIT_OK;
}

static int compare(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;
	const int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);

	if (order != 0)
		return order;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

void added_sort(struct added *added)
{
	size_t i = 0;

	if (added->n > 0)
		qsort(added->tokens, added->n, sizeof *added->tokens, compare);
	for (unsigned byte = 0; byte <= 256; byte++) {
		while (i < added->n && (unsigned char)added->tokens[i].bytes[0] < byte)
			i++;
		added->first[byte] = i;
	}
}

/* Of the tokens [*begin, *end), which agree in `depth` bytes and have more, keeps those with this byte there. */
static void narrow(const struct added *added, size_t depth, unsigned char byte, size_t *begin, size_t *end)
{
	size_t low = *begin, high = *end;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if ((unsigned char)added->tokens[middle].bytes[depth] < byte)
			low = middle + 1;
		else
			high = middle;
	}
	*begin = low;
	high = *end;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if ((unsigned char)added->tokens[middle].bytes[depth] <= byte)
			low = middle + 1;
		else
			high = middle;
	}
	*end = low;
}

/* The longest token that the text begins with, or NULL. */
static const struct added_token *find_longest(const struct added *added, const char *text, size_t n)
{
	const unsigned char first = (unsigned char)text[0];
	size_t begin = added->first[first], end = added->first[first + 1];
	const struct added_token *longest = NULL;

	for (size_t depth = 1; begin < end; depth++) {
		/* Those that end here come first, being prefixes of the others; of several equal ones the first counts. */
		if (added->tokens[begin].n == depth)
			longest = &added->tokens[begin];
		while (begin < end && added->tokens[begin].n == depth)
			begin++;
		if (depth == n)
			break;
		narrow(added, depth, (unsigned char)text[depth], &begin, &end);
	}
	return longest;
}

/* White space of Unicode (PropList.txt). */
static bool is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Letters, marks, decimal digits, letter numbers and connectors. */
static bool is_word(uint32_t c)
{
	const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

	return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

/* The character that ends before `at` > 0, and where it begins. */
static uint32_t character_before(const char *text, size_t at, size_t *from)
{
	size_t length;

	do
		at--;
	while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
	*from = at;
	return utf8_decode(text + at, &length);
}

static bool stands_alone(const char *text, size_t n, size_t from, size_t to)
{
	size_t unused;

	return (from == 0 || !is_word(character_before(text, from, &unused))) &&
	       (to == n || !is_word(utf8_decode(text + to, &unused)));
}

const struct added_token *added_find(const struct added *added, const char *text, size_t n, size_t least, size_t at,
                                     size_t *from, size_t *to, size_t *next)
{
	const struct added_token *token = NULL;
	size_t begin, length;

	for (; at < n && added->n > 0; at++) {
		token = find_longest(added, text + at, n - at);
		if (token != NULL && token->word_alone && !stands_alone(text, n, at, at + token->n)) {
			at += token->n - 1;
			token = NULL;
		}
		if (token != NULL)
			break;
	}
	if (token == NULL)
		return NULL;
	*from = at;
	*to = *next = at + token->n;
	while (token->eats_left && *from > least && is_space(character_before(text, *from, &begin)))
		*from = begin;
	while (token->eats_right && *to < n && is_space(utf8_decode(text + *to, &length)))
		*to += length;
	/* A token that begins in white space that this one ate is not one. */
	if (*next < *to)
		*next = *to;
	if (*from < least)
		*from = least;
	return token;
}

void added_free(struct added *added)
{
	free(added->tokens);
	*added = (struct added){0};
}
