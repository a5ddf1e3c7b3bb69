/* SPDX-License-Identifier: MIT */
/* Calibrates a layer: its linear layers stage by stage, in the order in which they run, so that each sees what those before it
   have become. */
#include "config.h"

#include "calibrate/running.h"

#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "quantize/ranks.h"

enum { STOPPED = -1 /* what a watcher returns that has seen enough */ };

/* Gate and up, and down, of all experts run with those of all tokens. The router is before them, since it decides which tokens
   they have. */
enum stage { STAGE_QKV, STAGE_OUTPUT, STAGE_ROUTER, STAGE_MLP, STAGE_DOWN, STAGES };

/* Linear layers with the same statistics: those of one site, or of several for experts that few tokens reach. */
struct item {
	size_t site, end; /* the sites whose inputs are summed */
	size_t cols;
	bool pooled;
	struct moments moments;
};

/* A layer at work. */
struct layer_work {
	struct running *running;
	size_t layer, experts;
	size_t n_linears;
	struct network_linear *linears;
	size_t *item_of;       /* of each linear layer, in this stage; SIZE_MAX: none */
	uint64_t *seen;        /* tokens of each expert */
	size_t n_items;
	struct item *items;    /* of this stage; as many as linear layers at most */
};

uint64_t layer_statistics(size_t rows, size_t cols)
{
	/* Sums and the factor made of them; the factor, a matrix in five states, and its blocks. */
	const uint64_t n = (uint64_t)cols * cols, sums = 3 * sizeof(double) * n, factor = 4 * sizeof(float) * n;
	const uint64_t weights = 6 * sizeof(float) * (uint64_t)rows * cols;

	return factor + (sums > weights ? sums : weights);
}

uint64_t layer_sums(size_t cols)
{
	return 3 * sizeof(double) * (uint64_t)cols * cols;
}

/* Moves the progress to a part of a layer. */
static void show(const struct layer_work *w, double part)
{
	struct running *r = w->running;
	const double layers = (double)network_layers(r->exact.network);
	const uint64_t shown = (uint64_t)(((double)(w->layer - r->first) + part) / layers * (double)r->done->n_tokens);

	if (shown > r->shown) {
		progress_add(&r->progress, shown - r->shown);
		r->shown = shown;
	}
}

/* Makes room for so many numbers. */
static int reserve(struct taking *t, size_t n, struct error *error)
{
	const size_t capacity = n + t->capacity / 2;

	if (n <= t->capacity)
		return EXIT_OK;
	float *larger = realloc(t->x, capacity * sizeof *larger + 1);
	if (larger == NULL)
		return fail_memory(error);
	t->x = larger;
	t->capacity = capacity;
	return EXIT_OK;
}

static int take_inputs(void *context, size_t site, const float *x, size_t rows, size_t cols, struct error *error)
{
	struct taking *t = context;
	struct taken *taken = &t->sites[site];

	if (!taken->wanted || taken->seen)
		return EXIT_OK;
	const int code = reserve(t, t->used + rows * cols, error);
	if (code != EXIT_OK)
		return code;
	memcpy(t->x + t->used, x, rows * cols * sizeof *x);
	taken->seen = true;
	taken->at = t->used;
	taken->rows = rows;
	taken->cols = cols;
	t->used += rows * cols;
	return --t->left > 0 ? EXIT_OK : STOPPED;
}

/* Runs a layer of a network on the states of a window until the inputs of all sites that are wanted were seen. */
static int run_until(struct network *network, size_t layer, const struct network_piece *piece, float *x, struct taking *t,
                     struct error *error)
{
	t->used = t->left = 0;
	for (size_t i = 0; i < t->n_sites; i++) {
		t->left += t->sites[i].wanted;
		t->sites[i].seen = false;
	}
	network_watch(network, take_inputs, t);
	/* A layer that is stopped leaves its states as they are. */
	const int code = network_run_layer(network, layer, piece, 1, x, error);
	network_watch(network, NULL, NULL);
	return code == STOPPED ? EXIT_OK : code;
}

