/* SPDX-License-Identifier: MIT */
/*
 * Names are those of eval/tensor.def. As modify_tensors() of conversion/llama.py, qwen.py and gpt_oss.py of llama.cpp has it:
 *
 *   rows of q_proj and k_proj  where eval/shape.h does not say that heads rotate in halves in GGUF too: gguf_row()
 *   experts                    one tensor [experts, rows, cols]; gate_up_proj of all becomes two, of gpt-oss every other row
 *   vectors, norms, routers    F32
 *   other numbers              as they are (convert_hf_to_gguf.py --outtype auto rounds them to 16 bits)
 *   NVFP4                      beside *.weight *.scale, one number or one for each expert, and *.input_scale; none where
 *                              all are 1. They multiply.
 */
#include "config.h"

#include "gguf/tensors.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "eval/tensor_name.h"
#include "gguf/parameters.h"
#include "io/elements.h"
#include "io/piece.h"
#include "model/allow.h"
#include "model/gguf_name.h"
#include "model/meaning.h"
#include "model/quantized.h"
#include "model/role.h"

#define ROPE_FACTORS "rope_freqs.weight"

struct planning {
	struct tensors *tensors;
	const struct model *model;
	const struct shape *shape;
	bool allow_rounding;
	const struct role_model *role_model; /* on the way back: of the directory that is made */
	struct layout_facts *facts;          /* on the way back: for its config.json; NULL: a GGUF file is made */
	bool *used; /* of each tensor in model->by_name */
	size_t room; /* in tensors->entries */
	struct error *error;
};

/* How a tensor is put together. */
struct want {
	enum tensor_id id;
	enum tensor_id gguf;  /* its name in GGUF */
	int gguf_name;        /* which of that id's names */
	size_t layer;
	uint64_t rows, cols;  /* of a matrix in the output */
	size_t matrices;      /* 0: it is a matrix, not one of several */
	struct tensors_rows order;
	bool f32;             /* numbers become F32 */
	bool scaled;          /* llama.cpp takes a scale beside it */
	bool needed;
};

static void use(struct planning *p, const char *name)
{
	for (size_t from = 0, to = p->model->n_tensors; from < to;) {
		const size_t middle = from + (to - from) / 2;
		const int order = strcmp(p->model->by_name[middle].tensor->name, name);

		if (order == 0) {
			p->used[middle] = true;
			return;
		}
		if (order < 0)
			from = middle + 1;
		else
			to = middle;
	}
}

/* Finds a tensor of the model, quantized or not. */
static int find_source(struct planning *p, struct tensors_source *source, const char *name, bool *found)
{
	struct quantized *q = &source->quantized;
	int code = quantized_find(q, found, p->model, name, p->error);

	if (code != EXIT_OK)
		return code;
	if (*found) {
		for (int i = 0; i < N_LAYOUT_PARTS; i++)
			if (q->parts[i] != NULL)
				use(p, q->parts[i]->name);
		source->tensor = NULL;
		source->file = q->files[LAYOUT_CODES];
	} else {
		const struct tensor *stored = model_find(p->model, name, &source->file);

		if (stored == NULL)
			return EXIT_OK;
		*found = true;
		use(p, name);
		if (!elements_are_float(stored->dtype))
			return fail_tensor(p->error, source->file->path, name, "is %s, whose numbers are not known here",
			                   dtype_info(stored->dtype)->name);
		const struct role role = role_of(&p->model->role_model, stored);
		source->tensor = role_rows(&role, stored, &p->tensors->arena);
		if (source->tensor == NULL)
			return fail_memory(p->error);
	}
	source->name = arena_string(&p->tensors->arena, name);
	return source->name != NULL ? EXIT_OK : fail_memory(p->error);
}

static void size_of(const struct tensors_source *source, uint64_t *rows, uint64_t *cols)
{
	if (source->tensor != NULL) {
		tensor_matrix(source->tensor, rows, cols);
	} else {
		*rows = source->quantized.rows;
		*cols = source->quantized.cols;
	}
}

static int check_size(const struct planning *p, const struct tensors_source *source, uint64_t rows, uint64_t cols)
{
	uint64_t there_rows, there_cols;

	size_of(source, &there_rows, &there_cols);
	/* A vector is one row of numbers, or one number a row. */
	if ((there_rows == rows && there_cols == cols) || (source->tensor != NULL && cols == 1 && there_rows * there_cols == rows &&
	                                                  (source->tensor->rank == 1 || !source->tensor->by_columns)))
		return EXIT_OK;
	return fail_tensor(p->error, source->file->path, source->name, "is %" PRIu64 " x %" PRIu64 ", and %s asks for %" PRIu64
	                   " x %" PRIu64, there_rows, there_cols, p->shape->path, rows, cols);
}

/* Of a tensor of several matrices: whether they are so many. */
static int check_matrices(const struct planning *p, const struct tensors_source *source, uint64_t matrices)
{
	const struct layout_shape *shape = &source->quantized.shape;
	const unsigned rank = source->tensor != NULL ? source->tensor->rank : shape->rank;
	const uint64_t there = rank != 3 ? matrices : source->tensor != NULL ? source->tensor->shape[0] : shape->dims[0];

	return there == matrices ? EXIT_OK
	                         : fail_tensor(p->error, source->file->path, source->name, "is of %" PRIu64 " matrices, and %s asks for %" PRIu64,
	                                       there, p->shape->path, matrices);
}

static struct tensors_entry *add_entry(struct planning *p)
{
	struct tensors *t = p->tensors;

	if (t->n == p->room) {
		const size_t room = p->room > 0 ? 2 * p->room : 256;
		struct tensors_entry *grown = realloc(t->entries, room * sizeof *grown);

		if (grown == NULL)
			return NULL;
		t->entries = grown;
		p->room = room;
	}
	t->entries[t->n] = (struct tensors_entry){.n_sources = 0};
	return &t->entries[t->n++];
}

