/* SPDX-License-Identifier: MIT */
/* A GGUF file's sizes under the names that they have in config.json. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "eval/shape.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "io/json.h"

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

static int add_natural(struct conversion *c, json_t *object, const char *key, const char *field)
{
	char full[KEY_BYTES];
	uint64_t value;
	bool found;

	snprintf(full, sizeof full, "%.64s.%s", c->architecture, key);
	int code = gguf_find_u64(c->file, full, &value, &found, c->error);
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
	if (code != EXIT_OK || !found || strcmp(type, "none") == 0)
		return code;
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
		code = add_real(c, scaling, "rope.scaling.factor", "factor");
	if (code == EXIT_OK)
		code = add_natural(c, scaling, "rope.scaling.original_context_length", "original_max_position_embeddings");
	if (code == EXIT_OK)
		code = add_real(c, scaling, "rope.scaling.yarn_beta_fast", "beta_fast");
	return code == EXIT_OK ? add_real(c, scaling, "rope.scaling.yarn_beta_slow", "beta_slow") : code;
}

static int convert(struct conversion *c)
{
	int code = EXIT_OK;

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
