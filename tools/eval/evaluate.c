/* SPDX-License-Identifier: MIT */
/* Runs of a model over windows of tokens. The scores of a prediction have their place, and sums are made at the end in the
   order of the tokens, so that nothing depends on how the windows were run. */
#include "config.h"

#include "eval/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/byte_order.h"
#include "base/clock.h"
#include "base/must_succeed.h"
#include "internal.h"
#include "mxfp/exec.h"

/* Of logits that are scored or kept at once. */
enum { CHUNK_BYTES = 1 << 24 };

/* Tokens of a window that run: all but the last, after which nothing is predicted. */
static size_t rows_of(const struct token_sequences *tokens, size_t window)
{
	const size_t length = tokens->starts[window + 1] - tokens->starts[window];

	return length > 0 ? length - 1 : 0;
}

static size_t predictions_of(const struct evaluate_settings *settings, size_t window)
{
	const size_t rows = rows_of(settings->tokens, window);

	return rows > settings->skip ? rows - settings->skip : 0;
}

int evaluate_begin(struct evaluation *evaluation, const struct evaluate_settings *settings, struct error *error)
{
	const struct token_sequences *tokens = settings->tokens;
	size_t longest = 0;

	*evaluation = (struct evaluation){.settings = settings};
	evaluation->offsets = malloc((tokens->n + 1) * sizeof *evaluation->offsets);
	if (evaluation->offsets == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < tokens->n; i++) {
		evaluation->offsets[i] = evaluation->n_predictions;
		evaluation->n_predictions += predictions_of(settings, i);
		evaluation->n_tokens += tokens->starts[i + 1] - tokens->starts[i];
		longest = rows_of(tokens, i) > longest ? rows_of(tokens, i) : longest;
	}
	if (evaluation->n_predictions == 0 && longest == 0)
		return fail(error, EXIT_INPUT, "%s: nothing is predicted: no window has a token after its first; give longer ones",
		            settings->command);
	if (evaluation->n_predictions == 0)
		return fail(error, EXIT_INPUT, "%s: nothing is predicted: the longest of %zu windows has %zu tokens after its first, "
		            "and --skip leaves out %zu; give longer ones", settings->command, tokens->n, longest, settings->skip);
	evaluation->scores = calloc(evaluation->n_predictions, sizeof *evaluation->scores);
	evaluation->scratch = calloc(evaluation->n_predictions, sizeof *evaluation->scratch);
	return evaluation->scores != NULL && evaluation->scratch != NULL ? EXIT_OK : fail_memory(error);
}

/* Tokens that are run. */
static uint64_t count_rows(const struct evaluate_settings *settings)
{
	uint64_t n = 0;

	for (size_t i = 0; i < settings->tokens->n; i++)
		n += predictions_of(settings, i) > 0 ? rows_of(settings->tokens, i) : 0;
	return n;
}

void evaluate_expect(struct evaluation *evaluation, size_t n_runs)
{
	progress_start_tokens(&evaluation->progress, "evaluating", n_runs * count_rows(evaluation->settings),
	                      evaluation->settings->quiet);
}

/* A hash of what the rows of logits are of: the ids of each window that has predictions, and how many of them it has. */
static uint64_t hash_tokens(const struct evaluate_settings *settings)
{
	const struct token_sequences *tokens = settings->tokens;
	XXH64_hash_t hash = 0;

	for (size_t i = 0; i < tokens->n; i++) {
		uint64_t words[2] = {tokens->starts[i + 1] - tokens->starts[i], predictions_of(settings, i)};

		if (words[1] == 0)
			continue;
		little_endian(words, 2, sizeof words[0]);
		hash = XXH3_64bits_withSeed(words, sizeof words, hash);
		for (size_t t = tokens->starts[i]; t < tokens->starts[i + 1]; t++) {
			uint32_t id = tokens->ids[t];

			little_endian(&id, 1, sizeof id);
			hash = XXH3_64bits_withSeed(&id, sizeof id, hash);
		}
	}
	return hash;
}

struct logits_kind evaluate_kind(const struct evaluation *evaluation, uint64_t vocabulary)
{
	return (struct logits_kind){
		.vocabulary = vocabulary,
		.rows = evaluation->n_predictions,
		.hash = hash_tokens(evaluation->settings),
	};
}

