/* SPDX-License-Identifier: MIT */
/*
 * The way back of tokens.c. The steps that cut words follow from tokenizer.ggml.pre. A vocabulary of kind `llama` has scores
 * and no merges: these are all pairs of tokens that make one, in the order of its score and of their ids, as transformers makes
 * them of a tokenizer.model. Where two of them have the same score, llama.cpp takes the first in the text and merges cannot: refused.
 */
#include "config.h"

#include "gguf/tokens_back.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/utf8.h"
#include "eval/vocabulary.h"
#include "gguf/pre_name.h"
#include "io/file_gguf.h"
#include "io/json.h"

#define KEY(name) "tokenizer.ggml." name
#define SPACE "\xE2\x96\x81"

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

struct making {
	const struct file *file;
	struct gguf_strings tokens, merges;
	uint64_t *types;
	float *scores;
	struct vocabulary vocabulary;
	bool is_spm, add_bos, add_eos, prefix, composes;
	uint32_t bos, eos, unknown;
	bool has_bos, has_eos, has_unknown;
	struct error *error;
};

static int fail_key(const struct making *m, const char *key, const char *problem)
{
	return fail(m->error, EXIT_INPUT, "%s: key '%s': %s", m->file->path, key, problem);
}

/* A text; NULL if it is not UTF-8 without NUL, which a tokenizer.json wants. */
static json_t *utf8_text(const char *bytes, size_t n)
{
	return n > 0 && memchr(bytes, '\0', n) != NULL ? NULL : json_stringn(bytes, n);
}

static json_t *text_of(const struct making *m, uint32_t id)
{
	return utf8_text(m->tokens.bytes + m->tokens.starts[id], m->tokens.starts[id + 1] - m->tokens.starts[id]);
}

/* Whether the token only fills the embedding. */
static bool is_padding(const struct making *m, uint32_t id)
{
	char padding[32];
	const size_t from = m->tokens.starts[id], n = m->tokens.starts[id + 1] - from;

	snprintf(padding, sizeof padding, "[PAD%" PRIu32 "]", id);
	return m->types[id] == TYPE_UNUSED && n == strlen(padding) && memcmp(m->tokens.bytes + from, padding, n) == 0;
}

static int read_id(struct making *m, const char *key, uint32_t *id, bool *found)
{
	int code = gguf_find_u32(m->file, key, id, found, m->error);

	return code == EXIT_OK && *found && *id >= m->tokens.n ? fail_key(m, key, "is not a token") : code;
}

