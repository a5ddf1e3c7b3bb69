/* SPDX-License-Identifier: MIT */
/*
 * Attention (doc/numerics.md, section 12). A task is a head of keys and values with some queries of all heads that share it:
 * their scores, softmax and sums stay in the area of a worker. Workers take tasks from a shared counter.
 *
 * The cache: keys of head h are [capacity / 32][head_cols][32], tokens being columns, and values, which follow all keys,
 * [head_cols / 32][capacity][32], so that what is multiplied lies in a row, whatever the capacity.
 */
#include "mxfp/attention.h"

#include <stdatomic.h>

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "softmax.h"

enum {
	COLS = MXFP_ATTEND_COLS,
	ALIGN = 64,
	MOST_QUERIES = 32,
	SCORES_BYTES = 1 << 19 /* of a task with more than one query: they are read again, beside keys and values */
};

/* A checked cache. */
struct cache {
	size_t heads, head_cols, capacity;
	size_t panels;                  /* of values */
	size_t keys_head, values_head;  /* numbers of a head */
	size_t bytes;
	float *keys, *values;
};

static enum mxfp_status check_cache(const struct mxfp_attention_cache *given, struct cache *cache)
{
	struct mxfp_attention_cache copy;

	if (given == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_attention_cache *g = MXFP_SIZED(given, &copy);
	if (g == NULL)
		return MXFP_ERR_VERSION;
	*cache = (struct cache){
		.heads = g->heads,
		.head_cols = g->head_cols,
		.capacity = g->capacity,
		.panels = mxfp_divide_up(g->head_cols, COLS),
	};
	size_t keys, values, row;
	if (g->heads == 0 || g->head_cols == 0)
		return MXFP_ERR_SHAPE;
	if (g->capacity > SIZE_MAX - COLS || g->head_cols > SIZE_MAX - COLS ||
	    !mxfp_multiply(g->heads, g->head_cols, &row) ||
	    !mxfp_multiply(mxfp_divide_up(g->capacity, COLS) * COLS, g->head_cols, &cache->keys_head) ||
	    !mxfp_multiply(cache->panels * COLS, g->capacity, &cache->values_head) ||
	    !mxfp_multiply(cache->keys_head, g->heads, &keys) || !mxfp_multiply(cache->values_head, g->heads, &values) ||
	    keys > PTRDIFF_MAX / sizeof(float) || values > PTRDIFF_MAX / sizeof(float) - keys)
		return MXFP_ERR_SIZE;
	cache->bytes = (keys + values) * sizeof(float);
	cache->keys = g->memory;
	cache->values = g->memory != NULL ? cache->keys + keys : NULL;
	return MXFP_OK;
}

/* The same of one with memory, for tokens first .. first + n - 1. */
static enum mxfp_status check_memory(const struct mxfp_attention_cache *given, struct cache *cache, size_t first, size_t n)
{
	const enum mxfp_status status = check_cache(given, cache);

	if (status != MXFP_OK)
		return status;
	if (first > cache->capacity || n > cache->capacity - first)
		return MXFP_ERR_SIZE;
	if (given->memory_bytes < cache->bytes)
		return MXFP_ERR_WORKSPACE;
	return cache->keys != NULL || cache->bytes == 0 ? MXFP_OK : MXFP_ERR_NULL;
}

enum mxfp_status mxfp_attention_cache_size(size_t *bytes, const struct mxfp_attention_cache *cache)
{
	struct cache checked;
	const enum mxfp_status status = bytes != NULL ? check_cache(cache, &checked) : MXFP_ERR_NULL;

