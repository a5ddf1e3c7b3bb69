/* SPDX-License-Identifier: MIT */
/*
 * Two kinds of tokenizer.json become a vocabulary of llama.cpp (src/llama-vocab.cpp), with the tokens, types and keys that
 * conversion/base.py and gguf-py/gguf/vocab.py give it:
 *
 *   gpt2   byte-level BPE. tokenizer.ggml.pre names the expressions that cut a text into words: pre_name.def
 *   llama  BPE with byte_fallback whose spaces are U+2581, as converted SentencePiece has them. llama.cpp merges the
 *          neighbours whose token has the best score, whatever the list of merges: a token's score is minus the place at
 *          which the list first makes it, as in the tokenizer.model that such a list was made from. That gives the same
 *          tokens if the list holds each token's pairs one after the other, and every pair that makes one; else the file
 *          is refused.
 *
 * Tokens of added_tokens are control tokens if they are special or look so to the converter, else user-defined ones. Ids
 * without a token are unused ones called [PADid], up to the rows of the embedding.
 */
#include "config.h"

#include "gguf/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "eval/hf_merges.h"
#include "eval/tokenizer.h"
#include "eval/tokenizer_config.h"
#include "eval/utf8.h"
#include "eval/vocabulary.h"
#include "gguf/pre_name.h"
#include "io/directory.h"
#include "io/json.h"
#include "io/member.h"
#include "model/model_output.h"

enum {
	FILE_BYTES_MAX = 1 << 27,
	MEMBER_BYTES_MAX = 1 << 24,
	STEPS_BYTES = 2048, /* of the steps of a pre_tokenizer */
	NAME_BYTES = 96
};

#define KEY(name) "tokenizer.ggml." name
#define SPACE "\xE2\x96\x81"
#define TOKENIZER_FILE "tokenizer.json"
#define TEMPLATE_FILE "chat_template.jinja"

static const char remedy[] = "convert_hf_to_gguf.py of llama.cpp may know it";

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static const float added_score = -1000;

/* What is known of a token besides its bytes. */
struct token {
	unsigned char type; /* 0: there is none */
	uint32_t first, n_merges; /* of those that make it: the place of the first, from 1; how many */
};

struct loading {
	const char *path;
	uint64_t n; /* tokens of the model */
	struct vocabulary vocabulary;
	struct token *tokens;
	json_t *added, *normalizer, *pre_tokenizer, *post_processor, *flags;
	bool has_vocabulary, has_merges;
	struct json_text late; /* where merges begin, if they stand before the vocabulary; path NULL: they do not */
	FILE *merges;          /* "LEFT RIGHT", each with a NUL behind it */
	char *merges_bytes;
	size_t n_merges_bytes;
	struct hf_merges taking;
	uint32_t order;           /* of tokens by their first merge */
	uint32_t last;            /* id + 1 that the merge before made */
	const char *scattered;    /* why scores cannot say what the list says, or NULL */
	bool is_spm, composes, prefix;
	struct tokenizer_config config;
};

static int fail_member(const struct loading *l, const char *member, const char *problem, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: %s: %s; %s", l->path, member, problem, remedy);
}

/* Reading. */

static int take_token(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;
	uint64_t id;
	int code = json_take_natural(text, &id, error);

	if (code == EXIT_OK && id >= l->n)
		code = fail(error, EXIT_INPUT, "%s: model.vocab: id %" PRIu64 " is not one of the model's %" PRIu64 " tokens; the "
		            "tokenizer is another model's", l->path, id, l->n);
	if (code == EXIT_OK)
		code = vocabulary_add(&l->vocabulary, key, strlen(key), id, true, l->path, error);
	if (code == EXIT_OK)
		l->tokens[id].type = TYPE_NORMAL;
	return code;
}

