/* SPDX-License-Identifier: MIT */
/* The tokenizers of tests/vectors/text_ids: every text gives the ids that the package tokenizers and llama.cpp's
   llama-tokenize gave, and those decode to what they decode to. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "eval/tokenizer.h"
#include "suite.h"

static struct error error;

static const char *path_of(const char *name, const char *suffix)
{
	static char path[4096];
	const char *source = getenv("srcdir");

	snprintf(path, sizeof path, "%s/tests/vectors/text_ids/%s%s", source != NULL ? source : ".", name, suffix);
	return path;
}

static json_t *read_expected(const char *name)
{
	json_error_t problem;
	json_t *expected = json_load_file(path_of(name, ".json"), JSON_ALLOW_NUL, &problem);

	ck_assert_msg(expected != NULL, "%s: %s", path_of(name, ".json"), problem.text);
	return expected;
}

static void check_ids(const struct token_sequences *tokens, const json_t *ids, const char *name, const char *text)
{
	ck_assert_uint_eq(tokens->n, 1);
	ck_assert_msg(tokens->n_ids == json_array_size(ids), "%s '%s': %zu ids, not %zu", name, text, tokens->n_ids,
	              json_array_size(ids));
	for (size_t i = 0; i < tokens->n_ids; i++)
		ck_assert_msg(tokens->ids[i] == json_integer_value(json_array_get(ids, i)), "%s '%s': id %zu is %u", name, text,
		              i, (unsigned)tokens->ids[i]);
	suite_compared(tokens->n_ids);
}

static void check_decoded(const struct tokenizer *tokenizer, const struct token_sequences *tokens, const json_t *wanted,
                          const char *name)
{
	char *text = NULL;
	size_t n = 0;

	for (size_t i = 0; i < tokens->n_ids; i++)
		ck_assert_int_eq(tokenizer_decode(tokenizer, tokens->ids[i], &text, &n, &error), EXIT_OK);
	ck_assert_msg(n == json_string_length(wanted) && (n == 0 || memcmp(text, json_string_value(wanted), n) == 0),
	              "%s: '%s', not '%s'", name, text, json_string_value(wanted));
	free(text);
}

/* Encodes all texts; `decoded` may be NULL. */
static void check_tokenizer(const char *name, const char *suffix, uint64_t vocabulary, const json_t *texts,
                            const json_t *ids, const json_t *decoded)
{
	struct tokenizer *tokenizer;

	ck_assert_msg(tokenizer_open(&tokenizer, NULL, path_of(name, suffix), vocabulary, &error) == EXIT_OK, "%s",
	              error.text);
	ck_assert_uint_gt(json_array_size(texts), 60);
	for (size_t i = 0; i < json_array_size(texts); i++) {
		const json_t *text = json_array_get(texts, i), *row = json_array_get(ids, i);
		struct token_sequences tokens = {0};

		if (json_is_null(row))
			continue;
		ck_assert_msg(tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), &tokens, &error) ==
		              EXIT_OK, "%s '%s': %s", name, json_string_value(text), error.text);
		check_ids(&tokens, row, name, json_string_value(text));
		if (decoded != NULL)
			check_decoded(tokenizer, &tokens, json_array_get(decoded, i), name);
		tokens_free(&tokens);
	}
	tokenizer_close(tokenizer);
}

TEST(as_the_package_tokenizers)
{
	json_t *expected = read_expected("expected"), *tokenizer;
	const char *name;

	ck_assert_uint_eq(json_object_size(json_object_get(expected, "tokenizers")), 10);
	json_object_foreach(json_object_get(expected, "tokenizers"), name, tokenizer)
		check_tokenizer(name, ".json", (uint64_t)json_integer_value(json_object_get(tokenizer, "vocabulary")),
		                json_object_get(expected, "texts"), json_object_get(tokenizer, "ids"),
		                json_object_get(tokenizer, "decoded"));
	json_decref(expected);
}

TEST(as_llama_tokenize)
{
	json_t *expected = read_expected("expected_gguf"), *ids;
	const char *name;

	ck_assert_uint_eq(json_object_size(json_object_get(expected, "tokenizers")), 8);
	json_object_foreach(json_object_get(expected, "tokenizers"), name, ids)
		check_tokenizer(name, ".gguf", 1000, json_object_get(expected, "texts"), ids, NULL);
	json_decref(expected);
}