	if (status == MXFP_OK)
		*bytes = checked.bytes;
	return status;
}

struct store {
	struct cache cache;
	size_t first;
	struct mxfp_rows keys, values;
};

static void store_values(const struct store *s, size_t head)
{
	const size_t cols = s->cache.head_cols;

	for (size_t panel = 0; panel < s->cache.panels; panel++) {
		const size_t n = mxfp_least(cols - panel * COLS, COLS);
		const float *from = (const float *)s->values.data + head * cols + panel * COLS;
		float *to = s->cache.values + head * s->cache.values_head + (panel * s->cache.capacity + s->first) * COLS;

		for (size_t t = 0; t < s->values.rows; t++, from += s->values.stride, to += COLS) {
			memcpy(to, from, n * sizeof *to);
			if (n < COLS)
				memset(to + n, 0, (COLS - n) * sizeof *to);
		}
	}
}

/* Tokens of a panel of keys, column by column. */
static void store_keys(const struct store *s, size_t head)
{
	const size_t cols = s->cache.head_cols;

	for (size_t t = 0, n; t < s->keys.rows; t += n) {
		const size_t token = s->first + t, column = token % COLS;
		const float *from = (const float *)s->keys.data + t * s->keys.stride + head * cols;
		float *to = s->cache.keys + head * s->cache.keys_head + (token - column) * cols + column;

		n = mxfp_least(COLS - column, s->keys.rows - t);
		for (size_t c = 0; c < cols; c++)
			for (size_t i = 0; i < n; i++)
				memcpy(to + c * COLS + i, from + i * s->keys.stride + c, sizeof *to);
	}
}

static void store_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	(void)kernels, (void)counts;
	store_keys(context, piece);
	store_values(context, piece);
}

enum mxfp_status mxfp_attention_store(const struct mxfp_attention_cache *cache, size_t first, const struct mxfp_matrix *keys,
                                      const struct mxfp_matrix *values, const struct mxfp_exec *exec)
{
	struct store s = {.first = first};
	struct mxfp_runner runner;
	size_t cols = 0;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&s.keys, keys, mxfp_is_f32);
	if (status == MXFP_OK)
		status = check_memory(cache, &s.cache, first, s.keys.rows);
	if (status == MXFP_OK)
		cols = s.cache.heads * s.cache.head_cols;
	if (status == MXFP_OK && s.keys.cols != cols)
		status = MXFP_ERR_SHAPE;
	if (status == MXFP_OK)
		status = mxfp_check_input(&s.values, values, mxfp_is_f32, s.keys.rows, cols);
	if (status != MXFP_OK || s.keys.rows == 0)
		return status;
	const struct mxfp_region memory = mxfp_bytes(s.cache.keys, s.cache.bytes);
	if (mxfp_overlap(&memory, &s.keys.memory) || mxfp_overlap(&memory, &s.values.memory))
		return MXFP_ERR_OVERLAP;
	mxfp_run_pieces(&runner, s.cache.heads, store_piece, &s, NULL);
	return MXFP_OK;
}

/* A checked call. */
struct attention {
	struct cache cache;
	size_t heads, shared; /* of queries: all, and those of one head of keys and values */
	size_t first, n;
	size_t window;        /* 0: none */
	float scale_value;
	const float *scale, *sinks; /* scale: &scale_value or NULL */
	struct mxfp_runner runner;
	size_t block, blocks; /* queries of a task; blocks of queries */
	size_t tasks;
	size_t score_cols;    /* numbers of a row of scores */
	size_t area;          /* bytes of a worker's area */
	const float *q;
	float *dst;
	size_t q_stride, dst_stride;
	uint8_t *areas;
	atomic_size_t *next, *next_area;
};

/* The first key that a query sees. */
static size_t first_key(const struct attention *a, size_t query)
{
	return a->window != 0 && query >= a->window ? query - a->window + 1 : 0;
}

/* The most numbers that a row of scores has for a block of queries: whole panels. */
static size_t score_cols(const struct attention *a, size_t block)
{
	const size_t panels = mxfp_divide_up(a->first + a->n, COLS);

	return COLS * (a->window != 0 ? mxfp_least(panels, mxfp_divide_up(a->window + block - 2, COLS) + 1) : panels);
}

static enum mxfp_status check_options(struct attention *a, const struct mxfp_attention_options *options)
{
	struct mxfp_attention_options copy;
	const struct mxfp_attention_options *o = MXFP_SIZED(options, &copy);

