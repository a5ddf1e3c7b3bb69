/* SPDX-License-Identifier: MIT */
/* mxfp inspect: shows what is in a tensor file or a model directory. */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/color.h"
#include "base/plural.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/shape.h"
#include "model/carry.h"
#include "model/meaning.h"
#include "model/model.h"

/* Widest column for names; a longer name pushes its row to the right. */
enum { NAME_COLUMN_MAX = 56 };

struct totals {
	uint64_t tensors, elements, bytes;
};

static void add_tensor(struct totals *totals, const struct tensor *tensor)
{
	totals->tensors++;
	totals->elements += tensor_elements(tensor);
	totals->bytes += tensor->size;
}

/* Totals of each dtype; the last entry is that of all. */
static void sum_up(const struct model *model, struct totals totals[N_DTYPES + 1])
{
	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors; t++) {
			add_tensor(&totals[model->files[f].tensors[t].dtype], &model->files[f].tensors[t]);
			add_tensor(&totals[N_DTYPES], &model->files[f].tensors[t]);
		}
}

/* Prints a name from the file, and blanks up to `column`. */
static void print_name(const char *name, int column)
{
	int length = print_printable(stdout, name);

	if (length < column)
		printf("%*s", column - length, "");
}

static void print_tensor(const struct tensor *tensor, int column)
{
	printf("  ");
	print_name(tensor->name, column);
	printf("  %-11s %14" PRIu64 "  [", dtype_info(tensor->dtype)->name, tensor->size);
	for (unsigned i = 0; i < tensor->rank; i++)
		printf("%s%" PRIu64, i == 0 ? "" : ", ", tensor->shape[i]);
	puts(tensor->by_columns ? "] by columns" : "]");
}

static int name_column(const struct file *file)
{
	size_t longest = strlen("tensor");

	for (size_t t = 0; t < file->n_tensors; t++) {
		size_t length = strlen(file->tensors[t].name);
		longest = length > longest ? length : longest;
	}
	return longest < NAME_COLUMN_MAX ? (int)longest : NAME_COLUMN_MAX;
}

static void print_file(const struct file *file)
{
	const int column = name_column(file);

	putchar('\n');
	print_name(model_file_name(file), 0);
	printf(": %s, header %" PRIu64 " bytes, data %" PRIu64 " bytes\n", file->format->name, file->header_bytes,
	       file->data_bytes);
	for (size_t i = 0; i < file->n_metadata; i++) {
		printf("  ");
		print_name(file->metadata[i].key, 0);
		printf(" = ");
		print_name(file->metadata[i].value, 0);
		putchar('\n');
	}
	printf("%s  %-*s  %-11s %14s  shape%s\n", color_begin(stdout, COLOR_HEADING), column, "tensor", "dtype", "bytes",
	       color_end(stdout));
	for (size_t i = 0; i < file->n_tensors; i++)
		print_tensor(&file->tensors[i], column);
}

/* A file, or each of those that it is cut into. */
static void print_parts(const struct file *file)
{
	for (size_t part = 0; part < file->n_parts; part++)
		print_file(&file->parts[part]);
	if (file->n_parts == 0)
		print_file(file);
}

/* What becomes of a fact where numbers are read. */
static const char *becomes(enum meaning_kind kind)
{
	return kind == MEANING_CARRIED ? "carried" : kind == MEANING_FOLDED ? "folded" : "refused";
}

static void print_meaning(const struct meaning_sums *sums)
{
	for (size_t i = 0; i < sums->n; i++) {
		const struct meaning_fact *fact = &sums->items[i].fact;
		const char *text = fact->text, *verb = plural_verb(&text, sums->items[i].n);
		char others[64];

		printf("  %s: ", becomes(fact->kind));
		if (fact->tensor == NULL)
			printf("'");
		print_name(fact->tensor != NULL ? fact->tensor : fact->key, 0);
		plural_others(others, sizeof others, sums->items[i].n);
		if (fact->tensor == NULL)
			printf("' ");
		else
			printf("%s%s%s ", others, verb != NULL ? " " : ":", verb != NULL ? verb : "");
		print_name(text, 0);
		putchar('\n');
	}
}

static bool is_foreign(const struct meaning_sums *sums)
{
	for (size_t i = 0; i < sums->n; i++)
		if (sums->items[i].fact.kind == MEANING_FOREIGN)
			return true;
	return false;
}

static void print_text(const struct model *model, const struct meaning_sums *sums, const struct totals totals[N_DTYPES + 1])
{
	print_name(model->path, 0);
	if (model_quantized_by(model) == NULL) {
		puts(is_foreign(sums) ? ": quantized in a layout that is not read" : ": not quantized");
	} else {
		printf(": already quantized: ");
		print_name(model_quantized_by(model), 0);
		putchar('\n');
	}
	print_meaning(sums);
	if (model->n_superseded > 0)
		printf("  %zu tensors are not listed in the files where the index does not send them\n", model->n_superseded);
	for (size_t f = 0; f < model->n_files; f++)
		print_parts(&model->files[f]);
	printf("\n%s  %-11s %10s %16s %16s%s\n", color_begin(stdout, COLOR_HEADING), "dtype", "tensors", "elements",
	       "bytes", color_end(stdout));
	for (int d = 0; d <= N_DTYPES; d++)
		if (totals[d].tensors != 0 || d == N_DTYPES)
			printf("  %-11s %10" PRIu64 " %16" PRIu64 " %16" PRIu64 "\n",
			       d == N_DTYPES ? "all" : dtype_info((enum dtype)d)->name, totals[d].tensors,
			       totals[d].elements, totals[d].bytes);
}