/* A run: the call that is being made, and where its logits go. */
struct run {
	struct evaluation *evaluation;
	enum evaluate_role role;
	size_t vocabulary;
	struct network_piece *pieces;
	size_t *windows;              /* of each piece */
	size_t capacity;              /* rows of the chunk */
	float *chunk;                 /* rows of the base that are read or written; NULL if it has no part */
};

/* Rows being scored: logits of consecutive predictions. */
struct scoring {
	const struct run *run;
	const float *logits, *base;
	const uint32_t *tokens;
	struct score *scores;
};

static void score_one(void *argument, size_t i)
{
	const struct scoring *s = argument;
	const size_t vocabulary = s->run->vocabulary;

	if (s->base != NULL)
		score_beside(&s->scores[i], s->logits + i * vocabulary, s->base + i * vocabulary, vocabulary, s->tokens[i]);
	else
		score_row(&s->scores[i], s->logits + i * vocabulary, vocabulary, s->tokens[i]);
}

static void score_all(struct scoring *s, size_t n)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = s->run->evaluation->settings->threads};

	must_succeed(mxfp_parallel_for(&exec, n, score_one, s));
}

/* Takes logits from the network: a network_sink. */
static int take(void *context, size_t piece, size_t row, size_t n, const float *logits, struct error *error)
{
	struct run *run = context;
	struct evaluation *evaluation = run->evaluation;
	const struct token_sequences *tokens = evaluation->settings->tokens;
	const size_t window = run->windows[piece], place = run->pieces[piece].first + row;
	const size_t first = evaluation->offsets[window] + place - evaluation->settings->skip;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i += run->capacity) {
		const size_t rows = n - i < run->capacity ? n - i : run->capacity;
		const float *own = logits + i * run->vocabulary;
		struct scoring scoring = {
			.run = run,
			.logits = own,
			.base = run->role == EVALUATE_BESIDE ? run->chunk : NULL,
			.tokens = tokens->ids + tokens->starts[window] + place + i + 1,
			.scores = evaluation->scores + first + i,
		};

		if (run->role == EVALUATE_BESIDE)
			code = logits_read(&evaluation->base, first + i, rows, run->chunk, error);
		if (code != EXIT_OK)
			return code;
		score_all(&scoring, rows);
		if (run->role != EVALUATE_BASE)
			continue;
		memcpy(run->chunk, own, rows * run->vocabulary * sizeof *own);
		code = logits_write(&evaluation->base, first + i, rows, run->chunk, error);
	}
	return code;
}

/* Runs all windows: calls of whole batches, into which one window after the other goes, in pieces where it meets the end
   of a batch. A slot is free again when its window has ended, so that slots hold no more than a batch and a window. */
static int run_windows(struct run *run, struct network *network, struct error *error)
{
	struct evaluation *evaluation = run->evaluation;
	const struct evaluate_settings *settings = evaluation->settings;
	const struct token_sequences *tokens = settings->tokens;
	size_t window = 0, done = 0; /* the next window, and tokens of it that were run */
	unsigned slot = 0;
	int code = EXIT_OK;

	while (code == EXIT_OK) {
		size_t n = 0, left = settings->batch;

		while (left > 0 && window < tokens->n) {
			const size_t total = rows_of(tokens, window);

			if (predictions_of(settings, window) == 0) {
				window++;
				continue;
			}
			const size_t rows = total - done < left ? total - done : left;
			const size_t skipped = settings->skip > done ? settings->skip - done : 0;
			run->windows[n] = window;
			run->pieces[n++] = (struct network_piece){
				.slot = slot,
				.ids = tokens->ids + tokens->starts[window] + done,
				.first = done,
				.n = rows,
				.wanted = skipped < rows ? skipped : rows,
				.total = total,
			};
			left -= rows;
			done += rows;
			if (done < total)
				break;
			window++;
			done = 0;
			slot = slot + 1 < settings->batch ? slot + 1 : 0;
		}
		if (n == 0)
			break;
		code = network_run(network, run->pieces, n, take, run, error);
		for (size_t i = 0; i < n; i++)
			if (run->pieces[i].first + run->pieces[i].n == run->pieces[i].total)
				network_release(network, run->pieces[i].slot);
		progress_add(&evaluation->progress, settings->batch - left);
	}
	return code;
}

