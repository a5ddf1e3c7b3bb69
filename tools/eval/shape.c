/* SPDX-License-Identifier: MIT */
/* Reads config.json; GGUF's metadata were made one before (shape_gguf.c). */
#include "config.h"

#include "eval/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/directory.h"
#include "io/file_gguf.h"
#include "io/json.h"
#include "model/allow.h"
#include "model/model_output.h"

/* As transformers' RMSNorm has it where a configuration does not say. */
static const double usual_epsilon = 1e-6, usual_theta = 10000, usual_alpha = 1.702;

enum {
	SIZE_MOST = 1 << 24, /* of any one size */
	LAYERS_MOST = 4096,
	HEAD_MOST = 512      /* mxfp_rotate() */
};

static const struct architecture architectures[] = {
#define QKV_BIAS ARCHITECTURE_QKV_BIAS
#define OUTPUT_BIAS ARCHITECTURE_OUTPUT_BIAS
#define HEAD_NORM ARCHITECTURE_HEAD_NORM
#define SINKS ARCHITECTURE_SINKS
#define WINDOWED ARCHITECTURE_WINDOWED
#define ROUTED ARCHITECTURE_ROUTED
#define SHARED ARCHITECTURE_SHARED
#define EXPERT_BIAS ARCHITECTURE_EXPERT_BIAS
#define CLAMPED ARCHITECTURE_CLAMPED
#define NORMALIZED ARCHITECTURE_NORMALIZED
#define HALVES ARCHITECTURE_HALVES
#define CHOSEN_BIAS ARCHITECTURE_CHOSEN_BIAS
#define CHOSEN_MLP_BIAS ARCHITECTURE_CHOSEN_MLP_BIAS
#define SWITCHED ARCHITECTURE_SWITCHED
#define TYPED ARCHITECTURE_TYPED
#define UPPER ARCHITECTURE_UPPER
#define EVEN ARCHITECTURE_EVEN
#define ARCHITECTURE(huggingface, gguf, has) {huggingface, gguf, has},
#include "eval/architecture.def"
};

enum { N_ARCHITECTURES = sizeof architectures / sizeof architectures[0] };

static const char families[] = /* each with ", " before it */
#define ARCHITECTURE(huggingface, gguf, has) ", " huggingface
#include "eval/architecture.def"
	;

static const struct {
	const char *model_type, *key, *value;
} defaults[] = {
#define CONFIG_DEFAULT(model_type, key, value) {model_type, key, value},
#include "eval/config_key.def"
};

static const char *const known_keys[] = {
#define CONFIG_KEY(key) key,
#include "eval/config_key.def"
};

static const char *const rope_keys[] = {
#define CONFIG_ROPE(key) key,
#include "eval/config_key.def"
};

static const char *const telling_parts[] = {
#define CONFIG_TELLING(part) part,
#include "eval/config_key.def"
};

static const char *const idle_parts[] = {
#define CONFIG_IDLE(part) part,
#include "eval/config_key.def"
};

#define LENGTH(table) (sizeof table / sizeof table[0])

/* A configuration being read. */
struct reader {
	struct shape *shape;
	json_t *config;           /* with the values that its class has where the file has none */
	const char *architecture; /* of a GGUF file */
	struct error *error;
};

/* Fails with the field's name as the file has it. */
static int fail_field(const struct reader *r, const char *field, const char *problem)
{
	char text[SHAPE_FIELD_TEXT];

	return fail(r->error, EXIT_INPUT, "%s: %s: %s", r->shape->path,
	            r->shape->gguf ? shape_gguf_field(field, r->architecture, text) : field, problem);
}

static const json_t *find(const struct reader *r, const char *field)
{
	const json_t *value = json_object_get(r->config, field);

	return json_is_null(value) ? NULL : value;
}

