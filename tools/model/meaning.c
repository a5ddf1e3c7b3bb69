/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/meaning.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/suffix.h"
#include "io/directory.h"
#include "io/file_safetensors.h"
#include "io/json.h"
#include "io/member.h"
#include "model/allow.h"
#include "model/foreign.h"
#include "model/layout_config.h"
#include "model/quantized.h"
#include "model/scaled.h"
#include "model/section.h"

enum reading { METHOD_READ, METHOD_NAMED };

/* The values of quant_method. */
static const struct method {
	const char *name;
	enum reading reading;
	const char *what; /* whose keys it has, or what its tensors are */
} methods[] = {
#define METHOD(name, reading, what) {name, METHOD_##reading, what},
#include "model/meaning.def"
};

enum key_kind { KEY_SECTION, KEY_DESCRIBES, KEY_VALUES, KEY_FORMS, KEY_ABSENT, KEY_MODULES };

static const struct key {
	const char *method, *path;
	enum key_kind kind;
	const char *text;
} keys[] = {
#define KEY(method, path, kind, text) {method, path, KEY_##kind, text},
#include "model/meaning.def"
};

enum side_kind { SIDE_PART, SIDE_SCALES, SIDE_SCALE, SIDE_CARRIED, SIDE_FOLDED, SIDE_REFUSED };

static const struct side {
	const char *name;
	enum side_kind kind;
	const char *what;
} sides[] = {
#define SIDE(name, kind, what) {name, SIDE_##kind, what},
#include "model/meaning.def"
};

enum { N_METHODS = sizeof methods / sizeof methods[0], N_KEYS = sizeof keys / sizeof keys[0],
       N_SIDES = sizeof sides / sizeof sides[0], TEXT = 512, KEY_TEXT = 512, VALUE_TEXT = 64, NAME_TEXT = 1024 };

static bool is_there(const struct model *model, const char *name, size_t n, const char *end, bool codes);

static const char remedy[] = "give the model that it was made from";

/* Going through the facts of a model. */
struct listing {
	const struct model *model;
	meaning_reader *reader;
	void *context;
	struct error *error;
	bool plain;        /* no tensor can be quantized */
	uint32_t formats;  /* stated by its configuration, as bits 1 << format; 0: none */
	bool any_format;   /* it says that weights are quantized, and not to what */
	struct owner *owners; /* by the addresses of tensors, each the last that was looked at; NULL: none are kept */
	size_t n_owners;      /* 2^n */
};

static int tell(const struct listing *l, const struct meaning_fact *fact)
{
	return l->reader(l->context, fact, l->error);
}

/* A section of keys: where it is, and whose keys it has. */
struct section {
	struct listing *listing;
	const char *path;    /* of its file */
	const char *name;    /* "quantization_config" */
	const char *method;  /* whose keys */
	bool second;         /* of a file beside config.json */
	char shown[KEY_TEXT]; /* the path of the key at hand; empty: the section */
};

static bool is_allowed(const char *path, const char *key)
{
	return allowed_unknown(path) || allowed_unknown(key);
}

static int tell_key(const struct section *s, enum meaning_kind kind, const char *text)
{
	const struct meaning_fact fact = {
		.kind = kind,
		.path = s->path,
		.key = s->shown[0] != '\0' ? s->shown : s->name,
		.text = text,
	};

	return tell(s->listing, &fact);
}

/* A value as --allow-unknown and the table have it. */
static const char *value_text(const json_t *value, char text[VALUE_TEXT])
{
	if (json_is_string(value))
		snprintf(text, VALUE_TEXT, "%s", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(text, VALUE_TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, VALUE_TEXT, "%g", json_real_value(value));
	else
		snprintf(text, VALUE_TEXT, "%s", json_is_true(value)     ? "true"
		                                 : json_is_false(value)  ? "false"
		                                 : json_is_null(value)   ? "null"
		                                 : json_is_array(value)  ? "a list"
		                                                         : "an object");
	return text;
}

static bool is_one_of(const char *values, const char *text)
{
	for (size_t n; *values != '\0'; values += n + (values[n] == '|')) {
		n = strcspn(values, "|");
		if (strlen(text) == n && strncasecmp(values, text, n) == 0)
			return true;
	}
	return false;
}

static bool is_form(const char *method, const char *text)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++)
			if (layouts[i]->method != NULL && strcmp(layouts[i]->method, method) == 0 &&
			    layouts[i]->forms[k].config_name != NULL && strcmp(layouts[i]->forms[k].config_name, text) == 0)
				return true;
	return false;
}

/* The row of a key of the objects at `parent`, a path of the table. */
static const struct key *find_key(const char *method, const char *parent, const char *key)
{
	const size_t n = strlen(parent);

	for (size_t i = 0; i < N_KEYS; i++) {
		const char *rest = keys[i].path;

		if (strcmp(keys[i].method, method) != 0 && strcmp(keys[i].method, "*") != 0)
			continue;
		if (n > 0 && (strncmp(rest, parent, n) != 0 || rest[n] != '.'))
			continue;
		rest += n > 0 ? n + 1 : 0;
		if (strchr(rest, '.') == NULL && (strcmp(rest, "*") == 0 || strcmp(rest, key) == 0))
			return &keys[i];
	}
	return NULL;
}

static int walk(struct section *s, const char *parent, const json_t *value);

/* Whether a key is true or false under the name of a module. */
static bool is_known_module(const struct section *s, const char *name, const json_t *value)
{
	const struct model *model = s->listing->model;
	const size_t n = strlen(name);

	for (size_t i = 0; i < model->n_tensors && json_is_boolean(value); i++)
		if (strncmp(model->by_name[i].tensor->name, name, n) == 0 && model->by_name[i].tensor->name[n] == '.')
			return true;
	return false;
}

/* One key whose path is shown. */
static int look_at_key(struct section *s, const struct key *row, const char *name, const json_t *value)
{
	char text[TEXT], is[VALUE_TEXT];

	value_text(value, is);
	if (row == NULL && is_allowed(s->shown, name))
		return EXIT_OK;
	if (row == NULL) {
		snprintf(text, sizeof text, "is not known, and could change what the numbers mean; --allow-unknown %.200s goes on "
		         "without it", s->shown);
		return tell_key(s, MEANING_UNKNOWN, text);
	}
	switch (row->kind) {
	case KEY_SECTION:
		return walk(s, row->path, value);
	case KEY_MODULES:
		return is_known_module(s, name, value) ? EXIT_OK : walk(s, row->path, value);
	case KEY_DESCRIBES:
		return EXIT_OK;
	case KEY_VALUES:
	case KEY_FORMS:
		if (is_one_of(row->text, is) || (row->kind == KEY_FORMS && is_form(s->method, is)))
			return EXIT_OK;
		snprintf(text, sizeof text, "is %s, which mxfp does not read; %s", is, remedy);
		return tell_key(s, MEANING_REFUSED, text);
	case KEY_ABSENT:
		if (section_is_empty(value))
			return EXIT_OK;
		snprintf(text, sizeof text, "is not done here: %s; %s", row->text, remedy);
		return tell_key(s, MEANING_REFUSED, text);
	}
	return EXIT_OK;
}

