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
	const float *q;
	float *result, scale;
	void *workspace;
	size_t workspace_bytes;
};

static bool attend(const struct state *s)
{
	return mxfp_attention(s->result, 0, s->q, 0, HEADS, &s->cache, s->row->first, s->row->n, &s->options, s->workspace,
	                      s->workspace_bytes) == MXFP_OK;
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
	*s = (struct state){
		.row = row, .q = numbers, .result = host->results, .scale = 0.088F,
		.cache = {.heads = KEY_HEADS, .head_cols = HEAD_COLS, .capacity = CAPACITY},
	};
	s->options = (struct mxfp_attention_options){.scale = &s->scale, .exec = &api_exec};
	if (mxfp_attention_cache_size(&s->cache, &s->cache.memory_bytes) != MXFP_OK)
		return false;
	s->cache.memory = host->allocate(s->cache.memory_bytes);
	if (s->cache.memory == NULL ||
	    mxfp_attention_store(&s->cache, 0, row->first + row->n, numbers, numbers + CAPACITY * KEY_HEADS * HEAD_COLS, 0,
	                         &api_exec) != MXFP_OK ||
	    mxfp_attention_workspace_size(&s->cache, HEADS, row->first, row->n, &s->options, &s->workspace_bytes) != MXFP_OK)
		return false;
	s->workspace = host->allocate(s->workspace_bytes);
	*work = (struct speed_work){run, row->n * HEADS * HEAD_COLS * sizeof(float), s};
	return s->workspace != NULL && attend(s);
}

const struct speed_group speed_attention = {name_row, start_row};