/* Notes which token a merge makes. */
static int note_merge(void *context, const char *left, size_t n_left, const char *right, struct error *error)
{
	struct loading *l = context;
	const size_t n_right = strlen(right);
	char *both = malloc(n_left + n_right + 1);
	uint32_t id;

	if (both == NULL)
		return fail_memory(error);
	memcpy(both, left, n_left);
	memcpy(both + n_left, right, n_right);
	const bool found = vocabulary_find(&l->vocabulary, both, n_left + n_right, &id);
	free(both);
	if (!found)
		return fail(error, EXIT_INPUT, "%s: model.merges: element %" PRIu32 " makes what is not a token", l->path, l->taking.n);
	struct token *token = &l->tokens[id];
	if (token->n_merges == 0)
		token->first = ++l->order;
	else if (l->last != id + 1)
		l->scattered = "pairs that make the same token do not follow each other";
	token->n_merges++;
	l->last = id + 1;
	/* A space in a token would end the left one: the converter writes the character that stands for it in GPT-2's
	   alphabet, and no token of a byte-level vocabulary holds one. */
	if (memchr(left, ' ', n_left) != NULL || strchr(right, ' ') != NULL)
		return fail(error, EXIT_INPUT, "%s: model.merges: element %" PRIu32 " holds a space, which GGUF has no place for; %s",
		            l->path, l->taking.n, remedy);
	fwrite(left, 1, n_left, l->merges);
	putc(' ', l->merges);
	fwrite(right, 1, n_right + 1, l->merges);
	return EXIT_OK;
}

static int take_model_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;
	json_t *value = NULL;

	if (strcmp(key, "vocab") == 0 && json_next(text) == '{' && !l->has_vocabulary) {
		l->has_vocabulary = true;
		return json_take_object(text, take_token, l, error);
	}
	if (strcmp(key, "vocab") == 0)
		return json_skip(text, FILE_BYTES_MAX, error);
	if (strcmp(key, "merges") == 0 && !l->has_merges) {
		l->has_merges = true;
		if (l->has_vocabulary)
			return json_take_array(text, hf_merges_take, &l->taking, error);
		l->late = *text;
		return json_take_array(text, hf_merges_skip, NULL, error);
	}
	int code = json_take_value(text, 1 << 16, &value, error);
	if (code == EXIT_OK && (json_object_set(l->flags, key, value) != 0 || json_out_of_memory()))
		code = fail_memory(error);
	json_decref(value);
	return code;
}

static int take_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;
	const struct {
		const char *key;
		json_t **tree;
	} trees[] = {
		{"added_tokens", &l->added}, {"normalizer", &l->normalizer}, {"pre_tokenizer", &l->pre_tokenizer},
		{"post_processor", &l->post_processor},
	};

	for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++)
		if (strcmp(trees[i].key, key) == 0 && *trees[i].tree == NULL)
			return json_take_value(text, MEMBER_BYTES_MAX, trees[i].tree, error);
	if (strcmp(key, "model") == 0)
		return json_take_object(text, take_model_member, l, error);
	return json_skip(text, MEMBER_BYTES_MAX, error);
}

/* Which kind it is. */

static const char *type_of(const json_t *object)
{
	const char *type = json_string_value(json_object_get(object, "type"));

	return type != NULL ? type : "";
}

static bool is_replace(const json_t *step, const char *from, const char *to)
{
	const char *pattern = json_string_value(json_object_get(json_object_get(step, "pattern"), "String"));
	const char *content = json_string_value(json_object_get(step, "content"));

	return strcmp(type_of(step), "Replace") == 0 && pattern != NULL && content != NULL && strcmp(pattern, from) == 0 &&
	       strcmp(content, to) == 0;
}

