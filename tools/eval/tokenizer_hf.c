/* SPDX-License-Identifier: MIT */
/*
 * Hugging Face's tokenizer.json (huggingface/tokenizers, tokenizers/src), of byte pair encodings. A text goes through
 *
 *   added_tokens     those that are not `normalized` are found in the text, the longest of those that begin at a place
 *   normalizer       NFC, Prepend, Replace of a text, Sequence: on each part between them
 *   added_tokens     the `normalized` ones, normalized too, are found in what comes out
 *   pre_tokenizer    ByteLevel, Split, Metaspace, Digits, Sequence: cut each part into words
 *   model            BPE: each word becomes tokens
 *   post_processor   TemplateProcessing, ByteLevel, Sequence: what stands before and behind one text
 *   decoder          ByteLevel, Metaspace, Sequence, Replace, ByteFallback, Fuse, Strip: the way back
 *
 * Anything else there is refused, naming the member. `truncation` and `padding` are for batches and do not count
 * here. The vocabulary and the merges are walked, as a tree of them would have ten times their size; other members
 * become trees.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#include "eval/added.h"
#include "eval/bpe.h"
#include "eval/byte_level.h"
#include "eval/hf_merges.h"
#include "eval/nfc.h"
#include "eval/split.h"
#include "eval/tokenizer_config.h"
#include "eval/tokenizer_kind.h"
#include "eval/utf8.h"
#include "io/json.h"

enum {
	FILE_BYTES_MAX = 1 << 27,
	MEMBER_BYTES_MAX = 1 << 24,  /* of a member that becomes a tree */
	STEPS_MAX = 32,              /* of one part of the pipeline */
	TEMPLATE_MAX = 16            /* tokens before, and behind, a text */
};

/* A step; which members hold is said by its kind. */
struct step {
	enum step_kind {
		STEP_NFC, STEP_PREPEND, STEP_REPLACE,                    /* normalizer */
		STEP_SPLIT, STEP_BYTE_LEVEL, STEP_METASPACE,             /* pre_tokenizer */
		STEP_BYTES, STEP_BYTE_FALLBACK, STEP_STRIP, STEP_SPACES, /* decoder, with STEP_REPLACE */
	} kind;
	char *from, *to;        /* REPLACE, which becomes what; PREPEND, STRIP: from; METASPACE, SPACES: from */
	struct split split;     /* SPLIT; BYTE_LEVEL, METASPACE if `splits` */
	bool splits, add_space; /* BYTE_LEVEL: a space stands before a part */
	enum prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend; /* METASPACE, SPACES */
	size_t n;               /* STRIP: at most so many */
};

struct steps {
	size_t n;
	struct step steps[STEPS_MAX];
};

struct hf {
	struct vocabulary vocabulary;
	struct bpe bpe;
	struct added raw, normalized;
	struct pieces contents;  /* of `normalized`, in the order of the file */
	struct steps normalizer, pre_tokenizer, decoder;
	size_t n_before, n_behind;
	uint32_t before[TEMPLATE_MAX], behind[TEMPLATE_MAX];
	const char *mark;        /* where a text may be cut before it is merged; NULL: nowhere */
};

static const char space_mark[] = "\xE2\x96\x81";

/* The state of reading a file. */
struct loading {
	struct tokenizer *tokenizer;
	struct hf *hf;
	const char *path;
	struct tokenizer_config config;
	json_t *added_tokens, *normalizer, *pre_tokenizer, *post_processor, *decoder, *model;
	bool has_vocabulary, has_model;
	struct json_text merges; /* where they begin, if they stand before the vocabulary; path NULL: they do not */
	bool has_merges;
	struct hf_merges taking;
};

static void free_steps(struct steps *steps)
{
	for (size_t i = 0; i < steps->n; i++) {
		free(steps->steps[i].from);
		free(steps->steps[i].to);
		split_free(&steps->steps[i].split);
	}
}

static void close_hf(void *state)
{
	struct hf *hf = state;

	vocabulary_free(&hf->vocabulary);
	bpe_free(&hf->bpe);
	added_free(&hf->raw);
	added_free(&hf->normalized);
	pieces_free(&hf->contents);
	free_steps(&hf->normalizer);
	free_steps(&hf->pre_tokenizer);
	free_steps(&hf->decoder);
	free(hf);
}

/* Reading members of trees. `where` is the member that an object is, for errors. */

static int fail_member(const struct loading *l, const char *where, const char *key, const char *problem,
                       struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: %s%s%s: %s", l->path, where, key[0] != '\0' ? "." : "", key, problem);
}

/* A value that is known in the format and not here. */
static int fail_unknown(const struct loading *l, const char *where, const char *key, const char *value,
                        struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: %s.%s: '%.60s' is not known here; give --tokens instead of --text", l->path, where,
	            key, value);
}

static int get_string(const struct loading *l, const json_t *object, const char *where, const char *key,
                      const char **value, struct error *error)
{
	*value = json_string_value(json_object_get(object, key));
	return *value != NULL ? EXIT_OK : fail_member(l, where, key, "is not a string", error);
}

/* A bool that may be left out or null. */
static int get_bool(const struct loading *l, const json_t *object, const char *where, const char *key, bool otherwise,
                    bool *value, struct error *error)
{
	const json_t *member = json_object_get(object, key);

	*value = json_is_boolean(member) ? json_is_true(member) : otherwise;
	if (member != NULL && !json_is_null(member) && !json_is_boolean(member))
		return fail_member(l, where, key, "is neither true nor false", error);
	return EXIT_OK;
}

static int copy_string(const struct loading *l, const json_t *object, const char *where, const char *key, char **copy,
                       struct error *error)
{
	const char *value;
	int code = get_string(l, object, where, key, &value, error);