/* Sets name and shape of an entry's tensor, `name` with another ending if `ending` is not NULL. */
static int set_output(struct planning *p, struct tensors_entry *entry, const char *name, const char *ending, enum dtype dtype,
                      unsigned rank, const uint64_t *shape)
{
	static const char weight[] = ".weight";
	char text[GGUF_NAME_BYTES];
	const size_t stem = suffix_stem(name, weight);

	snprintf(text, sizeof text, "%.*s%s", ending != NULL && stem > 0 ? (int)stem : (int)strlen(name), name,
	         ending != NULL ? ending : "");
	uint64_t *dims = arena_take(&p->tensors->arena, rank * sizeof *dims);
	entry->output = (struct tensor){.name = arena_string(&p->tensors->arena, text), .dtype = dtype, .rank = rank, .shape = dims};
	if (dims == NULL || entry->output.name == NULL)
		return fail_memory(p->error);
	memcpy(dims, shape, rank * sizeof *dims);
	return tensor_size(&entry->output, &entry->output.size) ? EXIT_OK
	       : fail_tensor(p->error, p->shape->path, text, "is too large, or its rows are not whole blocks");
}

/* Adds numbers that are computed here, unless all are 1 and `unless_ones` says that they are not wanted then. */
static int add_values(struct planning *p, const char *name, const char *ending, const float *values, size_t n, bool unless_ones)
{
	const uint64_t shape = n;
	bool ones = true;

	for (size_t i = 0; i < n; i++)
		ones &= values[i] == 1;
	if (ones && unless_ones)
		return EXIT_OK;
	struct tensors_entry *entry = add_entry(p);
	float *kept = arena_take(&p->tensors->arena, n * sizeof *kept);
	if (entry == NULL || kept == NULL)
		return fail_memory(p->error);
	memcpy(kept, values, n * sizeof *kept);
	entry->kind = TENSORS_VALUES;
	entry->values = kept;
	return set_output(p, entry, name, ending, DTYPE_F32, 1, &shape);
}

/* Reads a tensor scale as a number that multiplies, or divides; 1 if there is none. Of several matrices in one tensor, each of
   which has its own, that of one. */
static int read_scale(struct planning *p, const struct tensors_source *source, enum layout_part part, size_t matrix, bool divides,
                      float *scale)
{
	const struct tensor *tensor = source->quantized.parts[part];
	const struct file *file = source->quantized.files[part];
	float was = 1;

	*scale = 1;
	if (tensor == NULL)
		return EXIT_OK;
	const struct layout_shape *shape = &source->quantized.shape;
	const bool each = source->quantized.choice.form->scales_each == 1 && shape->rank == 3 && shape->dims[0] > 1;
	if (tensor->dtype != DTYPE_F32 || tensor_elements(tensor) != (each ? shape->dims[0] : 1))
		return fail_tensor(p->error, file->path, tensor->name, "is not one F32 number%s", each ? " for each matrix" : "");
	int code = file_read(file, tensor, each ? matrix * sizeof was : 0, &was, sizeof was, p->error);
	dtype_swap(DTYPE_F32, &was, sizeof was);
	*scale = was;
	if (code != EXIT_OK || source->quantized.choice.layout->divides == divides)
		return code;
	*scale = 1 / was;
	if (!isfinite(was) || !isfinite(*scale) || *scale == 0)
		return fail_tensor(p->error, file->path, tensor->name, "is %g, whose reciprocal, which the output wants, is not an F32 number",
		                   (double)was);
	/* Both are binary32 numbers, so their product is exact in binary64. */
	const double change = fabs((double)*scale * (double)was - 1);
	if (change == 0)
		return EXIT_OK;
	if (!p->allow_rounding)
		return fail_tensor(p->error, file->path, tensor->name, "is %.9g, and its reciprocal, which the output wants, has to be rounded: "
		                   "that changes numbers by %.1e of themselves; --allow-rounding accepts it", (double)was, change);
	p->tensors->rounded++;
	p->tensors->change = change > p->tensors->change ? change : p->tensors->change;
	return EXIT_OK;
}

/* Adds the scales beside a tensor of NVFP4, of all its sources. */
static int add_scales(struct planning *p, const struct want *w, const struct tensors_entry *entry, const char *name,
                      enum layout_part part, const char *ending)
{
	const struct tensors_source *sources = entry->sources;
	/* One source may be several matrices: each has its scale there. */
	const size_t n = w->matrices > 0 ? w->matrices : 1, n_sources = entry->n_sources;
	float *scales = calloc(n, sizeof *scales);
	bool ones = true;
	int code = scales == NULL ? fail_memory(p->error) : EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		if (i > 0 && n_sources == 1)
			scales[i] = scales[0];
		else
			code = read_scale(p, &sources[i], part, 0, false, &scales[i]);
		ones &= scales[i] == 1;
	}
	if (code == EXIT_OK && !ones && !w->scaled)
		code = fail_tensor(p->error, sources[0].file->path, sources[0].name, "has a tensor scale, and llama.cpp takes none for '%s'; "
		                   "mxfp dequantize decodes it", name);
	if (code == EXIT_OK)
		code = add_values(p, name, ending, scales, n, true);
	free(scales);
	return code;
}

/* Decides how codes are held. */
static int plan_codes(struct planning *p, struct tensors_entry *entry, const struct tensor *whole)
{
	const struct tensors_source *first = &entry->sources[0];
	const struct layout_form *form = layout_form(&layout_gguf, first->quantized.choice.form->format, false);

	for (size_t i = 0; i < entry->n_sources; i++) {
		const struct tensors_source *source = &entry->sources[i];

		if (source->tensor != NULL || source->quantized.choice.form->format != first->quantized.choice.form->format)
			return fail_tensor(p->error, source->file->path, source->name, "is not held as '%s' is, and all experts are one tensor in "
			                   "GGUF; mxfp dequantize decodes the model", first->name);
		if (source->quantized.parts[LAYOUT_PRE_QUANT_SCALE] != NULL)
			return fail_tensor(p->error, source->file->path, source->name, "has a pre_quant_scale, which GGUF has no place for; mxfp "
			                   "dequantize folds it into the weight");
	}
	if (form == NULL)
		return fail_tensor(p->error, first->file->path, first->name, "is %s, which GGUF has no type for; mxfp dequantize decodes the "
		                   "model, and the result becomes a GGUF file", mxfp_format_get_info(first->quantized.choice.form->format)->name);
	const struct layout_choice choice = {.layout = &layout_gguf, .form = form, .unscaled = true};
	const char *why = layout_refuses(&choice, whole);
	if (why != NULL)
		return fail_tensor(p->error, first->file->path, first->name, "GGUF does not hold it: %s; mxfp dequantize decodes it", why);
	entry->kind = TENSORS_CODES;
	entry->choice = choice;
	entry->output.dtype = form->parts[LAYOUT_CODES].dtype;
	return EXIT_OK;
}

