/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/suffix.h"
#include "eval/tokenizer_kind.h"
#include "eval/utf8.h"
#include "eval/vocabulary.h"
#include "io/file_gguf.h"
#include "io/member.h"
#include "io/remote.h"
#include "model/model_output.h"

#define TOKENIZER_FILE "tokenizer.json"
#define GENERATION_FILE "generation_config.json"

enum { BYTES = 256 };

static int encode_bytes(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                        struct error *error)
{
	int code = EXIT_OK;

	(void)tokenizer;
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = tokens_add(tokens, (unsigned char)text[i], error);
	return code;
}

static int decode_byte(const struct tokenizer *tokenizer, uint32_t id, bool first, struct pieces *out, bool *shown,
                       struct error *error)
{
	const char byte = (char)id;

	(void)first;
	(void)shown;
	return id < BYTES ? pieces_append(out, &byte, 1, error) : vocabulary_fail_id(tokenizer->path, id, error);
}

static const struct tokenizer_kind kind_bytes = {.encode = encode_bytes, .decode = decode_byte};

/* A GGUF file that a path names. */
static int read_gguf(struct tokenizer *tokenizer, struct error *error)
{
	struct file file;
	int code = file_open(&file, tokenizer->path, error);

	if (code != EXIT_OK)
		return code;
	code = file.format == &file_gguf ? tokenizer_read_gguf(tokenizer, &file, error)
	       : fail(error, EXIT_INPUT, "%s: is not a GGUF file", tokenizer->path);
	file_close(&file);
	return code;
}

static int set_path(struct tokenizer *tokenizer, char *path, struct error *error)
{
	free(tokenizer->path);
	tokenizer->path = path;
	return path == NULL ? fail_memory(error) : EXIT_OK;
}

/* What a tokenizer is instead of one that is read. */
static const struct {
	const char *name, *what;
} others[] = {
	{"tokenizer.model", "SentencePiece's"},
	{"tiktoken.model", "tiktoken's"},
	{"tekken.json", "Mistral's"},
	{"vocab.json", "without the rules by which a text is cut"},
};

#define CONVERT "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes a " TOKENIZER_FILE

/* Fails if a directory has a tokenizer of another kind. */
static int refuse_other(const char *directory, struct error *error)
{
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		char *path = directory_member(directory, others[i].name);
		int code = path == NULL ? fail_memory(error) : EXIT_OK;

		if (code == EXIT_OK && access(path, F_OK) == 0)
			code = fail(error, EXIT_INPUT, "%s: is a tokenizer that is not read (%s), and no " TOKENIZER_FILE " is there; " CONVERT,
			            path, others[i].what);
		free(path);
		if (code != EXIT_OK)
			return code;
	}
	return EXIT_OK;
}

static int read_path(struct tokenizer *tokenizer, const char *path, struct error *error)
{
	struct stat status;
	const bool is_directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
	int code = set_path(tokenizer, is_directory ? directory_member(path, TOKENIZER_FILE) : strdup(path), error);

	if (code != EXIT_OK)
		return code;
	if (is_directory && access(tokenizer->path, F_OK) != 0)
		code = refuse_other(path, error);
	if (code != EXIT_OK)
		return code;
	if (is_directory)
		return tokenizer_read_hf(tokenizer, member_open, error);
	if (suffix_stem(path, ".json") > 0)
		return tokenizer_read_hf(tokenizer, descriptor_open, error);
	if (suffix_stem(path, ".gguf") > 0)
		return read_gguf(tokenizer, error);
	if (suffix_stem(path, ".bin") > 0)
		return tokenizer_read_llama2(tokenizer, error);
	if (access(path, F_OK) != 0)
		return remote_fail_open(path, error);
	if (suffix_stem(path, ".model") > 0)
		return fail(error, EXIT_INPUT, "%s: is a tokenizer that is not read (SentencePiece's or tiktoken's); " CONVERT, path);
	return fail(error, EXIT_INPUT, "%s: the name of a tokenizer ends in .json (Hugging Face's " TOKENIZER_FILE "), .gguf "
	            "or .bin (llama2.c's)", path);
}