static json_t *tensor_facts(const struct tensor *tensor)
{
	return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:b}", "name", tensor->name, "dtype",
	                 dtype_info(tensor->dtype)->name, "shape", shape_facts(tensor), "elements",
	                 (json_int_t)tensor_elements(tensor), "bytes", (json_int_t)tensor->size, "offset",
	                 (json_int_t)tensor->offset, "by_columns", (int)tensor->by_columns);
}

static json_t *metadata_facts(const struct file *file)
{
	json_t *metadata = json_object();

	for (size_t i = 0; i < file->n_metadata; i++)
		metadata = facts_set(metadata, file->metadata[i].key, json_string(file->metadata[i].value));
	return metadata;
}

/* Prints `label`, which is JSON, and a value. */
static int print_member(const char *label, json_t *value, struct error *error)
{
	fputs(label, stdout);
	return facts_print_part(stdout, value, 0, error);
}

/* One tensor at a time: a tree of a large model would take far more memory than its header. */
static int print_file_facts(const struct file *file, struct error *error)
{
	int code = print_member("    {\n      \"name\": ", facts_text(model_file_name(file)), error);

	if (code == EXIT_OK)
		code = print_member(",\n      \"metadata\": ", metadata_facts(file), error);
	printf(",\n      \"format\": \"%s\",\n      \"header_bytes\": %" PRIu64 ",\n      \"data_bytes\": %" PRIu64
	       ",\n      \"tensors\": [",
	       file->format->name, file->header_bytes, file->data_bytes);
	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++)
		code = print_member(i == 0 ? "\n        " : ",\n        ", tensor_facts(&file->tensors[i]), error);
	fputs("\n      ]\n    }", stdout);
	return code;
}

static json_t *totals_facts(const struct totals *totals)
{
	return json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)totals->tensors, "elements",
	                 (json_int_t)totals->elements, "bytes", (json_int_t)totals->bytes);
}

static json_t *all_totals(const struct totals totals[N_DTYPES + 1])
{
	json_t *dtypes = json_object();

	for (int d = 0; d < N_DTYPES; d++)
		if (totals[d].tensors != 0)
			dtypes = facts_set(dtypes, dtype_info((enum dtype)d)->name, totals_facts(&totals[d]));
	return facts_set(totals_facts(&totals[N_DTYPES]), "dtypes", dtypes);
}

static json_t *meaning_facts(const struct meaning_sums *sums)
{
	json_t *all = json_array();

	for (size_t i = 0; i < sums->n; i++) {
		const struct meaning_fact *fact = &sums->items[i].fact;

		all = facts_append(all, json_pack("{s:s, s:o, s:o, s:o, s:I, s:o}", "becomes", becomes(fact->kind), "file",
		                                  facts_text(fact->path), "key", facts_text(fact->key), "tensor",
		                                  fact->tensor != NULL ? facts_text(fact->tensor) : json_null(), "tensors",
		                                  (json_int_t)(fact->tensor != NULL ? sums->items[i].n : 0), "what",
		                                  facts_text(fact->text)));
	}
	return all;
}

static int print_json(const struct model *model, const struct meaning_sums *sums, const struct totals totals[N_DTYPES + 1],
                      struct error *error)
{
	const char *quantized_by = model_quantized_by(model);
	int code = print_member("{\n  \"path\": ", facts_text(model->path), error);

	if (code == EXIT_OK)
		code = print_member(",\n  \"quantized_by\": ",
		                    quantized_by != NULL ? facts_text(quantized_by) : json_null(), error);
	if (code == EXIT_OK)
		code = print_member(",\n  \"meaning\": ", meaning_facts(sums), error);
	if (code == EXIT_OK)
		code = print_member(",\n  \"totals\": ", all_totals(totals), error);
	fputs(",\n  \"files\": [\n", stdout);
	for (size_t f = 0, n = 0; f < model->n_files && code == EXIT_OK; f++) {
		const struct file *file = &model->files[f];
		const size_t parts = file->n_parts > 0 ? file->n_parts : 1;

		for (size_t part = 0; part < parts && code == EXIT_OK; part++) {
			if (n++ != 0)
				fputs(",\n", stdout);
			code = print_file_facts(file->n_parts > 0 ? &file->parts[part] : file, error);
		}
	}
	fputs("\n  ]\n}\n", stdout);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	static const struct usage usage = {
		"inspect [--json] IN",
		"Lists the contents of a tensor file (.safetensors, .gguf, .npy) or a model\n"
		"directory: metadata, the name, dtype, shape and size of each tensor, totals, and\n"
		"whether and how the weights are quantized. Only headers and tensor\n"
		"scales are read.",
		"  mxfp inspect model.safetensors",
	};
	bool json = false;
	const struct option_spec options[] = {
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &json},
		{.kind = OPTION_END},
	};
	struct totals totals[N_DTYPES + 1] = {{0}};
	struct meaning_sums sums;
	struct model model;
	const char *path;

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &path, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = model_open_any_order(&model, path, error);
	if (code != EXIT_OK)
		return code;
	sum_up(&model, totals);
	model.tells_faults = true;
	code = meaning_note(&model, error);
	if (code != EXIT_OK) {
		model_close(&model);
		return code;
	}
	code = meaning_sum_up(&model, &sums, error);
	if (code == EXIT_OK && json)
		code = print_json(&model, &sums, totals, error);
	else if (code == EXIT_OK)
		print_text(&model, &sums, totals);
	if (code == EXIT_OK)
		code = carry_warn(&model, stderr, error);
	meaning_sums_free(&sums);
	model_close(&model);
	return code;
}

const struct command command_inspect = {"inspect", "list the contents of a tensor file or model directory", run};