static int walk(struct section *s, const char *parent, const json_t *value)
{
	const size_t n = strlen(s->shown);
	const char *name;
	const json_t *member;
	int code = EXIT_OK;

	if (json_is_array(value)) {
		for (size_t i = 0; i < json_array_size(value) && code == EXIT_OK; i++)
			code = walk(s, parent, json_array_get(value, i));
		return code;
	}
	if (json_is_null(value))
		return EXIT_OK;
	if (!json_is_object(value))
		return tell_key(s, MEANING_REFUSED, "is not an object; mxfp does not know what it stands for");
	for (void *at = json_object_iter((json_t *)(uintptr_t)value); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)value, at)) {
		name = json_object_iter_key(at);
		member = json_object_iter_value(at);
		snprintf(s->shown + n, sizeof s->shown - n, "%s%s", n == 0 ? "" : ".", name);
		code = look_at_key(s, find_key(s->method, parent, name), name, member);
		s->shown[n] = '\0';
	}
	return code;
}

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < N_METHODS && name != NULL; i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

/* The method of a section that does not name one, as transformers and mlx-lm tell it; NULL: none. */
static const char *guess_method(const json_t *section)
{
	static const struct {
		const char *key, *method;
	} signs[] = {
		{"quant_algo", "modelopt"}, {"config_groups", "compressed-tensors"}, {"quantization", "modelopt"},
		{"global_quant_config", "quark"}, {"format", "compressed-tensors"}, {"load_in_4bit", "bitsandbytes"}, {"load_in_8bit", "bitsandbytes"},
		{"bits", "mlx"},
	};

	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
		if (json_object_get(section, signs[i].key) != NULL)
			return signs[i].method;
	return NULL;
}

const struct layout *meaning_layout(const json_t *section)
{
	const char *named = json_string_value(json_object_get(section, "quant_method"));
	const struct method *method = find_method(named != NULL ? named : guess_method(section));

	for (size_t i = 0; layouts[i] != NULL && method != NULL && method->reading == METHOD_READ; i++)
		if (layouts[i]->method != NULL && strcmp(layouts[i]->method, method->what) == 0)
			return layouts[i];
	return NULL;
}

/* Formats as bits. */

/* Of weights that are so many bits in groups. */
static uint32_t formats_of_groups(json_int_t bits, bool is_float, json_int_t length)
{
	uint32_t formats = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL; f++) {
		const struct mxfp_format_info *block = mxfp_format_get_info((enum mxfp_format)f);

		if (block->block_length <= 1 || (json_int_t)block->block_length != length)
			continue;
		const struct mxfp_format_info *element = mxfp_format_get_info(block->element);
		if ((json_int_t)element->bits == bits && (element->kind == MXFP_KIND_FIXED) == !is_float)
			formats |= UINT32_C(1) << f;
	}
	return formats;
}

static bool text_is(const json_t *value, const char *text)
{
	return json_is_string(value) && strcasecmp(json_string_value(value), text) == 0;
}

/* Of a name that a layout gives a form. */
static uint32_t formats_of_name(const char *method, const json_t *value)
{
	const char *name = json_string_value(value);
	uint32_t formats = 0;

	/* Of compressed-tensors, and of no layout here: scales that are numbers. */
	if (text_is(value, "float-quantized") || text_is(value, "naive-quantized"))
		formats = UINT32_C(1) << MXFP_FORMAT_E4M3;
	for (size_t i = 0; layouts[i] != NULL && name != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++)
			if (layouts[i]->method != NULL && strcmp(layouts[i]->method, method) == 0 &&
			    layouts[i]->forms[k].config_name != NULL && strcmp(layouts[i]->forms[k].config_name, name) == 0)
				formats |= UINT32_C(1) << layouts[i]->forms[k].format;
	return formats;
}

/* Of a length of groups; 0 if there is none, or no format has it. */
static uint32_t formats_of_length(const json_t *length)
{
	uint32_t formats = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL; f++) {
		const unsigned n = mxfp_format_get_info((enum mxfp_format)f)->block_length;

		if (n > 1 && json_integer_value(length) == (json_int_t)n)
			formats |= UINT32_C(1) << f;
	}
	return formats;
}

/* Of a strategy of compressed-tensors: with a scale of the whole tensor, or without. */
static uint32_t formats_of_strategy(const json_t *strategy)
{
	const bool whole = text_is(strategy, "tensor_group");
	uint32_t formats = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL && (whole || text_is(strategy, "group")); f++)
		if (mxfp_format_get_info((enum mxfp_format)f)->tensor_scale == whole)
			formats |= UINT32_C(1) << f;
	return formats;
}

/* Takes in what a key says besides the one named `beside`; either may say nothing, 0. They must have a format in common. */
static int narrow(struct section *s, uint32_t *formats, uint32_t stated, const char *group, const char *key, const char *beside)
{
	char text[TEXT], is[LAYOUT_FORMATS_TEXT], other[LAYOUT_FORMATS_TEXT];

	if (stated == 0 || *formats == 0 || (stated & *formats) != 0) {
		*formats = stated == 0 ? *formats : *formats == 0 ? stated : *formats & stated;
		return EXIT_OK;
	}
	snprintf(text, sizeof text, "is that of %.120s, and %s says %.120s; one of them belongs to another model",
	         layout_formats_text(stated, NULL, is), beside, layout_formats_text(*formats, NULL, other));
	snprintf(s->shown, sizeof s->shown, "%.200s%s", group, key);
	const int code = tell_key(s, MEANING_REFUSED, text);
	s->shown[0] = '\0';
	return code;
}

/* Bits and a length of groups that no format has. */
static int tell_groups(struct section *s, const char *group, const char *key, json_int_t bits, bool is_float, json_int_t length)
{
	char text[TEXT];

	snprintf(s->shown, sizeof s->shown, "%.200s%s", group, key);
	snprintf(text, sizeof text, "has %s of %" JSON_INTEGER_FORMAT " bits in groups of %" JSON_INTEGER_FORMAT ", which "
	         "is not a format that mxfp reads; %s", is_float ? "floats" : "integers", bits, length, remedy);
	const int code = tell_key(s, MEANING_REFUSED, text);
	s->shown[0] = '\0';
	return code;
}

/* Whether scales of weights of a group are numbers, and not those of blocks. */
static bool has_numbers(const json_t *weights)
{
	static const char *const strategies[] = {"tensor", "channel", "block"};
	bool has = false;

	for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
		has |= text_is(json_object_get(weights, "strategy"), strategies[i]);
	return has;
}

static int tell_of_group(struct section *s, const char *group, const char *key, const char *text)
{
	snprintf(s->shown, sizeof s->shown, "%.200s%s", group, key);
	const int code = tell_key(s, MEANING_REFUSED, text);
	s->shown[0] = '\0';
	return code;
}

