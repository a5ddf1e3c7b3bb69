/* SPDX-License-Identifier: MIT */
/*
 * Checks of the shapes that config.json promises. What a name means by model_type is in role.def; shapes of models named as
 * Hugging Face's Llama and those like it are checked one by one, and those of other types are left alone, because a name may
 * mean another shape there.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint.h"
#include "io/shape.h"

static const char *const model_types[] = {
	"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gpt_oss", "olmo",
	"olmo2", "smollm3", "granite",
};

enum size {
	SIZE_HIDDEN, SIZE_INTERMEDIATE, SIZE_EXPERT, SIZE_Q, SIZE_KV, SIZE_VOCAB, SIZE_EXPERTS, N_SIZES
};

/* Endings of names, and what their dimensions are; N_SIZES: there is none. The first ending that fits counts. */
static const struct rule {
	const char *ending;
	enum size rows, cols;
} rules[] = {
	{".self_attn.q_proj.weight", SIZE_Q, SIZE_HIDDEN},
	{".self_attn.k_proj.weight", SIZE_KV, SIZE_HIDDEN},
	{".self_attn.v_proj.weight", SIZE_KV, SIZE_HIDDEN},
	{".self_attn.o_proj.weight", SIZE_HIDDEN, SIZE_Q},
	{".mlp.gate_proj.weight", SIZE_INTERMEDIATE, SIZE_HIDDEN},
	{".mlp.up_proj.weight", SIZE_INTERMEDIATE, SIZE_HIDDEN},
	{".mlp.down_proj.weight", SIZE_HIDDEN, SIZE_INTERMEDIATE},
	{".mlp.gate.weight", SIZE_EXPERTS, SIZE_HIDDEN},
	{".mlp.router.weight", SIZE_EXPERTS, SIZE_HIDDEN},
	{".block_sparse_moe.gate.weight", SIZE_EXPERTS, SIZE_HIDDEN},
	{".w1.weight", SIZE_EXPERT, SIZE_HIDDEN},
	{".w2.weight", SIZE_HIDDEN, SIZE_EXPERT},
	{".w3.weight", SIZE_EXPERT, SIZE_HIDDEN},
	{".input_layernorm.weight", SIZE_HIDDEN, N_SIZES},
	{".post_attention_layernorm.weight", SIZE_HIDDEN, N_SIZES},
	{"model.norm.weight", SIZE_HIDDEN, N_SIZES},
	{"embed_tokens.weight", SIZE_VOCAB, SIZE_HIDDEN},
	{"lm_head.weight", SIZE_VOCAB, SIZE_HIDDEN},
};

/* The same with another width, of experts: in a model with experts. */
static const struct rule expert_rules[] = {
	{".gate_proj.weight", SIZE_EXPERT, SIZE_HIDDEN},
	{".up_proj.weight", SIZE_EXPERT, SIZE_HIDDEN},
	{".down_proj.weight", SIZE_HIDDEN, SIZE_EXPERT},
};

struct sizes {
	uint64_t of[N_SIZES];      /* 0: not known */
	const char *names[N_SIZES];
};

static uint64_t natural(const json_t *config, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(config, key));

	return value > 0 ? (uint64_t)value : 0;
}

static struct sizes read_sizes(const json_t *config)
{
	uint64_t hidden = natural(config, "hidden_size"), heads = natural(config, "num_attention_heads");
	uint64_t kv_heads = natural(config, "num_key_value_heads"), head = natural(config, "head_dim");
	uint64_t intermediate = natural(config, "intermediate_size"), expert = natural(config, "moe_intermediate_size");
	uint64_t experts = natural(config, "num_local_experts");

	if (head == 0 && heads != 0)
		head = hidden / heads;
	if (head > UINT32_MAX || heads > UINT32_MAX || kv_heads > UINT32_MAX)
		head = 0;
	return (struct sizes){
		.of = {
			[SIZE_HIDDEN] = hidden,
			[SIZE_INTERMEDIATE] = intermediate,
			[SIZE_EXPERT] = expert != 0 ? expert : intermediate,
			[SIZE_Q] = heads * head,
			[SIZE_KV] = (kv_heads != 0 ? kv_heads : heads) * head,
			[SIZE_VOCAB] = natural(config, "vocab_size"),
			[SIZE_EXPERTS] = experts != 0 ? experts : natural(config, "num_experts"),
		},
		.names = {"hidden_size", "intermediate_size", "the width of experts", "num_attention_heads * head_dim",
		          "num_key_value_heads * head_dim", "vocab_size", "the number of experts"},
	};
}

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), m = strlen(ending);

	return n >= m && strcmp(name + n - m, ending) == 0;
}

static const struct rule *rule_of(const char *name)
{
	static const char experts[] = ".experts.";
	const char *expert = strstr(name, experts);

	/* Without a number they are all experts of a layer, as of mlx-lm. */
	if (strstr(name, "shared_expert") != NULL || (expert != NULL && strspn(expert + sizeof experts - 1, "0123456789") == 0))
		return NULL;
	for (size_t i = 0; expert != NULL && i < sizeof expert_rules / sizeof expert_rules[0]; i++)
		if (ends_with(name, expert_rules[i].ending))
			return &expert_rules[i];
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		if (ends_with(name, rules[i].ending))
			return &rules[i];
	return NULL;
}

