/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/calibrate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "base/progress.h"
#include "eval/evaluate.h"
#include "io/elements.h"
#include "mxfp/quantize.h"

enum {
	SITE_WEIGHTS = 8, /* of layers of the same inputs, at most */
	LAYER_SITES = 16,
	STOPPED = -1      /* what a watcher returns that has seen enough */
};

/* Linear layers of the same inputs. */
struct site {
	size_t cols, n;
	const char *weights[SITE_WEIGHTS]; /* of the exact network */
};

struct running {
	const struct calibrate_settings *settings;
	const struct model *model;
	struct calibration *done;
	struct mxfp_exec exec;
	struct evaluate_network exact, rounded;
	size_t hidden, most_cols;           /* columns of any inputs, at most */
	float *exact_x, *rounded_x;         /* states of all tokens, [tokens][hidden] */
	float *exact_inputs, *inputs;       /* of a window, [longest][most_cols] */
	const float *last_x;                /* while sites are listed */
	size_t n_sites;
	struct site sites[LAYER_SITES];
	struct transfer transfer;           /* reads weights for their largest */
	struct progress progress;
	uint64_t passed, shown;             /* tokens by the passes over them, and by what the progress shows */
};

/* Lists the linear layers of a layer. */
static int list_site(void *context, const char *weight, const float *x, size_t rows, size_t cols, struct error *error)
{
	struct running *r = context;

	(void)rows;
	if (r->n_sites == 0 || x != r->last_x || r->sites[r->n_sites - 1].n == SITE_WEIGHTS) {
		if (r->n_sites == LAYER_SITES)
			return fail(error, EXIT_INPUT, "%s: a layer with more kinds of inputs than %d", r->model->path, LAYER_SITES);
		r->sites[r->n_sites++] = (struct site){.cols = cols};
	}
	struct site *site = &r->sites[r->n_sites - 1];
	site->weights[site->n++] = weight;
	r->last_x = x;
	return EXIT_OK;
}

/* What a network is watched for. */
struct watched {
	const char *weight;
	float *inputs;
};

static int take_inputs(void *context, const char *weight, const float *x, size_t rows, size_t cols, struct error *error)
{
	const struct watched *watched = context;

	(void)error;
	if (strcmp(weight, watched->weight) != 0)
		return EXIT_OK;
	memcpy(watched->inputs, x, rows * cols * sizeof *x);
	return STOPPED;
}

static struct network_piece window_of(const struct running *r, size_t i)
{
	const struct token_sequences *tokens = r->settings->tokens;

	return (struct network_piece){.ids = tokens->ids + tokens->starts[i], .n = tokens->starts[i + 1] - tokens->starts[i],
	                              .wanted = tokens->starts[i + 1] - tokens->starts[i]};
}

enum { PASSES = 5 }; /* over all tokens in each layer: one for each kind of inputs, and one for the whole */

static void pass(struct running *r, size_t tokens)
{
	r->passed += tokens;
	const uint64_t shown = r->passed / PASSES / network_layers(r->exact.network);
	progress_add(&r->progress, shown - r->shown);
	r->shown = shown;
}

/* Runs a layer of a network on a window of states, x, until the inputs of a linear layer are there. */
static int run_until(struct network *network, size_t layer, const struct network_piece *piece, const float *x, const char *weight,
                     float *inputs, struct error *error)
{
	struct watched watched = {weight, inputs};

	network_watch(network, take_inputs, &watched);
	/* A layer that is stopped leaves its states as they are. */
	const int code = network_run_layer(network, layer, piece, 1, (float *)(void *)x, error);
	network_watch(network, NULL, NULL);
	return code == STOPPED ? EXIT_OK : code;
}

/* The entry of the plan of a weight, which may stay as it is. */
static const struct quantize_entry *entry_of(const struct running *r, const char *weight)
{
	const struct file *file;
	const struct tensor *stored = model_find(r->model, weight, &file);

	return stored != NULL ? quantize_entry_of(&r->rounded.plan, stored, file) : NULL;
}

static bool is_calibrated(const struct running *r, const char *weight)
{
	const struct quantize_entry *entry = entry_of(r, weight);

	return entry != NULL && entry->quantized;
}

/* Sums over all tokens of a site's inputs. */
static int sum_site(struct running *r, size_t layer, const struct site *site, struct moments *moments, struct error *error)
{
	const struct token_sequences *tokens = r->settings->tokens;
	int code = moments_begin(moments, site->cols, error);

	for (size_t i = 0; i < tokens->n && code == EXIT_OK; i++) {
		const struct network_piece piece = window_of(r, i);
		const size_t at = tokens->starts[i] * r->hidden;

		if (piece.n == 0)
			continue;
		code = run_until(r->exact.network, layer, &piece, r->exact_x + at, site->weights[0], r->exact_inputs, error);
		if (code == EXIT_OK)
			code = run_until(r->rounded.network, layer, &piece, r->rounded_x + at, site->weights[0], r->inputs, error);
		network_round(r->rounded.network, r->inputs, piece.n, site->cols);
		if (code == EXIT_OK)
			code = moments_add(moments, r->inputs, r->exact_inputs, piece.n, &r->exec, error);
		pass(r, piece.n);
	}
	return code;
}