/* Reads the states of a window. */
static int read_states(struct running *r, size_t window, struct error *error)
{
	const size_t hidden = network_hidden(r->exact.network), n = window_of(r, window).n * hidden;
	const uint64_t at = 2 * (uint64_t)r->settings->tokens->starts[window] * hidden;
	const int code = state_read(&r->state, at, r->exact_x, n, error);

	return code == EXIT_OK ? state_read(&r->state, at + n, r->rounded_x, n, error) : code;
}

/* Takes what sums are of from a window: of the rounded network its inputs as they are rounded, of the exact one how much those
   differ from them. The exact one's tokens go to the experts that those of the rounded one go to. */
static int take_window(const struct layer_work *w, size_t window, struct error *error)
{
	struct running *r = w->running;
	const struct network_piece piece = window_of(r, window);
	int code = read_states(r, window, error);

	if (code == EXIT_OK)
		code = run_until(r->rounded.network, w->layer, &piece, r->rounded_x, &r->taking, error);
	network_follow(r->exact.network, r->rounded.network);
	if (code == EXIT_OK)
		code = run_until(r->exact.network, w->layer, &piece, r->exact_x, &r->exact_taking, error);
	network_follow(r->exact.network, NULL);
	if (code != EXIT_OK)
		return code;
	const struct taken *sites = r->taking.sites;
	for (size_t i = 0; i < r->taking.n_sites; i++)
		if (sites[i].wanted && sites[i].rows > 0)
			network_round(r->rounded.network, r->taking.x + sites[i].at, sites[i].rows, sites[i].cols);
	for (size_t i = 0; i < r->taking.used; i++)
		r->exact_taking.x[i] -= r->taking.x[i];
	return EXIT_OK;
}

/* Gives all ranks what one of them has taken, in *x and *difference. */
static int hear(struct running *r, unsigned from, const struct taking **x, const struct taking **difference, struct error *error)
{
	struct taking *a = from == ranks_own() ? &r->taking : &r->heard, *b = from == ranks_own() ? &r->exact_taking : &r->heard_exact;

	ranks_tell(from, a->sites, r->taking.n_sites * sizeof *a->sites);
	ranks_tell(from, &a->used, sizeof a->used);
	int code = reserve(a, a->used, error);
	if (code == EXIT_OK)
		code = reserve(b, a->used, error);
	code = ranks_share(code, error);
	if (code == EXIT_OK) {
		ranks_tell(from, a->x, a->used * sizeof *a->x);
		ranks_tell(from, b->x, a->used * sizeof *b->x);
	}
	*x = a;
	*difference = b;
	return code;
}

/* Adds the inputs that a rank has taken from a window to the sums of items. */
static int add_window(const struct layer_work *w, unsigned from, size_t first, size_t end, struct error *error)
{
	struct running *r = w->running;
	const struct taking *x, *difference;
	int code = hear(r, from, &x, &difference, error);

	for (size_t i = first; i < end && code == EXIT_OK; i++) {
		struct item *item = &w->items[i];
		const struct taken *last = &x->sites[item->end - 1];
		const size_t at = x->sites[item->site].at, rows = (last->at - at) / item->cols + last->rows;

		if (rows > 0)
			code = moments_add(&item->moments, x->x + at, difference->x + at, rows, &r->workspace, &r->exec, error);
	}
	return ranks_share(code, error);
}

/* Takes a window on each rank, and adds them one after the other, in the order that they have on one rank too. */
static int add_round(const struct layer_work *w, size_t window, size_t first, size_t end, struct error *error)
{
	const size_t n = w->running->settings->tokens->n, own = window + ranks_own();
	int code = own < n && window_of(w->running, own).n > 0 ? take_window(w, own, error) : EXIT_OK;

	code = ranks_share(code, error);
	for (unsigned i = 0; i < ranks_number() && window + i < n && code == EXIT_OK; i++)
		if (window_of(w->running, window + i).n > 0)
			code = add_window(w, i, first, end, error);
	return code;
}