static int read_keys(struct making *m)
{
	const char *model = NULL;
	bool found, ignored;
	size_t n_types = 0, n_scores = 0;
	int code = gguf_find_string(m->file, KEY("model"), &model, &found, m->error);

	if (code == EXIT_OK && (!found || (strcmp(model, "gpt2") != 0 && strcmp(model, "llama") != 0)))
		code = fail_key(m, KEY("model"), found ? "is neither gpt2 nor llama, of which alone a tokenizer.json is made" : "is not there");
	if (code == EXIT_OK)
		code = gguf_find_strings(m->file, KEY("tokens"), &m->tokens, &found, m->error);
	if (code == EXIT_OK && !found)
		code = fail_key(m, KEY("tokens"), "is not there");
	if (code == EXIT_OK)
		code = gguf_find_u64s(m->file, KEY("token_type"), &m->types, &n_types, &found, m->error);
	if (code == EXIT_OK && (!found || n_types != m->tokens.n))
		code = fail_key(m, KEY("token_type"), "is not there, or does not have one element for each token");
	if (code != EXIT_OK)
		return code;
	m->is_spm = strcmp(model, "llama") == 0;
	m->prefix = m->add_bos = m->is_spm;
	if (m->is_spm)
		code = gguf_find_floats(m->file, KEY("scores"), &m->scores, &n_scores, &found, m->error);
	if (code == EXIT_OK && m->is_spm && (!found || n_scores != m->tokens.n))
		code = fail_key(m, KEY("scores"), "is not there, or does not have one element for each token");
	if (code == EXIT_OK && !m->is_spm)
		code = gguf_find_strings(m->file, KEY("merges"), &m->merges, &found, m->error);
	if (code == EXIT_OK && !m->is_spm && !found)
		code = fail_key(m, KEY("merges"), "is not there");
	if (code == EXIT_OK)
		code = gguf_find_bool(m->file, KEY("add_space_prefix"), &m->prefix, &ignored, m->error);
	if (code == EXIT_OK)
		code = gguf_find_bool(m->file, KEY("add_bos_token"), &m->add_bos, &ignored, m->error);
	if (code == EXIT_OK)
		code = gguf_find_bool(m->file, KEY("add_eos_token"), &m->add_eos, &ignored, m->error);
	if (code == EXIT_OK)
		code = gguf_find_bool(m->file, KEY("normalizer.nfc"), &m->composes, &ignored, m->error);
	if (code == EXIT_OK)
		code = read_id(m, KEY("bos_token_id"), &m->bos, &m->has_bos);
	if (code == EXIT_OK)
		code = read_id(m, KEY("eos_token_id"), &m->eos, &m->has_eos);
	if (code == EXIT_OK)
		code = read_id(m, KEY("unknown_token_id"), &m->unknown, &m->has_unknown);
	if (code == EXIT_OK && ((m->add_bos && !m->has_bos) || (m->add_eos && !m->has_eos)))
		code = fail_key(m, KEY("add_bos_token"), "or add_eos_token is true, and there is no such token");
	for (uint32_t id = 0; code == EXIT_OK && id < m->tokens.n; id++)
		if (!is_padding(m, id))
			code = vocabulary_add(&m->vocabulary, m->tokens.bytes + m->tokens.starts[id], m->tokens.starts[id + 1] - m->tokens.starts[id],
			                      id, true, m->file->path, m->error);
	return code;
}

static json_t *added_token(json_t *content, uint32_t id, bool special)
{
	return json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", content, "single_word", 0, "lstrip", 0,
	                 "rstrip", 0, "normalized", 0, "special", (int)special);
}

/* Adds tokens to `vocab`, and to `added` what is found in texts as it is. */
static int list_tokens(const struct making *m, json_t *vocab, json_t *added)
{
	for (uint32_t id = 0; id < m->tokens.n; id++) {
		const bool control = m->types[id] == TYPE_CONTROL || m->types[id] == TYPE_UNKNOWN;
		const bool apart = control || m->types[id] == TYPE_USER_DEFINED;

		if (is_padding(m, id))
			continue;
		json_t *text = text_of(m, id);
		if (text == NULL && !json_out_of_memory())
			return fail(m->error, EXIT_INPUT, "%s: key '" KEY("tokens") "': token %" PRIu32 " is not UTF-8 without NUL", m->file->path, id);
		if (apart)
			json_array_append_new(added, added_token(json_incref(text), id, control));
		if (!apart || m->is_spm)
			json_object_set_new(vocab, json_string_value(text), json_integer(id));
		json_decref(text);
	}
	return EXIT_OK;
}

static int list_merges(const struct making *m, json_t *list)
{
	for (size_t i = 0; i < m->merges.n; i++) {
		const char *pair = m->merges.bytes + m->merges.starts[i];
		const size_t n = m->merges.starts[i + 1] - m->merges.starts[i];
		const char *space = n > 1 ? memchr(pair + 1, ' ', n - 1) : NULL;

		if (space == NULL)
			return fail(m->error, EXIT_INPUT, "%s: key '" KEY("merges") "': element %zu is not a pair of tokens", m->file->path, i);
		json_t *both = json_pack("[o, o]", utf8_text(pair, (size_t)(space - pair)), utf8_text(space + 1, n - (size_t)(space - pair) - 1));
		if (both == NULL && !json_out_of_memory())
			return fail(m->error, EXIT_INPUT, "%s: key '" KEY("merges") "': element %zu is not UTF-8 without NUL", m->file->path, i);
		json_array_append_new(list, both);
	}
	return EXIT_OK;
}