/* Refuses sums that are not finite, of which weights of NaN would be made. */
static int check_sums(const struct running *r, const struct site *site, const struct moments *moments, struct error *error)
{
	for (size_t i = 0; i < moments->cols * moments->cols; i++)
		if (!isfinite(moments->inputs[i]) || !isfinite(moments->cross[i]) || !isfinite(moments->change[i]))
			return fail_tensor(error, r->model->path, site->weights[0], "the inputs that the model gives it are NaN, Inf, or "
			                   "too large for their squares, at column %zu; look for the weights that make them so, or "
			                   "for tokens that mxfp eval gives no finite likelihood", i % moments->cols);
	return EXIT_OK;
}

static int read_weight(const struct quantize_entry *entry, float *w, struct error *error)
{
	const size_t n = (size_t)(entry->rows * entry->cols);
	int code = elements_read(entry->file, entry->source, 0, w, n, error);

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (!isfinite(w[i]))
			code = fail_tensor(error, entry->file->path, entry->source->name,
			                   "element %zu (row %zu, column %zu) is NaN or Inf; mend the model", i,
			                   i / (size_t)entry->cols, i % (size_t)entry->cols);
	return code;
}

/* Whether blocks hold just these numbers. EXIT_MEMORY. */
static int compare(bool *same, const struct mxfp_blocks *blocks, const float *w, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	const size_t bytes = blocks->rows * blocks->cols * sizeof *w;
	float *held = malloc(bytes + 1);

	if (held == NULL)
		return fail_memory(error);
	must_succeed(mxfp_dequantize(&matrix, held, MXFP_FORMAT_F32, 0, exec));
	*same = memcmp(held, w, bytes) == 0;
	free(held);
	return EXIT_OK;
}

static int fail_not_held(const struct quantize_entry *entry, struct error *error)
{
	return fail_tensor(error, entry->file->path, entry->source->name, "its weights are too small or too large for %s to hold "
	                   "exactly; leave the tensor out with --ignore", mxfp_format_get_info(entry->choice.format)->name);
}

/* Gives the rounded network the weights that w holds, which the format holds exactly. Rule floor finds a scale that does: the
   largest number of a block decides it, and a lower scale holds all numbers that a higher one does up to that. */
static int replace(struct running *r, const char *weight, const struct quantize_entry *entry, const float *w,
                   const struct compensate_grid *grid, struct error *error)
{
	const struct mxfp_quantize_options options = {
		.rule = MXFP_RULE_FLOOR, .recipe = grid->recipe, .tensor_amax = &grid->amax, .exec = &r->exec};
	struct mxfp_blocks blocks = {
		.format = entry->choice.format,
		.rows = (size_t)entry->rows,
		.cols = (size_t)entry->cols,
	};
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(blocks.format, blocks.rows, blocks.cols, &size));
	uint8_t *memory = malloc(size.codes_bytes + size.scales_bytes + 1);
	if (memory == NULL)
		return fail_memory(error);
	blocks.codes = memory;
	blocks.scales = memory + size.codes_bytes;
	must_succeed(mxfp_quantize(&blocks, w, MXFP_FORMAT_F32, 0, &options));
	bool same = false;
	int code = compare(&same, &blocks, w, &r->exec, error);
	if (code == EXIT_OK && !same)
		code = fail_not_held(entry, error);
	if (code == EXIT_OK)
		code = network_replace(r->rounded.network, weight, &blocks, error);
	free(memory);
	return code;
}

/* Adds a row to what was done. */
static struct calibrate_row *add_row(struct running *r, const struct quantize_entry *entry, struct error *error)
{
	struct calibration *done = r->done;
	struct calibrate_row *rows = realloc(done->rows, (done->n_rows + 1) * sizeof *rows);
	char *name = strdup(entry->source->name);

	if (rows != NULL)
		done->rows = rows;
	if (rows == NULL || name == NULL) {
		free(name);
		fail_memory(error);
		return NULL;
	}
	struct calibrate_row *row = &rows[done->n_rows++];
	*row = (struct calibrate_row){.name = name, .rows = (size_t)entry->rows, .cols = (size_t)entry->cols};
	quantize_text(&entry->choice, row->format);
	return row;
}

