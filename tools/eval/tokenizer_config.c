/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/tokenizer_config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suffix.h"

#define FILE_NAME "tokenizer_config.json"

enum { CONFIG_BYTES = 1 << 26, CLASS_BYTES = 64 };

/* Classes whose fast variants in transformers 4 call update_post_processor() with these keys. GPT-NeoX's does so without
   them too, with false, in both versions. */
static const struct {
	const char *class;
	bool always;
	const char *bos, *eos; /* unless the file says others */
} classes[] = {
	{"LlamaTokenizer", false, "<s>", "</s>"},
	{"CodeLlamaTokenizer", false, "<s>", "</s>"},
	{"GemmaTokenizer", false, "<bos>", "<eos>"},
	{"CohereTokenizer", false, "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"},
	{"GPTNeoXTokenizer", true, "<|endoftext|>", "<|endoftext|>"},
};

/* A token as a string, or an object that has it as `content`. */
static const char *token_of(const json_t *json, const char *key, const char *otherwise)
{
	const json_t *value = json_object_get(json, key), *content = json_object_get(value, "content");

	if (value == NULL)
		return otherwise;
	return json_string_value(content != NULL ? content : value);
}

static int read_end(const struct tokenizer_config *config, const char *path, const char *key, enum tokenizer_end *end,
                    struct error *error)
{
	const json_t *value = json_object_get(config->json, key);

	if (value == NULL || json_is_null(value))
		return EXIT_OK;
	if (!json_is_boolean(value))
		return fail(error, EXIT_INPUT, "%s: %s: is neither true nor false", path, key);
	*end = json_is_true(value) ? TOKENIZER_END_WITH : TOKENIZER_END_WITHOUT;
	return EXIT_OK;
}

static int read_members(struct tokenizer_config *config, const char *path, struct error *error)
{
	const char *class = json_string_value(json_object_get(config->json, "tokenizer_class"));
	const size_t stem = class != NULL ? suffix_stem(class, "Fast") : 0;
	const char *bos = NULL, *eos = NULL;
	int code = read_end(config, path, "add_bos_token", &config->bos, error);

	if (code == EXIT_OK)
		code = read_end(config, path, "add_eos_token", &config->eos, error);
	if (class == NULL)
		class = "";
	for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
		if (strcmp(classes[i].class, class) != 0 &&
		    (stem != strlen(classes[i].class) || strncmp(classes[i].class, class, stem) != 0))
			continue;
		config->counts = true;
		bos = classes[i].bos;
		eos = classes[i].eos;
		if (classes[i].always && config->bos == TOKENIZER_END_BY_FILE)
			config->bos = TOKENIZER_END_WITHOUT;
		if (classes[i].always && config->eos == TOKENIZER_END_BY_FILE)
			config->eos = TOKENIZER_END_WITHOUT;
	}
	config->class = class;
	config->bos_token = token_of(config->json, "bos_token", bos);
	config->eos_token = token_of(config->json, "eos_token", eos);
	return code;
}

int tokenizer_config_read(struct tokenizer_config *config, const char *path, descriptor_opener *opener,
                          struct error *error)
{
	const char *slash = strrchr(path, '/');
	const size_t directory = slash == NULL ? 0 : (size_t)(slash - path) + 1;
	char *beside = malloc(directory + sizeof FILE_NAME);
	int code = EXIT_OK;

	*config = (struct tokenizer_config){.class = ""};
	if (beside == NULL)
		return fail_memory(error);
	memcpy(beside, path, directory);
	memcpy(beside + directory, FILE_NAME, sizeof FILE_NAME);
	if (access(beside, F_OK) == 0)
		code = json_read_python(opener, beside, CONFIG_BYTES, &config->json, error);
	if (code == EXIT_OK && config->json != NULL && !json_is_object(config->json))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", beside);
	if (code == EXIT_OK && config->json != NULL)
		code = read_members(config, beside, error);
	free(beside);
	return code;
}

/* The element of a list of added tokens with that content, or NULL. */
static json_t *find_content(json_t *added_tokens, const char *content)
{
	for (size_t i = 0; i < json_array_size(added_tokens); i++) {
		const char *other = json_string_value(json_object_get(json_array_get(added_tokens, i), "content"));

		if (other != NULL && strcmp(other, content) == 0)
			return json_array_get(added_tokens, i);
	}
	return NULL;
}

int tokenizer_config_merge(const struct tokenizer_config *config, json_t **added_tokens, const char *path,
                           struct error *error)
{
	json_t *decoder = json_object_get(config->json, "added_tokens_decoder"), *token;
	const char *id, *key;
	json_t *value;

	json_prepare();
	if (*added_tokens == NULL || json_is_null(*added_tokens)) {
		json_decref(*added_tokens);
		*added_tokens = json_array();
	}
	json_object_foreach(decoder, id, token) {
		const char *content = json_string_value(json_object_get(token, "content"));
		char *end;
		const unsigned long number = strtoul(id, &end, 10);

		if (content == NULL || *end != '\0' || end == id)
			return fail(error, EXIT_INPUT, "%s: " FILE_NAME " beside it: added_tokens_decoder: '%.60s' is not an id with a token",
			            path, id);
		json_t *known = find_content(*added_tokens, content);
		if (known == NULL) {
			known = json_pack("{s:I, s:s}", "id", (json_int_t)number, "content", content);
			if (known == NULL || json_array_append_new(*added_tokens, known) != 0)
				return fail_memory(error);
		}
		json_object_foreach(token, key, value)
			if (json_object_set(known, key, value) != 0)
				return fail_memory(error);
	}
	return json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

void tokenizer_config_free(struct tokenizer_config *config)
{
	json_decref(config->json);
	*config = (struct tokenizer_config){.class = ""};
}