/* Notes what a step of the normalizer does. `spaces` is set if it writes U+2581 for spaces. */
static int take_normalizer(struct loading *l, const json_t *step, bool *spaces, struct error *error)
{
	const char *type = type_of(step), *prepend = json_string_value(json_object_get(step, "prepend"));
	int code = EXIT_OK;

	if (step == NULL || json_is_null(step))
		return EXIT_OK;
	if (strcmp(type, "Sequence") == 0) {
		const json_t *list = json_object_get(step, "normalizers");

		for (size_t i = 0; i < json_array_size(list) && code == EXIT_OK; i++)
			code = take_normalizer(l, json_array_get(list, i), spaces, error);
		return code;
	}
	if (strcmp(type, "NFC") == 0)
		l->composes = true;
	else if (strcmp(type, "Prepend") == 0 && prepend != NULL && strcmp(prepend, SPACE) == 0)
		l->prefix = true;
	else if (is_replace(step, " ", SPACE))
		*spaces = true;
	else
		return fail_member(l, "normalizer", "has a step that llama.cpp does not have: it is neither NFC nor one that writes U+2581 for "
		                   "spaces", error);
	return EXIT_OK;
}

/* Appends a step of the pre_tokenizer to the text that pre_name.def has; Metaspace is the other kind's. */
static int take_step(struct loading *l, const json_t *step, char steps[STEPS_BYTES], bool *spaces, bool *cuts,
                     struct error *error)
{
	const char *type = type_of(step), *text = "";
	int code = EXIT_OK;

	if (step == NULL || json_is_null(step))
		return EXIT_OK;
	if (strcmp(type, "Sequence") == 0) {
		const json_t *list = json_object_get(step, "pretokenizers");

		for (size_t i = 0; i < json_array_size(list) && code == EXIT_OK; i++)
			code = take_step(l, json_array_get(list, i), steps, spaces, cuts, error);
		return code;
	}
	if (strcmp(type, "Metaspace") == 0) {
		const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
		const char *mark = json_string_value(json_object_get(step, "replacement"));

		if (mark == NULL || strcmp(mark, SPACE) != 0)
			return fail_member(l, "pre_tokenizer.replacement", "is not U+2581", error);
		*spaces = true;
		*cuts = !json_is_false(json_object_get(step, "split"));
		l->prefix = scheme != NULL ? strcmp(scheme, "never") != 0 : !json_is_false(json_object_get(step, "add_prefix_space"));
		return EXIT_OK;
	}
	if (strcmp(type, "ByteLevel") == 0) {
		if (!json_is_false(json_object_get(step, "add_prefix_space")))
			return fail_member(l, "pre_tokenizer.add_prefix_space", "is not false, and llama.cpp puts no space before a text", error);
		text = json_is_false(json_object_get(step, "use_regex")) ? "" : "ByteLevel";
	} else if (strcmp(type, "Digits") == 0 && json_is_true(json_object_get(step, "individual_digits"))) {
		text = "Digits";
	} else if (strcmp(type, "Split") == 0) {
		const char *behavior = json_string_value(json_object_get(step, "behavior"));
		const bool invert = json_is_true(json_object_get(step, "invert"));

		text = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
		/* Of expressions that match all of a text, as those of the table do, what does not match is empty. */
		if (text == NULL || behavior == NULL || strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
			return fail_member(l, "pre_tokenizer", "has a Split that does not isolate what an expression matches", error);
	} else {
		return fail(error, EXIT_INPUT, "%s: pre_tokenizer.type: llama.cpp has no '%.60s'; %s", l->path, type, remedy);
	}
	const size_t used = strlen(steps);
	if (text[0] != '\0' && (size_t)snprintf(steps + used, STEPS_BYTES - used, "%s%s", used > 0 ? "\n\n" : "", text) >=
	                       STEPS_BYTES - used)
		return fail_member(l, "pre_tokenizer", "is longer than any that is known", error);
	return EXIT_OK;
}

static int find_pre(struct loading *l, const char *steps, const char **pre, struct error *error)
{
	const bool ignores = json_is_true(json_object_get(l->flags, "ignore_merges"));

	for (size_t i = 0; pre_names[i].name != NULL; i++)
		if (strcmp(pre_names[i].steps, steps) == 0 && pre_names[i].ignores_merges == ignores) {
			*pre = pre_names[i].name;
			return EXIT_OK;
		}
	return fail(error, EXIT_INPUT, "%s: pre_tokenizer: cuts words by '%.200s'%s, for which no tokenizer.ggml.pre of llama.cpp is "
	            "known here; %s", l->path, steps[0] != '\0' ? steps : "nothing", ignores ? " with ignore_merges" : "", remedy);
}

/* Whether a text that a token is made of is cut there by Metaspace: before each U+2581. */
static bool holds_mark(const char *bytes, size_t n)
{
	for (size_t i = 1; i + strlen(SPACE) <= n; i++)
		if (memcmp(bytes + i, SPACE, strlen(SPACE)) == 0)
			return true;
	return false;
}

/* Whether the parts of a token before and behind a place are tokens that a text becomes. */
static bool makes_pair(const struct loading *l, const char *bytes, size_t at, size_t n)
{
	uint32_t left, right;

	return vocabulary_find(&l->vocabulary, bytes, at, &left) && l->tokens[left].type == TYPE_NORMAL &&
	       vocabulary_find(&l->vocabulary, bytes + at, n - at, &right) && l->tokens[right].type == TYPE_NORMAL;
}

/* Refuses a vocabulary where scores would merge other neighbours than the list of merges does. */
static int check_scores(const struct loading *l, bool cuts, struct error *error)
{
	if (l->scattered != NULL)
		return fail_member(l, "model.merges", l->scattered, error);
	for (uint32_t id = 0; id < l->vocabulary.n_ids; id++) {
		size_t n, length;
		uint32_t pairs = 0;
		const char *bytes = vocabulary_bytes(&l->vocabulary, id, &n);

		if (bytes == NULL || l->tokens[id].type != TYPE_NORMAL)
			continue;
		if (cuts && holds_mark(bytes, n))
			return fail_member(l, "pre_tokenizer.split", "is not false, and a token goes on over a space, where llama.cpp does not cut",
			                   error);
		for (size_t at = 0; at < n; at += length) {
			utf8_decode(bytes + at, &length);
			pairs += at > 0 && makes_pair(l, bytes, at, n);
		}
		if (pairs > l->tokens[id].n_merges)
			return fail(error, EXIT_INPUT, "%s: model.merges: does not have all pairs that make '%.*s', and llama.cpp, which goes by "
			            "scores, would merge the others too; %s", l->path, n < 60 ? (int)n : 60, bytes, remedy);
	}
	return EXIT_OK;
}

/* Names of llama.cpp for texts that control, whatever added_tokens says of them (does_token_look_special()). */
static bool looks_special(const char *text)
{
	static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
	static const struct {
		const char *start, *end;
	} forms[] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}, {"<unused", ">"}};
	const size_t n = strlen(text);

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i], text) == 0)
			return true;
	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		const size_t start = strlen(forms[i].start), end = strlen(forms[i].end);

		if (n >= start && n >= end && strncmp(text, forms[i].start, start) == 0 && strcmp(text + n - end, forms[i].end) == 0)
			return true;
	}
	return false;
}

