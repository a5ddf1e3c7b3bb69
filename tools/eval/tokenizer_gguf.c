/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary of a GGUF file (ggml/docs/gguf.md, tokenizer.ggml.*), used as llama.cpp uses it (src/llama-vocab.cpp):
 *
 *   tokenizer.ggml.model "llama"  SentencePiece: spaces are U+2581, one stands before a text, neighbours are merged by
 *                                 score; what is no token becomes tokens of bytes, "<0x41>"
 *   tokenizer.ggml.model "gpt2"   byte-level BPE by merges; tokenizer.ggml.pre says what words are (pre_tokenizer.def)
 *
 * tokenizer.ggml.normalizer.nfc, which the converter makes of an NFC in tokenizer.json, puts texts into that form, as the model's
 * own tokenizer does. llama.cpp 0.7.0 does so for Unigram alone; --allow-unknown with the key gives its ids of other texts.
 *
 * Tokens of type user-defined are found in a text before all else, and of several at a place the longest. Control
 * tokens are not: their text in a text is text, as llama-perplexity has it.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/suffix.h"
#include "eval/added.h"
#include "eval/bpe.h"
#include "eval/byte_level.h"
#include "eval/nfc.h"
#include "eval/split.h"
#include "eval/spm.h"
#include "eval/tokenizer_kind.h"
#include "eval/utf8.h"
#include "io/file_gguf.h"
#include "model/allow.h"

#define KEY(name) "tokenizer.ggml." name
#define SPACE "\xE2\x96\x81"

enum { EXPRESSIONS_MAX = 4 };

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static const struct pre_tokenizer {
	const char *name;
	bool ignore_merges, adds_bos;
	const char *expressions[EXPRESSIONS_MAX + 1];
} pre_tokenizers[] = {
#define PRE_TOKENIZER(name, ignore_merges, adds_bos, ...) {name, ignore_merges, adds_bos, {__VA_ARGS__}},
#include "eval/pre_tokenizer.def"
};

enum { N_PRE_TOKENIZERS = sizeof pre_tokenizers / sizeof pre_tokenizers[0] };

struct gguf_tokenizer {
	bool is_spm;
	struct vocabulary vocabulary;
	unsigned char *types; /* by id */
	float *scores;
	struct added added;   /* user-defined tokens */
	bool add_space_prefix, add_eos, cuts, composes;
	struct bpe bpe;
	size_t n_splits;
	struct split splits[EXPRESSIONS_MAX];
};

/* The state of encoding a text. */
struct encoding {
	const struct tokenizer *tokenizer;
	const struct gguf_tokenizer *gguf;
	struct token_sequences *tokens;
	struct merge merge;
	struct pieces words, next, escaped, composed;
};

static int add_bytes(struct encoding *encoding, const char *bytes, size_t n, struct error *error)
{
	const struct vocabulary *vocabulary = &encoding->gguf->vocabulary;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		uint32_t id;

		if (!vocabulary_find_byte(vocabulary, (unsigned char)bytes[i], &id) &&
		    !vocabulary_find(vocabulary, bytes + i, 1, &id))
			return fail(error, EXIT_INPUT, "%s: has no token for byte %u of the text", encoding->tokenizer->path,
			            (unsigned char)bytes[i]);
		code = tokens_add(encoding->tokens, id, error);
	}
	return code;
}

/* Adds the ids of a part of the escaped text. */
static int encode_part(struct encoding *encoding, const char *text, size_t n, struct error *error)
{
	const struct gguf_tokenizer *gguf = encoding->gguf;
	const struct spm spm = {&gguf->vocabulary, gguf->scores, text};
	int code = EXIT_OK;

	merge_clear(&encoding->merge);
	for (size_t at = 0, length; at < n && code == EXIT_OK; at += length) {
		uint32_t id = MERGE_NO_ID;

		utf8_decode(text + at, &length);
		vocabulary_find(&gguf->vocabulary, text + at, length, &id);
		code = merge_add(&encoding->merge, length, id, error);
	}
	if (code == EXIT_OK)
		code = spm_merge(&spm, &encoding->merge, error);
	for (size_t i = 0; i < encoding->merge.n && code == EXIT_OK; i++) {
		const struct merge_symbol *symbol = &encoding->merge.symbols[i];

		code = symbol->id != MERGE_NO_ID ? tokens_add(encoding->tokens, symbol->id, error)
		                                 : add_bytes(encoding, text + symbol->from, symbol->n, error);
	}
	return code;
}

