/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/calibrate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/memory.h"
#include "calibrate/running.h"
#include "model/fingerprint.h"
#include "model/model_output.h"
#include "quantize/fingerprint.h"
#include "quantize/ranks.h"

enum { STATISTICS_BYTES = 1 << 30 /* that sums of several experts take together, if no limit is given */ };

/* The states before the first layer. */
static int embed(struct running *r, struct error *error)
{
	const struct token_sequences *tokens = r->settings->tokens;
	const size_t hidden = network_hidden(r->exact.network);
	int code = EXIT_OK;

	for (size_t i = ranks_own(); i < tokens->n && code == EXIT_OK; i += ranks_number()) {
		const struct network_piece piece = window_of(r, i);
		const uint64_t at = 2 * (uint64_t)tokens->starts[i] * hidden;

		if (piece.n == 0)
			continue;
		code = network_embed(r->exact.network, &piece, 1, r->exact_x, error);
		if (code == EXIT_OK)
			code = state_write(&r->state, at, r->exact_x, piece.n * hidden, error);
		if (code == EXIT_OK)
			code = state_write(&r->state, at + piece.n * hidden, r->exact_x, piece.n * hidden, error);
		if (code == EXIT_OK)
			code = interrupt_check(error);
	}
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

		const enum mxfp_recipe recipe = entry->choice.recipe;

		if (entry->quantized && mxfp_format_get_info(entry->choice.format)->tensor_scale &&
		    (recipe == MXFP_RECIPE_4OVER6 || recipe == MXFP_RECIPE_MODELOPT_4OVER6))
			return fail_tensor(error, entry->file->path, entry->source->name, "would become nvfp4 by recipe %s, whose choice of "
			                   "scales need not keep calibrated weights; give another recipe",
			                   mxfp_option_name(MXFP_OPTION_RECIPE, (int)recipe));
		if (entry->quantized && quantize_in_squares(&entry->choice))
			return fail_tensor(error, entry->file->path, entry->source->name, "would become squares of 32 x 32, for whose scales "
			                   "no rows are calibrated; give the recipe block 1x32");
	}
	return EXIT_OK;
}

/* Opens both networks, and takes the memory of the states of a window. */
static int open_networks(struct running *r, struct error *error)
{
	const struct calibrate_settings *s = r->settings;
	const struct token_sequences *tokens = s->tokens;
	const struct evaluate_kept kept = {keep_all, NULL}, none = {NULL, NULL};
	struct evaluate_settings settings = {.batch = 1, .threads = s->threads, .by_layer = true};
	struct trial stored;

	if (tokens->starts[tokens->n] == 0)
		return fail(error, EXIT_INPUT, "calibrate: no window has a token; give longer ones");
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
	r->longest = settings.batch;
	r->done->n_tokens = tokens->starts[tokens->n];
	const size_t states = r->longest * network_hidden(r->exact.network) * sizeof(float);
	r->exact_x = malloc(states + 1);
	r->rounded_x = malloc(states + 1);
	return r->exact_x != NULL && r->rounded_x != NULL ? EXIT_OK : fail_memory(error);
}

/* Plans what becomes of the tensors, and finds their inputs in the file. */
static int open_inputs(struct running *r, struct error *error)
{
	struct quantize_plan *plan = &r->rounded.plan;
	int code = quantize_plan(plan, &r->settings->trial->settings, r->model, error);

	if (code == EXIT_OK)
		code = quantize_check_any(plan, error);
	if (code == EXIT_OK)
		code = check_plan(r, error);
	return code == EXIT_OK ? inputs_open(r, error) : code;
}

/* Sees that the memory suffices for the largest linear layer beside the weights of one layer and the rows of one window, and
   leaves the rest to sums of other experts. */
static int set_memory(struct running *r, struct error *error)
{
	const uint64_t given = r->settings->memory_bytes;
	const struct quantize_plan *plan = &r->rounded.plan;
	uint64_t statistics = 0, sums = 0, cols = 0;

	r->statistics = STATISTICS_BYTES;
	if (given == 0)
		return EXIT_OK;
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		const size_t matrices = entry->source->rank > 2 ? (size_t)entry->source->shape[0] : 1;

		if (!entry->quantized)
			continue;
		const uint64_t bytes = layer_statistics((size_t)entry->rows / matrices, (size_t)entry->cols);
		statistics = bytes > statistics ? bytes : statistics;
		sums = layer_sums((size_t)entry->cols) > sums ? layer_sums((size_t)entry->cols) : sums;
		cols = entry->cols > cols ? entry->cols : cols;
	}
	/* Inputs of both networks, of all experts of a token at once; and those that another rank has taken. */
	const uint64_t sets = (ranks_number() > 1 ? 4 : 2) * (1 + network_experts_per_token(r->exact.network));
	const uint64_t rows = sets * (uint64_t)r->longest * cols * sizeof(float);
	const uint64_t scratch = network_scratch_bytes(r->exact.network) + network_scratch_bytes(r->rounded.network);
	const uint64_t least = memory_used() + 2 * network_layer_bytes(r->exact.network) + statistics + rows + scratch + RUNNING_OTHER_BYTES;
	if (given < least)
		return fail(error, EXIT_USAGE, "calibrate: --mem: %" PRIu64 " bytes are too few for this model and these tokens; give "
		            "--mem %" PRIu64 "M or more", given, (least >> 20) + 1);
	r->statistics = given - least + sums;
	return EXIT_OK;
}

