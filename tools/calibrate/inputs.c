/* SPDX-License-Identifier: MIT */
/* Calibrates on inputs of layers that a file has, tensor after tensor, each by itself: so no model has to run. */
#include "config.h"

#include "calibrate/running.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/input.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "io/elements.h"
#include "quantize/ranks.h"

/* Rows that are summed at once. They depend on nothing but the columns, as the rounding of sums depends on them. */
enum { SUMMED_ROWS = 512, SUMMED_NUMBERS = 1 << 20 };

static size_t summed_rows(uint64_t cols)
{
	const uint64_t fit = SUMMED_NUMBERS / cols;

	return fit > SUMMED_ROWS ? SUMMED_ROWS : fit > 0 ? (size_t)fit : 1;
}

/* Whether the model has a tensor of that name, or one that ends in .weight besides. */
static int is_known(bool *known, const struct model *model, const char *name, struct error *error)
{
	static const char suffix[] = ".weight";
	const struct file *file;
	const size_t n = strlen(name) + sizeof suffix;

	*known = model_find(model, name, &file) != NULL;
	if (*known)
		return EXIT_OK;
	char *whole = malloc(n);
	if (whole == NULL)
		return fail_memory(error);
	snprintf(whole, n, "%s%s", name, suffix);
	*known = model_find(model, whole, &file) != NULL;
	free(whole);
	return EXIT_OK;
}

static int fail_unknown(const struct model *model, const struct file *inputs, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t i = 0; i < model->files[f].n_tensors; i++)
			nearest_offer(&nearest, model->files[f].tensors[i].name);
	if (nearest.best != NULL)
		return fail_tensor(error, inputs->path, name, "%s has no tensor of this name; did you mean '%s'?", model->path,
		                   nearest.best);
	return fail_tensor(error, inputs->path, name, "%s has no tensor of this name; leave it out, or give inputs the names of the "
	                   "tensors that they are for", model->path);
}

/* Inputs whose name is wrong would not be missed. One tensor alone may have any. */
static int check_names(const struct running *r, struct error *error)
{
	const struct file *inputs = r->settings->inputs;
	int code = EXIT_OK;

	for (size_t i = 0; inputs->n_tensors > 1 && i < inputs->n_tensors && code == EXIT_OK; i++) {
		bool known;

		code = is_known(&known, r->model, inputs->tensors[i].name, error);
		if (code == EXIT_OK && !known)
			code = fail_unknown(r->model, inputs, inputs->tensors[i].name, error);
	}
	return code;
}

/* Whether inputs have the name of a tensor, or that less .weight. */
static bool are_of(const struct tensor *inputs, const char *name)
{
	const size_t n = strlen(inputs->name);

	return strncmp(inputs->name, name, n) == 0 && (name[n] == '\0' || strcmp(name + n, ".weight") == 0);
}

static int fail_none(const struct running *r, const struct quantize_entry *first, bool unnamed, struct error *error)
{
	const struct file *inputs = r->settings->inputs;

	if (unnamed)
		return fail(error, EXIT_INPUT, "%s: its one tensor, of %s, fits no tensor that is quantized, of which '%s' is the first; give "
		            "F32, F16, BF16 or F64 with a last dimension of %" PRIu64 " for that", inputs->path,
		            dtype_info(inputs->tensors[0].dtype)->name, first->stored->name, first->cols);
	return fail(error, EXIT_INPUT, "%s: has no inputs for any tensor that is quantized, of which '%s' is the first; name "
	            "them like the tensors", inputs->path, first->stored->name);
}

int inputs_open(struct running *r, struct error *error)
{
	const struct quantize_plan *plan = &r->rounded.plan;
	const struct file *inputs = r->settings->inputs;
	const struct quantize_entry *first = NULL;
	bool is_named = true; /* each tensor of inputs is for the tensor of its name, not one for all that it fits */
	size_t numbers = 0;
	int code = check_names(r, error);

	if (code == EXIT_OK && inputs->n_tensors == 1)
		code = is_known(&is_named, r->model, inputs->tensors[0].name, error);
	r->inputs = calloc(plan->n_quantized + 1, sizeof *r->inputs);
	r->done->left = calloc(plan->n_quantized + 1, sizeof *r->done->left);
	if (code == EXIT_OK && (r->inputs == NULL || r->done->left == NULL))
		code = fail_memory(error);
	for (size_t i = 0; i < plan->n_entries && code == EXIT_OK; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		struct running_input *input = &r->inputs[r->n_inputs];
		uint64_t cols;

		if (!entry->quantized)
			continue;
		/* A tensor without elements needs none. */
		input->x = NULL;
		if (tensor_elements(entry->source) > 0)
			code = input_find(&input->x, inputs, entry->stored->name, entry->cols, error);
		if (code != EXIT_OK)
			break;
		if (input->x != NULL && is_named && !are_of(input->x, entry->stored->name))
			input->x = NULL;
		first = first != NULL ? first : entry;
		if (input->x == NULL) {
			r->done->left[r->done->n_left++] = entry->stored->name;
			continue;
		}
		tensor_matrix(input->x, &input->rows, &cols);
		if (input->rows == 0)
			return fail_tensor(error, inputs->path, input->x->name, "has no rows of inputs; give some, or leave it out");
		input->entry = entry;
		r->n_inputs++;
		numbers = summed_rows(cols) * (size_t)cols > numbers ? summed_rows(cols) * (size_t)cols : numbers;
	}
	if (code == EXIT_OK && r->n_inputs == 0)
		return fail_none(r, first, !is_named, error);
	if (code != EXIT_OK)
		return code;
	r->exact_x = malloc(numbers * sizeof *r->exact_x + 1);
	r->rounded_x = malloc(numbers * sizeof *r->rounded_x + 1);
	return r->exact_x != NULL && r->rounded_x != NULL ? EXIT_OK : fail_memory(error);
}