/* Sums over all tokens of the inputs of some items. */
static int sum_items(const struct layer_work *w, enum stage stage, size_t first, size_t end, struct error *error)
{
	struct running *r = w->running;
	const struct token_sequences *tokens = r->settings->tokens;
	int code = EXIT_OK;

	for (size_t s = 0; s < r->taking.n_sites; s++)
		r->taking.sites[s].wanted = false;
	for (size_t i = first; i < end && code == EXIT_OK; i++) {
		for (size_t s = w->items[i].site; s < w->items[i].end; s++)
			r->taking.sites[s].wanted = true;
		code = moments_begin(&w->items[i].moments, w->items[i].cols, error);
	}
	for (size_t s = 0; s < r->taking.n_sites; s++)
		r->exact_taking.sites[s].wanted = r->taking.sites[s].wanted;
	code = ranks_share(code, error);
	for (size_t i = 0; i < tokens->n && code == EXIT_OK; i += ranks_number()) {
		const size_t next = i + ranks_number() < tokens->n ? i + ranks_number() : tokens->n;

		code = add_round(w, i, first, end, error);
		const double part = (double)next / (double)tokens->n * (double)(end - first);
		show(w, ((double)stage + ((double)first + part) / (double)w->n_items) / (STAGES + 1));
	}
	for (size_t i = first; i < end && code == EXIT_OK; i++)
		moments_join(&w->items[i].moments);
	return code;
}

/* Refuses sums that are not finite, of which weights of NaN would be made. */
static int check_sums(const struct running *r, const char *weight, const struct moments *moments, struct error *error)
{
	size_t column;

	if (moments_are_finite(moments, &column))
		return EXIT_OK;
	return fail_tensor(error, r->model->path, weight, "the inputs that the model gives it are NaN, Inf, or "
	                   "too large for their squares, at column %zu; look for the weights that make them so, or "
	                   "for tokens that mxfp eval gives no finite likelihood", column);
}

static int calibrate_linear(const struct layer_work *w, const struct network_linear *linear, const struct item *item,
                            size_t tokens, const float *factor, struct error *error)
{
	struct running *r = w->running;
	struct state_weight weight = {
		.name = (char *)(void *)linear->weight, .layer = w->layer, .row = linear->row, .rows = linear->rows,
		.cols = linear->cols, .pooled = item->pooled, .tokens = tokens};
	struct mxfp_blocks blocks;
	void *memory;
	int code = matrix_calibrate(r, &weight, factor, &blocks, &memory, error);

	if (code == EXIT_OK)
		code = network_replace(r->rounded.network, w->layer, linear, &blocks, error);
	free(memory);
	return code;
}

/* Compensates the linear layers of an item, whose sums it frees. */
static int calibrate_item(const struct layer_work *w, size_t number, struct error *error)
{
	struct running *r = w->running;
	struct item *item = &w->items[number];
	const size_t tokens = item->moments.tokens;
	float *factor = NULL;
	size_t first = 0;

	while (w->item_of[first] != number)
		first++;
	int code = check_sums(r, w->linears[first].weight, &item->moments, error);
	if (code == EXIT_OK)
		code = compensate_prepare(&factor, &item->moments, r->settings->damping, &r->exec, error);
	moments_free(&item->moments);
	for (size_t i = first; i < w->n_linears && code == EXIT_OK; i++)
		if (w->item_of[i] == number)
			code = calibrate_linear(w, &w->linears[i], item, tokens, factor, error);
	free(factor);
	return code;
}

static enum stage stage_of(const struct layer_work *w, const struct network_linear *linear)
{
	static const enum stage stages[] = {
		[NETWORK_SITE_QKV] = STAGE_QKV, [NETWORK_SITE_OUTPUT] = STAGE_OUTPUT, [NETWORK_SITE_MLP] = STAGE_MLP,
		[NETWORK_SITE_DOWN] = STAGE_DOWN};

