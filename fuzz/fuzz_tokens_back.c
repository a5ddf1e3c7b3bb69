/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json and tokenizer_config.json made of a GGUF file's vocabulary: what is refused is refused as input, nothing of
 * what is made is lost, and the way on to GGUF takes it or says why not.
 *
 * Input: a file. The corpus has vocabularies of both kinds, and what is refused, each by hand.
 */
#include "config.h"

#include <unistd.h>

#include "fuzz.h"
#include "gguf/tokens.h"
#include "gguf/tokens_back.h"
#include "input_file.h"
#include "io/file_gguf.h"

static void check_refusal(int code, const struct error *error)
{
	fuzz_check(code == EXIT_INPUT, "a refusal is for the input");
	fuzz_check(error->text[0] != '\0' && strchr(error->text, '\n') == NULL, "a refusal has one line");
}

static size_t elements_of(const struct file *file, const char *key)
{
	struct gguf_strings strings = {0};
	struct error error;
	bool found;

	fuzz_check(gguf_find_strings(file, key, &strings, &found, &error) == EXIT_OK, "what was read can be read again");
	const size_t n = strings.n;
	gguf_strings_free(&strings);
	return n;
}

static void check_made(const struct file *file, const json_t *tokenizer, const json_t *config)
{
	const json_t *model = json_object_get(tokenizer, "model");
	const bool is_spm = json_is_true(json_object_get(model, "byte_fallback"));
	struct gguf_pairs pairs = {0};
	struct tokens_made made;
	struct error error = {""};
	char path[512];

	fuzz_check(json_is_object(config) && json_is_object(json_object_get(model, "vocab")), "both are made");
	fuzz_check(is_spm || json_array_size(json_object_get(model, "merges")) == elements_of(file, "tokenizer.ggml.merges"),
	           "every merge is there");
	snprintf(path, sizeof path, "%s.json", file->path);
	fuzz_check(json_dump_file(tokenizer, path, 0) == 0, "what was made can be written");
	int code = gguf_pairs_begin(&pairs, &error);
	if (code == EXIT_OK)
		code = tokens_put_file(&pairs, path, NULL, elements_of(file, "tokenizer.ggml.tokens"), &made, &error);
	if (code != EXIT_OK)
		check_refusal(code, &error);
	gguf_pairs_free(&pairs);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error error = {""};
	struct file file;
	json_t *tokenizer = NULL, *config = NULL;

	if (file_open(&file, input_file(data, size, ".gguf"), &error) != EXIT_OK)
		return 0;
	const int code = tokens_back(&tokenizer, &config, &file, &error);
	if (code == EXIT_OK)
		check_made(&file, tokenizer, config);
	else
		check_refusal(code, &error);
	json_decref(tokenizer);
	json_decref(config);
	file_close(&file);
	return 0;
}