	if (code == EXIT_OK && (*copy = strdup(value)) == NULL)
		code = fail_memory(error);
	return code;
}

/* The pattern of an object: {"String": ...} or {"Regex": ...}. */
static int get_pattern(const struct loading *l, const json_t *object, const char *where, const char **pattern,
                       bool *literal, struct error *error)
{
	const json_t *member = json_object_get(object, "pattern");

	*literal = json_object_get(member, "String") != NULL;
	*pattern = json_string_value(json_object_get(member, *literal ? "String" : "Regex"));
	if (*pattern == NULL || json_object_size(member) != 1)
		return fail_member(l, where, "pattern", "is neither {\"String\": text} nor {\"Regex\": text}", error);
	return EXIT_OK;
}

static int add_step(const struct loading *l, struct steps *steps, const char *where, enum step_kind kind,
                    struct step **step, struct error *error)
{
	if (steps->n == STEPS_MAX)
		return fail(error, EXIT_INPUT, "%s: %s: has more than %d steps", l->path, where, (int)STEPS_MAX);
	*step = &steps->steps[steps->n++];
	(*step)->kind = kind;
	return EXIT_OK;
}

/* Takes one step of a kind that has a type, or fails because that is not known. */
typedef int take_step(const struct loading *l, const json_t *object, const char *type, struct error *error);

/* Takes null, a step, or a Sequence of such under `list`. */
static int take_steps(const struct loading *l, const json_t *object, const char *where, const char *list,
                      take_step *take, struct error *error)
{
	const char *type;
	const json_t *steps;
	int code = EXIT_OK;

	if (object == NULL || json_is_null(object))
		return EXIT_OK;
	code = get_string(l, object, where, "type", &type, error);
	if (code != EXIT_OK)
		return code;
	if (strcmp(type, "Sequence") != 0)
		return take(l, object, type, error);
	steps = json_object_get(object, list);
	if (!json_is_array(steps))
		return fail_member(l, where, list, "is not a list", error);
	/* The tree is no deeper than jansson lets it be, 2048. */
	for (size_t i = 0; i < json_array_size(steps) && code == EXIT_OK; i++)
		code = json_is_object(json_array_get(steps, i))
		       ? take_steps(l, json_array_get(steps, i), where, list, take, error)
		       : fail_member(l, where, list, "holds what is not an object", error);
	return code;
}

/* Takes a Replace of a normalizer or decoder. */
static int take_replace(const struct loading *l, struct steps *steps, const json_t *object, const char *where,
                        struct error *error)
{
	struct step *step = NULL;
	const char *pattern;
	bool literal;
	int code = add_step(l, steps, where, STEP_REPLACE, &step, error);

	if (code == EXIT_OK)
		code = get_pattern(l, object, where, &pattern, &literal, error);
	if (code == EXIT_OK && (!literal || pattern[0] == '\0'))
		code = fail_member(l, where, "pattern", "Replace is known of a String that is not empty alone", error);
	if (code == EXIT_OK && (step->from = strdup(pattern)) == NULL)
		code = fail_memory(error);
	return code == EXIT_OK ? copy_string(l, object, where, "content", &step->to, error) : code;
}

static int take_normalizer(const struct loading *l, const json_t *object, const char *type, struct error *error)
{
	static const char where[] = "normalizer";
	struct step *step = NULL;
	int code;

	if (strcmp(type, "NFC") == 0)
		return add_step(l, &l->hf->normalizer, where, STEP_NFC, &step, error);
	if (strcmp(type, "Replace") == 0)
		return take_replace(l, &l->hf->normalizer, object, where, error);
	if (strcmp(type, "Prepend") != 0)
		return fail_unknown(l, where, "type", type, error);
	code = add_step(l, &l->hf->normalizer, where, STEP_PREPEND, &step, error);
	return code == EXIT_OK ? copy_string(l, object, where, "prepend", &step->from, error) : code;
}

static int take_split(const struct loading *l, const json_t *object, const char *where, struct error *error)
{
	static const char *const behaviors[N_SPLIT_BEHAVIORS] = {
		"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous",
	};
	struct step *step = NULL;
	const char *pattern, *behavior;
	bool literal;
	int i = 0, code = add_step(l, &l->hf->pre_tokenizer, where, STEP_SPLIT, &step, error);

	if (code == EXIT_OK)
		code = get_pattern(l, object, where, &pattern, &literal, error);
	if (code == EXIT_OK)
		code = get_string(l, object, where, "behavior", &behavior, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "invert", false, &step->split.invert, error);
	if (code != EXIT_OK)
		return code;
	while (i < N_SPLIT_BEHAVIORS && strcmp(behaviors[i], behavior) != 0)
		i++;
	if (i == N_SPLIT_BEHAVIORS)
		return fail_unknown(l, where, "behavior", behavior, error);
	step->split.behavior = (enum split_behavior)i;
	return split_compile(&step->split, pattern, literal, l->path, "pre_tokenizer.pattern", error);
}

static int take_byte_level(const struct loading *l, const json_t *object, const char *where, struct error *error)
{
	struct step *step = NULL;
	int code = add_step(l, &l->hf->pre_tokenizer, where, STEP_BYTE_LEVEL, &step, error);

	if (code == EXIT_OK)
		code = get_bool(l, object, where, "add_prefix_space", true, &step->add_space, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "use_regex", true, &step->splits, error);
	if (code != EXIT_OK || !step->splits)
		return code;
	step->split.behavior = SPLIT_ISOLATED;
	return split_compile(&step->split, BYTE_LEVEL_WORDS, false, l->path, where, error);
}

