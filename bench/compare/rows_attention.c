/* SPDX-License-Identifier: MIT */
/* Attention of a prompt and of one token behind many, 8 heads of queries over 2 of keys. */
#include "api.h"
#include "rows.h"

#include <stdio.h>

#include "mxfp/attention.h"

enum { HEADS = 8, KEY_HEADS = 2, HEAD_COLS = 128, CAPACITY = 2048 };

static const struct row {
	const char *name;
	size_t first, n;
} rows[] = {
	{"attention of a prompt of 256", 0, 256},
	{"attention of token 512", 511, 1},
	{"attention of token 2048", 2047, 1},
};

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	if (i >= sizeof rows / sizeof rows[0])
		return false;
	snprintf(name, SPEED_NAME_BYTES, "%s", rows[i].name);
	return true;
}

struct state {
	const struct row *row;
	struct mxfp_attention_cache cache;
	struct mxfp_attention_options options;
	struct mxfp_matrix q;
	struct mxfp_result result;
	void *workspace;
	size_t workspace_bytes;
};

static bool attend(const struct state *s)
{
	return mxfp_attention(&s->result, &s->q, &s->cache, s->row->first, &s->options, s->workspace, s->workspace_bytes,
	                      &api_exec) == MXFP_OK;
}

static void run(const struct speed_work *work, size_t turn)
{
	(void)turn;
	(void)attend(work->state);
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	const struct row *row = &rows[i];
	struct state *s = host->allocate(sizeof *s);
	const float *numbers = host->numbers(SPEED_NORMAL);

	if (s == NULL)
		return false;
	const size_t tokens = row->first + row->n, cols = KEY_HEADS * HEAD_COLS;
	const struct mxfp_matrix keys = mxfp_numbers(MXFP_FORMAT_F32, tokens, cols, numbers);
	const struct mxfp_matrix values = mxfp_numbers(MXFP_FORMAT_F32, tokens, cols, numbers + CAPACITY * cols);
	*s = (struct state){
		.row = row,
		.q = mxfp_numbers(MXFP_FORMAT_F32, row->n, HEADS * HEAD_COLS, numbers),
		.result = mxfp_to_numbers(MXFP_FORMAT_F32, host->results),
		.options = {.size = sizeof s->options, .scale = mxfp_some(0.088F)},
		.cache = {.size = sizeof s->cache, .heads = KEY_HEADS, .head_cols = HEAD_COLS, .capacity = CAPACITY},
	};
	if (mxfp_attention_cache_size(&s->cache.memory_bytes, &s->cache) != MXFP_OK)
		return false;
	s->cache.memory = host->allocate(s->cache.memory_bytes);
	if (s->cache.memory == NULL || mxfp_attention_store(&s->cache, 0, &keys, &values, &api_exec) != MXFP_OK ||
	    mxfp_attention_workspace_size(&s->workspace_bytes, &s->cache, row->first, HEADS, row->n, &s->options, &api_exec) !=
	            MXFP_OK)
		return false;
	s->workspace = host->allocate(s->workspace_bytes);
	*work = (struct speed_work){run, row->n * HEADS * HEAD_COLS * sizeof(float), s};
	return s->workspace != NULL && attend(s);
}

const struct speed_group speed_attention = {name_row, start_row};
