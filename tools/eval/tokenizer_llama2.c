/* SPDX-License-Identifier: MIT */
/*
 * llama2.c's tokenizer.bin (karpathy/llama2.c, tokenizer.py writes it and run.c reads it), little-endian:
 *
 *   bytes  what
 *   4      u32 the longest token's bytes
 *   ...    per token, as many as the model has: f32 score, u32 bytes, the bytes
 *
 * A text is encoded as run.c does it: BOS is id 1 and EOS, which is not added, 2; the token " " stands before a text
 * that is not empty; what is no token becomes a token for each byte, its value and 3; then neighbours are merged by
 * score.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "eval/spm.h"
#include "eval/tokenizer_kind.h"

enum { BOS = 1, EOS = 2, FIRST_BYTE = 3, FILE_BYTES_MAX = 1 << 28, CHARACTER_MAX = 4 };

struct llama2 {
	struct vocabulary vocabulary;
	float *scores;
	bool cuts;
};

static uint32_t get_u32(const char *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof word);
	little_endian(&word, 1, sizeof word);
	return word;
}

static int take_tokens(const struct tokenizer *tokenizer, struct llama2 *llama2, const char *bytes, size_t n,
                       struct error *error)
{
	size_t at = sizeof(uint32_t); /* at most n, which the first check says */
	int code = EXIT_OK;

	if (n < at || tokenizer->vocabulary > n / 8)
		return fail(error, EXIT_INPUT, "%s: its %zu bytes are too few for the %" PRIu64 " tokens of the model; the tokenizer "
		            "is another model's", tokenizer->path, n, tokenizer->vocabulary);
	llama2->scores = calloc((size_t)tokenizer->vocabulary + 1, sizeof *llama2->scores);
	if (llama2->scores == NULL)
		return fail_memory(error);
	for (size_t id = 0; id < tokenizer->vocabulary && code == EXIT_OK; id++) {
		if (n - at < 8 || get_u32(bytes + at + 4) > n - at - 8)
			return fail(error, EXIT_INPUT, "%s: ends within token %zu of the model's %" PRIu64 "; the tokenizer is "
			            "another model's, or cut off", tokenizer->path, id, tokenizer->vocabulary);
		const uint32_t word = get_u32(bytes + at), length = get_u32(bytes + at + 4);
		memcpy(&llama2->scores[id], &word, sizeof word);
		if (isnan(llama2->scores[id]))
			return fail(error, EXIT_INPUT, "%s: the score of token %zu is NaN", tokenizer->path, id);
		code = vocabulary_add(&llama2->vocabulary, bytes + at + 8, length, id, true, tokenizer->path, error);
		at += 8 + (size_t)length;
	}
	if (code == EXIT_OK && at < n)
		code = fail(error, EXIT_INPUT, "%s: has more tokens than the model's %" PRIu64 "; the tokenizer is another "
		            "model's", tokenizer->path, tokenizer->vocabulary);
	return code;
}

/* The state of encoding: symbols, and the text of their tokens. */
struct encoding {
	const struct tokenizer *tokenizer;
	const struct llama2 *llama2;
	struct merge merge;
	struct pieces text;
};

static int add_symbol(struct encoding *encoding, uint32_t id, struct error *error)
{
	size_t n = 0;
	const char *bytes = vocabulary_bytes(&encoding->llama2->vocabulary, id, &n);

	if (bytes == NULL || n == 0)
		return fail(error, EXIT_INPUT, "%s: has no token for a byte of the text, id %" PRIu32, encoding->tokenizer->path,
		            id);
	int code = merge_add(&encoding->merge, n, id, error);
	return code == EXIT_OK ? pieces_append(&encoding->text, bytes, n, error) : code;
}

/* Bytes of a character: run.c takes up to 4 while continuations follow, whatever the first one says. */
static size_t character_bytes(const char *text, size_t n)
{
	size_t length = 1;

	while (length < n && length < CHARACTER_MAX && ((unsigned char)text[length] & 0xC0) == 0x80)
		length++;
	return length;
}

static int merge_part(struct encoding *encoding, const char *text, size_t n, struct token_sequences *tokens,
                      struct error *error)
{
	const struct vocabulary *vocabulary = &encoding->llama2->vocabulary;
	int code = EXIT_OK;