/* Of one group of compressed-tensors. Keys that are missing have the defaults of QuantizationArgs. */
static int formats_of_config_group(struct section *s, const char *name, const json_t *group, uint32_t *formats)
{
	const json_t *weights = json_object_get(group, "weights"), *bits = json_object_get(weights, "num_bits");
	const json_t *length = json_object_get(weights, "group_size");
	const json_int_t n = bits != NULL ? json_integer_value(bits) : 8;
	const bool is_float = text_is(json_object_get(weights, "type"), "float");
	char path[KEY_TEXT];

	snprintf(path, sizeof path, "config_groups.%.100s.", name);
	/* 8-bit floats have scales that are numbers, by which scaled.h multiplies; nothing else here has. */
	const json_t *block = json_object_get(weights, "block_structure");
	uint64_t rows, cols;
	if (has_numbers(weights) && !section_is_empty(block) && !scaled_block(block, &rows, &cols))
		return tell_of_group(s, path, "weights.block_structure", "is not a block of rows and columns; give the model that it was made from");
	if (has_numbers(weights) && is_float && n == 8) {
		*formats = UINT32_C(1) << MXFP_FORMAT_E4M3;
		return narrow(s, formats, formats_of_name(s->method, json_object_get(group, "format")), path, "format", "weights");
	}
	if (has_numbers(weights))
		return tell_of_group(s, path, "weights.strategy", "asks for scales that are numbers, which mxfp reads for 8-bit floats alone; "
		                     "give the model that it was made from");
	if (!section_is_empty(json_object_get(weights, "block_structure")))
		return tell_of_group(s, path, "weights.block_structure", "asks for scales of blocks of several rows, which the strategy does "
		                     "not have; give the model that it was made from");
	*formats = formats_of_groups(n, is_float, json_integer_value(length));
	if (*formats == 0)
		return tell_groups(s, path, "weights", n, is_float, json_integer_value(length));
	int code = narrow(s, formats, formats_of_strategy(json_object_get(weights, "strategy")), path, "weights.strategy", "weights");
	return code == EXIT_OK ? narrow(s, formats, formats_of_name(s->method, json_object_get(group, "format")), path, "format",
	                                "weights")
	                       : code;
}

/* Of all of them, and of the name at the top. */
static int formats_of_config_groups(struct section *s, const json_t *section, uint32_t *formats)
{
	const json_t *groups = json_object_get(section, "config_groups");
	int code = EXIT_OK;

	for (void *at = json_object_iter((json_t *)(uintptr_t)groups); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)groups, at)) {
		uint32_t group = 0;

		if (!json_is_object(json_object_get(json_object_iter_value(at), "weights")))
			continue;
		code = formats_of_config_group(s, json_object_iter_key(at), json_object_iter_value(at), &group);
		*formats |= group;
	}
	return code == EXIT_OK ? narrow(s, formats, formats_of_name(s->method, json_object_get(section, "format")), "", "format",
	                                "config_groups")
	                       : code;
}

static uint32_t formats_of_algorithm(const json_t *algorithm)
{
	const char *text = json_string_value(algorithm);

	if (text == NULL)
		return 0;
	return strcasestr(text, "nvfp4") != NULL   ? UINT32_C(1) << MXFP_FORMAT_NVFP4
	       : strcasestr(text, "mxfp4") != NULL ? UINT32_C(1) << MXFP_FORMAT_MXFP4
	       : strcasestr(text, "mxfp8") != NULL ? UINT32_C(1) << MXFP_FORMAT_MXFP8_E4M3
	       : strncasecmp(text, "fp8", 3) == 0  ? UINT32_C(1) << MXFP_FORMAT_E4M3
	                                           : 0;
}

/* Of groups or layers of ModelOpt, which are of the section's format if it has one. */
static int formats_of_layers(struct section *s, const char *key, const json_t *layers, uint32_t whole, uint32_t *formats)
{
	int code = EXIT_OK;

	for (void *at = json_object_iter((json_t *)(uintptr_t)layers); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)layers, at)) {
		const json_t *layer = json_object_iter_value(at), *weights = json_object_get(layer, "weights");
		const json_t *bits = json_object_get(weights, "num_bits"), *length = json_object_get(weights, "group_size");
		uint32_t one = whole;
		char path[KEY_TEXT];

		snprintf(path, sizeof path, "%s.%.100s.", key, json_object_iter_key(at));
		code = narrow(s, &one, formats_of_algorithm(json_object_get(layer, "quant_algo")), path, "quant_algo",
		              "quant_algo");
		if (code == EXIT_OK)
			code = narrow(s, &one, formats_of_length(json_object_get(layer, "group_size")), path, "group_size",
			              "quant_algo");
		if (code == EXIT_OK && bits != NULL && length != NULL) {
			const uint32_t stated = formats_of_groups(json_integer_value(bits), true, json_integer_value(length));

			code = stated == 0 ? tell_groups(s, path, "weights", json_integer_value(bits), true,
			                                       json_integer_value(length))
			                   : narrow(s, &one, stated, path, "weights", "quant_algo");
		}
		*formats |= one;
	}
	return code;
}

static int formats_of_modelopt(struct section *s, const json_t *section, uint32_t *formats)
{
	const uint32_t algorithm = formats_of_algorithm(json_object_get(section, "quant_algo"));
	int code;

	*formats = algorithm;
	code = formats_of_layers(s, "config_groups", json_object_get(section, "config_groups"), algorithm, formats);
	if (code == EXIT_OK)
		code = formats_of_layers(s, "quantized_layers", json_object_get(section, "quantized_layers"), algorithm, formats);
	if (code == EXIT_OK)
		code = narrow(s, formats, formats_of_length(json_object_get(section, "group_size")), "", "group_size", "quant_algo");
	const bool fp8 = text_is(json_object_get(section, "quant_method"), "modelopt_fp8");
	return code == EXIT_OK ? narrow(s, formats, fp8 ? UINT32_C(1) << MXFP_FORMAT_E4M3 : 0, "", "quant_method", "quant_algo")
	                       : code;
}

/* Of a scheme of auto-round. */
static int formats_of_scheme(struct section *s, const json_t *scheme, const char *path, uint32_t *formats)
{
	const char *type = json_string_value(json_object_get(scheme, "data_type"));
	const json_int_t bits = json_integer_value(json_object_get(scheme, "bits"));
	const uint32_t mx4 = UINT32_C(1) << MXFP_FORMAT_MXFP4, mx8 = UINT32_C(1) << MXFP_FORMAT_MXFP8_E4M3;

	if (type == NULL || (strncmp(type, "nv", 2) != 0 && strncmp(type, "mx", 2) != 0))
		return EXIT_OK;
	const uint32_t nv4 = UINT32_C(1) << MXFP_FORMAT_NVFP4;
	*formats = strncmp(type, "nv", 2) == 0 ? nv4 : mx4 | mx8;
	const int code = narrow(s, formats, bits == 8 ? mx8 : bits == 4 ? mx4 | nv4 : 0, path, "bits", "data_type");
	return code != EXIT_OK ? code : narrow(s, formats, formats_of_length(json_object_get(scheme, "group_size")), path, "group_size",
	              "data_type");
}

/* Of all of them; of a scheme that only says how it differs, the tensors decide. */
static int formats_of_schemes(struct section *s, const json_t *section, uint32_t *formats)
{
	const json_t *others = json_object_get(section, "extra_config");
	int code = formats_of_scheme(s, section, "", formats);

	for (void *at = json_object_iter((json_t *)(uintptr_t)others); at != NULL && code == EXIT_OK && *formats != 0;
	     at = json_object_iter_next((json_t *)(uintptr_t)others, at)) {
		const json_t *scheme = json_object_iter_value(at), *bits = json_object_get(scheme, "bits");
		uint32_t other = 0;
		char path[KEY_TEXT];

		snprintf(path, sizeof path, "extra_config.%.100s.", json_object_iter_key(at));
		code = formats_of_scheme(s, scheme, path, &other);
		if (other == 0 && json_integer_value(bits) != 16 && json_integer_value(bits) != 32)
			*formats = 0;
		else
			*formats |= other;
	}
	return code;
}