/* Opens what the run needs besides the network, and runs. */
static int run_network(struct run *run, struct network *network, struct error *error)
{
	struct evaluation *evaluation = run->evaluation;
	const struct evaluate_settings *settings = evaluation->settings;
	const struct logits_kind kind = evaluate_kind(evaluation, network_vocabulary(network));
	int code = EXIT_OK;

	run->vocabulary = (size_t)kind.vocabulary;
	run->capacity = CHUNK_BYTES / sizeof(float) / run->vocabulary + 1;
	run->pieces = malloc(settings->batch * sizeof *run->pieces);
	run->windows = malloc(settings->batch * sizeof *run->windows);
	run->chunk = malloc(run->capacity * run->vocabulary * sizeof *run->chunk);
	if (run->pieces == NULL || run->windows == NULL || run->chunk == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK && run->role == EVALUATE_BASE)
		code = logits_create(&evaluation->base, &kind, settings->save, error);
	if (code == EXIT_OK)
		code = run_windows(run, network, error);
	free(run->pieces);
	free(run->windows);
	free(run->chunk);
	return code;
}

static int check_vocabulary(const struct evaluation *evaluation, const struct network *network, const struct model *model,
                            struct error *error)
{
	const uint64_t own = network_vocabulary(network), base = evaluation->base.kind.vocabulary;

	if (own == base)
		return EXIT_OK;
	return fail(error, EXIT_INPUT, "%s: has a vocabulary of %llu, and that of %s is %llu; compare models with the same one",
	            model->path, (unsigned long long)own, evaluation->results[0].path, (unsigned long long)base);
}

/* How a network runs a trial, by the plan for its weights if it quantizes any. */
static struct network_options options_of(const struct evaluate_settings *settings, const struct quantize_plan *plan,
                                         const struct trial *trial, const struct evaluate_kept *kept)
{
	return (struct network_options){
		.plan = trial->quantizes ? plan : NULL,
		.keeps = kept->keeps,
		.keeps_context = kept->context,
		.activations = trial->activations,
		.activation_rule = (enum mxfp_rule)trial->activation_rule,
		.kv_cache = trial->kv_cache,
		.attention = trial->attention,
		.numbers = trial->numbers,
		.summed = trial->summed,
		.acc = trial->acc,
		.pass_k = trial->pass_k,
		.by_layer = settings->by_layer,
		.batch = settings->batch,
		.threads = settings->threads,
	};
}

/* The plan of a trial that quantizes anything. */
static int make_plan(struct quantize_plan *plan, const struct model *model, const struct trial *trial, struct error *error)
{
	const int code = quantize_plan(plan, &trial->settings, model, error);

	return code == EXIT_OK ? quantize_check_any(plan, error) : code;
}

int evaluate_open_network(struct evaluate_network *opened, const struct evaluate_settings *settings,
                          const struct model *model, const struct trial *trial, const struct evaluate_kept *kept,
                          struct error *error)
{
	const struct network_options options = options_of(settings, &opened->plan, trial, kept);
	int code = EXIT_OK;

	*opened = (struct evaluate_network){.network = NULL};
	if (trial->quantizes)
		code = make_plan(&opened->plan, model, trial, error);
	return code == EXIT_OK ? network_open(&opened->network, model, &options, error) : code;
}

void evaluate_close_network(struct evaluate_network *opened)
{
	network_close(opened->network);
	quantize_plan_free(&opened->plan);
}

double evaluate_bits(const struct evaluate_result *result)
{
	return 8 * (double)result->size.bytes / (double)result->size.elements;
}

void evaluate_describe(struct evaluate_result *result, const struct model *model, const struct trial *trial,
                       const struct network *network)
{
	*result = (struct evaluate_result){.path = model->path, .loaded = true};
	snprintf(result->name, sizeof result->name, "%s", trial->name);
	trial_weights(trial, result->weights);
	trial_activations(trial, result->activations);
	result->size = network_size(network);
	result->quantized = network_quantized(network);
	result->acc = trial->summed ? mxfp_option_name(MXFP_OPTION_ACC, (int)trial->acc) : NULL;
	result->pass_k = trial->pass_k;
}

int evaluate_run_kept(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      enum evaluate_role role, const struct evaluate_kept *kept, struct evaluate_result *result,
                      struct error *error)
{
	struct evaluate_network opened;
	struct run run = {.evaluation = evaluation, .role = role};
	struct profile profile = {.tokens = (size_t)count_rows(evaluation->settings), .started = clock_seconds()};
	int code = evaluate_open_network(&opened, evaluation->settings, model, trial, kept, error);