static int encode_spm(struct encoding *encoding, const char *text, size_t n, bool prefix, struct error *error)
{
	struct pieces *escaped = &encoding->escaped;
	int code = EXIT_OK;

	pieces_clear(escaped);
	if (prefix)
		code = pieces_append(escaped, SPACE, strlen(SPACE), error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = text[i] == ' ' ? pieces_append(escaped, SPACE, strlen(SPACE), error)
		                      : pieces_append(escaped, text + i, 1, error);
	for (size_t at = 0; at < escaped->n_bytes && code == EXIT_OK;) {
		const size_t part = vocabulary_cut(escaped->bytes + at, escaped->n_bytes - at, encoding->gguf->cuts ? SPACE : NULL);

		code = encode_part(encoding, escaped->bytes + at, part, error);
		at += part;
	}
	return code;
}

static int encode_bpe(struct encoding *encoding, const char *text, size_t n, struct error *error)
{
	const struct gguf_tokenizer *gguf = encoding->gguf;
	size_t length;
	int code = pieces_set(&encoding->words, text, n, error);

	for (size_t s = 0; s < gguf->n_splits && code == EXIT_OK; s++) {
		pieces_clear(&encoding->next);
		for (size_t i = 0; i < encoding->words.n && code == EXIT_OK; i++) {
			const char *word = pieces_get(&encoding->words, i, &length);

			code = split_apply(&gguf->splits[s], word, length, &encoding->next, encoding->tokenizer->path, error);
		}
		const struct pieces cut = encoding->next;
		encoding->next = encoding->words;
		encoding->words = cut;
	}
	for (size_t i = 0; i < encoding->words.n && code == EXIT_OK; i++) {
		const char *word = pieces_get(&encoding->words, i, &length);

		pieces_clear(&encoding->escaped);
		code = byte_level_encode(word, length, &encoding->escaped, error);
		if (code == EXIT_OK)
			code = bpe_encode(&gguf->bpe, &encoding->merge, encoding->escaped.bytes, encoding->escaped.n_bytes,
			                  encoding->tokens, error);
	}
	return code;
}

/* What stands between two user-defined tokens; a space stands before what follows one, as before the text. */
static int encode_between(struct encoding *encoding, const char *text, size_t n, struct error *error)
{
	int code = EXIT_OK;

	if (n == 0)
		return EXIT_OK;
	if (encoding->gguf->composes) {
		pieces_clear(&encoding->composed);
		code = nfc_append(encoding->tokenizer->path, text, n, &encoding->composed, error);
		text = encoding->composed.bytes;
		n = encoding->composed.n_bytes;
	}
	if (code != EXIT_OK)
		return code;
	return encoding->gguf->is_spm ? encode_spm(encoding, text, n, encoding->gguf->add_space_prefix, error)
	                              : encode_bpe(encoding, text, n, error);
}

static int encode_text(struct encoding *encoding, const char *text, size_t n, struct error *error)
{
	const struct added_token *token;
	size_t done = 0, from = 0, to = 0, next = 0;
	int code = EXIT_OK;

	for (size_t at = 0; code == EXIT_OK; at = next) {
		token = added_find(&encoding->gguf->added, text, n, done, at, &from, &to, &next);
		code = encode_between(encoding, text + done, (token != NULL ? from : n) - done, error);
		if (token == NULL)
			break;
		if (code == EXIT_OK)
			code = tokens_add(encoding->tokens, token->id, error);
		done = to;
	}
	return code;
}

static int encode(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                  struct error *error)
{
	struct encoding encoding = {.tokenizer = tokenizer, .gguf = tokenizer->state, .tokens = tokens};
	struct pieces clean = {0};
	int code = utf8_clean(text, n, &clean, error);

	if (code == EXIT_OK && tokenizer->has_bos)
		code = tokens_add(tokens, tokenizer->bos, error);
	if (code == EXIT_OK && clean.n_bytes > 0)
		code = encode_text(&encoding, clean.bytes, clean.n_bytes, error);
	if (code == EXIT_OK && encoding.gguf->add_eos)
		code = tokens_add(tokens, tokenizer->eos, error);
	merge_free(&encoding.merge);
	pieces_free(&encoding.words);
	pieces_free(&encoding.next);
	pieces_free(&encoding.escaped);
	pieces_free(&encoding.composed);
	pieces_free(&clean);
	return code;
}

/* Appends a token with spaces for U+2581. */
static int unescape(const char *bytes, size_t n, struct pieces *out, struct error *error)
{
	int code = EXIT_OK;

	for (size_t at = 0; at < n && code == EXIT_OK;) {
		const bool is_space = n - at >= strlen(SPACE) && memcmp(bytes + at, SPACE, strlen(SPACE)) == 0;

		code = is_space ? pieces_append(out, " ", 1, error) : pieces_append(out, bytes + at, 1, error);
		at += is_space ? strlen(SPACE) : 1;
	}
	return code;
}

static int decode(const struct tokenizer *tokenizer, uint32_t id, bool first, struct pieces *out, bool *shown,
                  struct error *error)
{
	const struct gguf_tokenizer *gguf = tokenizer->state;
	size_t n;
	unsigned char byte;
	const char *bytes = vocabulary_bytes(&gguf->vocabulary, id, &n);

	if (bytes == NULL)
		return vocabulary_fail_id(tokenizer->path, id, error);
	if (gguf->types[id] == TYPE_USER_DEFINED)
		return pieces_append(out, bytes, n, error);
	if (gguf->types[id] == TYPE_BYTE && vocabulary_is_byte(bytes, n, &byte))
		return pieces_append(out, (const char *)&byte, 1, error);
	*shown = gguf->types[id] == TYPE_NORMAL;
	if (!*shown)
		return EXIT_OK;
	if (!gguf->is_spm)
		return byte_level_decode(bytes, n, out, error);
	const bool drops = first && gguf->add_space_prefix && n >= strlen(SPACE) && memcmp(bytes, SPACE, strlen(SPACE)) == 0;
	return unescape(bytes + (drops ? strlen(SPACE) : 0), n - (drops ? strlen(SPACE) : 0), out, error);
}

static void close_gguf(void *state)
{
	struct gguf_tokenizer *gguf = state;

	vocabulary_free(&gguf->vocabulary);
	added_free(&gguf->added);
	bpe_free(&gguf->bpe);
	for (size_t i = 0; i < gguf->n_splits; i++)
		split_free(&gguf->splits[i]);
	free(gguf->types);
	free(gguf->scores);
	free(gguf);
}

static const struct tokenizer_kind kind_gguf = {encode, decode, close_gguf, TOKENIZER_TEXT_UTF8};

static int fail_key(const struct tokenizer *tokenizer, const char *key, const char *problem, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: key '%s': %s", tokenizer->path, key, problem);
}

/* Reads the types of n tokens, which all are normal if the file has none. */
static int take_types(const struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file, size_t n,
                      struct error *error)
{
	uint64_t *types = NULL;
	size_t n_types = 0;
	bool found;
	int code = gguf_find_u64s(file, KEY("token_type"), &types, &n_types, &found, error);

	if (code != EXIT_OK)
		return code;
	if (found && n_types < n)
		code = fail_key(tokenizer, KEY("token_type"), "has fewer elements than there are tokens", error);
	gguf->types = malloc(n + 1);
	if (code == EXIT_OK && gguf->types == NULL)
		code = fail_memory(error);
	for (size_t id = 0; id < n && code == EXIT_OK; id++) {
		const uint64_t type = found ? types[id] : TYPE_NORMAL;

		/* 0 is what llama.cpp calls undefined, and treats as normal in nothing. */
		gguf->types[id] = type <= TYPE_BYTE ? (unsigned char)type : TYPE_UNUSED;
	}
	free(types);
	return code;
}

static int take_scores(const struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file,
                       size_t n, struct error *error)
{
	size_t n_scores = 0;
	bool found;
	int code = gguf_find_floats(file, KEY("scores"), &gguf->scores, &n_scores, &found, error);

	if (code != EXIT_OK)
		return code;
	if (!found) {
		gguf->scores = calloc(n + 1, sizeof *gguf->scores);
		return gguf->scores == NULL ? fail_memory(error) : EXIT_OK;
	}
	if (n_scores < n)
		return fail_key(tokenizer, KEY("scores"), "has fewer elements than there are tokens", error);
	for (size_t id = 0; id < n; id++)
		if (isnan(gguf->scores[id]))
			return fail_key(tokenizer, KEY("scores"), "holds NaN", error);
	return EXIT_OK;
}

static int take_tokens(const struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file,
                       struct error *error)
{
	struct gguf_strings strings = {0};
	bool found;
	int code = gguf_find_strings(file, KEY("tokens"), &strings, &found, error);

	if (code == EXIT_OK && !found)
		code = fail_key(tokenizer, KEY("tokens"), "is not there", error);
	if (code == EXIT_OK && strings.n > tokenizer->vocabulary)
		code = fail(error, EXIT_INPUT, "%s: key '" KEY("tokens") "': has %zu tokens, and the model has %" PRIu64,
		            tokenizer->path, strings.n, tokenizer->vocabulary);
	if (code == EXIT_OK)
		code = take_types(tokenizer, gguf, file, strings.n, error);
	if (code == EXIT_OK && gguf->is_spm)
		code = take_scores(tokenizer, gguf, file, strings.n, error);
	for (size_t id = 0; id < strings.n && code == EXIT_OK; id++) {
		const size_t from = strings.starts[id];

		code = vocabulary_add(&gguf->vocabulary, strings.bytes + from, strings.starts[id + 1] - from, id, true,
		                      tokenizer->path, error);
	}
	gguf_strings_free(&strings);
	for (size_t id = 0; id < gguf->vocabulary.n_ids && code == EXIT_OK; id++) {
		struct added_token token = {.id = (uint32_t)id};

		if (gguf->types[id] != TYPE_USER_DEFINED)
			continue;
		token.bytes = vocabulary_bytes(&gguf->vocabulary, token.id, &token.n);
		if (token.n > 0)
			code = added_add(&gguf->added, token, error);
	}
	added_sort(&gguf->added);
	return code;
}

static int take_merges(const struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file,
                       struct error *error)
{
	struct gguf_strings strings = {0};
	bool found;
	int code = gguf_find_strings(file, KEY("merges"), &strings, &found, error);

	if (code == EXIT_OK && !found)
		code = fail_key(tokenizer, KEY("merges"), "is not there", error);
	for (size_t i = 0; i < strings.n && code == EXIT_OK; i++) {
		const char *pair = strings.bytes + strings.starts[i];
		const size_t n = strings.starts[i + 1] - strings.starts[i];
		/* A token may be a space or begin with one. */
		const char *space = n > 1 ? memchr(pair + 1, ' ', n - 1) : NULL;

		if (space == NULL)
			code = fail(error, EXIT_INPUT, "%s: key '" KEY("merges") "': element %zu is not a pair of tokens with a space "
			            "between them", tokenizer->path, i);
		else
			code = bpe_add(&gguf->bpe, pair, (size_t)(space - pair), space + 1, n - (size_t)(space - pair) - 1,
			               (uint32_t)i, false, error);
	}
	gguf_strings_free(&strings);
	return code;
}

static int fail_pre_tokenizer(const struct tokenizer *tokenizer, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};

	for (size_t i = 0; i < N_PRE_TOKENIZERS; i++)
		nearest_offer(&nearest, pre_tokenizers[i].name);
	return fail(error, EXIT_INPUT, "%s: key '" KEY("pre") "': '%.60s' is not known%s%s; give --tokens, or another "
	            "file of the model by --tokenizer", tokenizer->path, name, nearest.best != NULL ? ", nor meant as " : "",
	            nearest.best != NULL ? nearest.best : "");
}