/* Gives the tokens of added_tokens their types. */
static int take_added(struct loading *l, struct error *error)
{
	for (size_t i = 0; i < json_array_size(l->added); i++) {
		const json_t *object = json_array_get(l->added, i), *number = json_object_get(object, "id");
		const char *content = json_string_value(json_object_get(object, "content"));
		const json_int_t id = json_integer_value(number);
		uint32_t there;

		if (content == NULL || !json_is_integer(number) || id < 0)
			return fail_member(l, "added_tokens", "holds what has no content or no id", error);
		if ((uint64_t)id >= l->n)
			return fail(error, EXIT_INPUT, "%s: added_tokens: '%.60s' has id %" JSON_INTEGER_FORMAT ", which is not one of the model's "
			            "%" PRIu64 " tokens; the tokenizer is another model's", l->path, content, id, l->n);
		const bool found = vocabulary_find(&l->vocabulary, content, strlen(content), &there);
		if (found && there != (uint64_t)id)
			return fail(error, EXIT_INPUT, "%s: added_tokens: '%.60s' has id %" JSON_INTEGER_FORMAT ", and %" PRIu32 " elsewhere",
			            l->path, content, id, there);
		if (!found) {
			int code = vocabulary_add(&l->vocabulary, content, strlen(content), (uint64_t)id, true, l->path, error);

			if (code != EXIT_OK)
				return code;
		}
		l->tokens[id].type = json_is_true(json_object_get(object, "special")) || looks_special(content) ? TYPE_CONTROL
		                                                                                                   : TYPE_USER_DEFINED;
	}
	return EXIT_OK;
}

