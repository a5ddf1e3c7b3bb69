/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* The slot where a token is, or would be. */
static size_t find_slot(const struct vocabulary *vocabulary, const char *bytes, size_t n)
{
	size_t slot = (size_t)XXH3_64bits(bytes, n) & (vocabulary->n_slots - 1);

	while (vocabulary->slots[slot] != 0) {
		const struct vocabulary_token *token = &vocabulary->tokens[vocabulary->slots[slot] - 1];

		if (token->n == n && memcmp(vocabulary->bytes + token->from, bytes, n) == 0)
			break;
		slot = (slot + 1) & (vocabulary->n_slots - 1);
	}
	return slot;
}

/* Doubles the hash table when it is half full. */
static int grow_slots(struct vocabulary *vocabulary, struct error *error)
{
	struct vocabulary grown = *vocabulary;

	if (2 * (vocabulary->n_found + 1) <= vocabulary->n_slots)
		return EXIT_OK;
	grown.n_slots = vocabulary->n_slots > 0 ? 2 * vocabulary->n_slots : 1024;
	grown.slots = calloc(grown.n_slots, sizeof *grown.slots);
	if (grown.slots == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < vocabulary->n_slots; i++) {
		if (vocabulary->slots[i] == 0)
			continue;
		const struct vocabulary_token *token = &vocabulary->tokens[vocabulary->slots[i] - 1];
		grown.slots[find_slot(&grown, vocabulary->bytes + token->from, token->n)] = vocabulary->slots[i];
	}
	free(vocabulary->slots);
	*vocabulary = grown;
	return EXIT_OK;
}

static int grow_tokens(struct vocabulary *vocabulary, size_t id, struct error *error)
{
	size_t room = vocabulary->tokens_room > 0 ? vocabulary->tokens_room : 256;

	while (room <= id)
		room *= 2;
	if (room > vocabulary->tokens_room) {
		struct vocabulary_token *grown = realloc(vocabulary->tokens, room * sizeof *grown);

		if (grown == NULL)
			return fail_memory(error);
		memset(grown + vocabulary->tokens_room, 0, (room - vocabulary->tokens_room) * sizeof *grown);
		vocabulary->tokens = grown;
		vocabulary->tokens_room = room;
	}
	if (id >= vocabulary->n_ids)
		vocabulary->n_ids = id + 1;
	return EXIT_OK;
}

static int grow_bytes(struct vocabulary *vocabulary, size_t n, struct error *error)
{
	if (vocabulary->bytes != NULL && n <= vocabulary->bytes_room - vocabulary->n_bytes)
		return EXIT_OK;
	const size_t room = 2 * vocabulary->bytes_room + n + 1024;
	char *grown = realloc(vocabulary->bytes, room);
	if (grown == NULL)
		return fail_memory(error);
	vocabulary->bytes = grown;
	vocabulary->bytes_room = room;
	return EXIT_OK;
}

/* Puts a token into the hash table, unless it is there. */
static int add_slot(struct vocabulary *vocabulary, uint32_t id, const char *path, struct error *error)
{
	const struct vocabulary_token *token = &vocabulary->tokens[id];
	int code = grow_slots(vocabulary, error);

	if (code != EXIT_OK)
		return code;
	uint32_t *slot = &vocabulary->slots[find_slot(vocabulary, vocabulary->bytes + token->from, token->n)];
	if (*slot != 0)
		return fail(error, EXIT_INPUT, "%s: token '%.*s' has two ids, %" PRIu32 " and %" PRIu32, path,
		            token->n < 100 ? (int)token->n : 100, vocabulary->bytes + token->from, *slot - 1, id);
	*slot = id + 1;
	vocabulary->n_found++;
	return EXIT_OK;
}