/* Reads a whole number, or leaves it as it is. */
static int read_size(const struct reader *r, const char *field, size_t *size)
{
	const json_t *value = find(r, field);
	const json_int_t n = json_integer_value(value);
	char problem[64];

	if (value == NULL)
		return EXIT_OK;
	if (!json_is_integer(value) || n < 0 || n > SIZE_MOST) {
		snprintf(problem, sizeof problem, "is not a whole number from 0 to %d", (int)SIZE_MOST);
		return fail_field(r, field, problem);
	}
	*size = (size_t)n;
	return EXIT_OK;
}

static int read_number(const struct reader *r, const json_t *object, const char *field, double *number)
{
	const json_t *value = json_object_get(object, field);

	if (value == NULL || json_is_null(value))
		return EXIT_OK;
	if (!json_is_number(value))
		return fail_field(r, field, "is not a number");
	*number = json_number_value(value);
	return EXIT_OK;
}

static int require(const struct reader *r, const char *field, size_t size)
{
	return size > 0 ? EXIT_OK : fail_field(r, field, "is absent or 0, and a model needs it");
}

static int find_architecture(const struct reader *r)
{
	const char *type = json_string_value(find(r, "model_type"));
	const bool routed = json_integer_value(find(r, "num_experts")) > 0;
	const struct architecture *found = NULL;

	if (type == NULL)
		return fail_field(r, "model_type", "is absent, and says how a model runs");
	for (size_t i = 0; i < N_ARCHITECTURES; i++) {
		const struct architecture *a = &architectures[i];

		if (r->shape->gguf ? strcmp(a->gguf, type) == 0 && (found == NULL || (routed && (a->has & ARCHITECTURE_ROUTED)))
		                   : strcmp(a->huggingface, type) == 0)
			found = a;
	}
	r->shape->architecture = found;
	return found != NULL ? EXIT_OK
	                     : fail(r->error, EXIT_INPUT, "%s: %s: '%.64s' is not a family of models that is known here: %s",
	                            r->shape->path, r->shape->gguf ? "general.architecture" : "model_type", type,
	                            families + 2);
}

/* Sets what the family's class has where the file has no such key. */
static int set_defaults(const struct reader *r)
{
	const char *type = r->shape->architecture->huggingface;

	for (size_t i = 0; i < LENGTH(defaults) && !r->shape->gguf; i++) {
		const bool experts = strcmp(defaults[i].key, "num_local_experts") == 0;

		if (strcmp(defaults[i].model_type, type) != 0 || json_object_get(r->config, defaults[i].key) != NULL ||
		    (experts && json_object_get(r->config, "num_experts") != NULL))
			continue;
		if (json_object_set_new(r->config, defaults[i].key,
		                        json_loads(defaults[i].value, JSON_DECODE_ANY, NULL)) != 0)
			return fail_memory(r->error);
	}
	return EXIT_OK;
}

static bool is_listed(const char *key, const char *const *list, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(list[i], key) != 0)
		i++;
	return i < n;
}

static bool has_part(const char *key, const char *const *list, size_t n)
{
	size_t i = 0;

	while (i < n && strstr(key, list[i]) == NULL)
		i++;
	return i < n;
}

/* Whether a value says no, so that what it would switch on is not there. */
static bool says_no(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
	       (json_is_string(value) && json_string_length(value) == 0) ||
	       ((json_is_array(value) || json_is_object(value)) && json_array_size(value) + json_object_size(value) == 0);
}

/* Refuses keys by whose names they would change what a model computes, and of which nothing is known here. */
static int check_unknown(const struct reader *r)
{
	const char *key;
	json_t *value;

	if (r->shape->gguf)
		return EXIT_OK;
	json_object_foreach(r->config, key, value)
		if (key[0] != '_' && !is_listed(key, known_keys, LENGTH(known_keys)) && !says_no(value) &&
		    has_part(key, telling_parts, LENGTH(telling_parts)) && !has_part(key, idle_parts, LENGTH(idle_parts)) &&
		    !allowed_unknown(key))
			return fail(r->error, EXIT_INPUT, "%s: config.json: %.100s: is not known of %s, and by its name it may change what "
			            "the model computes; --allow-unknown %.100s runs it without", r->shape->path, key,
			            r->shape->architecture->huggingface, key);
	return EXIT_OK;
}