/* Marks tokens of bytes and the one for what is unknown. */
static void mark_others(struct loading *l)
{
	const char *unknown = json_string_value(json_object_get(l->flags, "unk_token"));
	unsigned char byte;
	size_t n;
	uint32_t id;

	for (id = 0; id < l->vocabulary.n_ids; id++) {
		const char *bytes = vocabulary_bytes(&l->vocabulary, id, &n);

		if (bytes != NULL && l->tokens[id].type == TYPE_NORMAL && vocabulary_is_byte(bytes, n, &byte))
			l->tokens[id].type = TYPE_BYTE;
	}
	if (unknown != NULL && vocabulary_find(&l->vocabulary, unknown, strlen(unknown), &id) && l->tokens[id].type == TYPE_NORMAL)
		l->tokens[id].type = TYPE_UNKNOWN;
}

/* Decides which kind it is, and refuses what llama.cpp would do otherwise. */
static int decide(struct loading *l, const char **pre, struct error *error)
{
	const char *type = type_of(l->flags);
	const bool falls_back = json_is_true(json_object_get(l->flags, "byte_fallback"));
	char steps[STEPS_BYTES] = "";
	bool spaces = false, cuts = false;
	int code = EXIT_OK;

	if (!l->has_vocabulary || (strcmp(type, "BPE") != 0 && !(type[0] == '\0' && l->has_merges)))
		return fail(error, EXIT_INPUT, "%s: model.type: is '%.40s', and only BPE becomes a vocabulary of GGUF here; %s", l->path,
		            type, remedy);
	if (json_string_length(json_object_get(l->flags, "continuing_subword_prefix")) > 0 ||
	    json_string_length(json_object_get(l->flags, "end_of_word_suffix")) > 0)
		return fail_member(l, "model.continuing_subword_prefix or end_of_word_suffix", "is not empty", error);
	code = take_normalizer(l, l->normalizer, &spaces, error);
	if (code == EXIT_OK)
		code = take_step(l, l->pre_tokenizer, steps, &spaces, &cuts, error);
	if (code == EXIT_OK)
		code = take_added(l, error);
	if (code != EXIT_OK)
		return code;
	l->is_spm = spaces;
	if (!l->is_spm)
		return find_pre(l, steps, pre, error);
	*pre = "default";
	if (steps[0] != '\0' || l->composes)
		return fail_member(l, "pre_tokenizer", "cuts words, which llama.cpp does not do where U+2581 stands for spaces", error);
	if (!falls_back || json_is_true(json_object_get(l->flags, "ignore_merges")))
		return fail_member(l, "model", "has U+2581 for spaces without byte_fallback, or with ignore_merges, which llama.cpp does not have",
		                   error);
	mark_others(l);
	return check_scores(l, cuts, error);
}

/* Writing. */

/* How many tokens a template of the post_processor puts before and behind a text. */
static void count_ends(const json_t *processor, size_t *before, size_t *behind)
{
	const json_t *list = json_object_get(processor, "processors"), *single = json_object_get(processor, "single");
	bool seen = false;

	for (size_t i = 0; i < json_array_size(list); i++)
		count_ends(json_array_get(list, i), before, behind);
	for (size_t i = 0; i < json_array_size(single); i++) {
		const json_t *piece = json_array_get(single, i);

		seen |= json_object_get(piece, "Sequence") != NULL;
		*before += !seen;
		*behind += seen && json_object_get(piece, "SpecialToken") != NULL;
	}
}

/* The id of a token that a key of tokenizer_config.json names, by added_tokens as the converter has it, or that config.json
   gives. */