/* Checks the shape of a tensor, quantized or not, by its name. */
static int check_shape(struct lint *lint, const struct sizes *sizes, const struct lint_place *place,
                       const struct tensor *shaped, struct error *error)
{
	const struct rule *rule = rule_of(place->tensor);
	enum size expected[2];
	char text[SHAPE_TEXT];
	int code = EXIT_OK;

	if (rule == NULL)
		return EXIT_OK;
	expected[0] = rule->rows;
	expected[1] = rule->cols;
	if (shaped->rank != (rule->cols == N_SIZES ? 1u : 2u))
		return lint_find(lint, LINT_SHAPE, place, error, "its shape is %s, of %u dimensions",
		                 shape_text(shaped, text), shaped->rank);
	for (unsigned i = 0; i < shaped->rank && code == EXIT_OK; i++)
		if (sizes->of[expected[i]] != 0 && sizes->of[expected[i]] != shaped->shape[i])
			code = lint_find(lint, LINT_SHAPE, place, error, "its shape is %s, and by config.json %s is %" PRIu64,
			                 shape_text(shaped, text), sizes->names[expected[i]], sizes->of[expected[i]]);
	return code;
}

/* Checks that the dimension of the hidden state is where the model's own programs have it: rows of what takes it, of
   `whole` [.., out, in], are as long. */
static int check_hidden(struct lint *lint, const struct lint_place *place, const struct tensor *whole, const char *what,
                        struct error *error)
{
	const uint64_t hidden = lint->model->role_model.hidden_size;
	const bool makes = role_makes_hidden(place->tensor);
	const uint64_t found = whole->shape[whole->rank - (makes ? 2 : 1)];
	char text[SHAPE_TEXT];

	if (hidden == 0 || found == hidden)
		return EXIT_OK;
	return lint_find(lint, LINT_SHAPE, place, error, "%s [.., out, in] %s, and by config.json it %s %" PRIu64 " channels",
	                 what, shape_text(whole, text), makes ? "makes" : "takes", hidden);
}

/* Checks that a quantized tensor is one that loaders of its layout take, and that it has blocks along what products run
   over. In a square one that is not to be seen, but mxfp quantize notes what it has turned. */
static int check_role(struct lint *lint, const struct lint_place *place, const struct quantized *q, struct error *error)
{
	const struct role_model *model = &lint->model->role_model;
	const struct tensor whole = {.name = place->tensor, .rank = q->shape.rank, .shape = q->shape.dims};
	const struct role role = role_of(model, &whole);
	const bool experts = (role.kind == ROLE_EXPERTS || role.kind == ROLE_SEQUENTIAL) && role.axis != ROLE_TURNED;
	const char *refusal = layout_refuses_role(q->choice.layout, model, &role, &whole);

	if (refusal != NULL && !(experts && q->choice.layout->reads_experts))
		return lint_find(lint, LINT_SHAPE, place, error, "it is quantized in layout %s: %s", q->choice.layout->name,
		                 refusal);
	if (role.axis != ROLE_TURNED)
		return EXIT_OK;
	if (file_metadata(place->file, METADATA_WEIGHTS) != NULL && !q->noted_transposed)
		return lint_find(lint, LINT_SHAPE, place, error, "by its metadata it has blocks along its last dimension, and %s "
		                 "runs over the one before", model->type);
	return check_hidden(lint, place, &whole, "its blocks are along the last dimension of", error);
}

/* The same of one that is not quantized. */
static int check_plain(struct lint *lint, const struct model_tensor *at, struct error *error)
{
	const struct lint_place place = {.file = at->file, .tensor = at->tensor->name};
	const struct role role = role_of(&lint->model->role_model, at->tensor);
	struct arena arena = {0};
	struct tensor whole;

	if (role.axis != ROLE_TURNED)
		return EXIT_OK;
	int code = role_turn(&whole, at->tensor, &arena) ? check_hidden(lint, &place, &whole, "transposed it is", error)
	                                                 : fail_memory(error);
	arena_free(&arena);
	return code;
}

/* Checks every tensor; sizes: NULL if the model is of no known type, whose names may mean other shapes. */
static int check_shapes(struct lint *lint, const struct sizes *sizes, struct error *error)
{
	const struct model *model = lint->model;
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++) {
		const struct lint_place place = {.file = lint->weights[i].file, .tensor = lint->weights[i].name};
		struct quantized q;
		bool found;

		code = quantized_find(&q, &found, model, place.tensor, error);
		/* What has scales for each of several matrices is for loaders that take these in one tensor. */
		if (code == EXIT_OK && q.choice.form->scales_each == 0)
			code = check_role(lint, &place, &q, error);
		if (code == EXIT_OK && sizes != NULL)
			code = check_shape(lint, sizes, &place,
			                   &(struct tensor){.rank = q.shape.rank, .shape = q.shape.dims}, error);
	}
	for (size_t i = 0; i < model->n_tensors && code == EXIT_OK; i++) {
		const struct lint_place place = {.file = model->by_name[i].file, .tensor = model->by_name[i].tensor->name};

		if (lint->is_part[i])
			continue;
		code = check_plain(lint, &model->by_name[i], error);
		if (code == EXIT_OK && sizes != NULL)
			code = check_shape(lint, sizes, &place, model->by_name[i].tensor, error);
	}
	return code;
}

int lint_shapes(struct lint *lint, struct error *error)
{
	const char *type = json_string_value(json_object_get(lint->model->config, "model_type"));
	bool known = false;

	if (type == NULL)
		return EXIT_OK;
	for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++)
		known |= strcmp(type, model_types[i]) == 0;
	const struct sizes sizes = read_sizes(lint->model->config);
	return check_shapes(lint, known ? &sizes : NULL, error);
}