int vocabulary_add(struct vocabulary *vocabulary, const char *bytes, size_t n, uint64_t id, bool found,
                   const char *path, struct error *error)
{
	if (id >= VOCABULARY_IDS_MAX)
		return fail(error, EXIT_INPUT, "%s: token id %" PRIu64 " is not below the %d allowed", path, id,
		            (int)VOCABULARY_IDS_MAX);
	if (n > VOCABULARY_TOKEN_MAX)
		return fail(error, EXIT_INPUT, "%s: the token of id %" PRIu64 " has %zu bytes, more than the %d allowed", path,
		            id, n, (int)VOCABULARY_TOKEN_MAX);
	int code = grow_tokens(vocabulary, (size_t)id, error);
	if (code == EXIT_OK)
		code = grow_bytes(vocabulary, n, error);
	if (code != EXIT_OK)
		return code;
	struct vocabulary_token *token = &vocabulary->tokens[id];
	if (token->known)
		return fail(error, EXIT_INPUT, "%s: two tokens have the id %" PRIu64, path, id);
	*token = (struct vocabulary_token){vocabulary->n_bytes, (uint32_t)n, true, false};
	if (n > 0)
		memcpy(vocabulary->bytes + vocabulary->n_bytes, bytes, n);
	vocabulary->n_bytes += n;
	if (!found || n == 0)
		return EXIT_OK;
	if (n > vocabulary->longest)
		vocabulary->longest = n;
	return add_slot(vocabulary, (uint32_t)id, path, error);
}

bool vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t n, uint32_t *id)
{
	/* Texts beyond the longest token are not hashed, so that long ones cost nothing. */
	if (vocabulary->n_slots == 0 || n == 0 || n > vocabulary->longest)
		return false;
	const uint32_t found = vocabulary->slots[find_slot(vocabulary, bytes, n)];
	if (found != 0)
		*id = found - 1;
	return found != 0;
}

static const char digits[] = "0123456789ABCDEF";

bool vocabulary_find_byte(const struct vocabulary *vocabulary, unsigned char byte, uint32_t *id)
{
	const char text[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};

	return vocabulary_find(vocabulary, text, sizeof text, id);
}

bool vocabulary_is_byte(const char *bytes, size_t n, unsigned char *byte)
{
	if (n != 6 || memcmp(bytes, "<0x", 3) != 0 || bytes[5] != '>')
		return false;
	const char *high = memchr(digits, bytes[3], 16), *low = memchr(digits, bytes[4], 16);
	if (high == NULL || low == NULL)
		return false;
	*byte = (unsigned char)((high - digits) << 4 | (low - digits));
	return true;
}

const char *vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id, size_t *n)
{
	if (id >= vocabulary->n_ids || !vocabulary->tokens[id].known)
		return NULL;
	*n = vocabulary->tokens[id].n;
	return vocabulary->bytes + vocabulary->tokens[id].from;
}

int vocabulary_fail_id(const char *path, uint32_t id, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: no token has the id %" PRIu32, path, id);
}

static bool is_at(const char *text, size_t n, const char *mark, size_t mark_bytes)
{
	return n >= mark_bytes && memcmp(text, mark, mark_bytes) == 0;
}

size_t vocabulary_cut(const char *text, size_t n, const char *mark)
{
	const size_t mark_bytes = mark != NULL ? strlen(mark) : 0;
	size_t at = 0;

	if (mark == NULL)
		return n;
	while (is_at(text + at, n - at, mark, mark_bytes))
		at += mark_bytes;
	while (at < n && !is_at(text + at, n - at, mark, mark_bytes))
		at++;
	return at;
}

bool vocabulary_cuts_at(const struct vocabulary *vocabulary, const char *mark)
{
	uint32_t id;

	if (!vocabulary_find(vocabulary, mark, strlen(mark), &id))
		return false;
	for (size_t i = 0; i < vocabulary->n_slots; i++) {
		if (vocabulary->slots[i] == 0)
			continue;
		const struct vocabulary_token *token = &vocabulary->tokens[vocabulary->slots[i] - 1];
		if (vocabulary_cut(vocabulary->bytes + token->from, token->n, mark) < token->n)
			return false;
	}
	return true;
}

void vocabulary_free(struct vocabulary *vocabulary)
{
	free(vocabulary->tokens);
	free(vocabulary->bytes);
	free(vocabulary->slots);
	*vocabulary = (struct vocabulary){0};
}