	if (linear->routes)
		return STAGE_ROUTER;
	if (linear->site < NETWORK_SITE_EXPERTS)
		return stages[linear->site];
	return linear->site < NETWORK_SITE_EXPERTS + w->experts ? STAGE_MLP : STAGE_DOWN;
}

/* The item of a linear layer. An expert that saw fewer tokens than it has inputs, of which no full rank can come, is calibrated
   by what all tokens give the experts: gate and up by the inputs of all tokens, down by those of all experts' down. */
static struct item item_for(const struct layer_work *w, const struct network_linear *linear)
{
	struct item item = {.site = linear->site, .end = linear->site + 1, .cols = linear->cols};

	if (linear->site < NETWORK_SITE_EXPERTS || w->seen[(linear->site - NETWORK_SITE_EXPERTS) % w->experts] >= linear->cols)
		return item;
	item.pooled = true;
	item.site = NETWORK_SITE_MLP;
	item.end = item.site + 1;
	if (stage_of(w, linear) == STAGE_DOWN) {
		item.site = NETWORK_SITE_EXPERTS + w->experts;
		item.end = item.site + w->experts;
	}
	return item;
}

/* Lists the items of a stage. */
static void list_items(struct layer_work *w, enum stage stage)
{
	w->n_items = 0;
	for (size_t i = 0; i < w->n_linears; i++) {
		const struct network_linear *linear = &w->linears[i];

		w->item_of[i] = SIZE_MAX;
		if (stage_of(w, linear) != stage || entry_of(w->running, linear->weight) == NULL)
			continue;
		const struct item item = item_for(w, linear);
		size_t at = 0;
		while (at < w->n_items && (w->items[at].site != item.site || w->items[at].end != item.end ||
		                           w->items[at].pooled != item.pooled))
			at++;
		if (at == w->n_items)
			w->items[w->n_items++] = item;
		w->item_of[i] = at;
	}
}

/* The items, as many at once as the memory of their sums allows, which does not change what they give. */
static int calibrate_stage(struct layer_work *w, enum stage stage, struct error *error)
{
	int code = EXIT_OK;

	list_items(w, stage);
	for (size_t first = 0, end; first < w->n_items && code == EXIT_OK; first = end) {
		uint64_t bytes = layer_sums(w->items[first].cols);

		for (end = first + 1; end < w->n_items; end++) {
			bytes += layer_sums(w->items[end].cols);
			if (bytes > w->running->statistics)
				break;
		}
		code = sum_items(w, stage, first, end, error);
		for (size_t i = first; i < end && code == EXIT_OK; i++)
			code = calibrate_item(w, i, error);
		for (size_t i = first; i < end; i++)
			moments_free(&w->items[i].moments);
	}
	return code;
}

/* Counts the tokens of each expert, behind the stage of the router, whose inputs and weights stay as they are from there on. */
static int count_tokens(const struct layer_work *w, struct error *error)
{
	struct running *r = w->running;
	int code = EXIT_OK;

	for (size_t s = 0; s < r->taking.n_sites; s++)
		r->taking.sites[s].wanted = s >= NETWORK_SITE_EXPERTS && s < NETWORK_SITE_EXPERTS + w->experts;
	for (size_t i = ranks_own(); w->experts > 0 && i < r->settings->tokens->n && code == EXIT_OK; i += ranks_number()) {
		const struct network_piece piece = window_of(r, i);

		if (piece.n == 0)
			continue;
		code = read_states(r, i, error);
		if (code == EXIT_OK)
			code = run_until(r->rounded.network, w->layer, &piece, r->rounded_x, &r->taking, error);
		for (size_t e = 0; e < w->experts && code == EXIT_OK; e++)
			w->seen[e] += r->taking.sites[NETWORK_SITE_EXPERTS + e].rows;
	}
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		ranks_sum(w->seen, w->experts);
	return code;
}

