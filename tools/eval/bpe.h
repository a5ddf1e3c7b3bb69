/* SPDX-License-Identifier: MIT */
/* Byte pair encoding by a list of merges: a word becomes characters, and the pair of neighbours that stands first in
   the list is merged, until none of the list is left. */
#ifndef TOOLS_EVAL_BPE_H
#define TOOLS_EVAL_BPE_H

#include "eval/merge.h"
#include "eval/token_file.h"
#include "eval/vocabulary.h"

struct bpe_rule {
	uint32_t left, right, merged, rank; /* merged == MERGE_NO_ID: no rule */
};

/* Zeroed: no merges. */
struct bpe {
	const char *path;                    /* for errors */
	const struct vocabulary *vocabulary;
	bool ignore_merges;                  /* a word that is a token is that one */
	bool byte_fallback;                  /* characters that are no token become tokens of bytes */
	bool has_unknown, fuse_unknown;      /* else, that token; one for several in a row */
	uint32_t unknown;
	size_t n_rules, n_slots;
	struct bpe_rule *slots;              /* a hash table */
};

/* Adds the merge of two tokens. Of a pair that is there, the new rank counts if `replace` is set. EXIT_INPUT if one of
   them, or what they become, is no token; EXIT_MEMORY. */
int bpe_add(struct bpe *bpe, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
            bool replace, struct error *error);

/* Appends the ids of a word, valid UTF-8. EXIT_INPUT if a character has none; EXIT_MEMORY. */
int bpe_encode(const struct bpe *bpe, struct merge *merge, const char *word, size_t n, struct token_sequences *tokens,
               struct error *error);

void bpe_free(struct bpe *bpe);

#endif
