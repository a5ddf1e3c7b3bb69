/* SPDX-License-Identifier: MIT */
/* A GGUF file's sizes under the names that they have in config.json. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/shape.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "io/json.h"
#include "model/allow.h"
#include "model/gguf_name.h"

enum { KEY_BYTES = 128 };

enum kind { NATURAL, REAL };

static const struct {
	enum kind kind;
	const char *key, *field;
} keys[] = {
#define GGUF_KEY(kind, key, field) {kind, key, field},
#include "eval/gguf_key.def"
};

enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* Values that a key may have without a change to what is computed. */
static const struct {
	const char *architecture, *key, *values;
} same[] = {
#define GGUF_SAME(architecture, key, values) {architecture, key, values},
#include "eval/gguf_key.def"
};

static const char *const tells[] = {
#define GGUF_TELLS(key) key,
#include "eval/gguf_key.def"
};

enum { N_SAME = sizeof same / sizeof same[0], N_TELLS = sizeof tells / sizeof tells[0] };

const char *shape_gguf_field(const char *field, const char *architecture, char text[SHAPE_FIELD_TEXT])
{
	if (strcmp(field, "model_type") == 0)
		field = "general.architecture";
	snprintf(text, SHAPE_FIELD_TEXT, "%s", field);
	for (size_t i = 0; i < N_KEYS; i++)
		if (strcmp(keys[i].field, field) == 0)
			snprintf(text, SHAPE_FIELD_TEXT, "%.64s.%s", architecture != NULL ? architecture : "?", keys[i].key);
	return text;
}

/* A file whose metadata become a configuration. */
struct conversion {
	const struct file *file;
	const char *architecture;
	json_t *config;
	struct error *error;
};

/* Reads an array whose elements are all the same number; one for each layer, as llama.cpp has it. */
static int find_equal(const struct conversion *c, const char *key, uint64_t *value, bool *found)
{
	uint64_t *values = NULL;
	size_t n = 0;
	int code = gguf_find_u64s(c->file, key, &values, &n, found, c->error);

	for (size_t i = 0; code == EXIT_OK && *found && i < n; i++)
		if (values[i] != values[0])
			code = fail(c->error, EXIT_INPUT, "%s: %s: is not the same for every layer, which no model that runs here has",
			            c->file->path, key);
	if (code == EXIT_OK && *found && n == 0)
		code = fail(c->error, EXIT_INPUT, "%s: %s: is an array without elements", c->file->path, key);
	if (code == EXIT_OK && *found)
		*value = values[0];
	free(values);
	return code;
}

static int add_natural(struct conversion *c, json_t *object, const char *key, const char *field)
{
	char full[KEY_BYTES];
	uint64_t value = 0;
	bool found;

	snprintf(full, sizeof full, "%.64s.%s", c->architecture, key);
	int code = gguf_is_array(c->file, full) ? find_equal(c, full, &value, &found)
	                                        : gguf_find_u64(c->file, full, &value, &found, c->error);
	if (code == EXIT_OK && found && value > INT64_MAX)
		code = fail(c->error, EXIT_INPUT, "%s: %s: is out of range", c->file->path, full);
	if (code == EXIT_OK && found && json_object_set_new(object, field, json_integer((json_int_t)value)) != 0)
		code = fail_memory(c->error);
	return code;
}

static int add_real(struct conversion *c, json_t *object, const char *key, const char *field)
{
	char full[KEY_BYTES];
	double value;
	bool found;

	snprintf(full, sizeof full, "%.64s.%s", c->architecture, key);
	int code = gguf_find_float(c->file, full, &value, &found, c->error);
	if (code == EXIT_OK && found && json_object_set_new(object, field, json_real(value)) != 0)
		code = fail(c->error, EXIT_INPUT, "%s: %s: is NaN or Inf", c->file->path, full);
	return code;
}

/* Adds what frequencies are divided by; 0, or no key, is 1. Older files have it under the second name. */
static int add_factor(struct conversion *c, json_t *scaling)
{
	int code = add_real(c, scaling, "rope.scaling.factor", "factor");

	if (code == EXIT_OK && json_object_get(scaling, "factor") == NULL)
		code = add_real(c, scaling, "rope.scale_linear", "factor");
	if (code == EXIT_OK && !(json_number_value(json_object_get(scaling, "factor")) != 0) &&
	    json_object_set_new(scaling, "factor", json_real(1)) != 0)
		code = fail_memory(c->error);
	return code;
}

