/* SPDX-License-Identifier: MIT */
/*
 * Checks whether a model is whole: what its family needs by lint_needed.def, and what lint_layers.c finds. A file alone may be
 * one of several, and has no configuration that says how many layers there are: only GGUF says it of itself.
 */
#include "config.h"

#include "analyse/lint_whole.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "io/file_gguf.h"
#include "model/gguf_name.h"

enum when { WHEN_ALWAYS, WHEN_WITH, WHEN_WITHOUT, WHEN_UNTIED };

static const struct needed {
	const char *models, *name;
	enum when when;
	const char *part;
} table[] = {
#define NEEDED(models, name, when, part) {models, name, WHEN_##when, part},
#include "analyse/lint_needed.def"
};

static const char tied_by_default[] =
#define TIED(models) models
#include "analyse/lint_needed.def"
	;

static const char all_alike[] =
#define ALIKE(models) models
#include "analyse/lint_needed.def"
	;

enum { N_NEEDED = sizeof table / sizeof table[0], NAME_BYTES = 192 };

/* Whether the head is the embedding. */
static bool is_tied(const struct lint_whole *whole)
{
	const json_t *config = whole->lint->model->config, *tied = json_object_get(config, "tie_word_embeddings");

	return json_is_boolean(tied) ? json_is_true(tied) : lint_whole_is(whole, tied_by_default);
}

/* Whether the model is one with a head of tokens, by its class. */
static bool has_head(const json_t *config)
{
	const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));

	return class == NULL || suffix_stem(class, "ForCausalLM") != 0 || suffix_stem(class, "LMHeadModel") != 0;
}

/* Writes the name that a row has in a layer; `bare`: without its first component, in a model without a head. */
static void make_name(char name[NAME_BYTES], const struct needed *row, uint64_t layer, bool bare)
{
	const char *from = bare && strchr(row->name, '#') == NULL && strchr(row->name, '.') == strrchr(row->name, '.')
	                           ? row->name
	                           : row->name + (bare ? strcspn(row->name, ".") + 1 : 0);
	const char *mark = strchr(from, '#');

	if (mark == NULL)
		snprintf(name, NAME_BYTES, "%s", from);
	else
		snprintf(name, NAME_BYTES, "%.*s%" PRIu64 "%s", (int)(mark - from), from, layer, mark + 1);
}

/* What the layer of a row's name starts with. */
static size_t layer_length(const char *name, const struct needed *row, bool bare)
{
	const char *mark = strchr(row->name, '#');
	const size_t before = mark == NULL ? 0 : (size_t)(mark - row->name) - (bare ? strcspn(row->name, ".") + 1 : 0);

	return mark == NULL ? 0 : before + strspn(name + before, "0123456789");
}

/* Looks for a row's tensor in a layer. */
static int need(struct lint_whole *whole, const struct needed *row, uint64_t layer, bool bare, struct error *error)
{
	char name[NAME_BYTES], start[NAME_BYTES];

	make_name(name, row, layer, bare);
	const size_t in = layer_length(name, row, bare);
	if (lint_whole_has(whole, name))
		return EXIT_OK;
	snprintf(start, sizeof start, "%.*s%s", (int)in, name, in > 0 ? "." : "");
	if (in > 0 && !lint_whole_starts(whole, start)) {
		name[in] = '\0';
		return lint_whole_miss(whole, name, (size_t)(strrchr(name, '.') - name), true, 0, error);
	}
	if (row->when == WHEN_UNTIED ? bare || is_tied(whole) || !has_head(whole->lint->model->config)
	                             : row->when != WHEN_ALWAYS && lint_whole_has_part(whole, start, row->part) != (row->when == WHEN_WITH))
		return EXIT_OK;
	return lint_whole_miss(whole, name, in, false, 0, error);
}

static bool applies(const struct lint_whole *whole, const struct needed *row)
{
	const bool gguf = strncmp(row->name, "blk.", 4) == 0 || strcmp(row->name, "token_embd.weight") == 0 ||
	                  strcmp(row->name, "output_norm.weight") == 0;

	return gguf == whole->gguf && lint_whole_is(whole, row->models);
}

/* Whether any tensor of a layer is called as the family's are. */
static bool is_named_so(const struct lint_whole *whole, bool bare)
{
	for (size_t i = 0; i < N_NEEDED; i++)
		for (uint64_t layer = 0; layer < whole->layers && applies(whole, &table[i]) && strchr(table[i].name, '#') != NULL; layer++) {
			char name[NAME_BYTES];

			make_name(name, &table[i], layer, bare);
			if (lint_whole_has(whole, name))
				return true;
		}
	return false;
}