static int plan_numbers(struct planning *p, const struct want *w, struct tensors_entry *entry)
{
	const struct tensors_source *first = &entry->sources[0];
	const bool wide = w->f32 || first->tensor->dtype == DTYPE_F64;

	for (size_t i = 1; i < entry->n_sources; i++) {
		const struct tensors_source *source = &entry->sources[i];

		if (source->tensor == NULL || source->tensor->dtype != first->tensor->dtype)
			return fail_tensor(p->error, source->file->path, source->name, "is not held as '%s' is, and all experts are one tensor in "
			                   "GGUF; mxfp dequantize decodes the model", first->name);
	}
	entry->kind = TENSORS_NUMBERS;
	entry->output.dtype = wide ? DTYPE_F32 : first->tensor->dtype;
	return EXIT_OK;
}

/* Fills in what is there and how it becomes what is wanted. `name` is that of GGUF. */
static int plan_entry(struct planning *p, const struct want *w, struct tensors_source *sources, size_t n_sources, const char *name)
{
	const size_t matrices = w->matrices > 0 ? w->matrices : 1;
	const bool is_vector = w->cols == 1;
	const uint64_t shape[3] = {matrices, w->rows, w->cols};
	const unsigned rank = is_vector ? 1 + (w->matrices > 0) : 2 + (w->matrices > 0);
	const struct tensor whole = {.name = name, .dtype = DTYPE_F32, .rank = rank, .shape = shape + (w->matrices == 0)};
	struct tensors_entry *entry = add_entry(p);
	int code = EXIT_OK;

	if (entry == NULL)
		return fail_memory(p->error);
	*entry = (struct tensors_entry){
		.n_sources = n_sources,
		.sources = sources,
		.rows = matrices * w->rows,
		.cols = w->cols,
		.matrix = w->rows,
		.order = w->order,
	};
	for (size_t i = 0; i < n_sources && code == EXIT_OK; i++)
		code = check_size(p, &sources[i], (n_sources > 1 ? 1 : matrices) * w->order.stride, w->cols);
	for (size_t i = 0; i < n_sources && code == EXIT_OK; i++)
		code = check_matrices(p, &sources[i], n_sources > 1 ? 1 : matrices);
	if (code == EXIT_OK)
		code = sources[0].tensor == NULL ? plan_codes(p, entry, &whole) : plan_numbers(p, w, entry);
	if (code == EXIT_OK)
		code = set_output(p, entry, name, NULL, entry->output.dtype, rank, whole.shape);
	if (code != EXIT_OK || entry->kind != TENSORS_CODES)
		return code;
	entry->parts[LAYOUT_CODES] = entry->output;
	entry->weights_only = entry->output.dtype == DTYPE_NVFP4;
	for (size_t i = 0; i < n_sources; i++)
		entry->weights_only &= sources[i].quantized.parts[LAYOUT_INPUT_SCALE] == NULL;
	const struct tensors_entry made = *entry; /* add_scales() may move them */
	if (made.output.dtype == DTYPE_NVFP4) {
		code = add_scales(p, w, &made, name, LAYOUT_TENSOR_SCALE, ".scale");
		return code == EXIT_OK ? add_scales(p, w, &made, name, LAYOUT_INPUT_SCALE, ".input_scale") : code;
	}
	for (size_t i = 0; i < n_sources; i++)
		if (sources[i].quantized.parts[LAYOUT_INPUT_SCALE] != NULL && p->tensors->left.n++ == 0)
			p->tensors->left.first = sources[i].quantized.parts[LAYOUT_INPUT_SCALE]->name;
	return EXIT_OK;
}

/* The name of the bias beside a weight. */
static void bias_name(char name[TENSOR_NAME_BYTES + 8], const char *weight)
{
	const size_t stem = suffix_stem(weight, ".weight");

	if (stem > 0)
		snprintf(name, TENSOR_NAME_BYTES + 8, "%.*s.bias", (int)stem, weight);
	else
		snprintf(name, TENSOR_NAME_BYTES + 8, "%s_bias", weight);
}

/* Adds the bias beside sources, in the order of their rows. */
static int add_bias(struct planning *p, const struct want *w, const struct tensors_source *sources, size_t n_sources, const char *gguf)
{
	char name[TENSOR_NAME_BYTES + 8], other[TENSOR_NAME_BYTES + 8];
	struct want bias = *w;
	struct tensors_source *found = arena_take(&p->tensors->arena, n_sources * sizeof *found);
	bool there = false;
	int code = found == NULL ? fail_memory(p->error) : EXIT_OK;

	for (size_t i = 0; i < n_sources && code == EXIT_OK; i++) {
		found[i] = (struct tensors_source){0};
		bias_name(name, sources[i].name);
		code = find_source(p, &found[i], name, &there);
		if (code == EXIT_OK && !there)
			return EXIT_OK; /* what is there for some experts stays unused, and is refused */
		if (code == EXIT_OK && found[i].tensor == NULL)
			code = fail_tensor(p->error, found[i].file->path, name, "is quantized, and llama.cpp takes F32 alone; mxfp dequantize "
			                   "decodes it");
	}
	if (code != EXIT_OK)
		return code;
	bias.cols = 1;
	bias.f32 = true;
	bias_name(other, gguf);
	return plan_entry(p, &bias, found, n_sources, other);
}

/* The names of GGUF for an id. */
static bool gguf_name_of(char name[TENSOR_NAME_BYTES], const struct want *w)
{
	size_t row = 0;

	for (int i = 0; i <= w->gguf_name; i++)
		if (!tensor_name(name, &row, w->gguf, true, w->layer, TENSOR_NO_EXPERT))
			return false;
	return true;
}

