/* SPDX-License-Identifier: MIT */
/*
 * The sources are conversion/base.py, llama.py, qwen.py and gpt_oss.py of llama.cpp, for which keys there are and of which
 * type, and src/models/NAME.cpp, for what runs whatever the file says: a model that means something else is refused.
 */
#include "config.h"

#include "gguf/parameters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/shape.h"
#include "model/allow.h"
#include "mxfp/rows.h"

enum { KEY_BYTES = 128 };

/* What llama.cpp does in an architecture. */
static const struct runs {
	const char *architecture;
	bool normalizes;  /* the weights of a token's experts sum to 1 */
	bool windows;     /* in layers 0, 2, ... */
	bool any_bias;    /* q, k, v, the output, gate, up and down may have one */
	bool expert_cols; /* expert_feed_forward_length is there; else feed_forward_length is that */
	bool head_size;   /* vocab_size and rope.dimension_count are there */
} runs[] = {
	{"llama", true, false, true, false, true},
	{"qwen2", false, false, false, false, false},
	{"qwen3", false, false, false, false, false},
	{"qwen2moe", false, false, false, true, false},
	{"qwen3moe", true, false, false, true, false},
	{"gpt-oss", true, true, false, true, false},
};

static const struct runs *runs_of(const struct shape *shape)
{
	for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
		if (strcmp(runs[i].architecture, shape->architecture->gguf) == 0)
			return &runs[i];
	return NULL;
}

static int fail_key(const struct shape *shape, const char *key, const char *problem, struct error *error)
{
	return fail(error, EXIT_INPUT, "%s: config.json: %s: %s", shape->path, key, problem);
}

/* Layers 0, 2, ... of gpt-oss have a window, and no others; the rest of the families has none. */
static int check_windows(const struct shape *s, const struct runs *r, struct error *error)
{
	size_t window = 0;

	for (size_t i = 0; i < s->layers; i++)
		if (s->windows[i] != 0)
			window = s->windows[i];
	if (!r->windows) {
		if (window == 0 || window >= s->positions || allowed_unknown("sliding_window"))
			return EXIT_OK;
		return fail(error, EXIT_INPUT, "%s: config.json: sliding_window: is %zu, and llama.cpp runs this architecture without a "
		            "window, so it computes something else behind %zu tokens; --allow-unknown sliding_window accepts that", s->path,
		            window, window);
	}
	if (window == 0)
		return fail_key(s, "sliding_window", "no layer has one, and llama.cpp runs layers 0, 2, ... of this architecture with one",
		                error);
	for (size_t i = 0; i < s->layers; i++)
		if (s->windows[i] != (i % 2 == 0 ? window : 0))
			return fail_key(s, "layer_types", "llama.cpp runs layers 0, 2, ... of this architecture with a window and the others "
			                "without, and this model wants others", error);
	return EXIT_OK;
}

static int check_experts(const struct shape *s, const struct runs *r, struct error *error)
{
	for (size_t i = 0; i < s->layers && s->experts > 0; i++)
		if (!s->routed[i])
			return fail_key(s, "mlp_only_layers or decoder_sparse_step", "some layers have no experts, which llama.cpp wants in all "
			                "layers of this architecture", error);
	if (s->experts > 0 && s->normalized != r->normalizes)
		return fail_key(s, "norm_topk_prob", r->normalizes ? "is not true, and llama.cpp has the weights of experts sum to 1 in this "
		                "architecture" : "is true, and llama.cpp does not have the weights of experts sum to 1 in this architecture",
		                error);
	return EXIT_OK;
}

/* YaRN's attention factor follows from its factor in llama.cpp; a ramp from beta_slow to beta_fast, 1 and 32 unless given. */
static int check_rope(const struct shape *s, struct error *error)
{
	const double usual = s->rope.scaling != MXFP_ROTARY_YARN || s->rope.factor <= 1 ? 1 : 0.1 * log(s->rope.factor) + 1;

	if (fabs((double)s->attention_factor / usual - 1) > 1e-6)
		return fail_key(s, "rope_scaling", "attention_factor, mscale or mscale_all_dim give another factor of attention than "
		                "0.1 ln(factor) + 1, which alone llama.cpp knows", error);
	return EXIT_OK;
}

static int check(const struct shape *s, const struct runs *r, struct error *error)
{
	const bool qkv = (s->architecture->has & ARCHITECTURE_QKV_BIAS) != 0, output = (s->architecture->has & ARCHITECTURE_OUTPUT_BIAS) != 0;
	int code = EXIT_OK;

	if (r == NULL)
		return fail(error, EXIT_INPUT, "%s: config.json: model_type: how llama.cpp runs %s is not known here", s->path,
		            s->architecture->huggingface);
	if (s->positions == 0)
		return fail_key(s, "max_position_embeddings", "is absent or 0, and llama.cpp loads no model without it", error);
	if (!r->any_bias && (s->qkv_bias != qkv || s->output_bias != output || s->mlp_bias))
		return fail_key(s, "attention_bias or qkv_bias", "says other biases than llama.cpp has in this architecture", error);
	if ((s->architecture->has & ARCHITECTURE_CLAMPED) != 0 && s->clamp != 7)
		return fail_key(s, "swiglu_limit", "is not 7, by which alone llama.cpp runs this architecture", error);
	code = check_windows(s, r, error);
	if (code == EXIT_OK)
		code = check_experts(s, r, error);
	return code == EXIT_OK ? check_rope(s, error) : code;
}