	if (o == NULL)
		return MXFP_ERR_VERSION;
	a->window = o->window < a->first + a->n ? o->window : 0;
	if (o->scale.given) {
		a->scale_value = o->scale.value;
		a->scale = &a->scale_value;
	}
	a->sinks = o->sinks;
	return MXFP_OK;
}

/* Checks all but memory, and sizes tasks and areas. */
static enum mxfp_status plan(struct attention *a, const struct mxfp_attention_options *options)
{
	size_t numbers, rows;

	if (a->first > a->cache.capacity || a->n > a->cache.capacity - a->first)
		return MXFP_ERR_SIZE;
	if (a->heads == 0 || a->heads % a->cache.heads != 0)
		return MXFP_ERR_SHAPE;
	const enum mxfp_status status = check_options(a, options);
	if (status != MXFP_OK || a->n == 0)
		return status;
	a->shared = a->heads / a->cache.heads;
	a->block = mxfp_least(a->n, MOST_QUERIES);
	while (a->block > 1 && score_cols(a, a->block) > SCORES_BYTES / sizeof(float) / a->block / a->shared)
		a->block = mxfp_divide_up(a->block, 2);
	a->blocks = mxfp_divide_up(a->n, a->block);
	a->score_cols = score_cols(a, a->block);
	if (!mxfp_multiply(a->shared, a->block, &rows) ||
	    !mxfp_multiply(rows, a->cache.head_cols + a->score_cols + a->cache.panels * COLS, &numbers) ||
	    numbers > (PTRDIFF_MAX - ALIGN) / sizeof(float))
		return MXFP_ERR_SIZE;
	a->area = mxfp_divide_up(numbers * sizeof(float), ALIGN) * ALIGN;
	return mxfp_multiply(a->blocks, a->cache.heads, &a->tasks) ? MXFP_OK : MXFP_ERR_SIZE;
}

enum mxfp_status mxfp_attention_workspace_size(size_t *bytes, const struct mxfp_attention_cache *cache, size_t first,
                                               size_t heads, size_t n, const struct mxfp_attention_options *options,
                                               const struct mxfp_exec *exec)
{
	struct attention a = {.heads = heads, .first = first, .n = n};
	size_t areas;

	enum mxfp_status status = bytes != NULL ? mxfp_runner_init(&a.runner, exec) : MXFP_ERR_NULL;
	if (status == MXFP_OK)
		status = check_cache(cache, &a.cache);
	if (status == MXFP_OK)
		status = plan(&a, options);
	if (status != MXFP_OK)
		return status;
	if (!mxfp_multiply(a.area, mxfp_least(mxfp_runner_width(&a.runner), a.tasks), &areas) || areas > PTRDIFF_MAX - ALIGN)
		return MXFP_ERR_SIZE;
	*bytes = areas != 0 ? areas + ALIGN : 0;
	return MXFP_OK;
}

/* A task at work. */
struct task {
	const struct attention *whole;
	const struct mxfp_kernels *kernels;
	const float *keys, *values;       /* of its head */
	size_t head, query, n;            /* of keys and values; queries from number `query` of the sequence on */
	size_t from, origin;              /* the first key that a query sees, and that of its panel, the first of a score */
	float *queries, *scores, *sums;   /* head after head; numbers of rows: head_cols, score_cols, panels * COLS */
};

static size_t sum_cols(const struct task *t)
{
	return t->whole->cache.panels * COLS;
}

/* Queries of the heads that share keys, or their sums, between where the caller has them and the task's area. */
static void copy_rows(const struct task *t, bool back)
{
	const struct attention *a = t->whole;
	const size_t cols = a->cache.head_cols;

	for (size_t h = 0; h < a->shared; h++)
		for (size_t i = 0; i < t->n; i++) {
			const size_t row = t->query - a->first + i, col = (t->head * a->shared + h) * cols, own = h * t->n + i;

			if (back)
				memcpy(a->dst + row * a->dst_stride + col, t->sums + own * sum_cols(t), cols * sizeof(float));
			else
				memcpy(t->queries + own * cols, a->q + row * a->q_stride + col, cols * sizeof(float));
		}
}