/* Of a pre_tokenizer or decoder: `replacement` and `prepend_scheme`, which older files have as `add_prefix_space`. */
static int take_metaspace(const struct loading *l, struct step *step, const json_t *object, const char *where,
                          struct error *error)
{
	static const char *const schemes[] = {"always", "first", "never"};
	const json_t *scheme = json_object_get(object, "prepend_scheme");
	bool add_prefix_space;
	int i = 0, code = copy_string(l, object, where, "replacement", &step->from, error);

	if (code == EXIT_OK)
		code = get_bool(l, object, where, "add_prefix_space", true, &add_prefix_space, error);
	if (code != EXIT_OK)
		return code;
	if (step->from[0] == '\0')
		return fail_member(l, where, "replacement", "is empty", error);
	step->prepend = add_prefix_space ? PREPEND_ALWAYS : PREPEND_NEVER;
	if (scheme == NULL)
		return EXIT_OK;
	while (i < 3 && (!json_is_string(scheme) || strcmp(schemes[i], json_string_value(scheme)) != 0))
		i++;
	if (i == 3)
		return fail_member(l, where, "prepend_scheme", "is not 'always', 'first' or 'never'", error);
	step->prepend = (enum prepend)i;
	return EXIT_OK;
}

static int take_pre_tokenizer(const struct loading *l, const json_t *object, const char *type, struct error *error)
{
	static const char where[] = "pre_tokenizer";
	struct step *step = NULL;
	bool individual = false;
	int code;

	if (strcmp(type, "Split") == 0)
		return take_split(l, object, where, error);
	if (strcmp(type, "ByteLevel") == 0)
		return take_byte_level(l, object, where, error);
	if (strcmp(type, "Digits") == 0) {
		code = add_step(l, &l->hf->pre_tokenizer, where, STEP_SPLIT, &step, error);
		if (code == EXIT_OK)
			code = get_bool(l, object, where, "individual_digits", false, &individual, error);
		if (code != EXIT_OK)
			return code;
		step->split.behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
		return split_compile(&step->split, "\\p{N}", false, l->path, where, error);
	}
	if (strcmp(type, "Metaspace") != 0)
		return fail_unknown(l, where, "type", type, error);
	code = add_step(l, &l->hf->pre_tokenizer, where, STEP_METASPACE, &step, error);
	if (code == EXIT_OK)
		code = take_metaspace(l, step, object, where, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "split", true, &step->splits, error);
	if (code != EXIT_OK || !step->splits)
		return code;
	step->split.behavior = SPLIT_MERGED_WITH_NEXT;
	return split_compile(&step->split, step->from, true, l->path, "pre_tokenizer.replacement", error);
}

static int take_strip(const struct loading *l, const json_t *object, const char *where, struct error *error)
{
	const json_t *start = json_object_get(object, "start"), *stop = json_object_get(object, "stop");
	struct step *step = NULL;
	int code = add_step(l, &l->hf->decoder, where, STEP_STRIP, &step, error);

	if (code == EXIT_OK)
		code = copy_string(l, object, where, "content", &step->from, error);
	if (code != EXIT_OK)
		return code;
	if (step->from[0] == '\0')
		return fail_member(l, where, "content", "is empty", error);
	if (!json_is_integer(start) || json_integer_value(start) < 0)
		return fail_member(l, where, "start", "is not a number of characters", error);
	if (!json_is_integer(stop) || json_integer_value(stop) != 0)
		return fail_member(l, where, "stop", "is not 0, which alone is known here", error);
	step->n = (size_t)json_integer_value(start);
	return EXIT_OK;
}

static int take_decoder(const struct loading *l, const json_t *object, const char *type, struct error *error)
{
	static const char where[] = "decoder";
	struct steps *steps = &l->hf->decoder;
	struct step *step = NULL;
	int code;

	if (strcmp(type, "ByteLevel") == 0)
		return add_step(l, steps, where, STEP_BYTES, &step, error);
	if (strcmp(type, "ByteFallback") == 0)
		return add_step(l, steps, where, STEP_BYTE_FALLBACK, &step, error);
	if (strcmp(type, "Replace") == 0)
		return take_replace(l, steps, object, where, error);
	if (strcmp(type, "Strip") == 0)
		return take_strip(l, object, where, error);
	/* Fuse makes one text of several tokens; here they are appended to one anyhow. */
	if (strcmp(type, "Fuse") == 0)
		return EXIT_OK;
	if (strcmp(type, "Metaspace") != 0)
		return fail_unknown(l, where, "type", type, error);
	code = add_step(l, steps, where, STEP_SPACES, &step, error);
	return code == EXIT_OK ? take_metaspace(l, step, object, where, error) : code;
}

/* Adds the ids that a special token of a template stands for. */
static int take_special(const struct loading *l, const json_t *template, const json_t *piece, uint32_t *ids, size_t *n,
                        struct error *error)
{
	const char *name = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
	const json_t *special = name != NULL ? json_object_get(json_object_get(template, "special_tokens"), name) : NULL;
	const json_t *list = json_object_get(special, "ids");

	if (name == NULL || !json_is_array(list))
		return fail_member(l, "post_processor", "single", "names a token that special_tokens has no ids of", error);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *id = json_array_get(list, i);

		if (!json_is_integer(id) || json_integer_value(id) < 0 ||
		    (uint64_t)json_integer_value(id) >= l->tokenizer->vocabulary)
			return fail_member(l, "post_processor", "special_tokens", "has an id that is not one of the model's", error);
		if (*n == TEMPLATE_MAX)
			return fail_member(l, "post_processor", "single", "has more than 16 tokens beside the text", error);
		ids[(*n)++] = (uint32_t)json_integer_value(id);
	}
	return EXIT_OK;
}