/* A token that merges make, by its score. */
struct scored {
	float score;
	uint32_t id;
};

static int compare_scores(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->id < y->id ? -1 : 1;
}

static bool find_normal(const struct making *m, const char *bytes, size_t n, uint32_t *id)
{
	return vocabulary_find(&m->vocabulary, bytes, n, id) && m->types[*id] == TYPE_NORMAL;
}

/* Counts the pairs that make a token whose left one has an id of at least `least`; *at is where the one with the least such
   id is cut, and *left that id. */
static size_t find_pairs(const struct making *m, const char *bytes, size_t n, uint32_t least, size_t *at, uint32_t *left)
{
	size_t pairs = 0, length;
	uint32_t id, right;

	for (size_t i = 0; i < n; i += length) {
		utf8_decode(bytes + i, &length);
		if (i == 0 || !find_normal(m, bytes, i, &id) || !find_normal(m, bytes + i, n - i, &right) || id < least)
			continue;
		if (pairs++ == 0 || id < *left) {
			*left = id;
			*at = i;
		}
	}
	return pairs;
}

/* Adds the pairs that make a token, in the order of their left ones' ids. */
static void list_pairs(const struct making *m, uint32_t id, json_t *list)
{
	size_t n, at = 0;
	uint32_t left = 0;
	const char *bytes = vocabulary_bytes(&m->vocabulary, id, &n);

	for (uint32_t least = 0; find_pairs(m, bytes, n, least, &at, &left) > 0; least = left + 1)
		json_array_append_new(list, json_pack("[o, o]", json_stringn(bytes, at), json_stringn(bytes + at, n - at)));
}

static bool is_made(const struct making *m, uint32_t id)
{
	size_t n, at;
	uint32_t left;
	const char *bytes = vocabulary_bytes(&m->vocabulary, id, &n);

	return bytes != NULL && m->types[id] == TYPE_NORMAL && find_pairs(m, bytes, n, 0, &at, &left) > 0;
}

static int list_scored(const struct making *m, json_t *list)
{
	struct scored *scored = calloc(m->tokens.n + 1, sizeof *scored);
	size_t n = 0;
	int code = scored == NULL ? fail_memory(m->error) : EXIT_OK;

	for (uint32_t id = 0; code == EXIT_OK && id < m->tokens.n; id++)
		if (is_made(m, id))
			scored[n++] = (struct scored){m->scores[id], id};
	if (n > 0)
		qsort(scored, n, sizeof *scored, compare_scores);
	for (size_t i = 0; code == EXIT_OK && i < n; i++) {
		if (i > 0 && !(scored[i].score < scored[i - 1].score))
			code = fail_key(m, KEY("scores"), "are the same for tokens that merges make, or NaN, which the merges of a tokenizer.json "
			                "cannot say; copy the model's own tokenizer.json");
		else
			list_pairs(m, scored[i].id, list);
	}
	free(scored);
	return code;
}

/* The steps that cut words, as the pre_tokenizer that they were. */
static json_t *pre_tokenizer(const char *steps)
{
	json_t *list = json_array();
	bool maps = false;

	while (*steps != '\0') {
		const char *end = strstr(steps, "\n\n");
		const size_t n = end != NULL ? (size_t)(end - steps) : strlen(steps);

		maps = n == strlen("ByteLevel") && strncmp(steps, "ByteLevel", n) == 0;
		if (maps)
			break;
		if (n == strlen("Digits") && strncmp(steps, "Digits", n) == 0)
			json_array_append_new(list, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
		else
			json_array_append_new(list, json_pack("{s:s, s:{s:o}, s:s, s:b}", "type", "Split", "pattern", "Regex",
			                                      json_stringn(steps, n), "behavior", "Isolated", "invert", 0));
		steps += end != NULL ? n + 2 : n;
	}
	json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
	                                      "use_regex", (int)maps));
	return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* What stands before and behind a text, or null. */