	profile.load = clock_seconds() - profile.started;
	if (code == EXIT_OK && role == EVALUATE_BESIDE)
		code = check_vocabulary(evaluation, opened.network, model, error);
	if (code == EXIT_OK)
		code = run_network(&run, opened.network, error);
	if (code == EXIT_OK) {
		evaluate_describe(result, model, trial, opened.network);
		score_summarize(&result->summary, evaluation->scores, evaluation->n_predictions, role == EVALUATE_BESIDE,
		                evaluation->scratch);
	}
	if (code == EXIT_OK && trial->quantizes && kept->keeps == NULL)
		code = stays_find(&result->stays, &opened.plan, error);
	if (code == EXIT_OK && evaluation->settings->profile && kept->keeps == NULL)
		code = profile_take(&profile, opened.network, error);
	if (code == EXIT_OK)
		result->profile = profile;
	evaluate_close_network(&opened);
	return code;
}

int evaluate_run(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                 enum evaluate_role role, struct error *error)
{
	const struct evaluate_kept none = {NULL, NULL};

	return evaluate_run_kept(evaluation, model, trial, role, &none, &evaluation->results[evaluation->n_results++], error);
}

int evaluate_check_sums(const struct evaluate_settings *settings, const struct model *model, const struct trial *trial,
                        const struct trial_options *options, struct error *error)
{
	const struct trial summed = trial_as_summed(trial, options);
	const struct evaluate_kept none = {NULL, NULL};
	struct evaluate_network opened = {.network = NULL};
	struct network_options network_options = options_of(settings, &opened.plan, &summed, &none);
	int code = trial->quantizes ? make_plan(&opened.plan, model, &summed, error) : EXIT_OK;

	network_options.checks = true;
	if (code == EXIT_OK)
		code = network_open(&opened.network, model, &network_options, error);
	evaluate_close_network(&opened);
	return code;
}

int evaluate_run_sums(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      const struct trial_options *options, struct error *error)
{
	const struct trial operands = trial_as_operands(trial), summed = trial_as_summed(trial, options);

	logits_close(&evaluation->base);
	const int code = evaluate_run(evaluation, model, &operands, EVALUATE_BASE, error);
	return code == EXIT_OK ? evaluate_run(evaluation, model, &summed, EVALUATE_BESIDE, error) : code;
}

/* Keeps what is to be kept of a state, or gives it: a network_state. */
static void pass_state(void *context, size_t step, float *x, size_t rows)
{
	struct evaluate_states *states = context;
	const size_t bytes = rows * states->hidden * sizeof *x;
	float *kept = states->rows[step] != NULL ? states->rows[step] + states->done * states->hidden : NULL;

	if (step == states->first && step > 0)
		memcpy(x, kept, bytes);
	else if (kept != NULL && states->keeps)
		memcpy(kept, x, bytes);
	if (step == states->n_steps)
		states->done += rows;
}

/* Takes memory for the states before some steps: every one if all fit, else every second, third, ... */
static int take_states(struct evaluate_states *states, const struct evaluation *evaluation, struct error *error)
{
	const uint64_t bytes = count_rows(evaluation->settings) * states->hidden * sizeof(float);
	const uint64_t most = EVALUATE_STATES_BYTES / (bytes + 1);
	const size_t every = most > 0 ? (size_t)((states->n_steps + most - 1) / most) : states->n_steps + 1;

	states->rows = calloc(states->n_steps + 1, sizeof *states->rows);
	if (states->rows == NULL)
		return fail_memory(error);
	for (size_t step = every; step <= states->n_steps; step += every) {
		states->rows[step] = malloc((size_t)bytes + 1);
		if (states->rows[step] == NULL)
			return fail_memory(error);
	}
	return EXIT_OK;
}

/* Runs the network of the states from a step on. */
static int run_states(struct evaluation *evaluation, struct evaluate_states *states, enum evaluate_role role, size_t first,
                      struct error *error)
{
	struct run run = {.evaluation = evaluation, .role = role};

	states->first = first;
	states->done = 0;
	states->keeps = role == EVALUATE_BASE;
	network_begin_at(states->opened.network, first, pass_state, states);
	return run_network(&run, states->opened.network, error);
}

int evaluate_run_states(struct evaluation *evaluation, struct evaluate_states *states, const struct model *model,
                        struct error *error)
{
	const struct evaluate_kept none = {NULL, NULL};
	struct evaluate_result *result = &evaluation->results[evaluation->n_results++];
	struct trial stored;