static int read_sizes(const struct reader *r)
{
	struct shape *s = r->shape;
	size_t own_expert_cols = 0, value_cols = 0;
	const json_t *first = find(r, "num_local_experts"), *second = find(r, "num_experts");
	const struct {
		const char *field;
		size_t *size;
	} sizes[] = {
		{"num_hidden_layers", &s->layers},
		{"hidden_size", &s->hidden},
		{"vocab_size", &s->vocabulary},
		{"max_position_embeddings", &s->positions},
		{"num_attention_heads", &s->heads},
		{"num_key_value_heads", &s->kv_heads},
		{"head_dim", &s->head_cols},
		{"intermediate_size", &s->intermediate},
		{"num_local_experts", &s->experts},
		{"num_experts", &s->experts},
		{"num_experts_per_tok", &s->experts_per_token},
		{"moe_intermediate_size", &own_expert_cols},
		{"shared_expert_intermediate_size", &s->shared_cols},
		{"rotary_dim", &s->rotary_cols},
		{"v_head_dim", &value_cols},
	};
	int code = EXIT_OK;

	if (first != NULL && second != NULL && !json_equal(first, second))
		return fail_field(r, "num_experts", "differs from num_local_experts");
	if (find(r, "experts_per_token") != NULL && !json_equal(find(r, "experts_per_token"), find(r, "num_experts_per_tok")))
		return fail_field(r, "experts_per_token", "differs from num_experts_per_tok, by which transformers goes; it "
		                  "is 4 where absent");
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && code == EXIT_OK; i++)
		code = read_size(r, sizes[i].field, sizes[i].size);
	if ((s->architecture->has & ARCHITECTURE_ROUTED) == 0)
		s->experts = 0;
	if ((s->architecture->has & ARCHITECTURE_SHARED) == 0)
		s->shared_cols = 0;
	s->expert_cols = own_expert_cols > 0 ? own_expert_cols : s->intermediate;
	if (s->kv_heads == 0)
		s->kv_heads = s->heads;
	if (s->head_cols == 0 && s->heads > 0)
		s->head_cols = s->hidden / s->heads;
	if (code == EXIT_OK && value_cols != 0 && value_cols != s->head_cols)
		code = fail_field(r, "v_head_dim", "is not that of keys (head_dim), as it is in the models that run here");
	return code;
}

static int check_sizes(const struct reader *r)
{
	const struct shape *s = r->shape;
	const struct {
		const char *field;
		size_t size;
		bool needed;
	} needed[] = {
		{"num_hidden_layers", s->layers, true},
		{"hidden_size", s->hidden, true},
		{"num_attention_heads", s->heads, true},
		{"head_dim", s->head_cols, true},
		{"intermediate_size", s->intermediate, s->experts == 0},
		{"num_experts_per_tok", s->experts_per_token, s->experts > 0},
		{"moe_intermediate_size", s->expert_cols, s->experts > 0},
		{"num_experts", s->experts, (s->architecture->has & ARCHITECTURE_ROUTED) != 0},
	};
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof needed / sizeof needed[0] && code == EXIT_OK; i++)
		if (needed[i].needed)
			code = require(r, needed[i].field, needed[i].size);
	if (code != EXIT_OK)
		return code;
	if (s->layers > LAYERS_MOST)
		return fail_field(r, "num_hidden_layers", "is more than 4096");
	if (s->heads % s->kv_heads != 0)
		return fail_field(r, "num_attention_heads", "is not a multiple of num_key_value_heads");
	if (s->head_cols > HEAD_MOST || s->heads * s->head_cols > SIZE_MOST)
		return fail_field(r, "head_dim", "is more than 512, or too large for that many heads");
	if (s->experts_per_token > s->experts)
		return fail_field(r, "num_experts_per_tok", "is more than there are experts");
	return EXIT_OK;
}

