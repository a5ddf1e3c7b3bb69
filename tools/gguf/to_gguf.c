/* SPDX-License-Identifier: MIT */
/* Plans all of the file, then writes it tensor by tensor, so that a run that was stopped can go on. */
#include "config.h"

#include "gguf/to_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/printable.h"
#include "eval/shape.h"
#include "gguf/parameters.h"
#include "gguf/tensors.h"
#include "gguf/tokens.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "io/gguf_pairs.h"
#include "io/resumed.h"
#include "io/transfer.h"
#include "model/fingerprint.h"
#include "model/model_output.h"
#include "model/scaled.h"

struct running {
	const struct to_gguf_settings *settings;
	const struct model *model;
	struct shape shape;
	struct tensors tensors;
	struct tokens_made tokens;
	struct gguf_pairs pairs;
	struct model_output output;
	struct transfer transfer;
};

bool to_gguf_wanted(const char *out, const struct model *model)
{
	return file_format_named(out) == &file_gguf && model->is_directory && model->config != NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names the weights with which llama.cpp is not to quantize activations to NVFP4, in order, as the converter does where a
   model says W4A16_NVFP4. */
static int put_precisions(struct gguf_pairs *pairs, const struct tensors *tensors, struct error *error)
{
	const char **names = calloc(tensors->n + 1, sizeof *names);
	size_t n = 0;

	if (names == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < tensors->n; i++)
		if (tensors->entries[i].weights_only)
			names[n++] = tensors->entries[i].output.name;
	qsort(names, n, sizeof *names, compare_names);
	if (n > 0)
		gguf_pairs_array(pairs, "general.tensor_extra.name", GGUF_TYPE_STRING, n);
	for (size_t i = 0; i < n; i++)
		gguf_pairs_add_string(pairs, names[i], strlen(names[i]));
	if (n > 0)
		gguf_pairs_array(pairs, "general.tensor_extra.prec_a4", GGUF_TYPE_BOOL, n);
	for (size_t i = 0; i < n; i++)
		gguf_pairs_add_bool(pairs, false);
	free(names);
	return EXIT_OK;
}

static int plan(struct running *r, struct error *error)
{
	int code = shape_read(&r->shape, r->model, error);

	if (code == EXIT_OK)
		code = gguf_pairs_begin(&r->pairs, error);
	if (code == EXIT_OK)
		code = parameters_put(&r->pairs, r->model, &r->shape, error);
	if (code == EXIT_OK)
		code = tensors_plan(&r->tensors, r->model, &r->shape, r->settings->allow_rounding, error);
	if (code == EXIT_OK)
		code = put_precisions(&r->pairs, &r->tensors, error);
	if (code == EXIT_OK)
		code = tokens_put(&r->pairs, r->model, r->shape.vocabulary, &r->tokens, error);
	return code == EXIT_OK ? gguf_pairs_end(&r->pairs, error) : code;
}

static int write_entry(const void *context, size_t i, struct journal_record *record, struct error *error)
{
	struct running *r = (struct running *)context;

	(void)record;
	return tensors_write(&r->transfer, &r->tensors.entries[i], error);
}

static void sizes_of(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	const struct running *r = context;

	*read = *written = r->tensors.entries[i].output.size;
}

static bool output_of(const void *context, size_t i, size_t k, const char **name)
{
	const struct running *r = context;

	*name = r->tensors.entries[i].output.name;
	return k == 0;
}

static int write_file(struct running *r, struct error *error)
{
	const struct resumed_job job = {write_entry, sizes_of, output_of, NULL, NULL, r};
	struct writer *writer = &r->transfer.writer;
	struct resumed resumed;
	int code = resumed_begin(&resumed, &r->output.partial, MODEL_SINGLE, r->tensors.n, error);

	*writer = (struct writer){.path = resumed.path, .fd = -1, .format = &file_gguf, .pairs = &r->pairs};
	writer->tensors = calloc(r->tensors.n + 1, sizeof *writer->tensors);
	if (code == EXIT_OK && writer->tensors == NULL)
		code = fail_memory(error);
	for (size_t i = 0; code == EXIT_OK && i < r->tensors.n; i++)
		writer->tensors[writer->n_tensors++] = r->tensors.entries[i].output;
	if (code == EXIT_OK)
		code = resumed_write(&resumed, &r->transfer, &job, error);
	if (code == EXIT_OK)
		code = writer_close(writer, error);
	writer_abandon(writer);
	free(writer->tensors);
	resumed_end(&resumed);
	return code;
}

static int begin(struct running *r, struct error *error)
{
	const struct to_gguf_settings *s = r->settings;

	json_prepare();
	json_t *fingerprint = json_pack("{s:s, s:s}", "command", "convert to GGUF", "--allow-rounding", s->allow_rounding ? "yes" : "no");
	int code = fingerprint == NULL || !fingerprint_add(fingerprint, "tokenizer.json or config.json",
	                                                   XXH3_128bits(r->pairs.bytes, r->pairs.n_bytes)) || json_out_of_memory()
	           ? fail_memory(error)
	           : model_output_begin(&r->output, r->model, &(struct partial_target){.path = s->out, .as_file = true, .force = s->force,
	                                                                             .resume = s->resume},
	                                fingerprint, error);
	json_decref(fingerprint);
	return code;
}

static int write_all(struct running *r, struct error *error)
{
	int code = transfer_begin(&r->transfer, error);

	progress_start(&r->transfer.progress, "moving", r->model->data_bytes, r->settings->quiet);
	if (code == EXIT_OK)
		code = write_file(r, error);
	progress_end(&r->transfer.progress);
	transfer_end(&r->transfer);
	return code;
}

struct totals {
	size_t mxfp4, nvfp4, numbers, values;
};

static struct totals sum_up(const struct running *r)
{
	struct totals totals = {0};

	for (size_t i = 0; i < r->tensors.n; i++) {
		const struct tensors_entry *entry = &r->tensors.entries[i];

		totals.mxfp4 += entry->output.dtype == DTYPE_MXFP4;
		totals.nvfp4 += entry->output.dtype == DTYPE_NVFP4;
		totals.numbers += entry->kind == TENSORS_NUMBERS;
		totals.values += entry->kind == TENSORS_VALUES;
	}
	return totals;
}

static int print_json(const struct running *r, struct error *error)
{
	const struct totals totals = sum_up(r);
	const struct tensors *t = &r->tensors;

	json_prepare();
	return facts_print(stdout, json_pack("{s:o, s:o, s:s, s:s, s:{s:I, s:I, s:I, s:I}, s:I, s:f, s:I, s:{s:s, s:s, s:I, s:I, s:I}}", "input",
	                                     facts_text(r->settings->in), "output", facts_text(r->settings->out), "layout", "gguf",
	                                     "architecture", r->shape.architecture->gguf, "tensors", "mxfp4", (json_int_t)totals.mxfp4,
	                                     "nvfp4", (json_int_t)totals.nvfp4, "numbers", (json_int_t)totals.numbers, "computed",
	                                     (json_int_t)totals.values, "scales_rounded", (json_int_t)t->rounded, "largest_change",
	                                     t->change, "left_out", (json_int_t)t->left.n, "vocabulary", "model", r->tokens.model, "pre",
	                                     r->tokens.pre, "tokens", (json_int_t)r->tokens.tokens, "padded",
	                                     (json_int_t)r->tokens.padded, "merges", (json_int_t)r->tokens.merges), error);
}

/* What was rounded and what is lost. Each line begins with `before`. */
static void print_losses(const struct running *r, FILE *stream, const char *before)
{
	const struct tensors *t = &r->tensors;

	if (t->rounded > 0)
		fprintf(stream, "%s%zu scales were rounded, which changes numbers by at most %.1e of themselves\n", before, t->rounded, t->change);
	if (t->left.n > 0) {
		fprintf(stream, "%s%zu tensors were left out, for which GGUF has no place: ", before, t->left.n);
		print_printable(stream, t->left.first);
		fputs(t->left.n > 1 ? " and others\n" : "\n", stream);
	}
}

static void print_text(const struct running *r)
{
	const struct totals totals = sum_up(r);

	printf("%s: %zu tensors of MXFP4 and %zu of NVFP4 moved without a change to codes and block scales, %zu of numbers copied, %zu "
	       "computed\n", r->shape.architecture->gguf, totals.mxfp4, totals.nvfp4, totals.numbers, totals.values);
	printf("vocabulary %s (%s): %" PRIu64 " tokens, %" PRIu64 " of them unused, %" PRIu64 " merges\n", r->tokens.model, r->tokens.pre,
	       r->tokens.tokens, r->tokens.padded, r->tokens.merges);
	print_losses(r, stdout, "");
	printf("written to ");
	print_printable(stdout, r->settings->out);
	putchar('\n');
}

int to_gguf(const struct to_gguf_settings *settings, struct model *model, struct error *error)
{
	struct running r = {.settings = settings, .model = model, .transfer.threads = settings->threads};
	int code = model_decode_scaled(model, false, error);

	if (code == EXIT_OK)
		code = plan(&r, error);

	if (code == EXIT_OK)
		code = begin(&r, error);
	if (code == EXIT_OK && !r.output.partial.appeared)
		code = write_all(&r, error);
	if (code == EXIT_OK)
		code = model_output_commit(&r.output, NULL, error);
	code = model_output_end(&r.output, code, error);
	if (code == EXIT_OK && settings->json)
		code = print_json(&r, error);
	else if (code == EXIT_OK && !settings->quiet)
		print_text(&r);
	else if (code == EXIT_OK)
		print_losses(&r, stderr, "mxfp: ");
	gguf_pairs_free(&r.pairs);
	tensors_free(&r.tensors);
	shape_free(&r.shape);
	return code;
}