static size_t matrices_of(const struct quantize_entry *entry)
{
	return entry->source->rank > 2 ? (size_t)entry->source->shape[0] : 1;
}

int inputs_check_memory(const struct running *r, struct error *error)
{
	const uint64_t given = r->settings->memory_bytes;
	uint64_t statistics = 0;

	for (size_t i = 0; i < r->n_inputs; i++) {
		const struct quantize_entry *entry = r->inputs[i].entry;
		const uint64_t bytes = layer_statistics((size_t)entry->rows / matrices_of(entry), (size_t)entry->cols);

		statistics = bytes > statistics ? bytes : statistics;
	}
	const uint64_t least = memory_used() + statistics + RUNNING_OTHER_BYTES;
	if (given == 0 || given >= least)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "calibrate: --mem: %" PRIu64 " bytes are too few for the largest tensor; give --mem %" PRIu64
	            "M or more", given, (least >> 20) + 1);
}

/* The unit of a tensor of inputs, from its first rows that are not 0. What weights become does not depend on it, so it is
   chosen so that squares stay in the range of binary32, and their sums over many rows. */
enum { ORDINARY_EXPONENT = 40 };
struct input_unit {
	bool known;
	int exponent;
};

/* Reads n rows from `row` on: r->rounded_x becomes them as activations are rounded, r->exact_x what that changes. */
static int read_rows(struct running *r, const struct running_input *input, struct input_unit *unit, uint64_t row, size_t n,
                     struct error *error)
{
	const struct trial *trial = r->settings->trial;
	const size_t cols = (size_t)input->entry->cols;
	float *x = r->rounded_x, *difference = r->exact_x;
	int code = elements_read(r->settings->inputs, input->x, row * cols, x, n * cols, error);

	for (size_t i = 0; i < n * cols && code == EXIT_OK; i++)
		if (!isfinite(x[i]))
			code = fail_tensor(error, r->settings->inputs->path, input->x->name, "row %" PRIu64 ", column %zu is NaN or Inf in "
			                   "binary32, of which no weights can be made; leave the row out", row + i / cols, i % cols);
	if (code != EXIT_OK)
		return code;
	if (!unit->known)
		unit->known = input_unit(&unit->exponent, x, n * cols, ORDINARY_EXPONENT);
	input_turn(x, n * cols, unit->exponent);
	memcpy(difference, x, n * cols * sizeof *x);
	if (trial->activations != OPTION_FORMAT_NONE)
		network_round_inputs(trial->activations, (enum mxfp_rule)trial->activation_rule, x, n, cols, &r->exec);
	for (size_t i = 0; i < n * cols; i++)
		difference[i] -= x[i];
	return EXIT_OK;
}

static int sum_inputs(struct running *r, const struct running_input *input, struct moments *moments, struct error *error)
{
	const size_t cols = (size_t)input->entry->cols, most = summed_rows(cols);
	int code = moments_begin(moments, cols, error);
	struct input_unit unit = {false, 0};
	size_t column;

	for (uint64_t row = 0, n; row < input->rows && code == EXIT_OK; row += n) {
		n = input->rows - row < most ? input->rows - row : most;
		code = read_rows(r, input, &unit, row, (size_t)n, error);
		if (code == EXIT_OK)
			code = moments_add(moments, r->rounded_x, r->exact_x, (size_t)n, &r->workspace, &r->exec, error);
		progress_add(&r->progress, n * cols * dtype_info(input->x->dtype)->bits / 8);
	}
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		moments_join(moments);
	if (code == EXIT_OK && !moments_are_finite(moments, &column))
		code = fail_tensor(error, r->settings->inputs->path, input->x->name, "column %zu is too large for its squares beside "
		                   "the first rows; look for the row that makes it so", column);
	return code;
}

int inputs_calibrate(struct running *r, size_t number, struct error *error)
{
	const struct running_input *input = &r->inputs[number];
	const struct quantize_entry *entry = input->entry;
	const size_t rows = (size_t)entry->rows / matrices_of(entry);
	struct moments moments;
	float *factor = NULL;
	int code = sum_inputs(r, input, &moments, error);

	if (code == EXIT_OK)
		code = compensate_prepare(&factor, &moments, r->settings->damping, &r->exec, error);
	moments_free(&moments);
	for (size_t row = 0; row < entry->rows && code == EXIT_OK; row += rows) {
		struct state_weight weight = {.name = (char *)(void *)entry->stored->name, .layer = number, .row = row, .rows = rows,
		                              .cols = (size_t)entry->cols, .tokens = (size_t)input->rows};
		struct mxfp_blocks blocks;
		void *memory;

		code = matrix_calibrate(r, &weight, factor, &blocks, &memory, error);
		free(memory);
	}
	free(factor);
	return code;
}