static json_t *post_processor(const struct making *m)
{
	json_t *single = json_array(), *specials = json_object();
	const bool ends[2] = {m->add_bos, m->add_eos};
	const uint32_t ids[2] = {m->bos, m->eos};

	for (int i = 0; i < 2; i++) {
		if (i == 1)
			json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
		if (!ends[i])
			continue;
		json_t *text = text_of(m, ids[i]);
		json_array_append_new(single, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", text, "type_id", 0));
		json_object_set_new(specials, json_string_value(text) != NULL ? json_string_value(text) : "",
		                    json_pack("{s:O, s:[I], s:[O]}", "id", text, "ids", (json_int_t)ids[i], "tokens", text));
		json_decref(text);
	}
	if (!m->add_bos && !m->add_eos) {
		json_decref(single);
		json_decref(specials);
		return json_null();
	}
	/* Pairs of texts are the first with what stands around it, then the second. */
	json_t *pair = json_copy(single);
	json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
	return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair, "special_tokens", specials);
}

static json_t *replace(const char *from, const char *to)
{
	return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content", to);
}

static json_t *normalizer(const struct making *m)
{
	if (!m->is_spm)
		return m->composes ? json_pack("{s:s}", "type", "NFC") : json_null();
	json_t *list = json_array();

	if (m->prefix)
		json_array_append_new(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE));
	json_array_append_new(list, replace(" ", SPACE));
	return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *decoder(const struct making *m)
{
	if (!m->is_spm)
		return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1);
	json_t *list = json_pack("[o, {s:s}, {s:s}]", replace(SPACE, " "), "type", "ByteFallback", "type", "Fuse");

	if (m->prefix)
		json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
	return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

/* Finds the row of tokenizer.ggml.pre, which counts for byte-level vocabularies alone; *row stays if there is none. */
static int find_pre(const struct making *m, size_t *row)
{
	const char *name = "default";
	bool found;
	int code = gguf_find_string(m->file, KEY("pre"), &name, &found, m->error);

	for (size_t i = 0; code == EXIT_OK && pre_names[i].name != NULL; i++)
		if (strcmp(pre_names[i].name, name) == 0) {
			*row = i;
			return EXIT_OK;
		}
	return code != EXIT_OK ? code
	       : fail(m->error, EXIT_INPUT, "%s: key '" KEY("pre") "': '%.60s' is not known as the pre_tokenizer of a tokenizer.json; copy the "
	              "model's own", m->file->path, name);
}

static int make_tokenizer(struct making *m, json_t **tokenizer)
{
	json_t *vocab = json_object(), *added = json_array(), *merges = json_array(), *unknown = NULL;
	size_t row = 0;
	int code = m->is_spm ? EXIT_OK : find_pre(m, &row);

	if (code == EXIT_OK)
		code = list_tokens(m, vocab, added);
	if (code == EXIT_OK)
		code = m->is_spm ? list_scored(m, merges) : list_merges(m, merges);
	if (m->is_spm && m->has_unknown)
		unknown = text_of(m, m->unknown);
	json_t *model = json_pack("{s:s, s:n, s:o?, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token", unknown,
	                          "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", (int)m->is_spm, "byte_fallback",
	                          (int)m->is_spm, "ignore_merges", (int)(!m->is_spm && pre_names[row].ignores_merges), "vocab", vocab,
	                          "merges", merges);
	*tokenizer = json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding", "added_tokens",
	                       added, "normalizer", normalizer(m), "pre_tokenizer",
	                       m->is_spm ? json_null() : pre_tokenizer(pre_names[row].steps), "post_processor", post_processor(m),
	                       "decoder", decoder(m), "model", model);
	return code != EXIT_OK ? code : *tokenizer == NULL || json_out_of_memory() ? fail_memory(m->error) : EXIT_OK;
}

