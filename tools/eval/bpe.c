/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "eval/utf8.h"

static size_t find_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
	/* The multiplier is 2^64 / phi (Knuth, volume 3, section 6.4). */
	const uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15;
	size_t slot = (size_t)(hash >> 32) & (bpe->n_slots - 1);

	while (bpe->slots[slot].merged != MERGE_NO_ID &&
	       (bpe->slots[slot].left != left || bpe->slots[slot].right != right))
		slot = (slot + 1) & (bpe->n_slots - 1);
	return slot;
}

static int grow(struct bpe *bpe, struct error *error)
{
	struct bpe grown = *bpe;

	if (2 * (bpe->n_rules + 1) <= bpe->n_slots)
		return EXIT_OK;
	grown.n_slots = bpe->n_slots > 0 ? 2 * bpe->n_slots : 1024;
	grown.slots = malloc(grown.n_slots * sizeof *grown.slots);
	if (grown.slots == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < grown.n_slots; i++)
		grown.slots[i] = (struct bpe_rule){.merged = MERGE_NO_ID};
	for (size_t i = 0; i < bpe->n_slots; i++)
		if (bpe->slots[i].merged != MERGE_NO_ID)
			grown.slots[find_slot(&grown, bpe->slots[i].left, bpe->slots[i].right)] = bpe->slots[i];
	free(bpe->slots);
	*bpe = grown;
	return EXIT_OK;
}

static int fail_token(const struct bpe *bpe, const char *bytes, size_t n, uint32_t rank, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: merge %" PRIu32 ": '%.*s' is not a token of the vocabulary", bpe->path, rank,
	            n < 100 ? (int)n : 100, bytes);
}

int bpe_add(struct bpe *bpe, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
            bool replace, struct error *error)
{
	struct bpe_rule rule = {.rank = rank};
	char both[2 * VOCABULARY_TOKEN_MAX];

	if (!vocabulary_find(bpe->vocabulary, left, n_left, &rule.left))
		return fail_token(bpe, left, n_left, rank, error);
	if (!vocabulary_find(bpe->vocabulary, right, n_right, &rule.right))
		return fail_token(bpe, right, n_right, rank, error);
	/* Both are tokens, and so fit. */
	memcpy(both, left, n_left);
	memcpy(both + n_left, right, n_right);
	if (!vocabulary_find(bpe->vocabulary, both, n_left + n_right, &rule.merged))
		return fail_token(bpe, both, n_left + n_right, rank, error);
	int code = grow(bpe, error);
	if (code != EXIT_OK)
		return code;
	struct bpe_rule *slot = &bpe->slots[find_slot(bpe, rule.left, rule.right)];
	if (slot->merged == MERGE_NO_ID)
		bpe->n_rules++;
	else if (!replace)
		return EXIT_OK;
	*slot = rule;
	return EXIT_OK;
}

static bool find_rule(const void *context, const struct merge_symbol *left, const struct merge_symbol *right,
                      double *cost, uint32_t *id)
{
	const struct bpe *bpe = context;

	if (bpe->n_rules == 0)
		return false;
	const struct bpe_rule *rule = &bpe->slots[find_slot(bpe, left->id, right->id)];
	*cost = rule->rank;
	*id = rule->merged;
	return rule->merged != MERGE_NO_ID;
}

/* The state of cutting a word into symbols. */
struct cutting {
	const struct bpe *bpe;
	struct merge *merge;
	size_t unknown; /* bytes of characters for which the unknown token has not been added yet */
};

static int flush_unknown(struct cutting *cutting, struct error *error)
{
	const size_t n = cutting->unknown;

	cutting->unknown = 0;
	return n > 0 ? merge_add(cutting->merge, n, cutting->bpe->unknown, error) : EXIT_OK;
}

/* Adds the tokens of a character's bytes; *all is false if one of them has none. */
static int add_bytes(struct cutting *cutting, const char *bytes, size_t n, bool *all, struct error *error)
{
	uint32_t ids[UTF8_MAX];
	int code = EXIT_OK;

	*all = cutting->bpe->byte_fallback;
	for (size_t i = 0; i < n && *all; i++)
		*all = vocabulary_find_byte(cutting->bpe->vocabulary, (unsigned char)bytes[i], &ids[i]);
	for (size_t i = 0; i < n && *all && code == EXIT_OK; i++)
		code = merge_add(cutting->merge, 1, ids[i], error);
	return code;
}

static int add_character(struct cutting *cutting, const char *bytes, size_t n, struct error *error)
{
	const struct bpe *bpe = cutting->bpe;
	uint32_t id;
	bool all;
	int code = EXIT_OK;

	if (vocabulary_find(bpe->vocabulary, bytes, n, &id)) {
		code = flush_unknown(cutting, error);
		return code == EXIT_OK ? merge_add(cutting->merge, n, id, error) : code;
	}
	code = add_bytes(cutting, bytes, n, &all, error);
	if (code != EXIT_OK || all)
		return code;
	if (!bpe->has_unknown)
		return fail(error, EXIT_INPUT, "%s: '%.*s' of the text is not a token, and there is none for what is unknown",
		            bpe->path, (int)n, bytes);
	if (!bpe->fuse_unknown)
		code = flush_unknown(cutting, error);
	cutting->unknown += n;
	return code;
}

int bpe_encode(const struct bpe *bpe, struct merge *merge, const char *word, size_t n, struct token_sequences *tokens,
               struct error *error)
{
	struct cutting cutting = {.bpe = bpe, .merge = merge};
	uint32_t id;
	int code = EXIT_OK;

	if (bpe->ignore_merges && vocabulary_find(bpe->vocabulary, word, n, &id))
		return tokens_add(tokens, id, error);
	merge_clear(merge);
	for (size_t at = 0, length; at < n && code == EXIT_OK; at += length) {
		utf8_decode(word + at, &length);
		code = add_character(&cutting, word + at, length, error);
	}
	if (code == EXIT_OK)
		code = flush_unknown(&cutting, error);
	if (code == EXIT_OK)
		code = merge_run(merge, find_rule, bpe, error);
	for (size_t i = 0; i < merge->n && code == EXIT_OK; i++)
		code = tokens_add(tokens, merge->symbols[i].id, error);
	return code;
}

void bpe_free(struct bpe *bpe)
{
	free(bpe->slots);
	bpe->slots = NULL;
	bpe->n_slots = bpe->n_rules = 0;
}