/* Refuses what would change numbers and is not known. */
static int check_kind(const struct reader *r)
{
	const char *activation = json_string_value(find(r, "hidden_act"));

	if (json_is_false(find(r, "is_causal")))
		return fail_field(r, "is_causal", "is false, and models that run here see no tokens behind their own");
	if (activation != NULL && strcmp(activation, "silu") != 0 && strcmp(activation, "swish") != 0)
		return fail_field(r, "hidden_act", "is not silu, which this family of models has");
	return EXIT_OK;
}

/* Whether layer i has a window where layer_types does not say. */
static bool is_windowed(const struct architecture *a, size_t i, size_t limit)
{
	if ((a->has & ARCHITECTURE_UPPER) != 0)
		return i >= limit;
	if ((a->has & ARCHITECTURE_EVEN) != 0)
		return i % 2 == 0 && ((a->has & ARCHITECTURE_SWITCHED) == 0 || i < limit);
	return true;
}

/* Of GGUF: llama.cpp has windows in gpt-oss alone, and takes others for full attention without a word. */
static int check_window(const struct reader *r, size_t window)
{
	char text[SHAPE_FIELD_TEXT];
	const char *key = shape_gguf_field("sliding_window", r->architecture, text);

	if (window == 0 || window >= r->shape->positions || allowed_unknown(key))
		return EXIT_OK;
	return fail(r->error, EXIT_INPUT, "%s: %s: is %zu, and llama.cpp runs this architecture without a window; --allow-unknown "
	            "%s does so too", r->shape->path, key, window, key);
}

/* Sets windows[] as the family's class in transformers has them. */
static int read_windows(const struct reader *r)
{
	struct shape *s = r->shape;
	const struct architecture *a = s->architecture;
	const json_t *types = find(r, "layer_types");
	size_t window = 0, limit = 0;
	int code = read_size(r, "sliding_window", &window);

	if (code == EXIT_OK)
		code = read_size(r, "max_window_layers", &limit);
	if (code != EXIT_OK)
		return code;
	if (s->gguf && (a->has & ARCHITECTURE_SINKS) == 0)
		return check_window(r, window);
	if ((a->has & ARCHITECTURE_WINDOWED) == 0 && window != 0 && !allowed_unknown("sliding_window"))
		return fail_field(r, "sliding_window", "is not known of this family, which sees all tokens in transformers; "
		                  "--allow-unknown sliding_window does so too");
	if ((a->has & ARCHITECTURE_WINDOWED) == 0 ||
	    ((a->has & ARCHITECTURE_SWITCHED) != 0 && !json_is_true(find(r, "use_sliding_window"))))
		window = 0;
	else if (window == 0 && find(r, "sliding_window") != NULL)
		return fail_field(r, "sliding_window", "is 0, with which a token would see none; null means no window");
	if (types != NULL && json_array_size(types) != s->layers)
		return fail_field(r, "layer_types", "does not have one name for each of num_hidden_layers");
	for (size_t i = 0; i < s->layers; i++) {
		const char *type = json_string_value(json_array_get(types, i));
		bool windowed = window != 0 && is_windowed(a, i, limit);
		const bool said = types != NULL ? type != NULL && strcmp(type, "sliding_attention") == 0 : windowed;

		if (types != NULL && !said && (type == NULL || strcmp(type, "full_attention") != 0))
			return fail_field(r, "layer_types", "has a name that is neither full_attention nor sliding_attention");
		if (said && window == 0)
			return fail_field(r, "layer_types", "has sliding_attention, and there is no window: sliding_window is absent, or "
			                  "use_sliding_window is not true, or the family has none");
		if (said != windowed && (a->has & ARCHITECTURE_TYPED) == 0)
			return fail_field(r, "layer_types", "is not what sliding_window says, by which alone this family goes in "
			                  "transformers; correct one of them");
		s->windows[i] = said ? window : 0;
	}
	return EXIT_OK;
}