/* What comes with the model. */
static int read_model(struct tokenizer *tokenizer, const struct model *model, struct error *error)
{
	for (size_t i = 0; i < model->n_files; i++) {
		if (model->files[i].format != &file_gguf)
			continue;
		int code = set_path(tokenizer, strdup(model->files[i].path), error);
		return code == EXIT_OK ? tokenizer_read_gguf(tokenizer, &model->files[i], error) : code;
	}
	int code = set_path(tokenizer, directory_member(model->directory, TOKENIZER_FILE), error);
	if (code != EXIT_OK)
		return code;
	if (access(tokenizer->path, F_OK) == 0)
		return tokenizer_read_hf(tokenizer, member_open, error);
	if (tokenizer->vocabulary != BYTES)
		code = refuse_other(model->directory, error);
	if (code != EXIT_OK)
		return code;
	if (tokenizer->vocabulary != BYTES)
		return fail(error, EXIT_INPUT, "%s: has no " TOKENIZER_FILE " beside it, and %" PRIu64 " tokens, so they are not "
		            "bytes; give --tokenizer FILE", model->path, tokenizer->vocabulary);
	tokenizer->kind = &kind_bytes;
	return EXIT_OK;
}

/* Takes eos_token_id, an id or a list of them; those that are no ids of the model end nothing. */
static void take_ids(struct tokenizer *tokenizer, const json_t *eos)
{
	const size_t n = json_is_array(eos) ? json_array_size(eos) : 1;

	for (size_t i = 0; i < n && tokenizer->n_ends < TOKENIZER_ENDS; i++) {
		const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;

		if (json_is_integer(id) && json_integer_value(id) >= 0 && (uint64_t)json_integer_value(id) < tokenizer->vocabulary)
			tokenizer->ends[tokenizer->n_ends++] = (uint32_t)json_integer_value(id);
	}
}

/* What ends a text by the files of the model's directory, also if the user named a file in it. */
static int take_eos(struct tokenizer *tokenizer, const struct model *model, struct error *error)
{
	json_t *generation = NULL, *config = NULL;
	char *path = directory_member(model->directory, GENERATION_FILE);
	int code = path == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK && access(path, F_OK) == 0)
		code = json_read_python(model->is_directory ? member_open : descriptor_open, path, CONFIG_BYTES_MAX, &generation, error);
	if (code == EXIT_OK && json_object_get(generation, "eos_token_id") == NULL)
		code = model_config_copy(model, &config, error);
	if (code == EXIT_OK)
		take_ids(tokenizer, json_object_get(config != NULL ? config : generation, "eos_token_id"));
	json_decref(generation);
	json_decref(config);
	free(path);
	return code;
}

int tokenizer_open(struct tokenizer **tokenizer, const struct model *model, const char *path, uint64_t vocabulary,
                   struct error *error)
{
	struct tokenizer *opened = *tokenizer = calloc(1, sizeof *opened);

	if (opened == NULL)
		return fail_memory(error);
	opened->vocabulary = vocabulary < UINT32_MAX ? vocabulary : UINT32_MAX;
	int code = path != NULL ? read_path(opened, path, error) : read_model(opened, model, error);
	if (code == EXIT_OK && opened->has_bos && opened->bos >= opened->vocabulary)
		code = fail(error, EXIT_INPUT, "%s: BOS is id %" PRIu32 ", and the model has %" PRIu64 " tokens; the tokenizer is "
		            "another model's", opened->path, opened->bos, opened->vocabulary);
	if (code == EXIT_OK && opened->eos >= opened->vocabulary)
		opened->has_eos = false;
	if (code == EXIT_OK && model != NULL && model->n_files > 0 && model->files[0].format != &file_gguf)
		code = take_eos(opened, model, error);
	if (code != EXIT_OK) {
		tokenizer_close(opened);
		*tokenizer = NULL;
	}
	return code;
}

