/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "engine/decoder.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "engine/route.h"
#include "io/directory.h"
#include "io/file.h"
#include "io/json.h"
#include "io/member.h"

static const struct decoder presets[] = {
#define PRESET(...) {__VA_ARGS__},
#include "engine/preset.def"
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

/* A config.json being read. Models that are more than their language model have its sizes in text_config. */
struct config {
	const char *path;
	const json_t *text, *whole;
};

#define NOT_GIVEN UINT64_MAX

size_t decoder_presets(const char *names[DECODER_PRESETS_MAX])
{
	for (size_t i = 0; i < N_PRESETS; i++)
		names[i] = presets[i].name;
	return N_PRESETS;
}

/* Sets a size to the first of the keys that is there and not null, or leaves it; the list of keys ends with NULL. */
static int read_size(const struct config *c, uint64_t *size, const char *const *keys, struct error *error)
{
	for (; *keys != NULL; keys++) {
		const json_t *value = json_object_get(c->text, *keys);
		const json_int_t n = json_integer_value(value);

		if (value == NULL || json_is_null(value))
			continue;
		if (!json_is_integer(value) || n < 0 || n > DECODER_SIZE_MAX)
			return fail(error, EXIT_INPUT, "%s: %s is not a whole number from 0 to %d", c->path, *keys,
			            (int)DECODER_SIZE_MAX);
		*size = (uint64_t)n;
		return EXIT_OK;
	}
	return EXIT_OK;
}

static int require(const struct config *c, const char *key, uint64_t size, struct error *error)
{
	return size != 0 ? EXIT_OK : fail(error, EXIT_INPUT, "%s: has no %s, which a decoder layer needs", c->path, key);
}

static int read_sizes(struct decoder *d, const struct config *c, struct error *error)
{
	uint64_t shared = 0, shared_intermediate = 0;
	const struct {
		uint64_t *size;
		const char *keys[5];
	} sizes[] = {
		{&d->hidden, {"hidden_size"}},
		{&d->heads, {"num_attention_heads"}},
		{&d->kv_heads, {"num_key_value_heads"}},
		{&d->head_dim, {"head_dim"}},
		{&d->intermediate, {"intermediate_size"}},
		{&d->experts, {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}},
		{&d->experts_per_token, {"num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk"}},
		{&d->expert_intermediate, {"moe_intermediate_size"}},
		{&shared, {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}},
		{&shared_intermediate, {"shared_expert_intermediate_size", "shared_intermediate_size"}},
		{&d->layers, {"num_hidden_layers"}},
		{&d->window, {"sliding_window"}},
		{&d->dense_first, {"first_k_dense_replace", "moe_layer_start_index"}},
	};
	int code = EXIT_OK;

	d->dense_first = NOT_GIVEN;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && code == EXIT_OK; i++)
		code = read_size(c, sizes[i].size, sizes[i].keys, error);
	if (code == EXIT_OK && d->experts != 0) {
		if (d->expert_intermediate == 0)
			d->expert_intermediate = d->intermediate;
		d->intermediate = shared_intermediate != 0 ? shared_intermediate : shared * d->expert_intermediate;
	}
	if (d->kv_heads == 0)
		d->kv_heads = d->heads;
	if (d->head_dim == 0 && d->heads != 0)
		d->head_dim = d->hidden / d->heads;
	return code;
}

/* What a type's layers are, by family.def: `has` is NULL if they are those that are modelled. */
struct family {
	const char *pattern, *has;
	uint64_t full, dense;
};

static const struct family families[] = {
#define PLAIN(type, full, dense) {type, NULL, full, dense},
#define OTHER(pattern, has) {pattern, has, 0, 0},
#include "engine/family.def"
};

/* Keys of config.json that say, in whatever family, that layers have something else, unless they are null, false, 0, empty or a
   list of 1. */
static const struct {
	const char *pattern, *has;
} other_keys[] = {
	{"kv_lora_rank", "attention with compressed keys and values"},
	{"q_lora_rank", "attention with compressed queries"},
	{"full_attention_interval", "linear attention"},
	{"linear_*", "linear attention"},
	{"attn_type_list", "linear attention"},
	{"mamba_*", "Mamba layers"},
	{"ssm_*", "Mamba layers"},
	{"hybrid_*", "layers of several kinds"},
	{"*block_type*", "layers of several kinds"},
	{"attn_layer_*", "layers of several kinds"},
	{"conv_*", "convolutions"},
	{"lru_*", "recurrent layers"},
	{"index_*", "attention to chosen keys"},
	{"attn_output_gate", "a gate of attention's outputs"},
	{"v_head_dim", "values of another size than keys"},
	{"use_parallel_residual", "attention and feed-forward part side by side"},
	{"parallel_attn", "attention and feed-forward part side by side"},
	{"mlp_only_layers", "experts in some of its layers"},
};

/* Whether that is a list of the number 1 alone, which attn_type_list of MiniMax has for attention that is not linear. */
static bool is_ones(const json_t *value)
{
	size_t i = 0;

	while (i < json_array_size(value) && json_integer_value(json_array_get(value, i)) == 1)
		i++;
	return json_is_array(value) && i == json_array_size(value);
}