static int fail_missing(const struct planning *p, const char *name)
{
	return fail(p->error, EXIT_INPUT, "%s: has no tensor '%s', which a model of %s needs", p->model->path, name,
	            p->shape->architecture->huggingface);
}

/* Finds what an id is called in the model, for one expert or none. */
static int find_any(struct planning *p, struct tensors_source *source, enum tensor_id id, size_t layer, int expert, bool *found,
                    char first[TENSOR_NAME_BYTES])
{
	char name[TENSOR_NAME_BYTES];
	size_t row = 0;
	int code = EXIT_OK;

	*found = false;
	*source = (struct tensors_source){0};
	first[0] = '\0';
	while (code == EXIT_OK && !*found && tensor_name(name, &row, id, false, layer, expert)) {
		if (first[0] == '\0')
			memcpy(first, name, sizeof name);
		code = find_source(p, source, name, found);
	}
	return code;
}

/* The way back: of one tensor of GGUF, one for each of its matrices. */

/* The name that the model's family has for an id: the first, or that of several with a word of the family. */
static bool huggingface_name(const struct planning *p, char name[TENSOR_NAME_BYTES], const struct want *w, int expert)
{
	static const char *const words[][2] = {{"mixtral", ".block_sparse_moe."}, {"gpt_oss", ".router."}};
	const char *word = NULL;
	char next[TENSOR_NAME_BYTES];
	size_t row = 0;
	bool found = false;

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(words[i][0], p->shape->architecture->huggingface) == 0)
			word = words[i][1];
	while (tensor_name(next, &row, w->id, false, w->layer, expert)) {
		if (!found || (word != NULL && strstr(next, word) != NULL))
			memcpy(name, next, sizeof next);
		found = true;
	}
	return found;
}

/* Adds a tensor scale, or the input scale, of a tensor that is quantized. */
static int back_scale(struct planning *p, const struct tensors_source *source, size_t matrix, const struct layout_choice *choice,
                      enum layout_part part, const char *name)
{
	const uint64_t one = 1;
	float scale;
	bool fits;
	char *full = layout_part_name(choice->form, part, name, &fits);
	int code = fits && full == NULL ? fail_memory(p->error) : EXIT_OK;

	if (code == EXIT_OK && !fits && source->quantized.parts[part] != NULL && p->tensors->left.n++ == 0)
		p->tensors->left.first = source->quantized.parts[part]->name;
	if (code == EXIT_OK && fits)
		code = read_scale(p, source, part, matrix, choice->layout->divides, &scale);
	if (code == EXIT_OK && fits)
		code = add_values(p, full, NULL, &scale, 1, false);
	if (code == EXIT_OK && fits)
		code = set_output(p, &p->tensors->entries[p->tensors->n - 1], full, NULL, DTYPE_F32, choice->layout->tensor_scale_rank, &one);
	free(full);
	return code;
}

/* Decides how codes are held in the layout, and adds their scales. */
static int back_codes(struct planning *p, struct tensors_entry *entry, size_t matrix, const char *name)
{
	const struct tensors_source *source = &entry->sources[0];
	const struct layout *layout = p->facts->layout;
	const enum mxfp_format format = source->quantized.choice.form->format;
	const struct layout_choice choice = {.layout = layout, .form = layout_form(layout, format, false)};
	const struct tensor whole = {.name = entry->output.name, .dtype = DTYPE_F32, .rank = entry->output.rank, .shape = entry->output.shape};
	const struct role role = role_of(p->role_model, &whole);
	const char *why = choice.form == NULL ? "it has no such form" : layout_refuses(&choice, &whole);
	int code = EXIT_OK;

	if (why == NULL)
		why = layout_refuses_role(layout, p->role_model, &role, &whole);
	if (why != NULL)
		return fail_tensor(p->error, source->file->path, source->name, "layout %s does not hold it as %s: %s; mxfp dequantize decodes it",
		                   layout->name, mxfp_format_get_info(format)->name, why);
	entry->kind = TENSORS_CODES;
	entry->choice = choice;
	for (int part = 0; part < N_LAYOUT_PARTS; part++)
		if (layout_has(&choice, (enum layout_part)part) &&
		    !layout_describe(&choice, (enum layout_part)part, &whole, &p->tensors->arena, &entry->parts[part]))
			return fail_memory(p->error);
	layout_facts_add(p->facts, &choice, name);
	/* These may move the entry. */
	const struct tensors_source kept = *source;
	const bool scaled = layout_has(&choice, LAYOUT_TENSOR_SCALE), input = kept.quantized.parts[LAYOUT_INPUT_SCALE] != NULL;
	if (scaled)
		code = back_scale(p, &kept, matrix, &choice, LAYOUT_TENSOR_SCALE, name);
	if (code == EXIT_OK && input)
		code = back_scale(p, &kept, matrix, &choice, LAYOUT_INPUT_SCALE, name);
	p->facts->input_scales |= input;
	return code;
}

/* Adds one matrix, or one vector, of a tensor of GGUF. */
static int back_entry(struct planning *p, const struct want *w, struct tensors_source *source, size_t matrix, const char *name)
{
	const bool is_vector = w->cols == 1;
	const uint64_t shape[2] = {w->rows, w->cols};
	struct tensors_entry *entry = add_entry(p);

	if (entry == NULL)
		return fail_memory(p->error);
	*entry = (struct tensors_entry){
		.kind = TENSORS_NUMBERS,
		.n_sources = 1,
		.sources = source,
		.rows = w->rows,
		.cols = w->cols,
		.matrix = w->rows,
		.order = {.stride = w->rows, .first = matrix * w->rows, .step = 1, .head_rows = w->order.head_rows, .back = true},
	};
	const enum dtype dtype = source->tensor == NULL ? DTYPE_F32 : source->tensor->dtype == DTYPE_F64 ? DTYPE_F32 : source->tensor->dtype;
	int code = set_output(p, entry, name, NULL, dtype, is_vector ? 1 : 2, shape);
	if (code == EXIT_OK && source->tensor == NULL)
		return back_codes(p, entry, matrix, name);
	if (code == EXIT_OK)
		layout_facts_keep(p->facts, &entry->output);
	return code;
}