static int add_text(json_t *fingerprint, const char *key, const char *text, struct error *error)
{
	return json_object_set_new(fingerprint, key, json_string(text)) == 0 ? EXIT_OK : fail_memory(error);
}

static int add_tokens(json_t *fingerprint, const struct token_sequences *tokens, struct error *error)
{
	XXH3_state_t *hash = XXH3_createState();

	if (hash == NULL)
		return fail_memory(error);
	XXH3_128bits_reset(hash);
	for (size_t i = 0; i <= tokens->n; i++)
		fingerprint_number(hash, tokens->starts[i]);
	for (size_t i = 0; i < tokens->starts[tokens->n]; i++)
		fingerprint_number(hash, tokens->ids[i]);
	const bool added = fingerprint_add(fingerprint, "set of tokens (--tokens, --text, --context or --sequences)",
	                                   XXH3_128bits_digest(hash));
	XXH3_freeState(hash);
	return added ? EXIT_OK : fail_memory(error);
}

/* All that decides the bytes of the output, and of what a run keeps for a later one; `times` as of quantize_fingerprint(). */
static int make_fingerprint(const struct running *r, bool times, json_t **fingerprint, struct error *error)
{
	const struct file *inputs = r->settings->inputs;
	char activations[TRIAL_TEXT], damping[32];
	json_t *config = NULL;
	int code = model_config_copy(r->model, &config, error);

	json_prepare();
	if (code == EXIT_OK && config == NULL)
		config = json_object();
	if (code == EXIT_OK)
		code = quantize_fingerprint(fingerprint, &r->rounded.plan, config, times, error);
	if (code == EXIT_OK)
		code = inputs != NULL ? fingerprint_file(*fingerprint, "file of inputs (--activation-file)", inputs, times, error)
		                      : add_tokens(*fingerprint, r->settings->tokens, error);
	snprintf(damping, sizeof damping, "%.17g", r->settings->damping);
	if (code == EXIT_OK)
		code = add_text(*fingerprint, "damping", damping, error);
	if (code == EXIT_OK)
		code = add_text(*fingerprint, "format of activations", trial_activations(r->settings->trial, activations), error);
	if (code == EXIT_OK)
		code = add_text(*fingerprint, "order of bytes", __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "big" : "little", error);
	if (code == EXIT_OK)
		code = add_text(*fingerprint, "command", "calibrate", error);
	json_decref(config);
	return code;
}

static size_t count_layers(const struct running *r)
{
	return r->settings->inputs != NULL ? r->n_inputs : network_layers(r->exact.network);
}

static void start_progress(struct running *r)
{
	const size_t n_layers = count_layers(r);
	uint64_t bytes = 0;

	for (size_t i = r->first; i < r->n_inputs; i++)
		bytes += r->inputs[i].x->size;
	if (r->settings->inputs != NULL)
		progress_start(&r->progress, "calibrating", bytes, r->settings->quiet || ranks_own() > 0);
	else
		progress_start_tokens(&r->progress, "calibrating", r->done->n_tokens * (n_layers - r->first) / n_layers,
		                      r->settings->quiet || ranks_own() > 0);
}

/* Checks that all ranks have been given the same work: each machine may have a copy of the model. */
static int check_ranks(const struct running *r, struct error *error)
{
	char own[FINGERPRINT_TEXT], first[FINGERPRINT_TEXT];
	json_t *fingerprint = NULL;

	if (ranks_number() == 1)
		return EXIT_OK;
	int code = make_fingerprint(r, false, &fingerprint, error);
	if (code == EXIT_OK)
		code = fingerprint_text(fingerprint, own, error);
	json_decref(fingerprint);
	code = ranks_share(code, error);
	if (code != EXIT_OK)
		return code;
	memcpy(first, own, sizeof first);
	ranks_tell(0, first, sizeof first);
	return memcmp(first, own, sizeof first) == 0 ? EXIT_OK :
	       fail(error, EXIT_INPUT, "%s: the model, the tokens or inputs, or the options differ from those of rank 0", r->model->path);
}

static int calibrate_layers(struct running *r, struct error *error)
{
	const size_t n_layers = count_layers(r);
	int code = transfer_begin(&r->transfer, error);

	start_progress(r);
	for (size_t i = r->first; i < n_layers && code == EXIT_OK; i++) {
		code = state_open_layer(&r->state, i, error);
		if (code == EXIT_OK && i == 0 && r->settings->inputs == NULL)
			code = embed(r, error);
		if (code == EXIT_OK)
			code = r->settings->inputs != NULL ? inputs_calibrate(r, i, error) : layer_calibrate(r, i, error);
		if (code == EXIT_OK)
			code = state_close_layer(&r->state, i, error);
	}
	progress_end(&r->progress);
	transfer_end(&r->transfer);
	return code;
}