/* Quark: what a weight's settings mean together, by its specifications of config.py. A setting that is not there is null. */
static const struct quark_weight {
	const char *dtype, *element, *scheme, *axis, *length, *scales; /* values, as in meaning.def */
	enum mxfp_format format;
} quark_weights[] = {
	{"fp4|mxfp4|mx", "fp4|null", "per_group|null", "-1|1|null", "32|null", "e8m0|null", MXFP_FORMAT_MXFP4},
	{"fp8_e4m3", "null", "per_group", "-1|1|null", "32|null", "e8m0", MXFP_FORMAT_MXFP8_E4M3},
	{"fp8_e4m3", "null", "per_tensor", "-1|1|0|null", "null", "float32|null", MXFP_FORMAT_E4M3},
	{"fp8_e4m3", "null", "per_channel", "0", "null", "float32|null", MXFP_FORMAT_E4M3},
};

static bool setting_is(const json_t *weight, const char *key, const char *values)
{
	const json_t *value = json_object_get(weight, key);
	char text[VALUE_TEXT];

	return is_one_of(values, value == NULL ? "null" : value_text(value, text));
}

/* Of a layer's settings. Two steps, as for INT4 of FP8, are a list. */
static int formats_of_quark_layer(struct section *s, const char *path, const json_t *layer, uint32_t *formats)
{
	const json_t *weight = json_object_get(layer, "weight");

	if (section_is_empty(weight))
		return EXIT_OK;
	if (json_is_array(weight) && json_array_size(weight) > 1)
		return tell_of_group(s, path, "weight", "is quantized in several steps, whose scales mxfp does not read; give the model that it "
		                     "was made from");
	if (json_is_array(weight))
		weight = json_array_get(weight, 0);
	for (size_t i = 0; i < sizeof quark_weights / sizeof quark_weights[0]; i++) {
		const struct quark_weight *w = &quark_weights[i];

		if (setting_is(weight, "dtype", w->dtype) && setting_is(weight, "mx_element_dtype", w->element) &&
		    setting_is(weight, "qscheme", w->scheme) && setting_is(weight, "ch_axis", w->axis) &&
		    setting_is(weight, "group_size", w->length) && setting_is(weight, "scale_format", w->scales)) {
			*formats |= UINT32_C(1) << w->format;
			return EXIT_OK;
		}
	}
	return tell_of_group(s, path, "weight", "has dtype, qscheme, ch_axis, group_size and scale_format that together are nothing that "
	                     "mxfp reads; give the model that it was made from");
}

static int formats_of_quark_layers(struct section *s, const char *key, const json_t *layers, uint32_t *formats)
{
	int code = EXIT_OK;

	for (void *at = json_object_iter((json_t *)(uintptr_t)layers); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)layers, at)) {
		char path[KEY_TEXT];

		snprintf(path, sizeof path, "%s.%.100s.", key, json_object_iter_key(at));
		code = formats_of_quark_layer(s, path, json_object_iter_value(at), formats);
	}
	return code;
}

static int formats_of_quark(struct section *s, const json_t *section, uint32_t *formats)
{
	int code = formats_of_quark_layer(s, "global_quant_config.", json_object_get(section, "global_quant_config"), formats);

	if (code == EXIT_OK)
		code = formats_of_quark_layers(s, "layer_quant_config", json_object_get(section, "layer_quant_config"), formats);
	if (code == EXIT_OK)
		code = formats_of_quark_layers(s, "layer_type_quant_config", json_object_get(section, "layer_type_quant_config"), formats);
	/* Where it says nothing of weights, they are what Quark is read for. */
	*formats = *formats != 0 ? *formats : UINT32_C(1) << MXFP_FORMAT_MXFP4;
	return code;
}

/* Of MLX: a mode must be that of its bits and groups. mlx-lm takes the format of a tensor from its shapes, whatever the
   section says of most, and so nothing is stated. */
static int check_groups(struct section *s, const json_t *groups, const char *path)
{
	const json_t *bits = json_object_get(groups, "bits"), *length = json_object_get(groups, "group_size");
	const json_t *mode = json_object_get(groups, "mode");
	const json_int_t n = json_integer_value(bits);
	const uint32_t of_bits = formats_of_groups(n, true, 16) | formats_of_groups(n, true, 32);
	uint32_t formats = formats_of_name(s->method, mode);

	if (bits != NULL && of_bits == 0)
		return tell_groups(s, path, "bits", n, true, json_integer_value(length));
	const int code = narrow(s, &formats, of_bits, path, "bits", "mode");
	return code != EXIT_OK ? code
	                       : narrow(s, &formats, formats_of_length(length), path, "group_size", mode != NULL ? "mode" : "bits");
}

static int check_all_groups(struct section *s, const json_t *section)
{
	int code = check_groups(s, section, "");

	s->listing->any_format = true;
	for (void *at = json_object_iter((json_t *)(uintptr_t)section); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)section, at)) {
		char path[KEY_TEXT];

		snprintf(path, sizeof path, "%.200s.", json_object_iter_key(at));
		code = check_groups(s, json_object_iter_value(at), path);
	}
	return code;
}

/* A file beside config.json must agree with it; sections of parts of a model need not agree with each other. */
static int note_formats(struct section *s, const json_t *section)
{
	uint32_t formats = 0;
	uint64_t rows, cols;
	int code = EXIT_OK;

	if (strcmp(s->method, "compressed-tensors") == 0)
		code = formats_of_config_groups(s, section, &formats);
	else if (strcmp(s->method, "modelopt") == 0)
		code = formats_of_modelopt(s, section, &formats);
	else if (strcmp(s->method, "auto-round") == 0)
		code = formats_of_schemes(s, section, &formats);
	else if (strcmp(s->method, "quark") == 0)
		code = formats_of_quark(s, section, &formats);
	else if (strcmp(s->method, "mlx") == 0)
		code = check_all_groups(s, section);
	else if (!section_is_empty(json_object_get(section, "weight_block_size")) &&
	         !scaled_block(json_object_get(section, "weight_block_size"), &rows, &cols))
		code = tell_of_group(s, "", "weight_block_size", "is not a block of rows and columns; give the model that it was made from");
	else if (strcmp(s->method, "fp8") == 0)
		formats = UINT32_C(1) << MXFP_FORMAT_E4M3 | UINT32_C(1) << MXFP_FORMAT_MXFP8_E4M3 | UINT32_C(1) << MXFP_FORMAT_MXFP4;
	else if (strcmp(s->method, "minimax_m3_nvfp4") == 0)
		formats = UINT32_C(1) << MXFP_FORMAT_MXFP8_E4M3 | UINT32_C(1) << MXFP_FORMAT_NVFP4;
	else if (strcmp(s->method, "fbgemm_fp8") == 0)
		formats = UINT32_C(1) << MXFP_FORMAT_E4M3;
	else if (strcmp(s->method, "mxfp4") == 0)
		formats = UINT32_C(1) << MXFP_FORMAT_MXFP4;
	if (code == EXIT_OK && s->second)
		return narrow(s, &s->listing->formats, formats, "", "quant_algo", "config.json");
	s->listing->formats |= formats;
	return code;
}