static bool find_special(const struct loading *l, const json_t *config, const char *kind, uint32_t *id)
{
	char key[NAME_BYTES];

	snprintf(key, sizeof key, "%s_token", kind);
	const json_t *entry = json_object_get(l->config.json, key);
	const char *content = json_string_value(json_is_object(entry) ? json_object_get(entry, "content") : entry);
	if (content != NULL && vocabulary_find(&l->vocabulary, content, strlen(content), id))
		return true;
	snprintf(key, sizeof key, "%s_token_id", kind);
	const json_t *number = json_object_get(config, key);
	if (!json_is_integer(number) || json_integer_value(number) < 0 || (uint64_t)json_integer_value(number) >= l->n)
		return false;
	*id = (uint32_t)json_integer_value(number);
	return true;
}

static int fail_end(const struct loading *l, const char *what, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: post_processor: puts %s, which llama.cpp does not do; %s", l->path, what, remedy);
}

/* Adds the ids of special tokens, and whether the first and the last of a text are there: as `mxfp eval` reads these files. */
static int put_specials(struct gguf_pairs *pairs, const struct loading *l, const json_t *config,
                        const struct tokenizer *tokenizer, struct error *error)
{
	static const struct {
		const char *kind, *key;
	} kinds[] = {
		{"bos", KEY("bos_token_id")}, {"eos", KEY("eos_token_id")}, {"unk", KEY("unknown_token_id")},
		{"sep", KEY("seperator_token_id")}, {"pad", KEY("padding_token_id")}, {"cls", KEY("cls_token_id")},
		{"mask", KEY("mask_token_id")},
	};
	size_t before = 0, behind = 0;
	uint32_t first, last, id;
	const bool has_first = tokenizer_bos(tokenizer, &first), has_last = tokenizer_eos(tokenizer, &last);

	count_ends(l->post_processor, &before, &behind);
	if (before > 1 || behind > 1)
		return fail_end(l, "several tokens before or behind a text", error);
	if (has_last && find_special(l, config, "eos", &id) && id != last)
		return fail_end(l, "another token than eos_token behind a text", error);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		bool found = find_special(l, config, kinds[i].kind, &id);

		/* What stands before a text is what llama.cpp puts there as BOS. */
		if ((i == 0 && has_first) || (i == 1 && has_last)) {
			id = i == 0 ? first : last;
			found = true;
		}
		if (found)
			gguf_pairs_u32(pairs, kinds[i].key, id);
	}
	gguf_pairs_bool(pairs, KEY("add_bos_token"), has_first);
	gguf_pairs_bool(pairs, KEY("add_eos_token"), has_last);
	return EXIT_OK;
}

/* Adds the template of a chat: a text, or a list of named ones, of which "default" is the one without a name. */
static int put_template(struct gguf_pairs *pairs, const struct loading *l, const struct model *model, struct error *error)
{
	const json_t *template = json_object_get(l->config.json, "chat_template");
	char *path = directory_member(model != NULL ? model->directory : "", TEMPLATE_FILE), *bytes = NULL, key[NAME_BYTES + 32];
	size_t n, named = 0;
	int code = path == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK && template == NULL && model != NULL && access(path, F_OK) == 0) {
		code = json_read_bytes(member_open, path, MEMBER_BYTES_MAX, &bytes, &n, error);
		if (code == EXIT_OK)
			gguf_pairs_string(pairs, "tokenizer.chat_template", bytes);
	} else if (json_is_string(template)) {
		gguf_pairs_string(pairs, "tokenizer.chat_template", json_string_value(template));
	}
	for (int pass = 0; pass < 2 && code == EXIT_OK && json_is_array(template); pass++) {
		if (pass == 1 && named > 0)
			gguf_pairs_array(pairs, "tokenizer.chat_templates", GGUF_TYPE_STRING, named);
		for (size_t i = 0; i < json_array_size(template); i++) {
			const char *name = json_string_value(json_object_get(json_array_get(template, i), "name"));
			const char *text = json_string_value(json_object_get(json_array_get(template, i), "template"));
			const bool usual = name != NULL && strcmp(name, "default") == 0;

			if (name == NULL || text == NULL || strlen(name) > NAME_BYTES)
				continue;
			snprintf(key, sizeof key, usual ? "tokenizer.chat_template" : "tokenizer.chat_template.%s", name);
			if (pass == 0)
				gguf_pairs_string(pairs, key, text);
			else if (!usual)
				gguf_pairs_add_string(pairs, name, strlen(name));
			named += pass == 0 && !usual;
		}
	}
	free(path);
	free(bytes);
	return code;
}