	merge_clear(&encoding->merge);
	pieces_clear(&encoding->text);
	for (size_t at = 0; at < n && code == EXIT_OK;) {
		const size_t length = character_bytes(text + at, n - at);
		uint32_t id;

		if (vocabulary_find(vocabulary, text + at, length, &id))
			code = add_symbol(encoding, id, error);
		else
			for (size_t i = 0; i < length && code == EXIT_OK; i++)
				code = add_symbol(encoding, (unsigned char)text[at + i] + (uint32_t)FIRST_BYTE, error);
		at += length;
	}
	const struct spm spm = {vocabulary, encoding->llama2->scores, encoding->text.bytes};
	if (code == EXIT_OK)
		code = spm_merge(&spm, &encoding->merge, error);
	for (size_t i = 0; i < encoding->merge.n && code == EXIT_OK; i++)
		code = tokens_add(tokens, encoding->merge.symbols[i].id, error);
	return code;
}

static int encode(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                  struct error *error)
{
	const struct llama2 *llama2 = tokenizer->state;
	struct encoding encoding = {.tokenizer = tokenizer, .llama2 = llama2};
	struct pieces spaced = {0};
	int code = tokens_add(tokens, BOS, error);

	if (code == EXIT_OK && n > 0)
		code = pieces_append(&spaced, " ", 1, error);
	if (code == EXIT_OK)
		code = pieces_append(&spaced, text, n, error);
	for (size_t at = 0; at < spaced.n_bytes && code == EXIT_OK;) {
		const size_t part = vocabulary_cut(spaced.bytes + at, spaced.n_bytes - at, llama2->cuts ? " " : NULL);

		code = merge_part(&encoding, spaced.bytes + at, part, tokens, error);
		at += part;
	}
	merge_free(&encoding.merge);
	pieces_free(&encoding.text);
	pieces_free(&spaced);
	return code;
}

static int decode(const struct tokenizer *tokenizer, uint32_t id, bool first, struct pieces *out, bool *shown,
                  struct error *error)
{
	const struct llama2 *llama2 = tokenizer->state;
	size_t n;
	unsigned char byte;
	const char *bytes = vocabulary_bytes(&llama2->vocabulary, id, &n);

	if (bytes == NULL)
		return vocabulary_fail_id(tokenizer->path, id, error);
	*shown = id >= FIRST_BYTE;
	if (!*shown)
		return EXIT_OK;
	if (vocabulary_is_byte(bytes, n, &byte))
		return pieces_append(out, (const char *)&byte, 1, error);
	const size_t skipped = first && n > 0 && bytes[0] == ' ' ? 1 : 0;
	return pieces_append(out, bytes + skipped, n - skipped, error);
}

static void close_llama2(void *state)
{
	struct llama2 *llama2 = state;

	vocabulary_free(&llama2->vocabulary);
	free(llama2->scores);
	free(llama2);
}

static const struct tokenizer_kind kind_llama2 = {encode, decode, close_llama2, TOKENIZER_TEXT_BYTES};

int tokenizer_read_llama2(struct tokenizer *tokenizer, struct error *error)
{
	char *bytes = NULL;
	uint64_t size = 0;
	int fd;
	struct llama2 *llama2 = calloc(1, sizeof *llama2);

	if (llama2 == NULL)
		return fail_memory(error);
	tokenizer->kind = &kind_llama2;
	tokenizer->state = llama2;
	int code = descriptor_open(tokenizer->path, &fd, &size, error);
	if (code != EXIT_OK)
		return code;
	if (size > FILE_BYTES_MAX)
		code = fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes, more than the %d allowed", tokenizer->path, size,
		            (int)FILE_BYTES_MAX);
	else if ((bytes = malloc((size_t)size + 1)) == NULL)
		code = fail_memory(error);
	else
		code = descriptor_read(fd, tokenizer->path, 0, bytes, (size_t)size, error);
	close(fd);
	if (code == EXIT_OK)
		code = take_tokens(tokenizer, llama2, bytes, (size_t)size, error);
	free(bytes);
	llama2->cuts = vocabulary_cuts_at(&llama2->vocabulary, " ");
	tokenizer->has_bos = tokenizer->has_eos = true;
	tokenizer->bos = BOS;
	tokenizer->eos = EOS;
	return code;
}