/* Runs the whole layer of both networks on all tokens. */
static int run_layer(const struct layer_work *w, struct error *error)
{
	struct running *r = w->running;
	const struct token_sequences *tokens = r->settings->tokens;
	const size_t hidden = network_hidden(r->exact.network);
	int code = EXIT_OK;

	for (size_t i = ranks_own(); i < tokens->n && code == EXIT_OK; i += ranks_number()) {
		const struct network_piece piece = window_of(r, i);
		const uint64_t at = 2 * (uint64_t)tokens->starts[i] * hidden;

		if (piece.n == 0)
			continue;
		code = read_states(r, i, error);
		if (code == EXIT_OK)
			code = network_run_layer(r->exact.network, w->layer, &piece, 1, r->exact_x, error);
		if (code == EXIT_OK)
			code = network_run_layer(r->rounded.network, w->layer, &piece, 1, r->rounded_x, error);
		if (code == EXIT_OK)
			code = state_write_next(&r->state, at, r->exact_x, piece.n * hidden, error);
		if (code == EXIT_OK)
			code = state_write_next(&r->state, at + piece.n * hidden, r->rounded_x, piece.n * hidden, error);
		show(w, (STAGES + (double)(i + 1) / (double)tokens->n) / (STAGES + 1));
	}
	return code;
}

/* Makes room for what a layer takes. */
static int begin(struct layer_work *w, struct error *error)
{
	struct running *r = w->running;
	int code = network_linears(r->exact.network, w->layer, &w->linears, &w->n_linears, error);

	if (code != EXIT_OK)
		return code;
	r->taking.n_sites = r->exact_taking.n_sites = NETWORK_SITE_EXPERTS + 2 * w->experts;
	r->taking.sites = calloc(r->taking.n_sites, sizeof *r->taking.sites);
	r->exact_taking.sites = calloc(r->taking.n_sites, sizeof *r->exact_taking.sites);
	r->heard.sites = calloc(r->taking.n_sites, sizeof *r->heard.sites);
	w->item_of = malloc(w->n_linears * sizeof *w->item_of + 1);
	w->items = malloc(w->n_linears * sizeof *w->items + 1);
	w->seen = calloc(w->experts + 1, sizeof *w->seen);
	return r->taking.sites != NULL && r->exact_taking.sites != NULL && r->heard.sites != NULL && w->item_of != NULL &&
	       w->items != NULL && w->seen != NULL ? EXIT_OK : fail_memory(error);
}

static void end(struct layer_work *w)
{
	struct running *r = w->running;

	free(r->taking.sites);
	free(r->exact_taking.sites);
	free(r->heard.sites);
	r->taking.sites = r->exact_taking.sites = r->heard.sites = NULL;
	free(w->linears);
	free(w->item_of);
	free(w->items);
	free(w->seen);
}

int layer_calibrate(struct running *r, size_t layer, struct error *error)
{
	struct layer_work w = {.running = r, .layer = layer, .experts = network_experts(r->exact.network, layer)};
	int code = network_load_layer(r->exact.network, layer, error);

	if (code == EXIT_OK)
		code = network_load_layer(r->rounded.network, layer, error);
	if (code == EXIT_OK)
		code = begin(&w, error);
	for (enum stage stage = 0; stage < STAGES && code == EXIT_OK; stage++) {
		code = calibrate_stage(&w, stage, error);
		if (code == EXIT_OK && stage == STAGE_ROUTER)
			code = count_tokens(&w, error);
	}
	if (code == EXIT_OK && layer + 1 < network_layers(r->exact.network))
		code = run_layer(&w, error);
	show(&w, 1);
	end(&w);
	network_drop_layer(r->exact.network, layer);
	network_drop_layer(r->rounded.network, layer);
	return code;
}