/* Part of a model that writes ahead for another: it has no embedding, norms or head of its own. */
static bool is_draft(const struct lint_whole *whole)
{
	const json_t *config = whole->lint->model->config;
	const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
	static const char *const words[] = {"agle", "edusa", "raft", "NextN", "MTP", "Flash", "Speculat", "Assistant"};

	for (size_t i = 0; i < sizeof words / sizeof words[0] && class != NULL; i++)
		if (strstr(class, words[i]) != NULL)
			return true;
	return lint_whole_has(whole, "fc.weight") || lint_whole_has(whole, "d2t") || json_object_get(config, "draft_vocab_size") != NULL;
}

static int leave_out(struct lint_whole *whole, const char *format, const char *value)
{
	struct lint_unseen *unseen = &whole->lint->unseen;

	snprintf(unseen->whole_text, sizeof unseen->whole_text, format, value);
	unseen->whole = unseen->whole_text;
	return EXIT_OK;
}

/* Layers whose tensors are called as the family's behind another prefix. */
static int find_renamed(struct lint_whole *whole, struct error *error)
{
	bool any = false;

	for (size_t i = 0; i < whole->n_names; i++) {
		struct lint_member member;
		const bool layered = lint_member_of(&member, whole->names[i]);

		any |= layered;
		for (size_t k = 0; k < N_NEEDED && layered; k++) {
			const char *mark = strchr(table[k].name, '#');
			const size_t n = mark == NULL ? 0 : (size_t)(mark - table[k].name);

			if (n == 0 || !applies(whole, &table[k]) || strcmp(mark + 2, member.rest) != 0 || member.prefix <= n ||
			    strncmp(member.name + member.prefix - n, table[k].name, n) != 0)
				continue;
			whole->lint->unseen.whole = "names are not those that loaders know";
			return lint_find(whole->lint, LINT_NAMES, &(struct lint_place){.tensor = member.name}, error,
			                 "it has '%.*s' before the name that models of type %s have", (int)(member.prefix - n), member.name,
			                 whole->type);
		}
	}
	if (!any && !whole->gguf) /* a GGUF file may hold a vocabulary alone */
		return lint_find(whole->lint, LINT_MISSING, &(struct lint_place){0}, error,
		                 "no layer is there, and by the configuration there are %" PRIu64, whole->layers);
	return leave_out(whole, "no tensor of a layer is called as in models of type %.64s", whole->type);
}

/* A head beside an embedding that the configuration calls one with it: transformers takes both, vLLM and mlx-lm the embedding. */
static int check_tied(struct lint_whole *whole, struct error *error)
{
	static const char head_name[] = "lm_head.weight", embedding_name[] = "model.embed_tokens.weight";
	const struct model *model = whole->lint->model;
	const struct file *of_head, *of_embedding;
	const struct tensor *head = model_find(model, head_name, &of_head), *embedding = model_find(model, embedding_name, &of_embedding);
	enum { CHUNK = 1 << 16 };
	int code = EXIT_OK;
	bool differ = false;

	if (!json_is_true(json_object_get(model->config, "tie_word_embeddings")) || head == NULL || embedding == NULL ||
	    head->dtype != embedding->dtype || head->size != embedding->size)
		return EXIT_OK;
	unsigned char *bytes = malloc(2 * (size_t)CHUNK);
	if (bytes == NULL)
		return fail_memory(error);
	for (uint64_t at = 0; at < head->size && code == EXIT_OK && !differ; at += CHUNK) {
		const size_t n = head->size - at < CHUNK ? (size_t)(head->size - at) : CHUNK;

		code = file_read(of_head, head, at, bytes, n, error);
		if (code == EXIT_OK)
			code = file_read(of_embedding, embedding, at, bytes + CHUNK, n, error);
		differ = code == EXIT_OK && memcmp(bytes, bytes + CHUNK, n) != 0;
	}
	free(bytes);
	if (!differ)
		return code;
	return lint_find(whole->lint, LINT_TIED, &(struct lint_place){.file = of_head, .tensor = head_name}, error,
	                 "it is another than '%s', and by tie_word_embeddings of config.json it is the same", embedding_name);
}

/* Whether a tensor is what the table of roles calls so, or has that in its name. */
static bool has_role(const struct lint_whole *whole, const char *reason)
{
	for (size_t i = 0; i < whole->n_names; i++) {
		const struct tensor tensor = {.name = whole->names[i], .rank = 2};

		if (strcmp(role_of(&whole->lint->model->role_model, &tensor).reason, reason) == 0 || strstr(tensor.name, reason) != NULL)
			return true;
	}
	return false;
}

/* What any language model needs, whatever it is called, if its class says that it is one. */
static int need_ends(struct lint_whole *whole, struct error *error)
{
	const json_t *config = whole->lint->model->config;
	const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
	int code = EXIT_OK;

	if (class == NULL || suffix_stem(class, "ForCausalLM") == 0 || whole->n_names == 0 || is_draft(whole) || whole->lint->names_unknown)
		return EXIT_OK;
	if (!has_role(whole, "embedding"))
		code = lint_find(whole->lint, LINT_MISSING, &(struct lint_place){0}, error, "no embedding is there, and %.64s needs one", class);
	if (code == EXIT_OK && json_is_false(json_object_get(config, "tie_word_embeddings")) && !has_role(whole, "output head"))
		code = lint_find(whole->lint, LINT_MISSING, &(struct lint_place){0}, error,
		                 "no output head is there, and %.64s needs one, for tie_word_embeddings is false", class);
	return code;
}