/* Adds the template of that name. */
static int take_named(struct making *m, const char *name, size_t n, json_t *list)
{
	json_t *told = utf8_text(name, n);
	const size_t size = sizeof "tokenizer.chat_template." + n;
	char *key = malloc(size);
	const char *content;
	bool found = false;
	int code = key == NULL || json_out_of_memory() ? fail_memory(m->error) : EXIT_OK;

	if (code == EXIT_OK && told == NULL)
		code = fail_key(m, "tokenizer.chat_templates", "has a name that is not UTF-8 without NUL");
	if (code == EXIT_OK) {
		snprintf(key, size, "tokenizer.chat_template.%s", json_string_value(told));
		code = gguf_find_string(m->file, key, &content, &found, m->error);
	}
	if (code == EXIT_OK && !found)
		code = fail(m->error, EXIT_INPUT, "%s: key 'tokenizer.chat_templates': names '%.100s', whose template is not there", m->file->path,
		            json_string_value(told));
	if (code == EXIT_OK)
		json_array_append_new(list, json_pack("{s:O, s:s}", "name", told, "template", content));
	json_decref(told);
	free(key);
	return code;
}

/* The template of a chat; or a list, if there are named ones beside it. */
static int take_template(struct making *m, json_t *config)
{
	const char *content;
	struct gguf_strings names = {0};
	json_t *list = json_array();
	bool found;
	int code = gguf_find_string(m->file, "tokenizer.chat_template", &content, &found, m->error);

	if (code == EXIT_OK && found)
		json_array_append_new(list, json_pack("{s:s, s:s}", "name", "default", "template", content));
	if (code == EXIT_OK)
		code = gguf_find_strings(m->file, "tokenizer.chat_templates", &names, &found, m->error);
	for (size_t i = 0; i < names.n && code == EXIT_OK; i++)
		code = take_named(m, names.bytes + names.starts[i], names.starts[i + 1] - names.starts[i], list);
	if (names.n > 0)
		json_object_set(config, "chat_template", list);
	else if (json_array_size(list) > 0)
		json_object_set(config, "chat_template", json_object_get(json_array_get(list, 0), "template"));
	json_decref(list);
	gguf_strings_free(&names);
	return code;
}

static int make_config(struct making *m, json_t **config)
{
	static const struct {
		const char *key, *name;
	} specials[] = {
		{KEY("bos_token_id"), "bos_token"}, {KEY("eos_token_id"), "eos_token"}, {KEY("unknown_token_id"), "unk_token"},
		{KEY("seperator_token_id"), "sep_token"}, {KEY("padding_token_id"), "pad_token"}, {KEY("cls_token_id"), "cls_token"},
		{KEY("mask_token_id"), "mask_token"},
	};
	uint32_t id;
	bool found;
	int code = EXIT_OK;

	*config = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
	for (size_t i = 0; i < sizeof specials / sizeof specials[0] && code == EXIT_OK; i++) {
		code = read_id(m, specials[i].key, &id, &found);
		if (code == EXIT_OK && found)
			json_object_set_new(*config, specials[i].name, text_of(m, id));
	}
	if (code == EXIT_OK)
		code = take_template(m, *config);
	return code != EXIT_OK ? code : *config == NULL || json_out_of_memory() ? fail_memory(m->error) : EXIT_OK;
}

int tokens_back(json_t **tokenizer, json_t **config, const struct file *file, struct error *error)
{
	struct making m = {.file = file, .error = error};

	*tokenizer = *config = NULL;
	json_prepare();
	int code = read_keys(&m);
	if (code == EXIT_OK)
		code = make_tokenizer(&m, tokenizer);
	if (code == EXIT_OK)
		code = make_config(&m, config);
	gguf_strings_free(&m.tokens);
	gguf_strings_free(&m.merges);
	free(m.types);
	free(m.scores);
	vocabulary_free(&m.vocabulary);
	return code;
}