static int take_pre_tokenizer(const struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file,
                              bool *adds_bos, struct error *error)
{
	const char *name = "default";
	bool found;
	size_t i = 0;
	int code = gguf_find_string(file, KEY("pre"), &name, &found, error);

	while (i < N_PRE_TOKENIZERS && strcmp(pre_tokenizers[i].name, name) != 0)
		i++;
	if (code == EXIT_OK && i == N_PRE_TOKENIZERS)
		code = fail_pre_tokenizer(tokenizer, name, error);
	if (code != EXIT_OK)
		return code;
	const struct pre_tokenizer *known = &pre_tokenizers[i];
	*adds_bos = known->adds_bos;
	gguf->bpe.ignore_merges = known->ignore_merges;
	while (known->expressions[gguf->n_splits] != NULL && code == EXIT_OK) {
		struct split *split = &gguf->splits[gguf->n_splits];

		split->behavior = SPLIT_ISOLATED;
		code = split_compile(split, known->expressions[gguf->n_splits++], false, tokenizer->path, KEY("pre"), error);
	}
	return code;
}

/* Reads an id; the default stays if the file has none. */
static int take_id(const struct tokenizer *tokenizer, const struct gguf_tokenizer *gguf, const struct file *file,
                   const char *key, bool needed, uint32_t *id, struct error *error)
{
	bool found;
	size_t n;
	int code = gguf_find_u32(file, key, id, &found, error);

	if (code == EXIT_OK && needed && vocabulary_bytes(&gguf->vocabulary, *id, &n) == NULL)
		code = fail(error, EXIT_INPUT, "%s: key '%s': no token has the id %" PRIu32, tokenizer->path, key, *id);
	return code;
}