/* The last part of a directory's name, as the converter calls a model that does not say. */
static char *name_of(const struct model *model)
{
	char *resolved = realpath(model->directory, NULL);
	const char *slash = resolved != NULL ? strrchr(resolved, '/') : NULL;
	char *name = strdup(slash != NULL && slash[1] != '\0' ? slash + 1 : "model");

	free(resolved);
	return name;
}

struct putting {
	struct gguf_pairs *pairs;
	const char *architecture;
	char key[KEY_BYTES];
};

static const char *key_of(struct putting *p, const char *key)
{
	snprintf(p->key, sizeof p->key, "%s.%s", p->architecture, key);
	return p->key;
}

static void put_size(struct putting *p, const char *key, size_t size)
{
	gguf_pairs_u32(p->pairs, key_of(p, key), (uint32_t)size);
}

static void put_number(struct putting *p, const char *key, double number)
{
	gguf_pairs_f32(p->pairs, key_of(p, key), (float)number);
}

static void put_rope(struct putting *p, const struct shape *s)
{
	const struct shape_rope *rope = &s->rope;

	if (rope->divisor != 1) {
		gguf_pairs_string(p->pairs, key_of(p, "rope.scaling.type"), "linear");
		put_number(p, "rope.scaling.factor", rope->divisor);
	} else if (rope->scaling == MXFP_ROTARY_YARN) {
		gguf_pairs_string(p->pairs, key_of(p, "rope.scaling.type"), "yarn");
		put_number(p, "rope.scaling.factor", rope->factor);
		put_size(p, "rope.scaling.original_context_length", (size_t)rope->original_positions);
		gguf_pairs_bool(p->pairs, key_of(p, "rope.scaling.yarn_truncate"), !rope->no_truncate);
		if (rope->beta_fast != 0)
			put_number(p, "rope.scaling.yarn_beta_fast", rope->beta_fast);
		if (rope->beta_slow != 0)
			put_number(p, "rope.scaling.yarn_beta_slow", rope->beta_slow);
	}
	put_number(p, "rope.freq_base", rope->base);
}

static void put_all(struct putting *p, const struct shape *s, const struct runs *r)
{
	put_size(p, "block_count", s->layers);
	put_size(p, "context_length", s->positions);
	put_size(p, "embedding_length", s->hidden);
	if (s->intermediate > 0)
		put_size(p, "feed_forward_length", s->intermediate);
	put_size(p, "attention.head_count", s->heads);
	put_size(p, "attention.head_count_kv", s->kv_heads);
	put_rope(p, s);
	put_number(p, "attention.layer_norm_rms_epsilon", s->epsilon);
	if (s->experts > 0) {
		put_size(p, "expert_count", s->experts);
		put_size(p, "expert_used_count", s->experts_per_token);
	}
	put_size(p, "attention.key_length", s->head_cols);
	put_size(p, "attention.value_length", s->head_cols);
	if (r->head_size) {
		put_size(p, "vocab_size", s->vocabulary);
		put_size(p, "rope.dimension_count", s->rotary_cols);
	}
	if (r->windows)
		put_size(p, "attention.sliding_window", s->windows[0]);
	if (r->expert_cols)
		put_size(p, "expert_feed_forward_length", s->expert_cols);
	if (s->shared_cols > 0)
		put_size(p, "expert_shared_feed_forward_length", s->shared_cols);
}

int parameters_put(struct gguf_pairs *pairs, const struct model *model, const struct shape *shape, struct error *error)
{
	const struct runs *r = runs_of(shape);
	struct putting p = {.pairs = pairs, .architecture = shape->architecture->gguf};
	int code = check(shape, r, error);
	char *name = code == EXIT_OK ? name_of(model) : NULL;

	if (code == EXIT_OK && name == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		gguf_pairs_string(pairs, "general.architecture", p.architecture);
		gguf_pairs_string(pairs, "general.type", "model");
		gguf_pairs_string(pairs, "general.name", name);
		put_all(&p, shape, r);
	}
	free(name);
	return code;
}

/* One factor, in binary32 step by step as PyTorch computes what LlamaModel.generate_extra_tensors() of the converter says: a
   number divided by a tensor is the reciprocal times the number. */
static float factor_of(const struct shape_rope *rope, float frequency)
{
	const double low = rope->original_positions / rope->low_freq_factor, high = rope->original_positions / rope->high_freq_factor;
	const float length = 1 / frequency * (float)(2 * 3.141592653589793);

	if (length < (float)high)
		return 1;
	if (length > (float)low)
		return (float)rope->factor;
	const float smooth = (1 / length * (float)rope->original_positions - (float)rope->low_freq_factor) /
	                     (float)(rope->high_freq_factor - rope->low_freq_factor);
	return 1 / ((1 - smooth) / (float)rope->factor + smooth);
}

int parameters_rope_factors(float **factors, const struct shape *shape, struct error *error)
{
	const struct mxfp_frequency_options o = {.size = sizeof o, .base = shape->rope.base};
	const size_t n = shape->rotary_cols / 2;

	*factors = NULL;
	if (shape->rope.scaling != MXFP_ROTARY_LLAMA3)
		return EXIT_OK;
	*factors = malloc((n + 1) * sizeof **factors);
	if (*factors == NULL)
		return fail_memory(error);
	if (mxfp_rotary_frequencies(*factors, NULL, shape->rotary_cols, &o) != MXFP_OK)
		return fail(error, EXIT_INPUT, "%s: config.json: rope_theta: is out of range", shape->path);
	for (size_t i = 0; i < n; i++)
		(*factors)[i] = factor_of(&shape->rope, (*factors)[i]);
	return EXIT_OK;
}