/* Adds all matrices of a tensor of GGUF called `gguf`, with the names of the weight or of the bias beside it. */
static int back_all(struct planning *p, const struct want *w, const char *gguf, bool bias, bool *there)
{
	const size_t matrices = w->matrices > 0 ? w->matrices : 1;
	struct tensors_source *source = arena_take(&p->tensors->arena, sizeof *source);
	char name[TENSOR_NAME_BYTES], other[TENSOR_NAME_BYTES + 8];

	if (source == NULL)
		return fail_memory(p->error);
	*source = (struct tensors_source){0};
	int code = find_source(p, source, gguf, there);
	if (code != EXIT_OK || !*there)
		return code;
	code = check_size(p, source, matrices * w->rows, w->cols);
	if (code == EXIT_OK)
		code = check_matrices(p, source, matrices);
	for (size_t m = 0; m < matrices && code == EXIT_OK; m++) {
		if (!huggingface_name(p, name, w, w->matrices > 0 ? (int)m : TENSOR_NO_EXPERT))
			return fail_tensor(p->error, source->file->path, source->name, "has no name in a model of %s",
			                   p->shape->architecture->huggingface);
		bias_name(other, name);
		code = back_entry(p, w, source, m, bias ? other : name);
	}
	return code;
}

static int add_back(struct planning *p, const struct want *w, bool *there)
{
	char gguf[TENSOR_NAME_BYTES], other[TENSOR_NAME_BYTES + 8];
	struct want bias = *w;
	bool has_bias;

	if (!gguf_name_of(gguf, w))
		return fail(p->error, EXIT_INPUT, "%s: a tensor of the model has no name in GGUF", p->model->path);
	int code = back_all(p, w, gguf, false, there);
	if (code == EXIT_OK && !*there && w->needed)
		code = fail_missing(p, gguf);
	if (code != EXIT_OK || !*there || w->cols == 1)
		return code;
	bias.cols = 1;
	bias_name(other, gguf);
	return back_all(p, &bias, other, true, &has_bias);
}

/* Adds a tensor of gpt-oss that holds all experts, or the vectors beside it, from the tensors of GGUF that `ids` call so, whose
   rows it has in turns. */
static int back_together(struct planning *p, const struct want *w, const enum tensor_id *ids, size_t n, bool bias)
{
	struct tensors_source *sources = arena_take(&p->tensors->arena, n * sizeof *sources);
	char gguf[TENSOR_NAME_BYTES], of_bias[TENSOR_NAME_BYTES + 8], name[TENSOR_NAME_BYTES], full[TENSOR_NAME_BYTES + 8];
	const uint64_t shape[3] = {w->matrices, w->rows, w->cols}, cols = bias ? 1 : w->cols;
	int code = sources == NULL ? fail_memory(p->error) : EXIT_OK;
	bool there;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		const struct want one = {.gguf = ids[i], .layer = w->layer};

		sources[i] = (struct tensors_source){0};
		if (!gguf_name_of(gguf, &one))
			return fail(p->error, EXIT_INPUT, "%s: a tensor of the model has no name in GGUF", p->model->path);
		bias_name(of_bias, gguf);
		code = find_source(p, &sources[i], bias ? of_bias : gguf, &there);
		if (code == EXIT_OK && !there)
			code = fail_missing(p, bias ? of_bias : gguf);
		if (code == EXIT_OK)
			code = check_size(p, &sources[i], w->matrices * w->rows / n, cols);
		if (code == EXIT_OK)
			code = check_matrices(p, &sources[i], w->matrices);
		if (code == EXIT_OK && sources[i].tensor != NULL && !bias)
			code = fail_tensor(p->error, sources[i].file->path, sources[i].name, "is %s, and experts of gpt_oss become MXFP4 alone; mxfp "
			                   "quantize makes that of the file first", dtype_info(sources[i].tensor->dtype)->name);
		if (code == EXIT_OK && bias && sources[i].tensor == NULL)
			code = fail_tensor(p->error, sources[i].file->path, sources[i].name, "is quantized, and loaders take numbers; mxfp dequantize "
			                   "decodes it");
		if (code == EXIT_OK && !bias && sources[i].quantized.choice.form->format != sources[0].quantized.choice.form->format)
			code = fail_tensor(p->error, sources[i].file->path, sources[i].name, "is not held as '%s' is, and both become one tensor; mxfp "
			                   "dequantize decodes the model", sources[0].name);
	}
	if (code != EXIT_OK)
		return code;
	struct tensors_entry *entry = add_entry(p);
	if (entry == NULL)
		return fail_memory(p->error);
	*entry = (struct tensors_entry){
		.kind = TENSORS_NUMBERS,
		.n_sources = n,
		.sources = sources,
		.rows = w->matrices * w->rows,
		.cols = cols,
		.matrix = w->rows,
		.order = {.stride = w->rows / n, .step = 1, .back = true, .in_turns = n > 1},
	};
	if (!huggingface_name(p, name, w, TENSOR_NO_EXPERT))
		return fail_tensor(p->error, sources[0].file->path, sources[0].name, "has no name in a model of %s",
		                   p->shape->architecture->huggingface);
	bias_name(full, name);
	code = set_output(p, entry, bias ? full : name, NULL, DTYPE_F32, bias ? 2 : 3, shape);
	if (code == EXIT_OK && !bias)
		return back_codes(p, entry, 0, name);
	if (code == EXIT_OK)
		layout_facts_keep(p->facts, &entry->output);
	return code;
}

/* Experts as gpt-oss has them: one tensor of gates and ups in turns, and one of the rest. */
static int back_experts_together(struct planning *p, size_t i)
{
	static const enum tensor_id both[] = {TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP}, down[] = {TENSOR_EXPERT_DOWN};
	const struct shape *s = p->shape;
	const struct want first = {.id = TENSOR_EXPERT_GATE_UP, .layer = i, .rows = 2 * s->expert_cols, .cols = s->hidden, .matrices = s->experts};
	const struct want second = {.id = TENSOR_EXPERT_DOWN, .layer = i, .rows = s->hidden, .cols = s->expert_cols, .matrices = s->experts};
	int code = back_together(p, &first, both, 2, false);

	if (code == EXIT_OK)
		code = back_together(p, &first, both, 2, true);
	if (code == EXIT_OK)
		code = back_together(p, &second, down, 1, false);
	return code == EXIT_OK ? back_together(p, &second, down, 1, true) : code;
}