static void multiply_keys(const struct task *t)
{
	const struct attention *a = t->whole;
	struct mxfp_attend_job job = {
		.a = t->queries,
		.a_stride = a->cache.head_cols,
		.rows = a->shared * t->n,
		.k = a->cache.head_cols,
		.first_pass = MXFP_ATTEND_PASS,
		.c_stride = a->score_cols,
	};

	for (size_t key = t->origin; key < t->query + t->n; key += COLS) {
		job.panel = t->keys + key * a->cache.head_cols;
		job.c = t->scores + (key - t->origin);
		t->kernels->attend(&job);
	}
}

/* Scores become weights, +0 where a key takes no part. */
static void softmax(const struct task *t)
{
	const struct attention *a = t->whole;
	const size_t end = t->query + t->n - t->origin;

	for (size_t h = 0; h < a->shared; h++)
		for (size_t i = 0; i < t->n; i++) {
			float *row = t->scores + (h * t->n + i) * a->score_cols;
			const size_t begin = first_key(a, t->query + i) - t->origin, own = t->query + i + 1 - t->origin;

			memset(row, 0, begin * sizeof *row);
			memset(row + own, 0, (end - own) * sizeof *row);
			mxfp_softmax_row(t->kernels, row + begin, own - begin, a->scale,
			                 a->sinks != NULL ? a->sinks + t->head * a->shared + h : NULL);
		}
}

/* Sums of the values of keys from .. end - 1, of `rows` rows from `row` on. */
static void multiply_values(const struct task *t, size_t row, size_t rows, size_t from, size_t end)
{
	const struct attention *a = t->whole;
	struct mxfp_attend_job job = {
		.a = t->scores + row * a->score_cols + (from - t->origin),
		.a_stride = a->score_cols,
		.rows = rows,
		.k = end - from,
		.first_pass = MXFP_ATTEND_PASS - from % MXFP_ATTEND_PASS,
		.c_stride = sum_cols(t),
	};

	for (size_t panel = 0; panel < a->cache.panels; panel++) {
		job.panel = t->values + (panel * a->cache.capacity + from) * COLS;
		job.c = t->sums + row * sum_cols(t) + panel * COLS;
		t->kernels->attend(&job);
	}
}

/* Whether values of keys from .. end - 1 are finite. */
static bool are_finite(const struct task *t, size_t from, size_t end)
{
	struct mxfp_scan_job scan = {
		.src_format = MXFP_FORMAT_F32,
		.non_finite_from = MXFP_F32_INF,
		.first_non_finite = UINT64_MAX,
	};

	scan.n = (end - from) * COLS;
	for (size_t panel = 0; panel < t->whole->cache.panels; panel++) {
		scan.src = t->values + (panel * t->whole->cache.capacity + from) * COLS;
		t->kernels->scan[MXFP_FORMAT_F32](&scan);
	}
	return scan.first_non_finite == UINT64_MAX;
}

/* Keys that not all queries see have the weight +0 in some rows, which leaves a sum as it is, but for values that are not finite:
   then each row has its own keys alone. */
static void run_task(const struct task *t)
{
	const struct attention *a = t->whole;
	const size_t last = t->query + t->n - 1;

	copy_rows(t, false);
	multiply_keys(t);
	softmax(t);
	if (are_finite(t, t->from, first_key(a, last)) && are_finite(t, t->query + 1, last + 1))
		multiply_values(t, 0, a->shared * t->n, t->from, last + 1);
	else
		for (size_t row = 0; row < a->shared * t->n; row++) {
			const size_t query = t->query + row % t->n;

			multiply_values(t, row, 1, first_key(a, query), query + 1);
		}
	copy_rows(t, true);
}