static int compensate_weight(struct running *r, const char *weight, const float *factor, struct error *error)
{
	const struct quantize_entry *entry = entry_of(r, weight);
	const size_t rows = (size_t)entry->rows, cols = (size_t)entry->cols;
	struct calibrate_row *row = add_row(r, entry, error);
	float *w = row != NULL ? malloc(rows * cols * sizeof *w + 1) : NULL;

	if (w == NULL)
		return fail_memory(error);
	struct compensate_grid grid = {.format = entry->choice.format, .rule = (enum mxfp_rule)entry->choice.rule,
	                               .recipe = (enum mxfp_recipe)entry->choice.recipe};
	int code = read_weight(entry, w, error);
	if (code == EXIT_OK)
		code = quantize_amax(&r->transfer, &r->rounded.plan, entry, &grid.amax, error);
	if (code == EXIT_OK && !compensate_hold(&grid))
		code = fail_not_held(entry, error);
	if (code == EXIT_OK)
		code = compensate(w, rows, cols, factor, &grid, &row->done, &r->exec, error);
	for (size_t i = 0; i < rows * cols && code == EXIT_OK; i++)
		if (!isfinite(w[i]))
			code = fail_tensor(error, entry->file->path, entry->source->name, "row %zu becomes NaN or Inf, so its weights or "
			                   "inputs are too large for binary32; leave the tensor out with --ignore", i / cols);
	if (code == EXIT_OK)
		code = replace(r, weight, entry, w, &grid, error);
	free(w);
	return code;
}

static int calibrate_site(struct running *r, size_t layer, const struct site *site, struct error *error)
{
	struct moments moments = {0};
	float *factor = NULL;
	bool any = false;

	for (size_t i = 0; i < site->n; i++)
		any = any || is_calibrated(r, site->weights[i]);
	if (!any)
		return EXIT_OK;
	int code = sum_site(r, layer, site, &moments, error);
	if (code == EXIT_OK)
		code = check_sums(r, site, &moments, error);
	if (code == EXIT_OK)
		code = compensate_prepare(&factor, &moments, r->settings->damping, &r->exec, error);
	moments_free(&moments);
	for (size_t i = 0; i < site->n && code == EXIT_OK; i++)
		if (is_calibrated(r, site->weights[i]))
			code = compensate_weight(r, site->weights[i], factor, error);
	free(factor);
	return code;
}

/* Runs a whole layer of both networks on all tokens. */
static int run_layer(struct running *r, size_t layer, struct error *error)
{
	const struct token_sequences *tokens = r->settings->tokens;
	int code = EXIT_OK;

	for (size_t i = 0; i < tokens->n && code == EXIT_OK; i++) {
		const struct network_piece piece = window_of(r, i);
		const size_t at = tokens->starts[i] * r->hidden;

		if (piece.n == 0)
			continue;
		code = network_run_layer(r->exact.network, layer, &piece, 1, r->exact_x + at, error);
		if (code == EXIT_OK)
			code = network_run_layer(r->rounded.network, layer, &piece, 1, r->rounded_x + at, error);
		pass(r, piece.n);
	}
	return code;
}

/* Lists the sites of a layer, by running it on a window. */
static int list_sites(struct running *r, size_t layer, struct error *error)
{
	size_t first = 0;

	while (window_of(r, first).n == 0)
		first++;
	const struct network_piece piece = window_of(r, first);
	float *x = malloc(piece.n * r->hidden * sizeof *x + 1);

	if (x == NULL)
		return fail_memory(error);
	memcpy(x, r->exact_x + r->settings->tokens->starts[first] * r->hidden, piece.n * r->hidden * sizeof *x);
	r->n_sites = 0;
	network_watch(r->exact.network, list_site, r);
	const int code = network_run_layer(r->exact.network, layer, &piece, 1, x, error);
	network_watch(r->exact.network, NULL, NULL);
	free(x);
	return code;
}

static int calibrate_layer(struct running *r, size_t layer, struct error *error)
{
	int code = list_sites(r, layer, error);

	for (size_t i = 0; i < r->n_sites && code == EXIT_OK; i++)
		code = calibrate_site(r, layer, &r->sites[i], error);
	return code == EXIT_OK ? run_layer(r, layer, error) : code;
}

/* The states before the first layer. */
static int embed(struct running *r, struct error *error)
{
	const struct token_sequences *tokens = r->settings->tokens;
	int code = EXIT_OK;

	for (size_t i = 0; i < tokens->n && code == EXIT_OK; i++) {
		const struct network_piece piece = window_of(r, i);

		if (piece.n == 0)
			continue;
		code = network_embed(r->exact.network, &piece, 1, r->exact_x + tokens->starts[i] * r->hidden, error);
	}
	if (code == EXIT_OK)
		memcpy(r->rounded_x, r->exact_x, tokens->starts[tokens->n] * r->hidden * sizeof *r->exact_x);
	return code;
}

