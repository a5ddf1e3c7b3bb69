/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary of a GGUF file made of a tokenizer.json: what is refused is refused as input, and what is made is the same
 * when it is made again.
 *
 * Input: a file. A script wrote the corpus.
 */
#include "config.h"

#include "fuzz.h"
#include "gguf/tokens.h"
#include "input_file.h"

enum { VOCABULARY = 1000 };

static int make(struct gguf_pairs *pairs, const char *path)
{
	struct tokens_made made;
	struct error error;
	int code = gguf_pairs_begin(pairs, &error);

	if (code == EXIT_OK)
		code = tokens_put_file(pairs, path, NULL, VOCABULARY, &made, &error);
	fuzz_check(code == EXIT_OK || code == EXIT_INPUT || code == EXIT_MEMORY, "an exit code that says what is wrong");
	fuzz_check(code != EXIT_OK || (made.tokens == VOCABULARY && made.padded <= VOCABULARY), "every id has a token");
	return code == EXIT_OK ? gguf_pairs_end(pairs, &error) : code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = input_file(data, size, ".json");
	struct gguf_pairs first = {0}, second = {0};
	const int code = make(&first, path);

	fuzz_check(make(&second, path) == code, "the same answer again");
	fuzz_check(code != EXIT_OK || (first.n == second.n && first.n_bytes == second.n_bytes &&
	                               memcmp(first.bytes, second.bytes, first.n_bytes) == 0), "the same bytes again");
	gguf_pairs_free(&first);
	gguf_pairs_free(&second);
	return 0;
}