/* Whether a section says that weights are quantized, and not only caches. */
static bool quantizes_weights(const char *method, const json_t *section)
{
	const json_t *groups = json_object_get(section, "config_groups");

	if (method == NULL)
		return true;
	if (strcmp(method, "modelopt") == 0)
		return !section_is_empty(json_object_get(section, "quant_algo"));
	if (strcmp(method, "compressed-tensors") != 0)
		return true;
	for (void *at = json_object_iter((json_t *)(uintptr_t)groups); at != NULL;
	     at = json_object_iter_next((json_t *)(uintptr_t)groups, at))
		if (!section_is_empty(json_object_get(json_object_iter_value(at), "weights")))
			return true;
	return false;
}

/* A section of a model without a quantized tensor. Of one file of several it is no news. */
static int look_at_leftover(struct section *s, const json_t *section)
{
	const char *named = json_string_value(json_object_get(section, "quant_method"));
	char text[TEXT];

	if (!s->listing->model->is_directory || !quantizes_weights(s->method, section))
		return EXIT_OK;
	snprintf(text, sizeof text, "says that weights are quantized (%.64s), and no tensor is; if these are the numbers that "
	         "are meant, remove %s from the file", named != NULL ? named : s->method != NULL ? s->method : "somehow",
	         s->name);
	snprintf(s->shown, sizeof s->shown, "%s", s->name);
	return tell_key(s, MEANING_LEFTOVER, text);
}

/* Whether a model's own section names a method. */
static bool is_method_of(const struct model *model, const char *name)
{
	const json_t *named = json_object_get(json_object_get(model->config, "quantization_config"), "quant_method");
	const struct method *method = find_method(json_string_value(named));

	return method != NULL && strcmp(method->what, name) == 0;
}

/* Whether a tensor has the dtype and name that tensors have in a layout whose section has few keys: words of MLX, or scales
   of FP8, which compressed-tensors and ModelOpt call so, too. */
static bool is_of_method(const struct listing *l, const char *method, const struct tensor *tensor)
{
	if (strcmp(method, "mlx") == 0)
		return tensor->dtype == DTYPE_U32 && suffix_stem(tensor->name, ".weight") != 0;
	const size_t stem = suffix_stem(tensor->name, "_scale"), module = suffix_stem(tensor->name, ".scale");

	return suffix_stem(tensor->name, "_scale_inv") != 0 || suffix_stem(tensor->name, ".qscale_weight") != 0 ||
	       (module != 0 && is_there(l->model, tensor->name, module, ".weight", true)) ||
	       (stem != 0 && is_there(l->model, tensor->name, stem, "", true) && is_method_of(l->model, method));
}

static bool has_method(const struct listing *l, const char *method)
{
	bool found = strcmp(method, "mlx") != 0 && strcmp(method, "fp8") != 0;

	for (size_t i = 0; i < l->model->n_tensors && !found; i++)
		found = is_of_method(l, method, l->model->by_name[i].tensor);
	return found;
}

static int look_at_second(struct listing *l, const char *path, const json_t *config);

/* Goes through a section, of which `given` says whose it is if it does not say so itself. */
static int look_at_section(struct listing *l, const char *path, const char *name, const json_t *section,
                           const char *given, bool second)
{
	struct section s = {.listing = l, .path = path, .name = name, .second = second};
	const json_t *value = json_object_get(section, "quant_method");
	char text[TEXT], is[VALUE_TEXT];
	const char *named = value == NULL || json_is_null(value) ? NULL : value_text(value, is);

	if (section_is_empty(section))
		return EXIT_OK;
	named = named != NULL ? named : given != NULL ? given : guess_method(section);
	const struct method *method = named != NULL ? find_method(named) : NULL;
	s.method = method == NULL ? NULL : method->reading == METHOD_READ ? method->what : method->name;
	if (l->plain)
		return look_at_leftover(&s, section);
	snprintf(s.shown, sizeof s.shown, "quant_method");
	if (method == NULL && is_allowed("quant_method", "quant_method"))
		return EXIT_OK;
	if (method == NULL) {
		snprintf(text, sizeof text, "%s%.64s, which mxfp does not know; --allow-unknown quant_method goes by the tensors alone",
		         named != NULL ? "is " : "is missing", named != NULL ? named : "");
		return tell_key(&s, MEANING_UNKNOWN, text);
	}
	if (method->reading == METHOD_NAMED) {
		snprintf(text, sizeof text, "is %s: %s, which mxfp does not read; %s", method->name, method->what, remedy);
		return tell_key(&s, MEANING_FOREIGN, text);
	}
	/* mlx-lm and SGLang also take what hf_quant_config.json holds. */
	if (given == NULL && strcmp(s.method, "modelopt") == 0 && json_is_object(json_object_get(section, "quantization")))
		return look_at_second(l, path, section);
	s.shown[0] = '\0';
	if (!has_method(l, s.method)) {
		snprintf(text, sizeof text, "is that of quant_method %s, MLX or FP8, and no tensor is in its layout; one of them is of another "
		         "model", s.method);
		return tell_key(&s, MEANING_REFUSED, text);
	}
	int code = walk(&s, "", section);
	return code == EXIT_OK ? note_formats(&s, section) : code;
}

static int look_at_config(struct listing *l, const char *path, const json_t *config)
{
	int code = EXIT_OK;

	for (size_t i = 0; section_names[i].name != NULL && code == EXIT_OK; i++)
		code = look_at_section(l, path, section_names[i].name, json_object_get(config, section_names[i].name),
		                       section_names[i].method, false);
	for (void *at = json_object_iter((json_t *)(uintptr_t)config); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)config, at))
		if (json_is_object(json_object_iter_value(at)))
			code = look_at_section(l, path, section_names[0].name,
			                       json_object_get(json_object_iter_value(at), section_names[0].name), NULL, false);
	return code;
}

/* hf_quant_config.json of ModelOpt: keys of its own besides those of `quantization`. */
static int look_at_second(struct listing *l, const char *path, const json_t *config)
{
	static const char known[] = "producer|quantization|quant_method|mxfp";
	struct section s = {.listing = l, .path = path, .name = path, .method = "modelopt"};
	int code = EXIT_OK;

	for (void *at = json_object_iter((json_t *)(uintptr_t)config); at != NULL && code == EXIT_OK;
	     at = json_object_iter_next((json_t *)(uintptr_t)config, at)) {
		const char *name = json_object_iter_key(at);

		snprintf(s.shown, sizeof s.shown, "%s", name);
		if (!is_one_of(known, name))
			code = look_at_key(&s, NULL, name, json_object_iter_value(at));
	}
	return code != EXIT_OK ? code
	                       : look_at_section(l, path, "quantization", json_object_get(config, "quantization"), "modelopt",
	                                         true);
}

/* Reads a file of the model's directory, if there is one, and looks at it. */
static int look_at_file(struct listing *l, const char *name,
                        int (*look)(struct listing *l, const char *path, const json_t *config))
{
	json_t *config = NULL;
	char *path;
	int code = model_read_member(l->model, name, &path, &config, l->error);

	if (code == EXIT_OK && config != NULL)
		code = look(l, path, config);
	json_decref(config);
	free(path);
	return code;
}