/* The row of a tensor, which may have several matrices. */
static struct calibrate_row *row_of(struct running *r, const struct state_weight *weight)
{
	struct calibration *done = r->done;
	const struct quantize_entry *entry = entry_of(r, weight->name);

	for (size_t i = done->n_rows; i-- > 0 && done->rows[i].layer == weight->layer;)
		if (strcmp(done->rows[i].name, weight->name) == 0)
			return &done->rows[i];
	struct calibrate_row *rows = realloc(done->rows, (done->n_rows + 1) * sizeof *rows);
	char *name = strdup(weight->name);
	if (rows != NULL)
		done->rows = rows;
	if (rows == NULL || name == NULL) {
		free(name);
		return NULL;
	}
	struct calibrate_row *row = &rows[done->n_rows++];
	*row = (struct calibrate_row){.name = name, .layer = weight->layer, .cols = weight->cols};
	quantize_text(&entry->choice, row->format);
	return row;
}

/* Makes rows of what this run and those before it did. */
static int make_rows(struct running *r, struct error *error)
{
	for (size_t i = 0; i < r->state.n_weights; i++) {
		const struct state_weight *weight = &r->state.weights[i];
		struct calibrate_row *row = row_of(r, weight);

		if (row == NULL)
			return fail_memory(error);
		row->rows += weight->rows;
		row->matrices++;
		row->pooled += weight->pooled;
		row->tokens = row->matrices == 1 || weight->tokens < row->tokens ? weight->tokens : row->tokens;
		row->done.energy += weight->done.energy;
		row->done.rounded += weight->done.rounded;
		row->done.compensated += weight->done.compensated;
		r->done->n_pooled += weight->pooled;
	}
	r->done->n_left = r->rounded.plan.n_quantized - r->done->n_rows;
	if (r->done->n_rows > 0)
		return EXIT_OK;
	return fail(error, EXIT_INPUT, "%s: no linear layer is to be quantized: rows may not be whole blocks, which --pad-tail "
	            "allows", r->model->path);
}

/* Whether an earlier run of this plan can have made a matrix. */
static bool fits(const void *context, const struct state_weight *weight)
{
	const struct quantize_entry *entry = entry_of(context, weight->name);

	return entry != NULL && weight->cols == entry->cols && weight->row < entry->rows && weight->rows > 0 &&
	       weight->rows <= entry->rows - weight->row && weight->format == entry->choice.format;
}

static int run_begun(struct running *r, struct error *error)
{
	const struct state_plan plan = {.stateless = r->settings->inputs != NULL, .fits = fits, .context = r};
	int code = state_begin(&r->state, &r->editing.output.partial, count_layers(r), &plan, &r->first, error);

	if (code == EXIT_OK)
		code = calibrate_layers(r, error);
	if (code != EXIT_OK || ranks_own() > 0)
		return code;
	code = make_rows(r, error);
	state_sort(&r->state);
	return code == EXIT_OK ? edit_finish(&r->editing, error) : code;
}

int calibrate_run(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                  struct error *error)
{
	struct running r = {.settings = settings, .model = model, .done = done, .exec = {.size = sizeof r.exec, .threads = settings->threads},
	                    .transfer.threads = settings->threads};
	json_t *fingerprint = NULL;

	*done = (struct calibration){0};
	write_prepare(&r);
	int code = ranks_own() == 0 ? edit_check(&r.edit, error) : EXIT_OK;
	if (code == EXIT_OK)
		code = settings->inputs != NULL ? open_inputs(&r, error) : open_networks(&r, error);
	if (code == EXIT_OK)
		code = settings->inputs != NULL ? inputs_check_memory(&r, error) : set_memory(&r, error);
	if (code == EXIT_OK)
		code = make_fingerprint(&r, true, &fingerprint, error);
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		code = ranks_share(check_ranks(&r, error), error);
	if (code == EXIT_OK) {
		r.statistics = ranks_least(r.statistics);
		code = ranks_own() == 0 ? edit_begin(&r.editing, &r.edit, fingerprint, error) : edit_help(&r.editing, &r.edit, error);
		code = ranks_share(code, error);
		if (code == EXIT_OK)
			code = run_begun(&r, error);
		state_end(&r.state);
		code = edit_end(&r.editing, code, error);
	}
	done->n_kept = model->n_tensors - done->n_rows;
	json_decref(fingerprint);
	evaluate_close_network(&r.exact);
	evaluate_close_network(&r.rounded);
	workspace_free(&r.workspace);
	free(r.taking.x);
	free(r.exact_taking.x);
	free(r.heard.x);
	free(r.heard_exact.x);
	free(r.exact_x);
	free(r.rounded_x);
	free(r.inputs);
	return code;
}

void calibrate_free(struct calibration *done)
{
	for (size_t i = 0; i < done->n_rows; i++)
		free(done->rows[i].name);
	free(done->rows);
	free(done->left);
	carry_free(&done->carry);
}