static bool is_nothing(const json_t *value)
{
	return value == NULL || json_is_null(value) || json_is_false(value) ||
	       (json_is_number(value) && json_number_value(value) == 0) ||
	       is_ones(value) ||
	       (json_is_object(value) && json_object_size(value) == 0);
}

/* Refuses keys that say that layers are of another kind. */
static int check_keys(const struct config *c, struct error *error)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)c->text, key, value)
		for (size_t i = 0; i < sizeof other_keys / sizeof other_keys[0]; i++)
			if (fnmatch(other_keys[i].pattern, key, 0) == 0 && !is_nothing(value))
				return fail(error, EXIT_INPUT, "%s: %s: %s: not modelled; --model times its products alone", c->path, key,
				            other_keys[i].has);
	return EXIT_OK;
}

/* Finds what the layers of the model are, and refuses those of another kind. A config.json without model_type is taken by its
   sizes. */
static int find_family(struct family *family, const struct config *c, struct error *error)
{
	const char *type = json_string_value(json_object_get(c->text, "model_type"));
	size_t i = 0;

	if (type == NULL)
		type = json_string_value(json_object_get(c->whole, "model_type"));
	*family = (struct family){.pattern = type};
	while (type != NULL && i < sizeof families / sizeof families[0] && fnmatch(families[i].pattern, type, 0) != 0)
		i++;
	if (type != NULL && i == sizeof families / sizeof families[0])
		return fail(error, EXIT_INPUT, "%s: model_type %.100s: its layers are not known here; a copy without model_type is taken "
		            "by its sizes, and --model times its products alone", c->path, type);
	if (type != NULL)
		*family = families[i];
	if (family->has != NULL)
		return fail(error, EXIT_INPUT, "%s: model_type %.100s: %s: not modelled; --model times its products alone", c->path, type,
		            family->has);
	return check_keys(c, error);
}

/* Counts the layers with a window: those that layer_types names; without it, all but every n-th by
   sliding_window_pattern or the family, those behind max_window_layers, none by use_sliding_window, else all. */
static int count_windowed(struct decoder *d, const struct family *family, const struct config *c, struct error *error)
{
	const json_t *types = json_object_get(c->text, "layer_types"), *use = json_object_get(c->text, "use_sliding_window");
	const json_t *given = json_object_get(c->text, "sliding_window_pattern");
	const json_int_t behind = json_integer_value(json_object_get(c->text, "max_window_layers"));
	const uint64_t full = json_is_integer(given) && json_integer_value(given) > 0 ? (uint64_t)json_integer_value(given) : family->full;

	if (!json_is_array(types) && d->window != 0 && !is_nothing(given) && !json_is_integer(given))
		return fail(error, EXIT_INPUT, "%s: sliding_window_pattern is not a whole number, and there are no layer_types", c->path);
	for (size_t i = 0; i < json_array_size(types); i++) {
		const char *type = json_string_value(json_array_get(types, i));

		if (type != NULL && strcmp(type, "sliding_attention") == 0)
			d->windowed++;
		else if (type == NULL || strcmp(type, "full_attention") != 0)
			return fail(error, EXIT_INPUT, "%s: layer_types: layer %zu has neither full_attention nor sliding_attention; "
			            "no other is modelled", c->path, i);
	}
	if (json_is_array(types) && d->layers == 0)
		d->layers = json_array_size(types);
	if (!json_is_array(types) && !json_is_false(use))
		d->windowed = full > 0 ? d->layers - d->layers / full : d->layers;
	if (!json_is_array(types) && json_is_true(use) && behind > 0)
		d->windowed = (uint64_t)behind < d->layers ? d->layers - (uint64_t)behind : 0;
	if (d->window == 0 || d->windowed == 0)
		d->window = d->windowed = 0;
	if (d->windowed > d->layers)
		return fail(error, EXIT_INPUT, "%s: layer_types has more layers than num_hidden_layers", c->path);
	return EXIT_OK;
}

/* Counts the layers without experts, which come first: those of mlp_layer_types, of a key that counts them, or of the family. */
static int count_dense(struct decoder *d, const struct family *family, const struct config *c, struct error *error)
{
	static const char *const steps[] = {"decoder_sparse_step", "moe_layer_freq", "moe_layer_interval"};
	const json_t *types = json_object_get(c->text, "mlp_layer_types");
	const json_int_t end = json_integer_value(json_object_get(c->text, "moe_layer_end_index"));
	bool sparse = false;

	if (d->experts == 0) {
		d->dense_first = 0;
		return EXIT_OK;
	}
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		const json_t *step = json_object_get(c->text, steps[i]);

		if (!is_nothing(step) && json_integer_value(step) != 1)
			return fail(error, EXIT_INPUT, "%s: %s: experts in some of its layers: not modelled; --model times its products "
			            "alone", c->path, steps[i]);
	}
	if (end > 0 && (uint64_t)end + 1 < d->layers)
		return fail(error, EXIT_INPUT, "%s: moe_layer_end_index: experts in some of its layers: not modelled; --model times its "
		            "products alone", c->path);
	if (d->dense_first == NOT_GIVEN)
		d->dense_first = family->dense;
	if (!json_is_array(types))
		return EXIT_OK;
	d->dense_first = 0;
	for (size_t i = 0; i < json_array_size(types); i++) {
		const char *type = json_string_value(json_array_get(types, i));
		const bool dense = type != NULL && strcmp(type, "dense") == 0;

		if (!dense && (type == NULL || strcmp(type, "sparse") != 0))
			return fail(error, EXIT_INPUT, "%s: mlp_layer_types: layer %zu is neither dense nor sparse", c->path, i);
		if (dense && sparse)
			return fail(error, EXIT_INPUT, "%s: mlp_layer_types: layer %zu is dense behind one with experts: not modelled; "
			            "--model times its products alone", c->path, i);
		sparse |= !dense;
		d->dense_first += dense;
	}
	return EXIT_OK;
}

