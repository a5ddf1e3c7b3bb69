/* SPDX-License-Identifier: MIT */
/* Detection over a model: its tensors and their sources, sorted into groups that one way of quantizing made. */
#include "config.h"

#include "analyse/detect.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "io/file_gguf.h"
#include "model/gguf_name.h"

static int ways_of(struct detection *d, enum mxfp_format format, const struct detect_ways **ways, struct error *error)
{
	if (d->ways[format] == NULL) {
		d->ways[format] = malloc(sizeof *d->ways[format]);
		if (d->ways[format] == NULL)
			return fail_memory(error);
		detect_list_ways(d->ways[format], format);
	}
	*ways = d->ways[format];
	return EXIT_OK;
}

/* Reads the whole source for its largest magnitude. */
static int find_amax(struct detect_tensor *t, struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	uint64_t n = tensor_elements(t->source);
	size_t step = n < PIECE_ELEMENTS ? (size_t)n : PIECE_ELEMENTS;
	float *x = malloc((step + 1) * sizeof *x);
	int code = x == NULL ? fail_memory(error) : EXIT_OK;

	for (uint64_t from = 0; from < n && code == EXIT_OK; from += step) {
		size_t count = n - from < step ? (size_t)(n - from) : step;

		code = elements_read(t->file, t->source, from, x, count, error);
		if (code == EXIT_OK)
			must_succeed(dense_amax(&t->amax, MXFP_FORMAT_F32, x, count, &exec));
	}
	free(x);
	return code;
}

static bool has_exact(const struct detect_result *result, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (result->alive[i] && detect_is_exact(result, i))
			return true;
	return false;
}

static void add_result(struct detect_group *group, const struct detect_result *result, const struct detect_tensor *t)
{
	bool own = false;

	for (size_t i = 0; i < group->ways->n; i++) {
		struct detect_score *to = &group->result.scores[i];
		const struct detect_score *from = &result->scores[i];

		group->result.alive[i] = result->alive[i] || (group->result.alive[i] && !group->exact);
		to->scales += from->scales;
		to->equal_scales += from->equal_scales;
		to->elements += from->elements;
		to->equal_codes += from->equal_codes;
		own |= result->alive[i] && result->tensor_scale[i] == DETECT_SCALE_OWN;
	}
	if (group->n_tensors++ == 0)
		group->first = t->source->name;
	group->n_own_scale += own;
	group->n_squares += t->quantized.squares;
}

static int add_group(struct detection *d, const struct detect_ways *ways, bool exact, struct error *error)
{
	struct detect_group *grown = realloc(d->groups, (d->n_groups + 1) * sizeof *grown);

	if (grown == NULL)
		return fail_memory(error);
	d->groups = grown;
	d->groups[d->n_groups++] = (struct detect_group){.ways = ways, .exact = exact};
	return EXIT_OK;
}

/* Tries the ways that made the tensors of each group before all others; *found: one of these made this one too. */
static int try_groups(struct detection *d, const struct detect_ways *ways, const struct detect_tensor *t,
                      const struct detect_settings *settings, bool *found, struct error *error)
{
	int code = EXIT_OK;

	*found = false;
	for (size_t g = 0; g < d->n_groups && code == EXIT_OK && !*found; g++) {
		struct detect_group *group = &d->groups[g];
		struct detect_result result = {.alive = {false}};

		if (group->ways != ways || !group->exact)
			continue;
		memcpy(result.alive, group->result.alive, sizeof result.alive);
		code = detect_compare(&result, ways, t, settings, error);
		*found = code == EXIT_OK && has_exact(&result, ways->n);
		if (*found)
			add_result(group, &result, t);
	}
	return code;
}

static int try_all(struct detection *d, const struct detect_ways *ways, const struct detect_tensor *t,
                   const struct detect_settings *settings, struct error *error)
{
	struct detect_result result = {.alive = {false}};
	size_t g = 0;

	for (size_t i = 0; i < ways->n; i++)
		result.alive[i] = true;
	int code = detect_compare(&result, ways, t, settings, error);
	if (code != EXIT_OK)
		return code;
	bool exact = has_exact(&result, ways->n);
	while (g < d->n_groups && (exact || d->groups[g].exact || d->groups[g].ways != ways))
		g++;
	if (g == d->n_groups)
		code = add_group(d, ways, exact, error);
	if (code == EXIT_OK)
		add_result(&d->groups[g], &result, t);
	return code;
}

/* Whether the quantized tensor has the shape of its source, or whole blocks for a shorter last one. */
static bool same_shape(struct detect_tensor *t, enum mxfp_format format)
{
	uint64_t rows, cols, block = mxfp_format_get_info(format)->block_length;

	tensor_matrix(t->source, &rows, &cols);
	if (rows != t->quantized.rows || cols > t->quantized.cols || t->quantized.cols - cols >= block)
		return false;
	t->quantized.cols = cols;
	return true;
}