static int take_template(const struct loading *l, const json_t *template, struct error *error)
{
	const json_t *single = json_object_get(template, "single");
	bool seen = false;
	int code = EXIT_OK;

	if (!json_is_array(single))
		return fail_member(l, "post_processor", "single", "is not a list", error);
	if (l->hf->n_before + l->hf->n_behind > 0)
		return fail_member(l, "post_processor", "", "has several templates", error);
	for (size_t i = 0; i < json_array_size(single) && code == EXIT_OK; i++) {
		const json_t *piece = json_array_get(single, i);

		if (json_object_get(piece, "Sequence") == NULL) {
			code = seen ? take_special(l, template, piece, l->hf->behind, &l->hf->n_behind, error)
			            : take_special(l, template, piece, l->hf->before, &l->hf->n_before, error);
		} else {
			if (seen)
				return fail_member(l, "post_processor", "single", "has the text twice", error);
			seen = true;
		}
	}
	if (code == EXIT_OK && !seen)
		code = fail_member(l, "post_processor", "single", "is without the text", error);
	return code;
}

static int take_post_processor(const struct loading *l, const json_t *object, const char *type, struct error *error)
{
	/* ByteLevel changes places of tokens in the text, which nobody asks for here. */
	if (strcmp(type, "ByteLevel") == 0)
		return EXIT_OK;
	if (strcmp(type, "TemplateProcessing") != 0)
		return fail_unknown(l, "post_processor", "type", type, error);
	return take_template(l, object, error);
}

/* Normalizing. */

static int replace(const char *text, size_t n, const char *from, const char *to, struct pieces *out,
                   struct error *error)
{
	const size_t n_from = strlen(from);
	size_t done = 0;
	int code = EXIT_OK;

	if (n == 0)
		return EXIT_OK;
	for (size_t at = 0; at < n && code == EXIT_OK;) {
		if (n - at < n_from || memcmp(text + at, from, n_from) != 0) {
			at++;
			continue;
		}
		code = pieces_append(out, text + done, at - done, error);
		if (code == EXIT_OK)
			code = pieces_append(out, to, strlen(to), error);
		done = at += n_from;
	}
	return code == EXIT_OK ? pieces_append(out, text + done, n - done, error) : code;
}

static void swap(struct pieces *a, struct pieces *b)
{
	const struct pieces kept = *a;

	*a = *b;
	*b = kept;
}

/* Normalizes a text into `out`, whose former contents are dropped. */
static int normalize(const char *path, const struct steps *steps, const char *text, size_t n, struct pieces *out,
                     struct error *error)
{
	struct pieces next = {0};
	int code;

	pieces_clear(out);
	code = pieces_append(out, text, n, error);
	for (size_t i = 0; i < steps->n && code == EXIT_OK; i++) {
		const struct step *step = &steps->steps[i];

		pieces_clear(&next);
		if (step->kind == STEP_NFC) {
			code = nfc_append(path, out->bytes, out->n_bytes, &next, error);
		} else if (step->kind == STEP_REPLACE) {
			code = replace(out->bytes, out->n_bytes, step->from, step->to, &next, error);
		} else {
			code = out->n_bytes > 0 ? pieces_append(&next, step->from, strlen(step->from), error) : EXIT_OK;
			if (code == EXIT_OK)
				code = pieces_append(&next, out->bytes, out->n_bytes, error);
		}
		swap(out, &next);
	}
	pieces_free(&next);
	return code;
}

/* Reading the vocabulary. */

static int take_token(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;
	uint64_t id;
	int code = json_take_natural(text, &id, error);

	if (code == EXIT_OK && id >= l->tokenizer->vocabulary)
		code = fail(error, EXIT_INPUT, "%s: model.vocab: id %" PRIu64 " is not one of the model's %" PRIu64 " tokens; the "
		            "tokenizer is another model's", l->path, id, l->tokenizer->vocabulary);
	return code == EXIT_OK ? vocabulary_add(&l->hf->vocabulary, key, strlen(key), id, true, l->path, error) : code;
}

static int add_merge(void *context, const char *left, size_t n_left, const char *right, struct error *error)
{
	struct loading *l = context;

	/* Of a pair that is there twice the last counts, as in a map that is filled in order. */
	return bpe_add(&l->hf->bpe, left, n_left, right, strlen(right), l->taking.n, true, error);
}

static int fail_twice(const struct loading *l, const char *what, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: %s occurs twice", l->path, what);
}

/* Takes a member that becomes a tree. */
static int take_tree(struct loading *l, struct json_text *text, const char *key, json_t **tree, struct error *error)
{
	return *tree != NULL ? fail_twice(l, key, error) : json_take_value(text, MEMBER_BYTES_MAX, tree, error);
}

static int take_model_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;
	json_t *value = NULL;
	int code;

	if (strcmp(key, "vocab") == 0) {
		/* Unigram has a list here; the type, which may stand behind it, says so better. */
		if (json_next(text) != '{')
			return json_skip(text, FILE_BYTES_MAX, error);
		if (l->has_vocabulary)
			return fail_twice(l, "model.vocab", error);
		l->has_vocabulary = true;
		return json_take_object(text, take_token, l, error);
	}
	if (strcmp(key, "merges") == 0) {
		if (l->has_merges)
			return fail_twice(l, "model.merges", error);
		l->has_merges = true;
		if (l->has_vocabulary)
			return json_take_array(text, hf_merges_take, &l->taking, error);
		l->merges = *text;
		return json_take_array(text, hf_merges_skip, NULL, error);
	}
	code = json_take_value(text, 1 << 16, &value, error);
	if (code == EXIT_OK && json_object_get(l->model, key) != NULL)
		code = fail_twice(l, "a member of model", error);
	if (code == EXIT_OK && (json_object_set(l->model, key, value) != 0 || json_out_of_memory()))
		code = fail_memory(error);
	json_decref(value);
	return code;
}