/* Finds the sources of a tensor: one, or one for each expert. *n is 0 if the model has none of them. */
static int find_sources(struct planning *p, const struct want *w, struct tensors_source *sources, size_t *n,
                        char name[TENSOR_NAME_BYTES])
{
	bool found;
	int code = find_any(p, &sources[0], w->id, w->layer, TENSOR_NO_EXPERT, &found, name);

	*n = found;
	for (size_t e = 0; !found && e < w->matrices && code == EXIT_OK && *n == e; e++) {
		bool expert;

		code = find_any(p, &sources[e], w->id, w->layer, (int)e, &expert, name);
		*n += expert;
	}
	return code == EXIT_OK && *n > 1 && *n < w->matrices ? fail_missing(p, name) : code;
}

/* Adds a tensor, and the bias beside it. *there tells whether it is in the model. */
static int add_tensor(struct planning *p, const struct want *w, bool *there)
{
	char name[TENSOR_NAME_BYTES], gguf[TENSOR_NAME_BYTES];
	struct tensors_source *sources = arena_take(&p->tensors->arena, (w->matrices + 1) * sizeof *sources);
	size_t n = 0;

	if (p->facts != NULL)
		return add_back(p, w, there);
	int code = sources == NULL ? fail_memory(p->error) : find_sources(p, w, sources, &n, name);

	*there = n > 0;
	if (code != EXIT_OK)
		return code;
	if (n == 0)
		return w->needed ? fail_missing(p, name) : EXIT_OK;
	if (!gguf_name_of(gguf, w))
		return fail_tensor(p->error, sources[0].file->path, sources[0].name, "has no name in GGUF");
	code = plan_entry(p, w, sources, n, gguf);
	return code == EXIT_OK && w->cols > 1 ? add_bias(p, w, sources, n, gguf) : code;
}

static int add(struct planning *p, struct want w)
{
	bool there;

	if (w.order.stride == 0)
		w.order.stride = w.rows;
	if (w.order.step == 0)
		w.order.step = 1;
	w.needed = true;
	return add_tensor(p, &w, &there);
}

/* A vector, as one number a row. */
static int add_vector(struct planning *p, enum tensor_id id, size_t layer, size_t n, int gguf_name)
{
	return add(p, (struct want){.id = id, .gguf = id, .layer = layer, .rows = n, .cols = 1, .f32 = true, .gguf_name = gguf_name});
}

static int add_linear(struct planning *p, enum tensor_id id, size_t layer, uint64_t rows, uint64_t cols, size_t heads)
{
	return add(p, (struct want){
		.id = id, .gguf = id, .layer = layer, .rows = rows, .cols = cols, .scaled = true,
		.order.head_rows = heads > 0 ? rows / heads : 0,
	});
}

static int add_attention(struct planning *p, size_t i)
{
	const struct shape *s = p->shape;
	const uint64_t q = s->heads * s->head_cols, kv = s->kv_heads * s->head_cols;
	const bool turned = (s->architecture->has & ARCHITECTURE_HALVES) == 0;
	int code = add_vector(p, TENSOR_ATTENTION_NORM, i, s->hidden, 0);

	if (code == EXIT_OK)
		code = add_linear(p, TENSOR_Q, i, q, s->hidden, turned ? s->heads : 0);
	if (code == EXIT_OK)
		code = add_linear(p, TENSOR_K, i, kv, s->hidden, turned ? s->kv_heads : 0);
	if (code == EXIT_OK)
		code = add_linear(p, TENSOR_V, i, kv, s->hidden, 0);
	if (code == EXIT_OK)
		code = add_linear(p, TENSOR_OUTPUT, i, s->hidden, q, 0);
	if (code == EXIT_OK && (s->architecture->has & ARCHITECTURE_HEAD_NORM) != 0)
		code = add_vector(p, TENSOR_Q_NORM, i, s->head_cols, 0);
	if (code == EXIT_OK && (s->architecture->has & ARCHITECTURE_HEAD_NORM) != 0)
		code = add_vector(p, TENSOR_K_NORM, i, s->head_cols, 0);
	if (code == EXIT_OK && (s->architecture->has & ARCHITECTURE_SINKS) != 0)
		code = add_vector(p, TENSOR_SINKS, i, s->heads, 0);
	return code;
}

/* Gate and up of all experts from one tensor: of gpt-oss in turns, of others first all gates. */
static int add_gate_up(struct planning *p, size_t i, bool *there)
{
	const struct shape *s = p->shape;
	const bool in_turns = (s->architecture->has & ARCHITECTURE_CLAMPED) != 0;
	struct want w = {
		.id = TENSOR_EXPERT_GATE_UP, .layer = i, .rows = s->expert_cols, .cols = s->hidden, .matrices = s->experts,
		.order = {.stride = 2 * s->expert_cols, .step = in_turns ? 2 : 1}, .scaled = true,
	};

	w.gguf = TENSOR_EXPERT_GATE;
	int code = add_tensor(p, &w, there);
	w.gguf = TENSOR_EXPERT_UP;
	w.order.first = in_turns ? 1 : s->expert_cols;
	return code == EXIT_OK && *there ? add_tensor(p, &w, there) : code;
}