/* The rounded network starts with all weights as they are stored. */
static bool keep_all(void *context, const char *tensor)
{
	(void)context, (void)tensor;
	return true;
}

static int check_plan(const struct running *r, struct error *error)
{
	const struct quantize_plan *plan = &r->rounded.plan;

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];

		if (entry->quantized && mxfp_format_get_info(entry->choice.format)->tensor_scale &&
		    entry->choice.recipe == MXFP_RECIPE_4OVER6)
			return fail_tensor(error, entry->file->path, entry->source->name, "would become nvfp4 by recipe 4over6, whose choice of "
			                   "scales need not keep calibrated weights; give another recipe");
		if (entry->quantized && quantize_in_squares(&entry->choice))
			return fail_tensor(error, entry->file->path, entry->source->name, "would become squares of 32 x 32, for whose scales "
			                   "no rows are calibrated; give the recipe block 1x32");
		if (entry->quantized && entry->choice.sparsity.m != 0)
			return fail_tensor(error, entry->file->path, entry->source->name, "would become sparse, which cannot be "
			                   "calibrated; leave out the sparsity");
	}
	return EXIT_OK;
}

/* Opens both networks and takes the memory of the states. */
static int open_networks(struct running *r, struct error *error)
{
	const struct calibrate_settings *s = r->settings;
	const struct token_sequences *tokens = s->tokens;
	const struct evaluate_kept kept = {keep_all, NULL}, none = {NULL, NULL};
	struct evaluate_settings settings = {.batch = 1, .threads = s->threads};
	struct trial stored;

	trial_stored(&stored, NULL);
	for (size_t i = 0; i < tokens->n; i++)
		if (window_of(r, i).n > settings.batch)
			settings.batch = window_of(r, i).n;
	int code = evaluate_open_network(&r->rounded, &settings, r->model, s->trial, &kept, error);
	if (code == EXIT_OK)
		code = check_plan(r, error);
	if (code == EXIT_OK)
		code = evaluate_open_network(&r->exact, &settings, r->model, &stored, &none, error);
	if (code != EXIT_OK)
		return code;
	r->hidden = network_hidden(r->exact.network);
	r->done->n_tokens = tokens->starts[tokens->n];
	for (size_t i = 0; i < r->rounded.plan.n_entries; i++)
		if (r->rounded.plan.entries[i].cols > r->most_cols)
			r->most_cols = (size_t)r->rounded.plan.entries[i].cols;
	const size_t states = r->done->n_tokens * r->hidden * sizeof(float);
	const size_t inputs = settings.batch * r->most_cols * sizeof(float);
	r->exact_x = malloc(states + 1);
	r->rounded_x = malloc(states + 1);
	r->exact_inputs = malloc(inputs + 1);
	r->inputs = malloc(inputs + 1);
	return r->exact_x != NULL && r->rounded_x != NULL && r->exact_inputs != NULL && r->inputs != NULL ? EXIT_OK
	                                                                                               : fail_memory(error);
}

int calibrate_run(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                  struct error *error)
{
	struct running r = {.settings = settings, .model = model, .done = done, .exec = {.threads = settings->threads},
	                    .transfer.threads = settings->threads};

	*done = (struct calibration){0};
	int code = calibrate_check_output(done, settings, model, error);
	if (code == EXIT_OK)
		code = open_networks(&r, error);
	if (code == EXIT_OK)
		code = transfer_begin(&r.transfer, error);
	if (code == EXIT_OK) {
		progress_start_tokens(&r.progress, "calibrating", done->n_tokens, settings->quiet);
		code = embed(&r, error);
	}
	for (size_t i = 0; code == EXIT_OK && i < network_layers(r.exact.network); i++)
		code = calibrate_layer(&r, i, error);
	progress_end(&r.progress);
	done->n_left = r.rounded.plan.n_quantized - done->n_rows;
	if (code == EXIT_OK && done->n_rows == 0)
		code = fail(error, EXIT_INPUT, "%s: no linear layer is to be quantized: rows may not be whole blocks, which "
		            "--pad-tail allows, or experts, which stay as they are", model->path);
	if (code == EXIT_OK)
		code = calibrate_write(done, settings, model, r.rounded.network, error);
	transfer_end(&r.transfer);
	evaluate_close_network(&r.exact);
	evaluate_close_network(&r.rounded);
	free(r.exact_x);
	free(r.rounded_x);
	free(r.exact_inputs);
	free(r.inputs);
	return code;
}

void calibrate_free(struct calibration *done)
{
	for (size_t i = 0; i < done->n_rows; i++)
		free(done->rows[i].name);
	free(done->rows);
	carry_free(&done->carry);
}