static int look_at_configs(struct listing *l)
{
	int code = look_at_file(l, CONFIG_FILE, look_at_config);

	for (size_t i = 0; layouts[i] != NULL && code == EXIT_OK; i++)
		if (layouts[i]->second_name != NULL)
			code = look_at_file(l, layouts[i]->second_name, look_at_second);
	return code;
}

/* Metadata by which files for ComfyUI say which tensors are quantized; ModelOpt writes both keys into such files, whose
   scales it may put into another order without a change of a shape. */
static int look_at_metadata(struct listing *l)
{
	static const char *const names[] = {"_quantization_metadata", "quantization_config"};
	const struct model *model = l->model;
	int code = EXIT_OK;

	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < sizeof names / sizeof names[0] && code == EXIT_OK; k++) {
			const struct meaning_fact fact = {
				.kind = MEANING_REFUSED,
				.path = model->files[i].path,
				.key = names[k],
				.text = "in the file's metadata says that it is made for ComfyUI, where codes and scales may stand in another "
				        "order; give the model that it was made from",
			};

			if (model->files[i].format == &file_safetensors && file_metadata(&model->files[i], names[k]) != NULL)
				code = tell(l, &fact);
		}
	return code;
}

static const struct side *find_side(const char *name)
{
	for (size_t i = 0; i < N_SIDES; i++)
		if (strcmp(sides[i].name, name) == 0)
			return &sides[i];
	return NULL;
}

bool meaning_is_carried(const char *name)
{
	const char *dot = strrchr(name, '.');
	const struct side *side = find_side(dot != NULL ? dot + 1 : name);

	return side != NULL && side->kind == SIDE_CARRIED;
}

/* Whether a tensor's dtype can be that of codes, and its rank. */
static bool is_small(const struct tensor *tensor)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);

	return info->block_elements > 1 || (info->bits <= 8 && tensor->dtype != DTYPE_BOOL);
}

static bool holds_codes(const struct tensor *tensor)
{
	return is_small(tensor) && (tensor->rank > 1 || dtype_info(tensor->dtype)->block_elements > 1);
}

/* Whether the first `n` bytes of a name and `end` name a tensor, of codes or of any. */
static bool is_there(const struct model *model, const char *name, size_t n, const char *end, bool codes)
{
	char full[NAME_TEXT];
	const struct file *file;

	if (n + strlen(end) >= sizeof full)
		return false;
	snprintf(full, sizeof full, "%.*s%s", (int)n, name, end);
	const struct tensor *tensor = model_find(model, full, &file);
	return tensor != NULL && (!codes || holds_codes(tensor));
}

/* Whether the first `n` bytes of a name are those of a module with a quantized weight. */
static bool is_module(const struct model *model, const char *name, size_t n)
{
	static const char *const ends[] = {".weight_e2m1_x4", ".weight_e4m3_x4", ".weight_e5m2_x4", ".blocks"};

	if (is_there(model, name, n, ".weight", true) || is_there(model, name, n, ".weight_packed", false) ||
	    is_there(model, name, n, ".weight_sparse", false) ||
	    (is_there(model, name, n, ".scales", true) && is_there(model, name, n, ".weight", false)))
		return true;
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (is_there(model, name, n, ends[i], false))
			return true;
	return false;
}

/* How codes are named after their weight. */
static const char *const code_endings[] = {"_packed", "_blocks", "_sparse", "_e2m1_x4", "_e4m3_x4", "_e5m2_x4", ".blocks"};

enum { N_CODE_ENDINGS = sizeof code_endings / sizeof code_endings[0] };

/* Whether they are those of a quantized tensor whose parts are named after it, or of one that has its own name. */
static bool is_quantized_name(const struct model *model, const char *name, size_t n)
{
	for (size_t i = 0; i < N_CODE_ENDINGS; i++)
		if (is_there(model, name, n, code_endings[i], false))
			return true;
	return is_there(model, name, n, "", true);
}

/* How some layout names scales, which is no word for anything else; NULL: not so. */
static const char *scales_ending(const char *name)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		for (size_t k = 0; k < layouts[i]->n_forms; k++) {
			const char *append = layouts[i]->forms[k].parts[LAYOUT_SCALES].append;

			if (append != NULL && strcmp(append, "_scale") != 0 && suffix_stem(name, append) != 0)
				return append;
		}
	return NULL;
}

static int tell_tensor(const struct listing *l, const struct model_tensor *at, enum meaning_kind kind, const char *key,
                       const char *text)
{
	const struct meaning_fact fact = {kind, at->file->path, at->tensor->name, key, text};

	return tell(l, &fact);
}

/* What find_owner() found of a tensor, for which several questions are asked. */
struct owner {
	const struct tensor *tensor; /* NULL: nothing yet */
	const char *name;
};

static struct owner *owner_slot(const struct listing *l, const struct tensor *tensor)
{
	return &l->owners[(uintptr_t)tensor / sizeof *tensor & (l->n_owners - 1)];
}

static int begin_owners(struct listing *l)
{
	for (l->n_owners = 1; l->n_owners < l->model->n_tensors; l->n_owners *= 2)
		;
	l->owners = calloc(l->n_owners, sizeof *l->owners);
	return l->owners != NULL ? EXIT_OK : fail_memory(l->error);
}

/* What a tensor is a part of by quantized.h: NULL if it is no part, its own name if its parts do not fit. */
static int look_for_owner(const struct listing *l, const struct tensor *tensor, const char **name)
{
	struct arena arena = {0};
	struct quantized quantized;
	struct error ignored;
	const struct tensor *codes;
	int code = quantized_owner(&quantized, name, l->model, tensor, &arena, &ignored);

	/* Whoever decodes scales that do not fit tells of them. */
	if (code == EXIT_OK && *name == NULL) {
		code = scaled_owner(&codes, l->model, tensor, &ignored);
		*name = code == EXIT_INPUT || codes != NULL ? "" : NULL;
		arena_free(&arena);
		return code == EXIT_MEMORY ? fail_memory(l->error) : EXIT_OK;
	}
	/* Parts that do not fit are told of where they are read. */
	if (code == EXIT_INPUT)
		*name = tensor->name;
	else if (code == EXIT_OK)
		*name = "";
	arena_free(&arena);
	return code == EXIT_MEMORY ? fail_memory(l->error) : EXIT_OK;
}

/* The same, once for each tensor. */
static int find_owner(const struct listing *l, const struct tensor *tensor, const char **name)
{
	struct owner *slot = owner_slot(l, tensor);

	if (slot->tensor == tensor) {
		*name = slot->name;
		return EXIT_OK;
	}
	const int code = look_for_owner(l, tensor, name);
	if (code == EXIT_OK)
		*slot = (struct owner){tensor, *name};
	return code;
}

/* The layout that is not read which a tensor belongs to, N_FOREIGN if none, and its codes, of which it is told. EXIT_MEMORY. */
static int find_foreign(const struct listing *l, const struct tensor *tensor, int *row, const struct tensor **codes)
{
	const char *owner;
	int code = foreign_find(l->model, tensor, row, codes, l->error);

	if (code != EXIT_OK || *row == N_FOREIGN)
		return code;
	code = find_owner(l, *codes, &owner);
	if (owner != NULL && owner != (*codes)->name)
		*row = N_FOREIGN;
	return code;
}