static int check_sizes(const struct decoder *d, const struct config *c, struct error *error)
{
	int code = require(c, "hidden_size", d->hidden, error);

	if (code == EXIT_OK)
		code = require(c, "num_attention_heads", d->heads, error);
	if (code == EXIT_OK)
		code = require(c, "head_dim", d->head_dim, error);
	if (code == EXIT_OK && d->experts == 0)
		code = require(c, "intermediate_size", d->intermediate, error);
	if (code == EXIT_OK && d->experts != 0)
		code = require(c, "num_experts_per_tok", d->experts_per_token, error);
	if (code == EXIT_OK && d->experts != 0)
		code = require(c, "moe_intermediate_size", d->expert_intermediate, error);
	if (code == EXIT_OK && d->heads % d->kv_heads != 0)
		code = fail(error, EXIT_INPUT, "%s: num_attention_heads %llu is not a multiple of num_key_value_heads %llu", c->path,
		            (unsigned long long)d->heads, (unsigned long long)d->kv_heads);
	if (code == EXIT_OK && (d->heads * d->head_dim > DECODER_SIZE_MAX || d->intermediate > DECODER_SIZE_MAX))
		code = fail(error, EXIT_INPUT, "%s: num_attention_heads * head_dim, or the width of shared experts, is above %d",
		            c->path, (int)DECODER_SIZE_MAX);
	if (code == EXIT_OK && (d->experts > EXPERTS_MAX || d->experts_per_token > d->experts))
		code = fail(error, EXIT_INPUT, "%s: %llu of %llu experts per token cannot be, or are more than %d", c->path,
		            (unsigned long long)d->experts_per_token, (unsigned long long)d->experts, (int)EXPERTS_MAX);
	return code;
}

static int read_config(struct decoder *d, const json_t *json, const char *path, struct error *error)
{
	const json_t *nested = json_object_get(json, "text_config");
	const struct config c = {.path = path, .text = json_is_object(nested) ? nested : json, .whole = json};
	struct family family;
	int code = EXIT_OK;

	if (!json_is_object(json))
		return fail(error, EXIT_INPUT, "%s: is not a JSON object", path);
	code = find_family(&family, &c, error);
	if (code == EXIT_OK)
		code = read_sizes(d, &c, error);
	if (code == EXIT_OK)
		code = count_windowed(d, &family, &c, error);
	if (code == EXIT_OK)
		code = count_dense(d, &family, &c, error);
	return code == EXIT_OK ? check_sizes(d, &c, error) : code;
}

static int read_path(struct decoder *d, const char *name, struct error *error)
{
	struct stat status;
	const bool directory = stat(name, &status) == 0 && S_ISDIR(status.st_mode);
	const size_t n = strlen(name) + sizeof "/" CONFIG_FILE;
	char *path = malloc(n);
	json_t *json = NULL;

	if (path == NULL)
		return fail_memory(error);
	if (file_format_named(name) != NULL && !directory && access(name, F_OK) == 0) {
		free(path);
		return fail(error, EXIT_INPUT, "%s: has weights, and --layer takes a config.json, or the directory with one", name);
	}
	snprintf(path, n, "%s%s", name, directory ? "/" CONFIG_FILE : "");
	int code = json_read_python(directory ? member_open : descriptor_open, path, CONFIG_BYTES_MAX, &json, error);
	if (code == EXIT_OK)
		code = read_config(d, json, path, error);
	json_decref(json);
	free(path);
	return code;
}

int decoder_find(struct decoder *d, const char *name, struct error *error)
{
	const char *names[DECODER_PRESETS_MAX];
	struct stat status;

	for (size_t i = 0; i < N_PRESETS; i++)
		if (strcmp(presets[i].name, name) == 0) {
			*d = presets[i];
			return EXIT_OK;
		}
	if (strpbrk(name, "/.") == NULL && stat(name, &status) != 0)
		return nearest_fail("engine: --layer", name, "known, beside paths of a config.json", names,
		                    decoder_presets(names), error);
	*d = (struct decoder){.name = name};
	return read_path(d, name, error);
}