/* Finds the first byte that is no UTF-8; n if there is none. */
static size_t find_malformed(const char *text, size_t n)
{
	size_t at = 0;
	bool valid = true;

	while (at < n) {
		const size_t length = utf8_length(text + at, n - at, &valid);

		if (!valid)
			return at;
		at += length;
	}
	return n;
}

static size_t join_line_ends(char *text, size_t n)
{
	size_t to = 0;

	for (size_t from = 0; from < n; from++) {
		if (text[from] == '\r' && from + 1 < n && text[from + 1] == '\n')
			continue;
		text[to++] = text[from] == '\r' ? '\n' : text[from];
	}
	return to;
}

int tokenizer_check_text(const struct tokenizer *tokenizer, const char *where, const char *text, size_t n,
                         struct error *error)
{
	const size_t at = tokenizer->kind->text == TOKENIZER_TEXT_BYTES ? n : find_malformed(text, n);
	size_t line = 1;

	if (at == n)
		return EXIT_OK;
	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return fail(error, EXIT_INPUT, "%s: line %zu, byte %zu: %02x is not UTF-8 there; convert the text, for example by iconv -f "
	            "latin1 -t utf-8", where, line, at, (unsigned)(unsigned char)text[at]);
}

int tokenizer_read_text(const struct tokenizer *tokenizer, const char *path, char *text, size_t *n, struct error *error)
{
	const int code = tokenizer_check_text(tokenizer, path, text, *n, error);

	if (code == EXIT_OK && tokenizer->kind->text == TOKENIZER_TEXT_PYTHON)
		*n = join_line_ends(text, *n);
	return code;
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                     struct error *error)
{
	const size_t start = tokens->n_ids;
	int code = tokenizer->kind->encode(tokenizer, text, n, tokens, error);

	for (size_t i = start; i < tokens->n_ids && code == EXIT_OK; i++)
		if (tokens->ids[i] >= tokenizer->vocabulary)
			code = fail(error, EXIT_INPUT, "%s: gives id %" PRIu32 " for the text, and the model has %" PRIu64
			            " tokens; the tokenizer is another model's", tokenizer->path, tokens->ids[i],
			            tokenizer->vocabulary);
	if (code == EXIT_OK)
		code = tokens_end(tokens, error);
	if (code != EXIT_OK)
		tokens->n_ids = start;
	return code;
}

int tokenizer_decode(const struct tokenizer *tokenizer, uint32_t id, char **text, size_t *n, struct error *error)
{
	struct pieces out = {0};
	bool shown = true;
	int code = tokenizer->kind->decode(tokenizer, id, *text == NULL, &out, &shown, error);

	if (code == EXIT_OK && shown) {
		char *grown = realloc(*text, *n + out.n_bytes + 1);

		if (grown == NULL) {
			code = fail_memory(error);
		} else {
			if (out.n_bytes > 0)
				memcpy(grown + *n, out.bytes, out.n_bytes);
			*text = grown;
			*n += out.n_bytes;
			grown[*n] = '\0';
		}
	}
	pieces_free(&out);
	return code;
}

bool tokenizer_bos(const struct tokenizer *tokenizer, uint32_t *id)
{
	*id = tokenizer->bos;
	return tokenizer->has_bos;
}

bool tokenizer_eos(const struct tokenizer *tokenizer, uint32_t *id)
{
	*id = tokenizer->eos;
	return tokenizer->has_eos;
}

bool tokenizer_ends(const struct tokenizer *tokenizer, uint32_t id)
{
	for (size_t i = 0; i < tokenizer->n_ends; i++)
		if (tokenizer->ends[i] == id)
			return true;
	return tokenizer->n_ends == 0 && tokenizer->has_eos && tokenizer->eos == id;
}

const char *tokenizer_note(const struct tokenizer *tokenizer)
{
	return tokenizer != NULL && tokenizer->note[0] != '\0' ? tokenizer->note : NULL;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
	if (tokenizer == NULL)
		return;
	if (tokenizer->kind != NULL && tokenizer->kind->close != NULL)
		tokenizer->kind->close(tokenizer->state);
	free(tokenizer->path);
	free(tokenizer);
}