static int tell_of_side(const struct listing *l, const struct model_tensor *at, enum meaning_kind kind, const char *key,
                        const char *text)
{
	const struct tensor *codes;
	int row, code = find_foreign(l, at->tensor, &row, &codes);

	return code == EXIT_OK && row == N_FOREIGN ? tell_tensor(l, at, kind, key, text) : code;
}

/* What is no part of a quantized tensor is not known. */
static int tell_unknown(const struct listing *l, const struct model_tensor *at, const char *key)
{
	const char *owner;
	char text[TEXT];
	int code = is_allowed(at->tensor->name, key) ? EXIT_OK : find_owner(l, at->tensor, &owner);

	if (code != EXIT_OK || is_allowed(at->tensor->name, key) || owner != NULL)
		return code;
	snprintf(text, sizeof text, "it stands beside a quantized weight, and mxfp does not know what it does to it; --allow-unknown "
	         "%.200s goes on without it", key);
	return tell_of_side(l, at, MEANING_UNKNOWN, key, text);
}

static int tell_refused(const struct listing *l, const struct model_tensor *at, const char *key, const char *what)
{
	char text[TEXT];

	snprintf(text, sizeof text, "it stands beside a quantized weight: %s; %s", what, remedy);
	return tell_of_side(l, at, MEANING_REFUSED, key, text);
}

/* A tensor scale, or what is multiplied with inputs: as the layout has it, or refused. */
static int look_at_part(const struct listing *l, const struct model_tensor *at, const struct side *side)
{
	const char *owner;
	int code = find_owner(l, at->tensor, &owner);

	if (code != EXIT_OK)
		return code;
	if (owner != NULL)
		return side->kind == SIDE_FOLDED ? tell_tensor(l, at, MEANING_FOLDED, side->name, side->what) : EXIT_OK;
	return tell_refused(l, at, side->name, side->kind == SIDE_FOLDED  ? "its layout has no such tensor"
	                                       : side->what[0] != '\0' ? side->what
	                                                                : "it is not a scale of its layout and format");
}

static int tell_orphan(const struct listing *l, const struct model_tensor *at, const char *key)
{
	char text[TEXT];

	if (is_allowed(at->tensor->name, key))
		return EXIT_OK;
	snprintf(text, sizeof text, "it is named as the scales of codes, and there are none; look for the file that holds them, or "
	         "--allow-unknown %s goes on", key);
	return tell_of_side(l, at, MEANING_ORPHAN, key, text);
}

/* Whether the scales X.weight_scale stand beside others. */
static bool has_other_scales(const struct listing *l, const struct model_tensor *at)
{
	const size_t n = suffix_stem(at->tensor->name, ".weight_scale");

	return n != 0 && (is_there(l->model, at->tensor->name, n, ".scale", true) ||
	                  is_there(l->model, at->tensor->name, n, ".weight_scale_inv", false) ||
	                  is_there(l->model, at->tensor->name, n, ".qscale_weight", false));
}

static int look_at_side(const struct listing *l, const struct model_tensor *at, const struct side *side, bool beside)
{
	switch (side->kind) {
	case SIDE_PART:
		return EXIT_OK;
	case SIDE_SCALES:
		if (has_other_scales(l, at))
			return look_at_part(l, at, side);
		/* In a model of plain numbers it may be anything. */
		return beside || l->plain ? EXIT_OK : tell_orphan(l, at, side->name);
	case SIDE_CARRIED:
		return tell_of_side(l, at, MEANING_CARRIED, side->name, side->what);
	case SIDE_REFUSED:
		return beside ? tell_refused(l, at, side->name, side->what) : EXIT_OK;
	case SIDE_SCALE:
		return beside ? look_at_part(l, at, side) : EXIT_OK;
	case SIDE_FOLDED:
		if (beside)
			return look_at_part(l, at, side);
		return tell_tensor(l, at, MEANING_REFUSED, side->name, "it multiplies what a weight is multiplied with that is not "
		                   "quantized; mxfp does not know what to do about it");
	}
	return EXIT_OK;
}

/* A tensor in a module that has a quantized weight, or in a module of that one: LAYERS up. */
static int look_at_module(const struct listing *l, const struct model_tensor *at, bool *found)
{
	enum { LAYERS = 3 };
	const char *name = at->tensor->name;
	size_t end = strlen(name), n = end;

	*found = false;
	for (int i = 0; i < LAYERS; i++) {
		char key[NAME_TEXT];

		end = n;
		while (n > 0 && name[n - 1] != '.')
			n--;
		if (n <= 1 || end - n >= sizeof key)
			return EXIT_OK;
		snprintf(key, sizeof key, "%.*s", (int)(end - n), name + n);
		n--;
		const struct side *side = find_side(key);
		/* What every quantized layer has ends it early; a module named so is another thing. */
		if (i == 0 && side != NULL && (side->kind == SIDE_PART || side->kind == SIDE_CARRIED)) {
			*found = side->kind == SIDE_CARRIED || strcmp(key, "weight") != 0;
			if (*found)
				return look_at_side(l, at, side, true);
			continue;
		}
		const bool beside = is_module(l->model, name, n);
		if (i == 0 && side != NULL && (beside || side->kind == SIDE_FOLDED || side->kind == SIDE_SCALES)) {
			*found = true;
			return look_at_side(l, at, side, beside);
		}
		if (!beside)
			continue;
		*found = true;
		return side != NULL && side->kind == SIDE_REFUSED ? tell_refused(l, at, key, side->what)
		                                                  : tell_unknown(l, at, name + n + 1);
	}
	return EXIT_OK;
}

/* A tensor named after a quantized one that has no module of its own, NAME_packed or NAME_blocks; or after one that is
   not there. */
static int look_at_name(const struct listing *l, const struct model_tensor *at)
{
	const char *name = at->tensor->name, *dot = strrchr(name, '.'), *ending = scales_ending(name), *owner;

	for (const char *line = strchr(dot != NULL ? dot : name, '_'); line != NULL; line = strchr(line + 1, '_')) {
		if (!is_quantized_name(l->model, name, (size_t)(line - name)))
			continue;
		return strcmp(line, "_bias") == 0 ? EXIT_OK : tell_unknown(l, at, line + 1);
	}
	if (ending == NULL || l->plain || !holds_codes(at->tensor))
		return EXIT_OK;
	int code = find_owner(l, at->tensor, &owner);
	return code != EXIT_OK || owner != NULL ? code : tell_orphan(l, at, ending + 1);
}

/* Codes of a weight that stands there once more, as numbers or as codes of another layout. */
static int look_at_twice(const struct listing *l, const struct model_tensor *at)
{
	const char *name = at->tensor->name;
	char key[NAME_TEXT], text[NAME_TEXT + TEXT];

	for (size_t i = 0; i < N_CODE_ENDINGS; i++) {
		const size_t n = suffix_stem(name, code_endings[i]);

		/* "" is the weight itself. */
		for (size_t k = i; k < N_CODE_ENDINGS && n != 0; k++) {
			const char *end = k == i ? "" : code_endings[k];

			if (!is_there(l->model, name, n, end, false) || is_allowed(name, name + n + 1))
				continue;
			snprintf(key, sizeof key, "%.*s%s", (int)n, name, end);
			snprintf(text, sizeof text, "stands for the same weight as '%s'; remove one of them", key);
			return tell_tensor(l, at, MEANING_TWICE, key, text);
		}
	}
	return EXIT_OK;
}