static int take_ends(struct tokenizer *tokenizer, struct gguf_tokenizer *gguf, const struct file *file, bool adds_bos,
                     struct error *error)
{
	bool found;
	size_t n;
	int code;

	tokenizer->has_bos = adds_bos;
	tokenizer->bos = gguf->is_spm ? 1 : 11;
	tokenizer->eos = gguf->is_spm ? 2 : 11;
	code = gguf_find_bool(file, KEY("add_bos_token"), &tokenizer->has_bos, &found, error);
	if (code == EXIT_OK)
		code = gguf_find_bool(file, KEY("add_eos_token"), &gguf->add_eos, &found, error);
	if (code == EXIT_OK)
		code = gguf_find_bool(file, KEY("add_space_prefix"), &gguf->add_space_prefix, &found, error);
	if (code == EXIT_OK)
		code = take_id(tokenizer, gguf, file, KEY("bos_token_id"), tokenizer->has_bos, &tokenizer->bos, error);
	if (code == EXIT_OK)
		code = take_id(tokenizer, gguf, file, KEY("eos_token_id"), gguf->add_eos, &tokenizer->eos, error);
	tokenizer->has_eos = code == EXIT_OK && vocabulary_bytes(&gguf->vocabulary, tokenizer->eos, &n) != NULL;
	return code;
}