static void worker(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct attention *a = context;
	const size_t rows = a->shared * a->block;
	struct task t = {.whole = a, .kernels = kernels};
	size_t i;

	(void)piece, (void)counts;
	t.queries = (float *)(void *)(a->areas + atomic_fetch_add(a->next_area, 1) * a->area);
	t.scores = t.queries + rows * a->cache.head_cols;
	t.sums = t.scores + rows * a->score_cols;
	while ((i = atomic_fetch_add(a->next, 1)) < a->tasks) {
		/* The last queries, which see most keys, come first. */
		const size_t block = a->blocks - 1 - i / a->cache.heads;

		t.head = i % a->cache.heads;
		t.keys = a->cache.keys + t.head * a->cache.keys_head;
		t.values = a->cache.values + t.head * a->cache.values_head;
		t.query = a->first + block * a->block;
		t.n = mxfp_least(a->block, a->n - block * a->block);
		t.from = first_key(a, t.query);
		t.origin = t.from / COLS * COLS;
		run_task(&t);
	}
}

/* Checks the workspace, and what overlaps. */
static enum mxfp_status check_areas(const struct attention *a, const struct mxfp_sink *sink, const struct mxfp_rows *q,
                                    const void *workspace, size_t workspace_bytes)
{
	const struct mxfp_region cache = mxfp_bytes(a->cache.keys, a->cache.bytes), work = mxfp_bytes(workspace, workspace_bytes);
	const struct mxfp_region sinks = mxfp_bytes(a->sinks, a->sinks != NULL ? a->heads * sizeof *a->sinks : 0);

	if (a->n == 0)
		return MXFP_OK;
	if (workspace == NULL)
		return MXFP_ERR_NULL;
	if (workspace_bytes < a->area + ALIGN)
		return MXFP_ERR_WORKSPACE;
	return mxfp_sink_overlaps(sink, q) || mxfp_sink_touches(sink, &cache) || mxfp_sink_touches(sink, &sinks) ||
	                       mxfp_sink_touches(sink, &work) || mxfp_overlap(&work, &q->memory) || mxfp_overlap(&work, &sinks) ||
	                       mxfp_overlap(&work, &cache)
	               ? MXFP_ERR_OVERLAP
	               : MXFP_OK;
}

enum mxfp_status mxfp_attention(const struct mxfp_result *result, const struct mxfp_matrix *q,
                                const struct mxfp_attention_cache *cache, size_t first,
                                const struct mxfp_attention_options *options, void *workspace, size_t workspace_bytes,
                                const struct mxfp_exec *exec)
{
	struct attention a = {.first = first};
	atomic_size_t next = 0, next_area = 0;
	struct mxfp_rows rows;
	struct mxfp_sink sink;

	enum mxfp_status status = mxfp_runner_init(&a.runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&rows, q, mxfp_is_f32);
	if (status == MXFP_OK)
		status = mxfp_check_result(&sink, result, mxfp_is_f32, 0, rows.rows, rows.cols);
	if (status == MXFP_OK)
		status = check_memory(cache, &a.cache, first, rows.rows);
	if (status == MXFP_OK && rows.cols % a.cache.head_cols != 0)
		status = MXFP_ERR_SHAPE;
	if (status != MXFP_OK)
		return status;
	a.n = rows.rows;
	a.heads = rows.cols / a.cache.head_cols;
	status = plan(&a, options);
	if (status == MXFP_OK)
		status = check_areas(&a, &sink, &rows, workspace, workspace_bytes);
	if (status != MXFP_OK || a.n == 0)
		return status;
	a.q = rows.data;
	a.q_stride = rows.stride;
	a.dst = (float *)(uintptr_t)sink.data.data;
	a.dst_stride = sink.data.stride;
	const size_t unaligned = (uintptr_t)workspace % ALIGN, areas = (workspace_bytes - ALIGN) / a.area;
	a.areas = (uint8_t *)workspace + (unaligned != 0 ? ALIGN - unaligned : 0);
	a.next = &next;
	a.next_area = &next_area;
	mxfp_run_pieces(&a.runner, mxfp_least(mxfp_least(mxfp_runner_width(&a.runner), areas), a.tasks), worker, &a, NULL);
	return MXFP_OK;
}