static int add_experts(struct planning *p, size_t i)
{
	const struct shape *s = p->shape;
	const struct want parts[] = {
		{.id = TENSOR_EXPERT_GATE, .rows = s->expert_cols, .cols = s->hidden},
		{.id = TENSOR_EXPERT_UP, .rows = s->expert_cols, .cols = s->hidden},
		{.id = TENSOR_EXPERT_DOWN, .rows = s->hidden, .cols = s->expert_cols},
	};
	bool together = false;
	int code = add(p, (struct want){
		.id = TENSOR_ROUTER, .gguf = TENSOR_ROUTER, .layer = i, .rows = s->experts, .cols = s->hidden, .f32 = true,
	});

	if (code == EXIT_OK && p->facts != NULL && (s->architecture->has & ARCHITECTURE_CLAMPED) != 0)
		return back_experts_together(p, i);
	if (code == EXIT_OK && p->facts == NULL)
		code = add_gate_up(p, i, &together);
	for (size_t k = code == EXIT_OK && together ? 2 : 0; k < 3 && code == EXIT_OK; k++) {
		struct want w = parts[k];

		w.gguf = w.id;
		w.layer = i;
		w.matrices = s->experts;
		w.scaled = true;
		code = add(p, w);
	}
	return code;
}

static int add_dense(struct planning *p, size_t i, const enum tensor_id ids[3], size_t cols)
{
	const struct shape *s = p->shape;
	int code = add_linear(p, ids[0], i, cols, s->hidden, 0);

	if (code == EXIT_OK)
		code = add_linear(p, ids[1], i, cols, s->hidden, 0);
	return code == EXIT_OK ? add_linear(p, ids[2], i, s->hidden, cols, 0) : code;
}

static int add_layer(struct planning *p, size_t i)
{
	static const enum tensor_id dense[3] = {TENSOR_GATE, TENSOR_UP, TENSOR_DOWN},
	                            shared[3] = {TENSOR_SHARED_GATE, TENSOR_SHARED_UP, TENSOR_SHARED_DOWN};
	const struct shape *s = p->shape;
	int code = add_attention(p, i);

	/* gpt-oss has the second name. */
	if (code == EXIT_OK)
		code = add_vector(p, TENSOR_MLP_NORM, i, s->hidden, (s->architecture->has & ARCHITECTURE_SINKS) != 0);
	if (code == EXIT_OK)
		code = s->routed[i] ? add_experts(p, i) : add_dense(p, i, dense, s->intermediate);
	if (code == EXIT_OK && s->routed[i] && s->shared_cols > 0) {
		code = add_dense(p, i, shared, s->shared_cols);
		if (code == EXIT_OK)
			code = add(p, (struct want){
				.id = TENSOR_SHARED_ROUTER, .gguf = TENSOR_SHARED_ROUTER, .layer = i, .rows = 1, .cols = s->hidden, .f32 = true,
			});
	}
	return code;
}

static int add_ends(struct planning *p)
{
	const struct shape *s = p->shape;
	float *factors = NULL;
	bool there;
	struct want head = {
		.id = TENSOR_HEAD, .gguf = TENSOR_HEAD, .rows = s->vocabulary, .cols = s->hidden, .scaled = true,
		.order = {.stride = s->vocabulary, .step = 1}, .needed = !s->tied,
	};
	int code = add(p, (struct want){.id = TENSOR_EMBEDDING, .gguf = TENSOR_EMBEDDING, .rows = s->vocabulary, .cols = s->hidden});

	if (code == EXIT_OK)
		code = add_tensor(p, &head, &there);
	if (code == EXIT_OK)
		code = add_vector(p, TENSOR_NORM, 0, s->hidden, 0);
	if (code == EXIT_OK && p->facts == NULL)
		code = parameters_rope_factors(&factors, s, p->error);
	if (code == EXIT_OK && factors != NULL)
		code = add_values(p, ROPE_FACTORS, NULL, factors, s->rotary_cols / 2, false);
	free(factors);
	return code;
}

static int check_unused(struct planning *p)
{
	for (size_t i = 0; i < p->model->n_tensors; i++) {
		const struct model_tensor *t = &p->model->by_name[i];

		if (p->used[i])
			continue;
		if (!tensor_may_be_unused(t->tensor->name) && !meaning_is_carried(t->tensor->name) && !allowed_unknown_under(t->tensor->name))
			return fail_tensor(p->error, t->file->path, t->tensor->name, "a model of %s has no such tensor; --allow-unknown %.200s goes "
			                   "on without it", p->shape->architecture->huggingface, t->tensor->name);
		if (p->tensors->left.n++ == 0)
			p->tensors->left.first = t->tensor->name;
	}
	return EXIT_OK;
}

static int plan_all(struct planning *p, struct tensors *tensors)
{
	*tensors = (struct tensors){.n = 0};
	p->tensors = tensors;
	p->used = calloc(p->model->n_tensors + 1, sizeof *p->used);
	int code = p->used == NULL ? fail_memory(p->error) : add_ends(p);
	for (size_t i = 0; i < p->shape->layers && code == EXIT_OK; i++)
		code = add_layer(p, i);
	if (code == EXIT_OK && p->facts != NULL)
		use(p, ROPE_FACTORS);
	if (code == EXIT_OK)
		code = check_unused(p);
	free(p->used);
	return code;
}

int tensors_plan(struct tensors *tensors, const struct model *model, const struct shape *shape, bool allow_rounding,
                 struct error *error)
{
	struct planning p = {.model = model, .shape = shape, .allow_rounding = allow_rounding, .error = error};

	return plan_all(&p, tensors);
}

int tensors_plan_back(struct tensors *tensors, const struct model *model, const struct shape *shape,
                      const struct role_model *role_model, struct layout_facts *facts, bool allow_rounding, struct error *error)
{
	struct planning p = {
		.model = model, .shape = shape, .allow_rounding = allow_rounding, .role_model = role_model, .facts = facts, .error = error,
	};

	return plan_all(&p, tensors);
}

void tensors_free(struct tensors *tensors)
{
	free(tensors->entries);
	arena_free(&tensors->arena);
	*tensors = (struct tensors){.n = 0};
}

/* Writing. */

struct writing {
	struct transfer *transfer;
	const struct tensors_entry *entry;
	struct layout_target target; /* of codes */
	size_t width;                /* of numbers: bytes in the source */
};