static int take_member(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct loading *l = context;

	if (strcmp(key, "added_tokens") == 0)
		return take_tree(l, text, key, &l->added_tokens, error);
	if (strcmp(key, "normalizer") == 0)
		return take_tree(l, text, key, &l->normalizer, error);
	if (strcmp(key, "pre_tokenizer") == 0)
		return take_tree(l, text, key, &l->pre_tokenizer, error);
	if (strcmp(key, "post_processor") == 0)
		return take_tree(l, text, key, &l->post_processor, error);
	if (strcmp(key, "decoder") == 0)
		return take_tree(l, text, key, &l->decoder, error);
	if (strcmp(key, "model") != 0)
		return json_skip(text, MEMBER_BYTES_MAX, error);
	if (l->has_model)
		return fail_twice(l, key, error);
	l->has_model = true;
	return json_take_object(text, take_model_member, l, error);
}

/* The flags of the model, when all of it was seen. */
static int take_flags(struct loading *l, struct error *error)
{
	static const char where[] = "model";
	static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	struct bpe *bpe = &l->hf->bpe;
	const char *type = json_string_value(json_object_get(l->model, "type"));
	const json_t *unknown = json_object_get(l->model, "unk_token"), *dropout = json_object_get(l->model, "dropout");
	int code = EXIT_OK;

	if (!l->has_model)
		return fail(error, EXIT_INPUT, "%s: has no member 'model'; it is not a tokenizer.json", l->path);
	/* Files of before 2020 say no type; they have merges. */
	if (type == NULL && !l->has_merges)
		return fail_member(l, where, "type", "is not a string", error);
	if (type != NULL && strcmp(type, "BPE") != 0)
		return fail_unknown(l, where, "type", type, error);
	if (!l->has_vocabulary)
		return fail_member(l, where, "vocab", "is not an object", error);
	for (size_t i = 0; i < 2 && code == EXIT_OK; i++) {
		const json_t *affix = json_object_get(l->model, empty[i]);

		if (affix != NULL && !json_is_null(affix) && (!json_is_string(affix) || json_string_length(affix) > 0))
			code = fail_member(l, where, empty[i], "is not empty, which alone is known here", error);
	}
	if (code == EXIT_OK && dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
		code = fail_member(l, where, "dropout", "is not null, which alone is known here", error);
	if (code == EXIT_OK)
		code = get_bool(l, l->model, where, "ignore_merges", false, &bpe->ignore_merges, error);
	if (code == EXIT_OK)
		code = get_bool(l, l->model, where, "byte_fallback", false, &bpe->byte_fallback, error);
	if (code == EXIT_OK)
		code = get_bool(l, l->model, where, "fuse_unk", false, &bpe->fuse_unknown, error);
	if (code != EXIT_OK || unknown == NULL || json_is_null(unknown))
		return code;
	bpe->has_unknown = json_is_string(unknown) && vocabulary_find(&l->hf->vocabulary, json_string_value(unknown),
	                                                              json_string_length(unknown), &bpe->unknown);
	return bpe->has_unknown ? EXIT_OK : fail_member(l, where, "unk_token", "is not a token of the vocabulary", error);
}

/* Puts an added token into the vocabulary, unless it is there. */
static int place_added(struct loading *l, const char *content, size_t n, uint64_t id, struct error *error)
{
	uint32_t there;

	if (!vocabulary_find(&l->hf->vocabulary, content, n, &there))
		return vocabulary_add(&l->hf->vocabulary, content, n, id, false, l->path, error);
	if (there != id)
		return fail(error, EXIT_INPUT, "%s: added_tokens: '%.60s' has id %" PRIu64 ", and %" PRIu32 " in model.vocab",
		            l->path, content, id, there);
	return EXIT_OK;
}

static int take_added(struct loading *l, const json_t *object, bool *special, uint32_t *id, struct error *error)
{
	static const char where[] = "added_tokens";
	const json_t *number = json_object_get(object, "id");
	struct added_token token = {0};
	const char *content;
	bool normalized;
	int code = get_string(l, object, where, "content", &content, error);

	if (code == EXIT_OK && (!json_is_integer(number) || json_integer_value(number) < 0))
		code = fail_member(l, where, "id", "is not an id", error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "special", false, special, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "normalized", !*special, &normalized, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "single_word", false, &token.word_alone, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "lstrip", false, &token.eats_left, error);
	if (code == EXIT_OK)
		code = get_bool(l, object, where, "rstrip", false, &token.eats_right, error);
	if (code != EXIT_OK)
		return code;
	token.n = strlen(content);
	if (token.n > ADDED_BYTES_MAX)
		return fail_member(l, where, "content", "is longer than the 4096 bytes allowed", error);
	code = place_added(l, content, token.n, (uint64_t)json_integer_value(number), error);
	*id = token.id = (uint32_t)json_integer_value(number);
	if (code != EXIT_OK || token.n == 0)
		return code;
	/* The bytes are set when all are there, since they move until then. */
	if (!normalized)
		return added_add(&l->hf->raw, token, error);
	struct pieces text = {0};
	code = normalize(l->path, &l->hf->normalizer, content, token.n, &text, error);
	token.n = text.n_bytes;
	if (code == EXIT_OK && token.n > 0)
		code = pieces_append(&l->hf->contents, text.bytes, text.n_bytes, error);
	if (code == EXIT_OK && token.n > ADDED_BYTES_MAX)
		code = fail_member(l, where, "content", "is longer than the 4096 bytes allowed", error);
	if (code == EXIT_OK && token.n > 0)
		code = added_add(&l->hf->normalized, token, error);
	pieces_free(&text);
	return code;
}

static void place_bytes(struct hf *hf)
{
	size_t at = 0;

	for (size_t i = 0; i < hf->raw.n; i++)
		hf->raw.tokens[i].bytes = vocabulary_bytes(&hf->vocabulary, hf->raw.tokens[i].id, &hf->raw.tokens[i].n);
	for (size_t i = 0; i < hf->normalized.n; i++) {
		hf->normalized.tokens[i].bytes = hf->contents.bytes + at;
		at += hf->normalized.tokens[i].n;
	}
	added_sort(&hf->raw);
	added_sort(&hf->normalized);
}

static int take_all_added(struct loading *l, struct error *error)
{
	const size_t n = json_array_size(l->added_tokens);
	int code = EXIT_OK;

	if (l->added_tokens != NULL && !json_is_array(l->added_tokens) && !json_is_null(l->added_tokens))
		return fail_member(l, "added_tokens", "", "is not a list", error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		bool special = false;
		uint32_t id = 0;

		code = take_added(l, json_array_get(l->added_tokens, i), &special, &id, error);
		if (code == EXIT_OK)
			l->hf->vocabulary.tokens[id].special = special;
	}
	place_bytes(l->hf);
	return code;
}

/* Where words may be cut further. */
static const char *find_mark(const struct hf *hf)
{
	return !hf->bpe.ignore_merges && vocabulary_cuts_at(&hf->vocabulary, space_mark) ? space_mark : NULL;
}

/* An end of a text, where tokenizer_config.json may say something else than tokenizer.json. */
struct text_end {
	const char *key;          /* add_bos_token */
	enum tokenizer_end said;
	const char *token;        /* the token at that end; NULL: none is known */
	uint32_t *ids;            /* by tokenizer.json */
	size_t *n;
};

/* The id of a token, added or of the model. */
static bool find_token(const struct loading *l, const char *token, uint32_t *id)
{
	for (size_t i = 0; i < json_array_size(l->added_tokens); i++) {
		const json_t *added = json_array_get(l->added_tokens, i);
		const char *content = json_string_value(json_object_get(added, "content"));

		if (content != NULL && strcmp(content, token) == 0) {
			*id = (uint32_t)json_integer_value(json_object_get(added, "id"));
			return true;
		}
	}
	return vocabulary_find(&l->hf->vocabulary, token, strlen(token), id);
}

/* Does what tokenizer_config.json says, if that counts, and notes where the two disagree. */
static int take_end(struct loading *l, const struct text_end *end, struct error *error)
{
	struct tokenizer *tokenizer = l->tokenizer;
	uint32_t id;

	/* Without a token that is known, transformers takes the key for false. */
	const bool found = end->token != NULL && find_token(l, end->token, &id);
	const bool with = end->said == TOKENIZER_END_WITH && end->token != NULL;
	if (end->said == TOKENIZER_END_BY_FILE || with == (*end->n > 0))
		return EXIT_OK;
	if (!l->config.counts) {
		snprintf(tokenizer->note, sizeof tokenizer->note, "%s of tokenizer_config.json is %s, and class %.60s goes by "
		         "tokenizer.json, which does not say so", end->key, end->said == TOKENIZER_END_WITH ? "true" : "false",
		         l->config.class[0] != '\0' ? l->config.class : "TokenizersBackend");
		return EXIT_OK;
	}
	if (with && !found)
		return fail(error, EXIT_INPUT, "%s: tokenizer_config.json beside it asks for %.60s by %s, which is not a token here",
		            l->path, end->token, end->key);
	if (!with && *end->n > 1)
		return fail(error, EXIT_INPUT, "%s: post_processor has %zu tokens where %s of tokenizer_config.json is false; correct "
		            "one of them", l->path, *end->n, end->key);
	*end->n = with ? 1 : 0;
	if (with)
		end->ids[0] = id;
	snprintf(tokenizer->note, sizeof tokenizer->note, "%s of tokenizer_config.json is %s: done, as by %.60s in transformers 4"
	         "; transformers 5 goes by tokenizer.json alone", end->key, with ? "true" : "false", l->config.class);
	return EXIT_OK;
}

static int take_ends(struct loading *l, struct error *error)
{
	struct hf *hf = l->hf;
	const struct text_end ends[2] = {
		{"add_bos_token", l->config.bos, l->config.bos_token, hf->before, &hf->n_before},
		{"add_eos_token", l->config.eos, l->config.eos_token, hf->behind, &hf->n_behind},
	};
	int code = take_end(l, &ends[0], error);

	return code == EXIT_OK ? take_end(l, &ends[1], error) : code;
}

static int take_pipeline(struct loading *l, struct error *error)
{
	struct hf *hf = l->hf;
	int code = take_flags(l, error);

	if (code == EXIT_OK && l->merges.path != NULL)
		code = json_take_array(&l->merges, hf_merges_take, &l->taking, error);
	if (code == EXIT_OK)
		code = take_steps(l, l->normalizer, "normalizer", "normalizers", take_normalizer, error);
	if (code == EXIT_OK)
		code = take_steps(l, l->pre_tokenizer, "pre_tokenizer", "pretokenizers", take_pre_tokenizer, error);
	if (code == EXIT_OK)
		code = take_steps(l, l->post_processor, "post_processor", "processors", take_post_processor, error);
	if (code == EXIT_OK)
		code = take_steps(l, l->decoder, "decoder", "decoders", take_decoder, error);
	if (code == EXIT_OK)
		code = tokenizer_config_merge(&l->config, &l->added_tokens, l->path, error);
	if (code == EXIT_OK)
		code = take_all_added(l, error);
	if (code == EXIT_OK)
		code = take_ends(l, error);
	hf->mark = find_mark(hf);
	l->tokenizer->has_bos = hf->n_before > 0;
	l->tokenizer->bos = hf->before[0];
	l->tokenizer->has_eos = hf->n_behind > 0;
	l->tokenizer->eos = hf->behind[0];
	return code;
}

/* Encoding. */

/* The state of encoding a text. */
struct encoding {
	const struct tokenizer *tokenizer;
	const struct hf *hf;
	struct token_sequences *tokens;
	struct merge merge;
	struct pieces normalized, words, next, spaced;
};

/* Appends a word, after a step of the pre-tokenizer, to encoding->next. */
static int add_words(struct encoding *encoding, const struct step *step, const char *word, size_t n,
                     struct error *error)
{
	struct pieces *next = &encoding->next;
	int code = EXIT_OK;

	if (step->kind == STEP_SPLIT || step->splits)
		return split_apply(&step->split, word, n, next, encoding->tokenizer->path, error);
	code = pieces_append(next, word, n, error);
	return code == EXIT_OK ? pieces_end(next, error) : code;
}

/* The word with what ByteLevel or Metaspace puts before it, and with Metaspace's spaces, in encoding->spaced. */
static int add_space(struct encoding *encoding, const struct step *step, const char *word, size_t n, bool at_start,
                     struct error *error)
{
	struct pieces *spaced = &encoding->spaced;
	int code = EXIT_OK;

	pieces_clear(spaced);
	if (step->kind != STEP_METASPACE) {
		if (step->kind == STEP_BYTE_LEVEL && step->add_space && (n == 0 || word[0] != ' '))
			code = pieces_append(spaced, " ", 1, error);
		return code == EXIT_OK ? pieces_append(spaced, word, n, error) : code;
	}
	const size_t mark = strlen(step->from);
	const bool marked = n > 0 && (word[0] == ' ' || (n >= mark && memcmp(word, step->from, mark) == 0));
	if (!marked && (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && at_start)))
		code = pieces_append(spaced, step->from, mark, error);
	return code == EXIT_OK ? replace(word, n, " ", step->from, spaced, error) : code;
}