/* Writes a token's bytes: those of a user-defined one with spaces for U+2581, which stands for them in other tokens. */
static void put_token(struct gguf_pairs *pairs, const struct loading *l, uint32_t id)
{
	char padding[32], *plain = NULL;
	size_t n;
	const char *bytes = vocabulary_bytes(&l->vocabulary, id, &n);

	if (bytes == NULL) {
		n = (size_t)snprintf(padding, sizeof padding, "[PAD%" PRIu32 "]", id);
		gguf_pairs_add_string(pairs, padding, n);
		return;
	}
	if (l->tokens[id].type == TYPE_USER_DEFINED && (plain = malloc(n + 1)) != NULL) {
		size_t to = 0;

		for (size_t at = 0; at < n;)
			if (n - at >= strlen(SPACE) && memcmp(bytes + at, SPACE, strlen(SPACE)) == 0) {
				plain[to++] = ' ';
				at += strlen(SPACE);
			} else {
				plain[to++] = bytes[at++];
			}
		gguf_pairs_add_string(pairs, plain, to);
	} else {
		gguf_pairs_add_string(pairs, bytes, n);
	}
	free(plain);
}

static void put_scores(struct gguf_pairs *pairs, const struct loading *l)
{
	uint32_t later = l->order;

	gguf_pairs_array(pairs, KEY("scores"), GGUF_TYPE_F32, l->n);
	for (uint32_t id = 0; id < l->n; id++) {
		const struct token *token = &l->tokens[id];

		if (token->type == TYPE_NORMAL)
			gguf_pairs_add_f32(pairs, token->n_merges > 0 ? -(float)(token->first - 1) : -(float)later++);
		else if (token->type == TYPE_CONTROL || token->type == TYPE_USER_DEFINED)
			gguf_pairs_add_f32(pairs, added_score);
		else
			gguf_pairs_add_f32(pairs, token->type == 0 ? -10000 : 0);
	}
}

static void put_merges(struct gguf_pairs *pairs, const struct loading *l)
{
	gguf_pairs_array(pairs, KEY("merges"), GGUF_TYPE_STRING, l->taking.n);
	for (size_t at = 0; at < l->n_merges_bytes; at += strlen(l->merges_bytes + at) + 1)
		gguf_pairs_add_string(pairs, l->merges_bytes + at, strlen(l->merges_bytes + at));
}

static int put_vocabulary(struct gguf_pairs *pairs, struct loading *l, struct tokens_made *made, struct error *error)
{
	gguf_pairs_string(pairs, KEY("model"), made->model);
	gguf_pairs_string(pairs, KEY("pre"), made->pre);
	gguf_pairs_array(pairs, KEY("tokens"), GGUF_TYPE_STRING, l->n);
	for (uint32_t id = 0; id < l->n; id++)
		put_token(pairs, l, id);
	if (l->is_spm)
		put_scores(pairs, l);
	gguf_pairs_array(pairs, KEY("token_type"), GGUF_TYPE_I32, l->n);
	for (uint32_t id = 0; id < l->n; id++) {
		gguf_pairs_add_i32(pairs, l->tokens[id].type != 0 ? l->tokens[id].type : TYPE_UNUSED);
		made->padded += l->tokens[id].type == 0;
	}
	made->tokens = l->n;
	made->merges = l->taking.n;
	if (l->composes)
		gguf_pairs_bool(pairs, KEY("normalizer.nfc"), true);
	if (l->is_spm)
		gguf_pairs_bool(pairs, KEY("add_space_prefix"), l->prefix);
	else
		put_merges(pairs, l);
	return ferror(pairs->stream) ? fail_memory(error) : EXIT_OK;
}