/* The source of a row of the output, and the row there. */
static const struct tensors_source *locate(const struct tensors_entry *entry, uint64_t row, uint64_t *at)
{
	const struct tensors_rows *order = &entry->order;
	const uint64_t matrix = row / entry->matrix, within = row % entry->matrix;
	const uint64_t j = order->head_rows > 0 ? gguf_row(within, order->head_rows, !order->back) : within;

	if (order->in_turns) {
		*at = matrix * order->stride + within / entry->n_sources;
		return &entry->sources[within % entry->n_sources];
	}

	*at = order->first + order->step * j + (entry->n_sources > 1 ? 0 : matrix * order->stride);
	return &entry->sources[entry->n_sources > 1 ? matrix : 0];
}

/* The next rows of a piece that lie in the source at one distance. */
static size_t run_of(const struct tensors_entry *entry, uint64_t row, size_t left)
{
	const uint64_t in_matrix = entry->matrix - row % entry->matrix;

	return entry->order.head_rows > 0 || entry->order.in_turns ? 1 : in_matrix < left ? (size_t)in_matrix : left;
}

/* Moves n rows together that were read with others between them. */
static void close_up(uint8_t *bytes, size_t n, size_t row_bytes, uint64_t step)
{
	for (size_t i = 1; i < n && step > 1; i++)
		memmove(bytes + i * row_bytes, bytes + i * step * row_bytes, row_bytes);
}

/* A piece's codes stand first in its bytes, its scales behind PIECE_ELEMENTS of these: room for twice as many rows. */
static struct mxfp_blocks blocks_at(const struct writing *w, const struct transfer_piece *piece, const struct piece *part, size_t first)
{
	const struct tensors_entry *entry = w->entry;
	const struct mxfp_format_info *info = mxfp_format_get_info(w->target.choice.form->format);
	const size_t at = first * piece->piece.cols;

	return quantized_blocks(&entry->sources[0].quantized, part, piece->bytes + at / 2,
	                        piece->bytes + 2 * PIECE_ELEMENTS + at / info->block_length);
}

static int read_codes(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct writing *w = context;
	const struct tensors_entry *entry = w->entry;
	const uint64_t step = entry->order.step;
	const size_t cols = piece->piece.cols, length = mxfp_format_get_info(w->target.choice.form->format)->block_length;
	int code = EXIT_OK;

	*n_bytes = 0;
	for (size_t done = 0, n; done < piece->piece.rows && code == EXIT_OK; done += n) {
		struct piece part = {.col = piece->piece.col, .cols = cols};
		uint64_t bytes = 0;
		const struct tensors_source *source = locate(entry, piece->piece.row + done, &part.row);

		n = run_of(entry, piece->piece.row + done, piece->piece.rows - done);
		part.rows = (n - 1) * (size_t)step + 1;
		const struct mxfp_blocks blocks = blocks_at(w, piece, &part, done);
		code = quantized_read(&source->quantized, &part, &blocks, &bytes, error);
		*n_bytes += bytes;
		close_up(blocks.codes, n, cols / 2, step);
		close_up(blocks.scales, n, cols / length, step);
	}
	return code;
}

static int write_codes(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts, struct error *error)
{
	const struct writing *w = context;
	const struct mxfp_blocks blocks = blocks_at(w, piece, &piece->piece, 0);

	(void)counts;
	return layout_write(&w->target, &piece->piece, &blocks, error);
}

static int read_numbers(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct writing *w = context;
	const struct tensors_entry *entry = w->entry;
	const size_t row_bytes = piece->piece.cols * w->width;
	int code = EXIT_OK;

	*n_bytes = piece->piece.rows * row_bytes;
	for (size_t done = 0, n; done < piece->piece.rows && code == EXIT_OK; done += n) {
		uint64_t at;
		const struct tensors_source *source = locate(entry, piece->piece.row + done, &at);
		uint8_t *to = piece->bytes + done * row_bytes;

		n = run_of(entry, piece->piece.row + done, piece->piece.rows - done);
		const size_t span = (n - 1) * (size_t)entry->order.step + 1;
		const uint64_t first = at * entry->cols + piece->piece.col;
		if (entry->output.dtype == source->tensor->dtype)
			code = file_read_rows(source->file, source->tensor, first * w->width, to, span * row_bytes, error);
		else
			code = elements_read(source->file, source->tensor, first, (float *)(void *)to, span * piece->piece.cols, error);
		close_up(to, n, row_bytes, entry->order.step);
	}
	if (code == EXIT_OK && entry->output.dtype != entry->sources[0].tensor->dtype)
		dtype_swap(DTYPE_F32, piece->bytes, piece->piece.rows * row_bytes);
	return code;
}

static int write_numbers(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts, struct error *error)
{
	const struct writing *w = context;
	const struct tensor *target = writer_find(&w->transfer->writer, w->entry->output.name);
	const uint64_t first = piece->piece.row * w->entry->cols + piece->piece.col;

	(void)counts;
	return writer_write(&w->transfer->writer, target, first * w->width, piece->bytes, piece->piece.rows * piece->piece.cols * w->width,
	                    error);
}

static int write_values(struct transfer *transfer, const struct tensors_entry *entry, struct error *error)
{
	const struct tensor *target = writer_find(&transfer->writer, entry->output.name);
	const size_t n = (size_t)tensor_elements(&entry->output);
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		float value = entry->values[i];

		dtype_swap(DTYPE_F32, &value, sizeof value);
		code = writer_write(&transfer->writer, target, i * sizeof value, &value, sizeof value, error);
	}
	return code;
}

int tensors_write(struct transfer *transfer, const struct tensors_entry *entry, struct error *error)
{
	struct writing w = {.transfer = transfer, .entry = entry};
	const bool codes = entry->kind == TENSORS_CODES;
	const struct transfer_job job = {
		.rows = entry->rows,
		.cols = entry->cols,
		.read = codes ? read_codes : read_numbers,
		.work = codes ? write_codes : write_numbers,
		.context = &w,
	};

	if (entry->kind == TENSORS_VALUES)
		return write_values(transfer, entry, error);
	if (codes) {
		const struct tensor whole = {.name = entry->output.name, .rank = entry->output.rank, .shape = entry->output.shape};

		w.target = layout_target(&entry->choice, &whole, entry->parts, &transfer->writer);
	} else {
		w.width = dtype_info(entry->output.dtype)->bits / 8;
	}
	return transfer_run(transfer, &job, error);
}