/* Replaces the words by their characters of the byte-level alphabet. */
static int map_bytes(struct encoding *encoding, struct error *error)
{
	size_t n;
	int code = EXIT_OK;

	swap(&encoding->words, &encoding->next);
	pieces_clear(&encoding->next);
	for (size_t i = 0; i < encoding->words.n && code == EXIT_OK; i++) {
		const char *word = pieces_get(&encoding->words, i, &n);

		code = byte_level_encode(word, n, &encoding->next, error);
		if (code == EXIT_OK)
			code = pieces_end(&encoding->next, error);
	}
	return code;
}

/* Cuts the words further by one step. */
static int pre_tokenize(struct encoding *encoding, const struct step *step, bool at_start, struct error *error)
{
	size_t n;
	int code = EXIT_OK;

	pieces_clear(&encoding->next);
	for (size_t i = 0; i < encoding->words.n && code == EXIT_OK; i++) {
		const char *word = pieces_get(&encoding->words, i, &n);

		code = add_space(encoding, step, word, n, at_start && i == 0, error);
		if (code == EXIT_OK)
			code = add_words(encoding, step, encoding->spaced.bytes, encoding->spaced.n_bytes, error);
	}
	if (code == EXIT_OK && step->kind == STEP_BYTE_LEVEL)
		code = map_bytes(encoding, error);
	swap(&encoding->words, &encoding->next);
	return code;
}

