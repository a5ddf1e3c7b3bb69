/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "encode.h"

#include "eval/tokenizer.h"
#include "fuzz.h"
#include "input_file.h"

enum { INPUT_MAX = 2000 /* bytes of the input as a text: expressions may take long */ };

static struct error error;

static void check_code(int code)
{
	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file or text is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	error.text[0] = '\0';
}

static void encode(const struct tokenizer *tokenizer, const char *text, size_t n, uint64_t vocabulary)
{
	struct token_sequences tokens = {0};
	char *decoded = NULL;
	size_t n_decoded = 0;
	int code = tokenizer_encode(tokenizer, text, n, &tokens, &error);

	check_code(code);
	fuzz_check(tokens.n == (code == EXIT_OK ? 1 : 0) && (code == EXIT_OK || tokens.n_ids == 0), "a text is a sequence");
	const size_t n_ids = tokens.n_ids;
	if (code == EXIT_OK)
		fuzz_check(tokenizer_encode(tokenizer, text, n, &tokens, &error) == EXIT_OK, "a text is encoded again");
	for (size_t i = 0; i < n_ids; i++) {
		fuzz_check(tokens.ids[i] < vocabulary, "an id is the model's");
		fuzz_check(tokens.ids[i] == tokens.ids[n_ids + i], "a text has the same ids again");
		check_code(tokenizer_decode(tokenizer, tokens.ids[i], &decoded, &n_decoded, &error));
	}
	free(decoded);
	tokens_free(&tokens);
}

void fuzz_encode(const uint8_t *data, size_t size, const char *suffix, uint64_t vocabulary)
{
	static const char *const texts[] = {
		"", " ", "Hello, world! It's 12345 x  y\n\n\t z\r\n", "\xFF\xC3(\xE2\x96\x81 \xE2\x96\x81\xF0\x9F\x91\x8D",
		"cafe\xCC\x81\xCC\xA3 \xE1\x84\x92\xE1\x85\xA1 \xE6\x97\xA5\xE6\x9C\xAC aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"<s>a</s> <pad>",
	};
	struct tokenizer *tokenizer;
	uint32_t id;
	int code = tokenizer_open(&tokenizer, NULL, input_file(data, size, suffix), vocabulary, &error);

	check_code(code);
	fuzz_check((code == EXIT_OK) == (tokenizer != NULL), "what is refused leaves nothing");
	if (code != EXIT_OK)
		return;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		encode(tokenizer, texts[i], strlen(texts[i]), vocabulary);
	encode(tokenizer, (const char *)data, size < INPUT_MAX ? size : INPUT_MAX, vocabulary);
	fuzz_check(!tokenizer_bos(tokenizer, &id) || id < vocabulary, "BOS is the model's");
	fuzz_check(!tokenizer_eos(tokenizer, &id) || id < vocabulary, "EOS is the model's");
	tokenizer_close(tokenizer);
}