/* Refuses a key of the section that nobody here knows. What stands here is used above, or is of other kinds of vocabularies, or
   names tokens that no text is made of. */
static int check_keys(const struct tokenizer *tokenizer, const struct file *file, struct error *error)
{
	static const char *const known[] = {
		"model", "pre", "tokens", "token_type", "token_type_count", "scores", "merges", "add_bos_token", "add_eos_token",
		"add_sep_token", "add_space_prefix", "remove_extra_whitespaces", "precompiled_charsmap", "normalizer.nfc",
	};
	static const char section[] = KEY("");
	const char *key;

	for (size_t i = 0; (key = gguf_key(file, i)) != NULL; i++) {
		const char *value = file_metadata(file, key);
		size_t k = 0;

		if (strncmp(key, section, strlen(section)) != 0)
			continue;
		while (k < sizeof known / sizeof known[0] && strcmp(known[k], key + strlen(section)) != 0)
			k++;
		if (k < sizeof known / sizeof known[0] || suffix_stem(key, "_token_id") > 0 ||
		    (value != NULL && strcmp(value, "false") == 0) || allowed_unknown(key))
			continue;
		return fail(error, EXIT_INPUT, "%s: key '%.100s': is not known, and may change the ids of a text; --allow-unknown "
		            "%.100s makes them without it", tokenizer->path, key, key);
	}
	return EXIT_OK;
}

int tokenizer_read_gguf(struct tokenizer *tokenizer, const struct file *file, struct error *error)
{
	struct gguf_tokenizer *gguf = calloc(1, sizeof *gguf);
	const char *model = "";
	bool found, adds_bos = true;

	if (gguf == NULL)
		return fail_memory(error);
	tokenizer->kind = &kind_gguf;
	tokenizer->state = gguf;
	gguf->bpe.path = tokenizer->path;
	gguf->bpe.vocabulary = &gguf->vocabulary;
	int code = gguf_find_string(file, KEY("model"), &model, &found, error);
	if (code == EXIT_OK && !found)
		return fail_key(tokenizer, KEY("model"), "is not there: the file has no vocabulary; give --tokenizer FILE", error);
	gguf->is_spm = gguf->add_space_prefix = strcmp(model, "llama") == 0;
	if (code == EXIT_OK && !gguf->is_spm && strcmp(model, "gpt2") != 0)
		return fail(error, EXIT_INPUT, "%s: key '" KEY("model") "': '%.60s' is not known, llama and gpt2 are; give --tokens "
		            "instead of --text", tokenizer->path, model);
	if (code == EXIT_OK)
		code = check_keys(tokenizer, file, error);
	if (code == EXIT_OK)
		code = gguf_find_bool(file, KEY("normalizer.nfc"), &gguf->composes, &found, error);
	gguf->composes = gguf->composes && !allowed_unknown(KEY("normalizer.nfc"));
	if (code == EXIT_OK)
		code = take_tokens(tokenizer, gguf, file, error);
	if (code == EXIT_OK && !gguf->is_spm)
		code = take_pre_tokenizer(tokenizer, gguf, file, &adds_bos, error);
	if (code == EXIT_OK && !gguf->is_spm)
		code = take_merges(tokenizer, gguf, file, error);
	if (code == EXIT_OK && gguf->is_spm)
		gguf->cuts = vocabulary_cuts_at(&gguf->vocabulary, SPACE);
	return code == EXIT_OK ? take_ends(tokenizer, gguf, file, adds_bos, error) : code;
}