static int encode_word(struct encoding *encoding, const char *word, size_t n, struct error *error)
{
	int code = EXIT_OK;

	for (size_t at = 0, part; at < n && code == EXIT_OK; at += part) {
		part = vocabulary_cut(word + at, n - at, encoding->hf->mark);
		code = bpe_encode(&encoding->hf->bpe, &encoding->merge, word + at, part, encoding->tokens, error);
	}
	return code;
}

/* Encodes normalized text without added tokens. `at_start`: the text begins with it. */
static int encode_plain(struct encoding *encoding, const char *text, size_t n, bool at_start, struct error *error)
{
	const struct hf *hf = encoding->hf;
	size_t length;
	int code = pieces_set(&encoding->words, text, n, error);

	for (size_t i = 0; i < hf->pre_tokenizer.n && code == EXIT_OK; i++)
		code = pre_tokenize(encoding, &hf->pre_tokenizer.steps[i], at_start, error);
	for (size_t i = 0; i < encoding->words.n && code == EXIT_OK; i++) {
		const char *word = pieces_get(&encoding->words, i, &length);

		code = encode_word(encoding, word, length, error);
	}
	return code;
}

/* Encodes what stands between two added tokens. */
typedef int encode_between(struct encoding *encoding, const char *text, size_t n, bool at_start, struct error *error);

static int encode_parts(struct encoding *encoding, const struct added *added, encode_between *between, const char *text,
                        size_t n, bool at_start, struct error *error)
{
	size_t done = 0, next = 0, from = 0, to = 0;
	int code = EXIT_OK;

	for (size_t at = 0; code == EXIT_OK; at = next) {
		const struct added_token *token = added_find(added, text, n, done, at, &from, &to, &next);
		const size_t end = token != NULL ? from : n;

		if (end > done)
			code = between(encoding, text + done, end - done, at_start && done == 0, error);
		if (token == NULL)
			break;
		if (code == EXIT_OK)
			code = tokens_add(encoding->tokens, token->id, error);
		done = to;
	}
	return code;
}