static int read_all(struct loading *l, struct json_text *text, struct error *error)
{
	json_prepare();
	l->flags = json_object();
	l->merges = open_memstream(&l->merges_bytes, &l->n_merges_bytes);
	l->tokens = calloc(l->n + 1, sizeof *l->tokens);
	if (l->flags == NULL || l->merges == NULL || l->tokens == NULL || json_out_of_memory())
		return fail_memory(error);
	int code = json_take_object(text, take_member, l, error);
	if (code == EXIT_OK && l->late.path != NULL)
		code = json_take_array(&l->late, hf_merges_take, &l->taking, error);
	const bool failed = ferror(l->merges) != 0;
	if ((fclose(l->merges) != 0 || failed) && code == EXIT_OK)
		code = fail_memory(error);
	l->merges = NULL;
	return code == EXIT_OK ? tokenizer_config_merge(&l->config, &l->added, l->path, error) : code;
}

static void free_loading(struct loading *l)
{
	vocabulary_free(&l->vocabulary);
	tokenizer_config_free(&l->config);
	if (l->merges != NULL)
		fclose(l->merges);
	free(l->merges_bytes);
	free(l->tokens);
	json_decref(l->added);
	json_decref(l->normalizer);
	json_decref(l->pre_tokenizer);
	json_decref(l->post_processor);
	json_decref(l->flags);
}

static int put_all(struct gguf_pairs *pairs, struct loading *l, const struct model *model, struct tokens_made *made,
                   struct error *error)
{
	struct tokenizer *tokenizer = NULL;
	json_t *config = NULL;
	int code = decide(l, &made->pre, error);

	made->model = l->is_spm ? "llama" : "gpt2";
	if (code == EXIT_OK)
		code = tokenizer_open(&tokenizer, model, model != NULL ? NULL : l->path, l->n, error);
	if (code == EXIT_OK && model != NULL)
		code = model_config_copy(model, &config, error);
	if (code == EXIT_OK)
		code = put_vocabulary(pairs, l, made, error);
	if (code == EXIT_OK)
		code = put_specials(pairs, l, config, tokenizer, error);
	if (code == EXIT_OK)
		code = put_template(pairs, l, model, error);
	json_decref(config);
	tokenizer_close(tokenizer);
	return code;
}

int tokens_put_file(struct gguf_pairs *pairs, const char *path, const struct model *model, uint64_t vocabulary,
                    struct tokens_made *made, struct error *error)
{
	descriptor_opener *opener = model != NULL ? member_open : descriptor_open;
	struct loading l = {.path = path, .n = vocabulary, .taking = {path, note_merge, &l, 0}};
	struct json_text text = {.path = path, .what = "JSON"};
	char *bytes = NULL;

	*made = (struct tokens_made){0};
	int code = json_read_bytes(opener, path, FILE_BYTES_MAX, &bytes, &text.n, error);
	text.bytes = bytes;
	if (code == EXIT_OK)
		code = tokenizer_config_read(&l.config, path, opener, error);
	if (code == EXIT_OK)
		code = read_all(&l, &text, error);
	if (code == EXIT_OK)
		code = put_all(pairs, &l, model, made, error);
	free_loading(&l);
	free(bytes);
	return code;
}

int tokens_put(struct gguf_pairs *pairs, const struct model *model, uint64_t vocabulary, struct tokens_made *made,
               struct error *error)
{
	char *path = directory_member(model->directory, TOKENIZER_FILE);

	if (path == NULL)
		return fail_memory(error);
	int code = access(path, F_OK) == 0 ? tokens_put_file(pairs, path, model, vocabulary, made, error)
	           : fail(error, EXIT_INPUT, "%s: is not there, and llama.cpp loads no model without a vocabulary; put the model's "
	                  TOKENIZER_FILE " there (transformers makes one of tokenizer.model)", path);
	free(path);
	return code;
}
