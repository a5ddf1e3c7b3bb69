/* SPDX-License-Identifier: MIT */
#include "interop/vectors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minifloat.h"

enum { MAX_PATH = 4096, MAX_SHOWN = 8 /* differences printed for a case */ };

bool vectors_open(struct vector_set *set, const char *folder)
{
	char path[MAX_PATH];
	json_error_t error;

	memset(set, 0, sizeof *set);
	set->folder = folder;
	snprintf(path, sizeof path, "%s/manifest.json", folder);
	FILE *file = fopen(path, "r");
	if (file == NULL)
		return false;
	fclose(file);
	set->manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (set->manifest == NULL)
		fprintf(stderr, "%s: %s\n", path, error.text);
	return true;
}

void vectors_close(struct vector_set *set)
{
	json_decref(set->manifest);
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value != NULL ? value : "";
}

struct vector_case vectors_case(const struct vector_set *set, size_t i)
{
	const json_t *json = json_array_get(json_object_get(set->manifest, "cases"), i);

	ck_assert_msg(json_is_object(json), "case %zu is no object", i);
	return (struct vector_case){
		.json = json,
		.name = text(json, "name"),
		.kind = text(json, "kind"),
		.implementation = text(json, "implementation"),
		.format = text(json, "format"),
		.rounding = text(json, "rounding"),
		.scale_rule = text(json, "scale_rule"),
		.input = text(json, "input"),
		.overflows = json_is_false(json_object_get(json, "saturate")),
	};
}

bool vectors_by(const struct vector_case *c, const char *implementation)
{
	return strncmp(c->implementation, implementation, strlen(implementation)) == 0;
}

static size_t width(const char *dtype)
{
	static const struct {
		const char *dtype;
		size_t width;
	} widths[] = {{"uint8", 1},   {"uint16", 2}, {"int16", 2}, {"float16", 2},
	              {"f16le", 2}, {"float32", 4}, {"f32le", 4}};

	for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
		if (strcmp(widths[i].dtype, dtype) == 0)
			return widths[i].width;
	ck_abort_msg("unknown dtype %s", dtype);
	return 0;
}

static struct vector_array load(const struct vector_set *set, const json_t *entry)
{
	const json_t *shape = json_object_get(entry, "shape");
	size_t bytes = width(text(entry, "dtype")), rank = json_array_size(shape);
	char path[MAX_PATH];
	struct vector_array a = {.n = 1};

	for (size_t i = 0; i < rank; i++)
		a.n *= (size_t)json_integer_value(json_array_get(shape, i));
	a.cols = rank != 0 ? (size_t)json_integer_value(json_array_get(shape, rank - 1)) : 1;
	a.rows = a.n / a.cols;
	snprintf(path, sizeof path, "%s/%s", set->folder, text(entry, "file"));
	FILE *file = fopen(path, "rb");
	ck_assert_msg(file != NULL, "cannot open %s", path);
	a.at = calloc(a.n, sizeof *a.at);
	uint8_t *stored = malloc(a.n * bytes);
	ck_assert_msg(fread(stored, bytes, a.n, file) == a.n && fgetc(file) == EOF, "%s has not %zu numbers",
	              path, a.n);
	fclose(file);
	for (size_t i = 0; i < a.n; i++)
		for (size_t j = 0; j < bytes; j++)
			a.at[i] |= (uint32_t)stored[i * bytes + j] << 8 * j;
	free(stored);
	return a;
}

struct vector_array vectors_input(const struct vector_set *set, const char *name)
{
	const json_t *entry = json_object_get(json_object_get(set->manifest, "inputs"), name);

	ck_assert_msg(entry != NULL, "no input %s", name);
	return load(set, entry);
}

struct vector_array vectors_output(const struct vector_set *set, const struct vector_case *c,
                                   const char *kind)
{
	const json_t *entry = json_object_get(json_object_get(c->json, "outputs"), kind);

	return entry != NULL ? load(set, entry) : (struct vector_array){0};
}

struct vector_outputs vectors_outputs(const struct vector_set *set, const struct vector_case *c)
{
	return (struct vector_outputs){
		.codes = vectors_output(set, c, "codes"),
		.packed = vectors_output(set, c, "packed"),
		.scales = vectors_output(set, c, "scales"),
		.tensor_scale = vectors_output(set, c, "tensor_scale"),
		.global_scale = vectors_output(set, c, "global_scale"),
		.values = vectors_output(set, c, "values"),
		.values_gguf_py = vectors_output(set, c, "values_gguf_py"),
		.dequantized = vectors_output(set, c, "dequantized"),
		.gguf_blocks = vectors_output(set, c, "gguf_blocks"),
	};
}

void vectors_free_outputs(struct vector_outputs *o)
{
	free(o->codes.at);
	free(o->packed.at);
	free(o->scales.at);
	free(o->tensor_scale.at);
	free(o->global_scale.at);
	free(o->values.at);
	free(o->values_gguf_py.at);
	free(o->dequantized.at);
	free(o->gguf_blocks.at);
}

void vectors_compare(struct vector_set *set, struct vector_case *c, const struct vector_pair *pair)
{
	if (pair->excuse == VECTOR_NOT_RUN) {
		set->n_excused[VECTOR_NOT_RUN]++;
		return;
	}
	set->n_compared++;
	if (pair->ours == pair->theirs)
		return;
	if (pair->excuse != VECTOR_NO_EXCUSE) {
		set->n_excused[pair->excuse]++;
		return;
	}
	set->n_different++;
	if (c->n_different++ < MAX_SHOWN)
		printf("%s[%zu]: input %08" PRIx32 ": ours %02" PRIx32 ", theirs %02" PRIx32 "\n", c->name,
		       pair->i, pair->input, pair->ours, pair->theirs);
}

enum mxfp_round vectors_round(const struct vector_case *c)
{
	static const struct {
		const char *theirs;
		enum mxfp_round ours;
	} rounds[] = {
		{"RNE", MXFP_ROUND_RNE}, {"RNA", MXFP_ROUND_RNA}, {"RTZ", MXFP_ROUND_RTZ},
		{"RTP", MXFP_ROUND_RTP}, {"RTN", MXFP_ROUND_RTN},
	};

	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
		if (strncmp(c->rounding, rounds[i].theirs, 3) == 0)
			return rounds[i].ours;
	ck_abort_msg("%s: unknown rounding %s", c->name, c->rounding);
	return MXFP_ROUND_RNE;
}

enum mxfp_format vectors_format(const struct vector_case *c)
{
	static const struct {
		const char *theirs, *ours;
	} names[] = {
		{"mxint8", "int8"},       {"mxe4m3", "mxfp8-e4m3"}, {"mxe5m2", "mxfp8-e5m2"},
		{"mxe2m3", "mxfp6-e2m3"}, {"mxe3m2", "mxfp6-e3m2"}, {"mxe2m1", "mxfp4"},
		{"mxmxint8", "mxint8"},
	};
	const char *name = c->format;
	enum mxfp_format format;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i].theirs, c->format) == 0)
			name = names[i].ours;
	ck_assert_msg(mxfp_format_from_name(&format, name) == MXFP_OK, "%s: unknown format %s", c->name,
	              c->format);
	return format;
}

uint32_t vectors_decode_code(enum mxfp_format element, uint32_t code)
{
	return mxfp_minifloat_decode(mxfp_format_get_info(element), code);
}