/* Sets which layers have biases. What is GGUF says it by its tensors, and has those that the family needs. */
static void read_biases(const struct reader *r)
{
	struct shape *s = r->shape;
	const unsigned has = s->architecture->has;
	const bool chosen = json_is_true(find(r, "attention_bias"));

	s->qkv_bias = (has & ARCHITECTURE_QKV_BIAS) != 0;
	s->output_bias = (has & ARCHITECTURE_OUTPUT_BIAS) != 0;
	if (s->gguf)
		return;
	if ((has & ARCHITECTURE_CHOSEN_BIAS) != 0)
		s->qkv_bias = s->output_bias = chosen;
	if (find(r, "qkv_bias") != NULL && (has & ARCHITECTURE_SHARED) != 0)
		s->qkv_bias = json_is_true(find(r, "qkv_bias"));
	s->mlp_bias = (has & ARCHITECTURE_CHOSEN_MLP_BIAS) != 0 && json_is_true(find(r, "mlp_bias"));
}

/* Sets routed[] as transformers' Qwen2MoeDecoderLayer does. */
static int read_routed(const struct reader *r)
{
	struct shape *s = r->shape;
	const json_t *dense = find(r, "mlp_only_layers");
	size_t step = 1;
	int code = read_size(r, "decoder_sparse_step", &step);

	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; i < s->layers; i++)
		s->routed[i] = s->experts > 0 && step > 0 && (i + 1) % step == 0;
	for (size_t i = 0; i < json_array_size(dense); i++) {
		const json_int_t layer = json_integer_value(json_array_get(dense, i));

		if (layer >= 0 && (uint64_t)layer < s->layers)
			s->routed[layer] = false;
	}
	for (size_t i = 0; i < s->layers && code == EXIT_OK; i++)
		if (!s->routed[i])
			code = require(r, "intermediate_size", s->intermediate);
	s->normalized = (s->architecture->has & ARCHITECTURE_NORMALIZED) != 0 || json_is_true(find(r, "norm_topk_prob"));
	return code;
}

/* The section that counts, or NULL. What is empty is as if it were not there, as in Python. */
static const json_t *find_rope(const struct reader *r, const char **name)
{
	static const char *const names[] = {"rope_scaling", "rope_parameters"};

	for (size_t i = 0; i < LENGTH(names); i++) {
		*name = names[i];
		if (json_object_size(find(r, *name)) > 0)
			return find(r, *name);
	}
	return NULL;
}

static int fail_rope(const struct reader *r, const char *problem)
{
	const char *name;

	find_rope(r, &name);
	return fail_field(r, name, problem);
}

/* Refuses keys of the section that are not known. */
static int check_rope(const struct reader *r, const char *name, const json_t *rope)
{
	const char *key;
	json_t *value;
	char path[SHAPE_FIELD_TEXT];

	json_object_foreach((json_t *)rope, key, value) {
		snprintf(path, sizeof path, "%s.%.80s", name, key);
		if (is_listed(key, rope_keys, LENGTH(rope_keys)) || json_is_null(value) || allowed_unknown(path))
			continue;
		return fail(r->error, EXIT_INPUT, "%s: %s: is not known, and may change how heads rotate; --allow-unknown %s runs the "
		            "model without it", r->shape->path, path, path);
	}
	return EXIT_OK;
}

/* What gpt-oss has where config.json has neither section. */
static int set_rope_default(const struct reader *r)
{
	const char *name;

	if (r->shape->gguf || (r->shape->architecture->has & ARCHITECTURE_SINKS) == 0 || find_rope(r, &name) != NULL)
		return EXIT_OK;
	return json_object_set_new(r->config, "rope_parameters",
	                           json_pack("{s:s, s:f, s:f, s:f, s:b, s:i}", "rope_type", "yarn", "factor", 32.0, "beta_fast",
	                                     32.0, "beta_slow", 1.0, "truncate", 0, "original_max_position_embeddings",
	                                     4096)) == 0 ? EXIT_OK : fail_memory(r->error);
}

