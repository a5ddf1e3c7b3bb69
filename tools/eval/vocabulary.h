/* SPDX-License-Identifier: MIT */
/* The tokens of a vocabulary: their bytes by id, and ids by bytes. */
#ifndef TOOLS_EVAL_VOCABULARY_H
#define TOOLS_EVAL_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	VOCABULARY_IDS_MAX = 1 << 22,      /* more than ten times the largest known */
	VOCABULARY_TOKEN_MAX = 1 << 12     /* bytes of a token */
};

struct vocabulary_token {
	size_t from; /* in `bytes` */
	uint32_t n;
	bool known;  /* some ids have no token */
	bool special; /* the caller's to set: has no text */
};

/* Zeroed: empty. */
struct vocabulary {
	size_t n_ids;    /* the largest id, and 1 */
	size_t longest;  /* bytes */
	struct vocabulary_token *tokens;
	char *bytes;
	uint32_t *slots; /* a hash table of those that can be found: id + 1 */
	size_t n_slots, n_found, n_bytes, tokens_room, bytes_room;
};

/* Adds a token, which vocabulary_find() finds if `found` is set and it is not empty. An id that is taken or beyond
   VOCABULARY_IDS_MAX, a token that is there with another id or is too long: EXIT_INPUT, naming `path`. EXIT_MEMORY. */
int vocabulary_add(struct vocabulary *vocabulary, const char *bytes, size_t n, uint64_t id, bool found,
                   const char *path, struct error *error);

bool vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t n, uint32_t *id);

/* Finds "<0x41>" for 'A': the token of a byte in the vocabularies of SentencePiece. */
bool vocabulary_find_byte(const struct vocabulary *vocabulary, unsigned char byte, uint32_t *id);

/* Whether the token is such a text, and of which byte. */
bool vocabulary_is_byte(const char *bytes, size_t n, unsigned char *byte);

/* The bytes of a token; NULL: no token has the id. */
const char *vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id, size_t *n);

/* Fails with "PATH: no token has the id ID". EXIT_INPUT. */
int vocabulary_fail_id(const char *path, uint32_t id, struct error *error);

/* Whether a text may be cut before each `mark` that follows something else, and its parts merged each alone, to the
   same end: `mark` is a token, and none that can be found has a mark behind something else. */
bool vocabulary_cuts_at(const struct vocabulary *vocabulary, const char *mark);

/* The bytes of the text's first part so cut; n if `mark` is NULL. */
size_t vocabulary_cut(const char *text, size_t n, const char *mark);

void vocabulary_free(struct vocabulary *vocabulary);

#endif