	*states = (struct evaluate_states){.rows = NULL};
	trial_stored(&stored, NULL);
	int code = evaluate_open_network(&states->opened, evaluation->settings, model, &stored, &none, error);
	if (code != EXIT_OK)
		return code;
	states->hidden = network_hidden(states->opened.network);
	states->n_steps = network_steps(states->opened.network);
	code = take_states(states, evaluation, error);
	if (code == EXIT_OK)
		code = run_states(evaluation, states, EVALUATE_BASE, 0, error);
	if (code != EXIT_OK)
		return code;
	evaluate_describe(result, model, &stored, states->opened.network);
	score_summarize(&result->summary, evaluation->scores, evaluation->n_predictions, false, evaluation->scratch);
	return EXIT_OK;
}

int evaluate_run_changed(struct evaluation *evaluation, struct evaluate_states *states, const struct model *model,
                         const struct trial *trial, const struct evaluate_kept *kept, struct evaluate_result *result,
                         struct error *error)
{
	struct network *network = states->opened.network;
	struct quantize_plan plan = {0};
	const struct network_options options = options_of(evaluation->settings, &plan, trial, kept);
	const uint64_t before = network_quantized(network);
	size_t step = 0;
	int code = make_plan(&plan, model, trial, error);

	*result = (struct evaluate_result){.path = model->path};
	if (code == EXIT_OK)
		code = network_change(network, &options, &step, error);
	result->quantized = network_quantized(network) - before;
	/* Nothing is run that changes nothing. */
	if (code == EXIT_OK && result->quantized > 0) {
		while (step > 0 && states->rows[step] == NULL)
			step--;
		code = run_states(evaluation, states, EVALUATE_BESIDE, step, error);
		if (code == EXIT_OK)
			score_summarize(&result->summary, evaluation->scores, evaluation->n_predictions, true, evaluation->scratch);
	}
	network_restore(network);
	quantize_plan_free(&plan);
	return code;
}

void evaluate_end_states(struct evaluate_states *states)
{
	for (size_t step = 0; states->rows != NULL && step <= states->n_steps; step++)
		free(states->rows[step]);
	free(states->rows);
	evaluate_close_network(&states->opened);
	*states = (struct evaluate_states){.rows = NULL};
}

int evaluate_open_base(struct evaluation *evaluation, const char *path, uint64_t vocabulary, struct error *error)
{
	const struct token_sequences *tokens = evaluation->settings->tokens;
	const struct logits_kind kind = evaluate_kind(evaluation, vocabulary);
	struct evaluate_result *result = &evaluation->results[evaluation->n_results++];
	struct run run = {.evaluation = evaluation, .vocabulary = (size_t)vocabulary};
	int code = logits_open(&evaluation->base, path, &kind, error);

	run.chunk = code == EXIT_OK ? malloc(run.vocabulary * sizeof *run.chunk) : NULL;
	if (code == EXIT_OK && run.chunk == NULL)
		code = fail_memory(error);
	for (size_t window = 0; window < tokens->n && code == EXIT_OK; window++)
		for (size_t i = 0; i < predictions_of(evaluation->settings, window) && code == EXIT_OK; i++) {
			const size_t place = evaluation->offsets[window] + i;
			const uint32_t *next = tokens->ids + tokens->starts[window] + evaluation->settings->skip + i + 1;

			code = logits_read(&evaluation->base, place, 1, run.chunk, error);
			if (code == EXIT_OK)
				score_row(&evaluation->scores[place], run.chunk, run.vocabulary, *next);
		}
	free(run.chunk);
	*result = (struct evaluate_result){.path = path, .name = "base", .weights = "saved logits", .activations = "-"};
	if (code == EXIT_OK)
		score_summarize(&result->summary, evaluation->scores, evaluation->n_predictions, false, evaluation->scratch);
	return code;
}

void evaluate_free(struct evaluation *evaluation)
{
	progress_end(&evaluation->progress);
	logits_close(&evaluation->base);
	for (size_t i = 0; i < evaluation->n_results; i++) {
		profile_free(&evaluation->results[i].profile);
		stays_free(&evaluation->results[i].stays);
	}
	free(evaluation->offsets);
	free(evaluation->scores);
	free(evaluation->scratch);
	free(evaluation->parts);
}