static int encode_raw(struct encoding *encoding, const char *text, size_t n, bool at_start, struct error *error)
{
	int code = normalize(encoding->tokenizer->path, &encoding->hf->normalizer, text, n, &encoding->normalized, error);

	return code == EXIT_OK ? encode_parts(encoding, &encoding->hf->normalized, encode_plain, encoding->normalized.bytes,
	                                      encoding->normalized.n_bytes, at_start, error) : code;
}

static int add_ids(struct encoding *encoding, const uint32_t *ids, size_t n, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = tokens_add(encoding->tokens, ids[i], error);
	return code;
}

static int encode(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                  struct error *error)
{
	struct encoding encoding = {.tokenizer = tokenizer, .hf = tokenizer->state, .tokens = tokens};
	const struct hf *hf = tokenizer->state;
	struct pieces clean = {0};
	int code = utf8_clean(text, n, &clean, error);

	if (code == EXIT_OK)
		code = add_ids(&encoding, hf->before, hf->n_before, error);
	if (code == EXIT_OK)
		code = encode_parts(&encoding, &hf->raw, encode_raw, clean.bytes, clean.n_bytes, true, error);
	if (code == EXIT_OK)
		code = add_ids(&encoding, hf->behind, hf->n_behind, error);
	merge_free(&encoding.merge);
	pieces_free(&encoding.normalized);
	pieces_free(&encoding.words);
	pieces_free(&encoding.next);
	pieces_free(&encoding.spaced);
	pieces_free(&clean);
	return code;
}

/* Decoding. */

/* Appends the text without the first `step->n` times that it begins with step->from. */
static int strip(const struct step *step, const char *text, size_t n, struct pieces *out, struct error *error)
{
	const size_t length = strlen(step->from);

	for (size_t i = 0; i < step->n && n >= length && memcmp(text, step->from, length) == 0; i++) {
		text += length;
		n -= length;
	}
	return pieces_append(out, text, n, error);
}

static int decode_step(const struct step *step, const char *text, size_t n, bool first, struct pieces *out,
                       struct error *error)
{
	unsigned char byte;

	switch (step->kind) {
	case STEP_BYTES:
		return byte_level_decode(text, n, out, error);
	case STEP_REPLACE:
		return replace(text, n, step->from, step->to, out, error);
	case STEP_BYTE_FALLBACK:
		return vocabulary_is_byte(text, n, &byte) ? pieces_append(out, (const char *)&byte, 1, error)
		                                          : pieces_append(out, text, n, error);
	case STEP_SPACES:
		return replace(text, n, step->from, first && step->prepend != PREPEND_NEVER ? "" : " ", out, error);
	case STEP_STRIP:
		return first ? strip(step, text, n, out, error) : pieces_append(out, text, n, error);
	default:
		return pieces_append(out, text, n, error);
	}
}

static int decode(const struct tokenizer *tokenizer, uint32_t id, bool first, struct pieces *out, bool *shown,
                  struct error *error)
{
	const struct hf *hf = tokenizer->state;
	struct pieces next = {0};
	size_t n;
	const char *bytes = vocabulary_bytes(&hf->vocabulary, id, &n);
	int code;

	if (bytes == NULL)
		return vocabulary_fail_id(tokenizer->path, id, error);
	*shown = !hf->vocabulary.tokens[id].special;
	if (!*shown)
		return EXIT_OK;
	code = pieces_append(out, bytes, n, error);
	for (size_t i = 0; i < hf->decoder.n && code == EXIT_OK; i++) {
		pieces_clear(&next);
		code = decode_step(&hf->decoder.steps[i], out->bytes, out->n_bytes, first, &next, error);
		swap(out, &next);
	}
	pieces_free(&next);
	return code;
}

static const struct tokenizer_kind kind_hf = {encode, decode, close_hf, TOKENIZER_TEXT_PYTHON};

static int read_text(struct loading *l, struct json_text *text, struct error *error)
{
	json_prepare();
	l->model = json_object();
	if (l->model == NULL || json_out_of_memory())
		return fail_memory(error);
	int code = json_take_object(text, take_member, l, error);
	if (code == EXIT_OK && (json_next(text) != '\0' || text->at < text->n))
		code = json_fail(text, "expected the end of the file", error);
	return code == EXIT_OK ? take_pipeline(l, error) : code;
}

int tokenizer_read_hf(struct tokenizer *tokenizer, descriptor_opener *opener, struct error *error)
{
	struct hf *hf = calloc(1, sizeof *hf);
	struct loading l = {.tokenizer = tokenizer, .hf = hf, .path = tokenizer->path, .taking = {tokenizer->path, add_merge, &l, 0}};
	struct json_text text = {.path = tokenizer->path, .what = "JSON"};
	char *bytes;

	if (hf == NULL)
		return fail_memory(error);
	tokenizer->kind = &kind_hf;
	tokenizer->state = hf;
	hf->bpe.path = tokenizer->path;
	hf->bpe.vocabulary = &hf->vocabulary;
	int code = json_read_bytes(opener, tokenizer->path, FILE_BYTES_MAX, &bytes, &text.n, error);
	if (code != EXIT_OK)
		return code;
	text.bytes = bytes;
	code = tokenizer_config_read(&l.config, tokenizer->path, opener, error);
	if (code == EXIT_OK)
		code = read_text(&l, &text, error);
	tokenizer_config_free(&l.config);
	json_decref(l.added_tokens);
	json_decref(l.normalizer);
	json_decref(l.pre_tokenizer);
	json_decref(l.post_processor);
	json_decref(l.decoder);
	json_decref(l.model);
	free(bytes);
	return code;
}