/* Reads the kind of frequencies; *divisor is what kind `linear` divides them by. */
static int read_rope_kind(const struct reader *r, const json_t *rope, struct mxfp_frequency_options *options,
                          double *divisor)
{
	const char *type = json_string_value(json_object_get(rope, "rope_type"));

	if (type == NULL)
		type = json_string_value(json_object_get(rope, "type"));
	if (type == NULL || strcmp(type, "default") == 0)
		return EXIT_OK;
	if (strcmp(type, "linear") == 0)
		return read_number(r, rope, "factor", divisor);
	if (strcmp(type, "llama3") == 0)
		options->scaling = MXFP_ROTARY_LLAMA3;
	else if (strcmp(type, "yarn") == 0)
		options->scaling = MXFP_ROTARY_YARN;
	else
		return fail_rope(r, "its rope_type is not default, linear, llama3 or yarn, which are known");
	return EXIT_OK;
}

/* Computes frequencies and attention_factor. */
static int read_rope(const struct reader *r)
{
	struct shape *s = r->shape;
	const char *name;
	const json_t *rope = find_rope(r, &name);
	struct mxfp_frequency_options o = {.size = sizeof o, .base = usual_theta};
	double positions = (double)s->positions, share = 1, divisor = 1, given_factor = 0, times = 1, local = 0;
	const struct {
		const json_t *object;
		const char *field;
		double *number;
	} numbers[] = {
		{r->config, "rope_theta", &o.base},
		{rope, "rope_theta", &o.base},
		{r->config, "partial_rotary_factor", &share},
		{rope, "partial_rotary_factor", &share},
		{rope, "factor", &o.factor},
		{rope, "original_max_position_embeddings", &positions},
		{r->config, "original_max_position_embeddings", &positions},
		{rope, "low_freq_factor", &o.low_freq_factor},
		{rope, "high_freq_factor", &o.high_freq_factor},
		{rope, "beta_fast", &o.beta_fast},
		{rope, "beta_slow", &o.beta_slow},
		{rope, "mscale", &o.mscale},
		{rope, "mscale_all_dim", &o.mscale_all_dim},
		{rope, "attention_factor", &given_factor},
		{r->config, SHAPE_TIMES_ATTENTION, &times},
		{r->config, "rope_local_base_freq", &local},
	};
	int code = s->gguf ? EXIT_OK : check_rope(r, name, rope);

	if (code == EXIT_OK)
		code = read_rope_kind(r, rope, &o, &divisor);

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && code == EXIT_OK; i++)
		code = read_number(r, numbers[i].object, numbers[i].field, numbers[i].number);
	if (code != EXIT_OK)
		return code;
	if (o.scaling != MXFP_ROTARY_UNSCALED && !(positions >= 1 && positions <= UINT32_MAX))
		return fail_rope(r, "has no original_max_position_embeddings");
	if (!(divisor > 0))
		return fail_rope(r, "its factor is not above 0");
	if (share != 1)
		return fail_field(r, "partial_rotary_factor", "is not 1, and heads of this family rotate whole in transformers");
	if (local != 0 && local != o.base)
		return fail_field(r, "rope_local_base_freq", "is not that of other layers (rope_theta), as it is in the models that "
		                  "run here");
	if (o.scaling != MXFP_ROTARY_UNSCALED)
		o.original_positions = (uint32_t)positions;
	o.no_truncate = json_is_false(json_object_get(rope, "truncate"));
	s->rope = (struct shape_rope){o.scaling, o.base, divisor, o.factor, positions, o.low_freq_factor, o.high_freq_factor,
	                              o.beta_fast, o.beta_slow, o.no_truncate};
	if (s->rotary_cols == 0)
		s->rotary_cols = s->head_cols;
	if (s->rotary_cols % 2 != 0 || s->rotary_cols == 0 || s->rotary_cols > s->head_cols)
		return fail_field(r, "head_dim", "the part of a head that rotates is not an even number of its columns");
	s->frequencies = malloc(s->rotary_cols / 2 * sizeof *s->frequencies);
	if (s->frequencies == NULL)
		return fail_memory(r->error);
	if (mxfp_rotary_frequencies(s->frequencies, &s->attention_factor, s->rotary_cols, &o) != MXFP_OK)
		return fail_rope(r, "rope_theta, or a number of its scaling, is out of range");
	for (size_t i = 0; i < s->rotary_cols / 2; i++)
		s->frequencies[i] = (float)((double)s->frequencies[i] / divisor);
	if (given_factor > 0)
		s->attention_factor = (float)given_factor;
	if (s->gguf)
		s->attention_factor = (float)((double)s->attention_factor * times);
	return EXIT_OK;
}

