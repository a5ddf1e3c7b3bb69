/* SPDX-License-Identifier: MIT */
/*
 * The reader of token ids in JSON. (NumPy's arrays are fuzz_file_npy's, and raw numbers have no form.)
 *
 * Properties: any bytes are accepted, or refused with EXIT_INPUT and a message; of what is accepted every id is the
 * model's, and cutting it into windows loses none and leaves none longer than asked.
 *
 * Input: a file. The corpus was written by hand.
 */
#include "config.h"

#include "eval/token_file.h"
#include "fuzz.h"
#include "input_file.h"

enum { VOCABULARY = 500, CONTEXT = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct token_sequences tokens;
	struct error error = {""};
	int code = tokens_read(&tokens, input_file(data, size, ".json"), VOCABULARY, &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a file is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	if (code == EXIT_OK) {
		const size_t n = tokens.n_ids;

		for (size_t i = 0; i < n; i++)
			fuzz_check(tokens.ids[i] < VOCABULARY, "an id is the model's");
		fuzz_check(tokens_cut(&tokens, CONTEXT, &error) == EXIT_OK, "sequences can be cut");
		fuzz_check(tokens.starts[0] == 0 && tokens.starts[tokens.n] == n, "all ids are in a window");
		for (size_t i = 0; i < tokens.n; i++)
			fuzz_check(tokens.starts[i + 1] >= tokens.starts[i] && tokens.starts[i + 1] - tokens.starts[i] <= CONTEXT,
			           "a window is short enough");
	}
	tokens_free(&tokens);
	return 0;
}