/* Codes of a layout that is known by name alone. */
static int look_at_foreign(const struct listing *l, const struct model_tensor *at)
{
	const struct tensor *codes;
	char text[TEXT];
	int row, code = foreign_find(l->model, at->tensor, &row, &codes, l->error);

	if (code != EXIT_OK || row == N_FOREIGN || codes != at->tensor)
		return code;
	code = find_foreign(l, at->tensor, &row, &codes);
	if (code != EXIT_OK || row == N_FOREIGN)
		return code;
	snprintf(text, sizeof text, "it is %s, which mxfp does not read; %s", foreign_what(row), foreign_remedy(row));
	return tell_tensor(l, at, MEANING_FOREIGN, foreign_what(row), text);
}

static int look_at_tensors(const struct listing *l)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < l->model->n_tensors && code == EXIT_OK; i++) {
		const struct model_tensor *at = &l->model->by_name[i];
		bool found = false;

		code = look_at_foreign(l, at);
		if (code == EXIT_OK)
			code = look_at_twice(l, at);
		if (code == EXIT_OK)
			code = look_at_module(l, at, &found);
		if (code == EXIT_OK && !found)
			code = look_at_name(l, at);
	}
	return code;
}

/* Codes that the configuration may mean, without scales: what they stand for is not in the files. */
static int look_at_codes(const struct listing *l, const struct model_tensor *at)
{
	const struct tensor *tensor = at->tensor, *codes;
	const char *owner, *dot = strrchr(tensor->name, '.'), *key = dot != NULL ? dot + 1 : tensor->name;
	const struct side *side = find_side(key);
	char text[TEXT];
	int row;

	if (dtype_info(tensor->dtype)->block_elements > 1 || !holds_codes(tensor) ||
	    (side != NULL && side->kind != SIDE_PART) ||
	    is_there(l->model, tensor->name, strlen(tensor->name), "_scale", false) || is_allowed(tensor->name, key))
		return EXIT_OK;
	int code = find_foreign(l, tensor, &row, &codes);
	if (code == EXIT_OK && row == N_FOREIGN)
		code = find_owner(l, tensor, &owner);
	if (code != EXIT_OK || row != N_FOREIGN || owner != NULL)
		return code;
	snprintf(text, sizeof text, "it has 8 bits and no scales, and config.json says that weights are quantized; look for the file that "
	         "holds them, or --allow-unknown %.200s goes on", key);
	return tell_tensor(l, at, MEANING_ORPHAN, key, text);
}

/* Whether every tensor is of plain numbers. */
static bool is_plain(const struct model *model)
{
	for (size_t i = 0; i < model->n_tensors; i++)
		if (is_small(model->by_name[i].tensor) || !dtype_info(model->by_name[i].tensor->dtype)->numeric)
			return false;
	return true;
}

static int list(struct listing *l)
{
	const bool described = l->model->n_files > 0 && l->model->files[0].format == &file_safetensors;

	l->plain = is_plain(l->model);
	int code = begin_owners(l);
	/* Tensors first: they say more of what a layout is than the name of a method. */
	if (code == EXIT_OK)
		code = look_at_tensors(l);
	if (code == EXIT_OK && described)
		code = look_at_configs(l);
	for (size_t i = 0; i < l->model->n_tensors && code == EXIT_OK && (l->formats != 0 || l->any_format); i++)
		code = look_at_codes(l, &l->model->by_name[i]);
	free(l->owners);
	l->owners = NULL;
	return code == EXIT_OK && described && !l->plain ? look_at_metadata(l) : code;
}

int meaning_list(const struct model *model, meaning_reader *reader, void *context, struct error *error)
{
	struct listing l = {.model = model, .reader = reader, .context = context, .error = error};

	return list(&l);
}

static int add(void *context, const struct meaning_fact *fact, struct error *error)
{
	struct meaning_sums *sums = context;

	for (size_t i = 0; i < sums->n && fact->tensor != NULL; i++) {
		struct meaning_sum *sum = &sums->items[i];

		if (sum->fact.kind == fact->kind && sum->fact.tensor != NULL && strcmp(sum->fact.key, fact->key) == 0) {
			sum->n++;
			return EXIT_OK;
		}
	}
	struct meaning_sum *items = realloc(sums->items, (sums->n + 1) * sizeof *items);
	if (items == NULL)
		return fail_memory(error);
	sums->items = items;
	struct meaning_fact *copy = &items[sums->n].fact;
	*copy = (struct meaning_fact){
		.kind = fact->kind,
		.path = arena_string(&sums->arena, fact->path),
		.tensor = fact->tensor,
		.key = arena_string(&sums->arena, fact->key),
		.text = arena_string(&sums->arena, fact->text),
	};
	items[sums->n++].n = 1;
	return copy->path != NULL && copy->key != NULL && copy->text != NULL ? EXIT_OK : fail_memory(error);
}

int meaning_sum_up(const struct model *model, struct meaning_sums *sums, struct error *error)
{
	*sums = (struct meaning_sums){0};
	return meaning_list(model, add, sums, error);
}

void meaning_sums_free(struct meaning_sums *sums)
{
	free(sums->items);
	arena_free(&sums->arena);
	*sums = (struct meaning_sums){0};
}

static int refuse(void *context, const struct meaning_fact *fact, struct error *error)
{
	const enum meaning_use *use = context;

	const bool folds = *use == MEANING_FOLDS || *use == MEANING_DECODES || *use == MEANING_MOVES;

	if (fact->kind == MEANING_CARRIED || (fact->kind == MEANING_FOLDED && folds) ||
	    ((fact->kind == MEANING_FOREIGN || fact->kind == MEANING_TWICE) && *use == MEANING_COMPARES))
		return EXIT_OK;
	if (fact->kind == MEANING_FOLDED)
		return fail_tensor(error, fact->path, fact->tensor, "%s, which is not done here; mxfp dequantize folds it into the "
		                   "weight", fact->text);
	if (fact->tensor != NULL)
		return fail_tensor(error, fact->path, fact->tensor, "%s", fact->text);
	return fail(error, EXIT_INPUT, "%s: '%s' %s", fact->path, fact->key, fact->text);
}

static int pass_over(void *context, const struct meaning_fact *fact, struct error *error)
{
	(void)context, (void)fact, (void)error;
	return EXIT_OK;
}

int meaning_note(struct model *model, struct error *error)
{
	struct listing l = {.model = model, .reader = pass_over, .error = error, .plain = is_plain(model)};
	const bool described = model->n_files > 0 && model->files[0].format == &file_safetensors;
	const int code = described ? look_at_configs(&l) : EXIT_OK;

	model->formats = l.formats;
	return code;
}

int meaning_check(struct model *model, enum meaning_use use, struct error *error)
{
	struct listing l = {.model = model, .reader = refuse, .context = &use, .error = error};
	/* What stands beside a tensor is known by that tensor, which the formats may decide between several. */
	const int code = meaning_note(model, error);

	return code == EXIT_OK ? list(&l) : code;
}