/* What the family needs. */
static int need_all(struct lint_whole *whole, struct error *error)
{
	bool known = false, bare = false;
	int code = EXIT_OK;

	for (size_t i = 0; i < N_NEEDED; i++)
		known |= applies(whole, &table[i]);
	if (whole->type == NULL)
		return leave_out(whole, "layers were compared with each other alone, for config.json has no model_type%s", "");
	/* Jina's and Mosaic's BERT are other models under the same name. */
	if (strcmp(whole->type, "bert") == 0 && json_is_object(json_object_get(whole->lint->model->config, "auto_map")))
		return leave_out(whole, "layers were compared with each other alone, for by auto_map of config.json the model has code of its own%s", "");
	if (!known) {
		code = leave_out(whole, "layers were compared with each other alone, for what else a model of type %.64s needs is not known",
		                 whole->type);
		return code == EXIT_OK ? need_ends(whole, error) : code;
	}
	if (whole->lint->names_unknown)
		return leave_out(whole, "weights of layouts that mxfp does not read have names of their own%s", "");
	if (is_draft(whole))
		return leave_out(whole, "it is a draft model, which shares tensors with another%s", "");
	if (whole->layers == 0 || whole->layers > LINT_LAYERS_MAX)
		return leave_out(whole, "the configuration does not say how many layers there are%s", "");
	if (!is_named_so(whole, false)) {
		bare = !whole->gguf;
		if (!bare || !is_named_so(whole, true))
			return find_renamed(whole, error);
	}
	for (size_t i = 0; i < N_NEEDED && code == EXIT_OK; i++)
		for (uint64_t layer = 0; applies(whole, &table[i]) && code == EXIT_OK &&
		                         layer < (strchr(table[i].name, '#') != NULL ? whole->layers : 1); layer++)
			code = need(whole, &table[i], layer, bare, error);
	return code;
}

static uint64_t natural(const json_t *config, const char *const *keys)
{
	const json_t *text = json_object_get(config, "text_config");

	for (; *keys != NULL; keys++) {
		const json_t *value = json_object_get(config, *keys);

		if (value == NULL)
			value = json_object_get(text, *keys);
		if (json_integer_value(value) > 0)
			return (uint64_t)json_integer_value(value);
	}
	return 0;
}

/* What the configuration says of the model; NULL, or why that is not enough. */
static const char *set_facts(struct lint_whole *whole)
{
	static const char *const layers[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", NULL};
	static const char *const experts[] = {"num_local_experts", "num_experts", "n_routed_experts", NULL};
	const struct model *model = whole->lint->model;
	const struct file *gguf = model->n_files > 0 && model->files[0].format == &file_gguf ? &model->files[0] : NULL;
	const char *text;
	char key[NAME_BYTES];

	whole->gguf = gguf != NULL;
	if (gguf == NULL) {
		whole->type = json_string_value(json_object_get(model->config, "model_type"));
		whole->layers = natural(model->config, layers);
		whole->experts = natural(model->config, experts);
		return model->config == NULL ? model->is_directory ? "it has no config.json" : "a file alone may be one of several" : NULL;
	}
	if (strcmp(gguf_holds(gguf), "model") != 0)
		return "the file holds no whole model, by its general.type";
	whole->type = file_metadata(gguf, "general.architecture");
	if (whole->type == NULL)
		return "the file does not name its general.architecture";
	snprintf(key, sizeof key, "%.64s.block_count", whole->type);
	text = file_metadata(gguf, key);
	whole->layers = text != NULL ? strtoull(text, NULL, 10) : 0;
	return NULL;
}

int lint_whole(struct lint *lint, struct error *error)
{
	struct lint_whole whole = {.lint = lint};
	const char *why = set_facts(&whole);
	bool prefixed = false;

	whole.alike = !lint->names_unknown && lint_whole_is(&whole, all_alike);
	int code = lint_whole_set_names(&whole, error);
	if (code == EXIT_OK)
		code = lint_prefixes(&whole, &prefixed, error);
	if (code == EXIT_OK)
		code = check_tied(&whole, error);
	if (code == EXIT_OK && why != NULL)
		lint->unseen.whole = why;
	else if (code == EXIT_OK && prefixed)
		lint->unseen.whole = "names are not those that loaders know";
	else if (code == EXIT_OK) {
		code = need_all(&whole, error);
		if (code == EXIT_OK)
			code = lint_layers(&whole, error);
		if (code == EXIT_OK)
			code = lint_whole_tell(&whole, error);
	}
	lint_whole_free(&whole);
	return code;
}