/* Adds rope_scaling. That of gpt-oss does not round the ends of its ramp, for which older files have no key. */
static int add_scaling(struct conversion *c)
{
	static const char type_key[] = "rope.scaling.type";
	char full[KEY_BYTES];
	const char *type;
	json_t *scaling;
	bool found, truncate = false;

	snprintf(full, sizeof full, "%.64s.%s", c->architecture, type_key);
	int code = gguf_find_string(c->file, full, &type, &found, c->error);
	if (code == EXIT_OK)
		code = add_real(c, c->config, "rope.scaling.attn_factor", SHAPE_TIMES_ATTENTION);
	if (code != EXIT_OK || (found && strcmp(type, "none") == 0))
		return code;
	if (!found)
		type = "linear"; /* so llama.cpp takes a file that does not say */
	scaling = json_pack("{s:s}", "rope_type", type);
	if (scaling == NULL || json_object_set_new(c->config, "rope_scaling", scaling) != 0)
		return fail_memory(c->error);
	snprintf(full, sizeof full, "%.64s.rope.scaling.yarn_truncate", c->architecture);
	code = gguf_find_bool(c->file, full, &truncate, &found, c->error);
	if (code == EXIT_OK && !found)
		truncate = strcmp(c->architecture, "gpt-oss") != 0;
	if (code == EXIT_OK && json_object_set_new(scaling, "truncate", json_boolean(truncate)) != 0)
		return fail_memory(c->error);
	if (code == EXIT_OK)
		code = add_factor(c, scaling);
	if (code == EXIT_OK)
		code = add_natural(c, scaling, "rope.scaling.original_context_length", "original_max_position_embeddings");
	if (code == EXIT_OK)
		code = add_real(c, scaling, "rope.scaling.yarn_beta_fast", "beta_fast");
	return code == EXIT_OK ? add_real(c, scaling, "rope.scaling.yarn_beta_slow", "beta_slow") : code;
}

/* The values of the row for a key, or NULL. */
static const char *same_values(const char *architecture, const char *key)
{
	const char *values = NULL;

	for (size_t i = 0; i < N_SAME; i++)
		if (strcmp(same[i].key, key) == 0 &&
		    (strcmp(same[i].architecture, architecture) == 0 || (values == NULL && same[i].architecture[0] == '\0')))
			values = same[i].values;
	return values;
}

/* Whether a value, as text, is one of those in `values`: numbers as such, so that 1.0 is 1. */
static bool is_one_of(const char *value, const char *values)
{
	char *end, *end_of_value;
	const double number = strtod(value, &end_of_value);
	const bool is_number = end_of_value != value && *end_of_value == '\0';

	for (const char *word = values; *word != '\0'; word += strcspn(word, " "), word += strspn(word, " ")) {
		const size_t n = strcspn(word, " ");
		const double other = strtod(word, &end);

		if (is_number && end == word + n ? number == other : strlen(value) == n && strncmp(value, word, n) == 0)
			return true;
	}
	return false;
}

static bool is_told(const char *key)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (strcmp(keys[i].key, key) == 0)
			return true;
	for (size_t i = 0; i < N_TELLS; i++)
		if (strcmp(tells[i], key) == 0)
			return true;
	return false;
}

/* Refuses a key of the architecture that is not known, or whose value would change what is computed. */
static int check_key(const struct conversion *c, const char *full)
{
	const size_t n = strlen(c->architecture);
	const char *value = file_metadata(c->file, full), *values;

	if (strncmp(full, c->architecture, n) != 0 || full[n] != '.' || is_told(full + n + 1) || allowed_unknown(full))
		return EXIT_OK;
	values = same_values(c->architecture, full + n + 1);
	if (values != NULL && value != NULL && is_one_of(value, values))
		return EXIT_OK;
	return fail(c->error, EXIT_INPUT, "%s: %.100s: is %.40s, %s; --allow-unknown %.100s runs the model without it",
	            c->file->path, full, value != NULL ? value : "an array",
	            values != NULL ? "which changes what the model computes and is not known here" :
	            "and what this key of the architecture means is not known here", full);
}

static int check_type(const struct conversion *c)
{
	const char *type = gguf_holds(c->file);

	return strcmp(type, "model") == 0 || allowed_unknown("general.type") ? EXIT_OK :
	       fail(c->error, EXIT_INPUT, "%s: general.type: is '%.40s', so the file is not a language model that runs by itself; "
	            "give the model", c->file->path, type);
}

static int convert(struct conversion *c)
{
	int code = check_type(c);
	const char *key;

	for (size_t i = 0; code == EXIT_OK && (key = gguf_key(c->file, i)) != NULL; i++)
		code = check_key(c, key);
	for (size_t i = 0; i < N_KEYS && code == EXIT_OK; i++)
		code = keys[i].kind == NATURAL ? add_natural(c, c->config, keys[i].key, keys[i].field)
		                               : add_real(c, c->config, keys[i].key, keys[i].field);
	if (code == EXIT_OK)
		code = add_scaling(c);
	/* llama.cpp builds Qwen3's experts so, whatever the file says. */
	if (code == EXIT_OK && strcmp(c->architecture, "qwen3moe") == 0 &&
	    json_object_set_new(c->config, "norm_topk_prob", json_true()) != 0)
		code = fail_memory(c->error);
	return code;
}

int shape_gguf_config(json_t **config, const struct file *file, struct error *error)
{
	struct conversion c = {.file = file, .error = error};
	bool found;

	json_prepare();
	*config = NULL;
	int code = gguf_find_string(file, "general.architecture", &c.architecture, &found, error);
	if (code == EXIT_OK && !found)
		code = fail(error, EXIT_INPUT, "%s: has no general.architecture, which says how the model runs", file->path);
	if (code != EXIT_OK)
		return code;
	c.config = json_pack("{s:s}", "model_type", c.architecture);
	code = c.config != NULL ? convert(&c) : fail_memory(error);
	if (code == EXIT_OK && json_out_of_memory())
		code = fail_memory(error);
	if (code != EXIT_OK)
		json_decref(c.config);
	else
		*config = c.config;
	return code;
}