static int read_config(const struct reader *r)
{
	struct shape *s = r->shape;
	double limit = 7, alpha = usual_alpha; /* of gpt-oss */
	int code = find_architecture(r);

	if (code == EXIT_OK)
		code = check_unknown(r);
	if (code == EXIT_OK)
		code = set_defaults(r);
	if (code == EXIT_OK)
		code = set_rope_default(r);
	if (code == EXIT_OK)
		code = check_kind(r);
	if (code == EXIT_OK)
		code = read_sizes(r);
	if (code == EXIT_OK)
		code = check_sizes(r);
	if (code != EXIT_OK)
		return code;
	s->windows = calloc(s->layers, sizeof *s->windows);
	s->routed = calloc(s->layers, sizeof *s->routed);
	if (s->windows == NULL || s->routed == NULL)
		return fail_memory(r->error);
	s->epsilon = usual_epsilon;
	s->tied = s->gguf || json_is_true(find(r, "tie_word_embeddings"));
	s->interleaved = s->gguf && (s->architecture->has & ARCHITECTURE_HALVES) == 0;
	read_biases(r);
	if (s->gguf && find(r, "rms_norm_eps") == NULL)
		return fail_field(r, "rms_norm_eps", "is absent, and a model needs it");
	code = read_number(r, r->config, "rms_norm_eps", &s->epsilon);
	if (code == EXIT_OK)
		code = read_number(r, r->config, "swiglu_limit", &limit);
	if (code == EXIT_OK)
		code = read_number(r, r->config, "swiglu_alpha", &alpha);
	if (code == EXIT_OK && alpha != usual_alpha)
		code = fail_field(r, "swiglu_alpha", "is not 1.702");
	if (code == EXIT_OK && !(s->epsilon >= 0 && s->epsilon <= 1))
		code = fail_field(r, "rms_norm_eps", "is not from 0 to 1");
	if (code == EXIT_OK && !(limit >= 0 && limit <= 1e30))
		code = fail_field(r, "swiglu_limit", "is negative or too large");
	s->clamp = (float)limit;
	if (code == EXIT_OK)
		code = read_windows(r);
	if (code == EXIT_OK)
		code = read_routed(r);
	return code == EXIT_OK ? read_rope(r) : code;
}

/* Most GGUF files say how many tokens there are by their embedding alone. */
static void find_vocabulary(struct shape *s, const struct model *model)
{
	const struct file *file;
	const struct tensor *embedding = s->vocabulary == 0 && s->gguf ? model_find(model, "token_embd.weight", &file) : NULL;

	if (embedding != NULL && embedding->rank == 2 && embedding->shape[0] <= SIZE_MOST)
		s->vocabulary = (size_t)embedding->shape[0];
}

int shape_read(struct shape *shape, const struct model *model, struct error *error)
{
	const bool gguf = model->n_files > 0 && model->files[0].format == &file_gguf;
	json_t *config = NULL;
	int code;

	*shape = (struct shape){.path = gguf ? model->files[0].path : model->path, .gguf = gguf};
	code = gguf ? shape_gguf_config(&config, &model->files[0], error) : model_config_copy(model, &config, error);
	if (code != EXIT_OK)
		return code;
	if (!json_is_object(config) || (!gguf && json_object_size(config) == 0)) {
		json_decref(config);
		return fail(error, EXIT_INPUT, "%s: has no " CONFIG_FILE ", which says how the model runs; give the model's "
		            "directory", model->path);
	}
	const struct reader r = {
		.shape = shape,
		.config = config,
		.architecture = json_string_value(json_object_get(config, "model_type")),
		.error = error,
	};
	code = read_config(&r);
	find_vocabulary(shape, model);
	json_decref(config);
	return code;
}

void shape_free(struct shape *shape)
{
	free(shape->routed);
	free(shape->windows);
	free(shape->frequencies);
	*shape = (struct shape){0};
}