static int detect_tensor(struct detection *d, struct detect_tensor *t, const struct detect_settings *settings,
                         struct error *error)
{
	enum mxfp_format format = t->quantized.choice.form->format;
	const struct detect_ways *ways = NULL;
	bool found = false;
	int code = ways_of(d, format, &ways, error);

	if (code != EXIT_OK)
		return code;
	if (!same_shape(t, format)) {
		if (d->n_unmatched++ == 0)
			d->unmatched = t->source->name;
		return EXIT_OK;
	}
	if (mxfp_format_get_info(format)->tensor_scale)
		code = find_amax(t, error);
	if (code == EXIT_OK)
		code = try_groups(d, ways, t, settings, &found, error);
	if (code == EXIT_OK && !found)
		code = try_all(d, ways, t, settings, error);
	return code;
}

static bool is_gguf(const struct model *model)
{
	return model->n_files > 0 && model->files[0].format == &file_gguf;
}

/* Finds the quantized form of the source: under its own name, or under that which it has in files of the other kind, if
   the models are of both. */
static int find_quantized(struct detect_tensor *t, bool *found, const struct model *quantized, const struct model *source,
                          char other[GGUF_NAME_BYTES], struct error *error)
{
	const bool from_gguf = is_gguf(quantized);
	int code = quantized_find(&t->quantized, found, quantized, t->source->name, error);

	t->name = t->source->name;
	if (from_gguf == is_gguf(source))
		return code;
	for (size_t i = 0; code == EXIT_OK && !*found && gguf_name(t->source->name, from_gguf, i, other); i++) {
		code = quantized_find(&t->quantized, found, quantized, other, error);
		if (code != EXIT_OK || !*found)
			continue;
		t->name = other;
		t->from_gguf = from_gguf;
		t->head_rows = gguf_head_rows(from_gguf ? t->quantized.files[LAYOUT_CODES] : t->file,
		                              from_gguf ? other : t->source->name, t->quantized.rows);
	}
	return code;
}

static int detect_file(struct detection *d, const struct model *quantized, const struct model *source,
                       const struct file *file, const struct detect_settings *settings, struct error *error)
{
	char other[GGUF_NAME_BYTES];
	int code = EXIT_OK;

	for (size_t i = 0; i < file->n_tensors && code == EXIT_OK; i++) {
		struct detect_tensor t = {.file = file, .source = &file->tensors[i]};
		struct arena arena = {0};
		struct tensor turned;
		bool found;

		if (!elements_are_float(t.source->dtype) || tensor_elements(t.source) == 0)
			continue;
		code = find_quantized(&t, &found, quantized, source, other, error);
		if (code == EXIT_OK && found && t.quantized.transposed && t.source->rank >= 2) {
			code = role_turn(&turned, t.source, &arena) ? EXIT_OK : fail_memory(error);
			t.source = &turned;
		}
		if (code == EXIT_OK && found)
			code = detect_tensor(d, &t, settings, error);
		progress_add(&d->progress, file->tensors[i].size);
		arena_free(&arena);
	}
	return code;
}

/* Why nothing could be compared. */
static int fail_unmatched(const struct detection *d, const struct model *quantized, const struct model *source,
                          struct error *error)
{
	if (d->n_unmatched > 0)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': has a different shape in %s; --ref names the model it "
		            "was made from", quantized->path, d->unmatched, source->path);
	return fail(error, EXIT_INPUT, "%s: none of its quantized tensors has the name of a float tensor of %s; --ref "
	            "names the model it was made from, with tensors of the same names, or of those that llama.cpp gives them", quantized->path,
	            source->path);
}

int detect(struct detection *detection, const struct model *quantized, const struct model *source,
           const struct detect_settings *settings, struct error *error)
{
	int code = EXIT_OK;

	progress_start(&detection->progress, "comparing", source->data_bytes, settings->quiet);
	for (size_t f = 0; f < source->n_files && code == EXIT_OK; f++)
		code = detect_file(detection, quantized, source, &source->files[f], settings, error);
	progress_end(&detection->progress);
	if (code == EXIT_OK && detection->n_groups == 0)
		code = fail_unmatched(detection, quantized, source, error);
	return code;
}

bool detect_all_exact(const struct detection *detection)
{
	bool exact = true;

	for (size_t g = 0; g < detection->n_groups; g++)
		exact &= detection->groups[g].exact;
	return exact;
}

void detection_free(struct detection *detection)
{
	for (int format = 0; format < FORMATS_MAX; format++)
		free(detection->ways[format]);
	free(detection->groups);
}
