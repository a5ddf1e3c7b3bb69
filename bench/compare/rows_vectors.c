/* SPDX-License-Identifier: MIT */
/* Functions of one number and operations on rows, in L2; results in f32, and of some as blocks. */
#include "api.h"
#include "rows.h"

#include <stdio.h>
#include <string.h>

#include "mxfp/rows.h"

enum { N_TOKENS = 16, N = N_TOKENS * SPEED_COLS, HEAD_COLS = 128 };

enum operation { APPLY, SOFTMAX, CAUSAL, RMS_NORM, LAYER_NORM, ADD, GATE, ROTATE, FAKE };

struct row {
	const char *name;
	enum operation operation;
	const char *function, *blocks;
};

static const struct row rows[] = {
	{"softmax", SOFTMAX, NULL, NULL},
	{"softmax causal", CAUSAL, NULL, NULL},
	{"softmax to mxfp8-e4m3", SOFTMAX, NULL, "mxfp8-e4m3"},
	{"norm rms", RMS_NORM, NULL, NULL},
	{"norm rms to mxfp8-e4m3", RMS_NORM, NULL, "mxfp8-e4m3"},
	{"norm layer", LAYER_NORM, NULL, NULL},
	{"rows add", ADD, NULL, NULL},
	{"rows gate silu", GATE, "silu", NULL},
	{"rows gate silu to mxfp8-e4m3", GATE, "silu", "mxfp8-e4m3"},
	{"rows rotate", ROTATE, NULL, NULL},
	{"rows fake mxfp4", FAKE, NULL, "mxfp4"},
	{"function exp", APPLY, "exp", NULL},
	{"function exp2", APPLY, "exp2", NULL},
	{"function log", APPLY, "log", NULL},
	{"function tanh", APPLY, "tanh", NULL},
	{"function sigmoid", APPLY, "sigmoid", NULL},
	{"function silu", APPLY, "silu", NULL},
	{"function silu to mxfp8-e4m3", APPLY, "silu", "mxfp8-e4m3"},
	{"function softplus", APPLY, "softplus", NULL},
	{"function elu", APPLY, "elu", NULL},
	{"function gelu", APPLY, "gelu", NULL},
	{"function gelu-tanh", APPLY, "gelu-tanh", NULL},
	{"function rsqrt", APPLY, "rsqrt", NULL},
	{"function reciprocal", APPLY, "reciprocal", NULL},
	{"function sin", APPLY, "sin", NULL},
	{"function cos", APPLY, "cos", NULL},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	if (i >= N_ROWS)
		return false;
	snprintf(name, SPEED_NAME_BYTES, "%s", rows[i].name);
	return true;
}

struct state {
	const struct row *row;
	int function;
	struct mxfp_matrix src, weight;
	struct mxfp_blocks blocks;
	struct mxfp_quantize_options quantize;
	struct mxfp_result output;
	float frequencies[HEAD_COLS / 2];
};

static bool apply(const struct state *s)
{
	const struct mxfp_quantize_options *quantize = &s->quantize;
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 1e-5, .weight = &s->weight, .quantize = quantize};
	const struct mxfp_function_options plain = {.size = sizeof plain, .quantize = quantize};
	const struct mxfp_glu_options gate = {.size = sizeof gate, .quantize = quantize};
	const struct mxfp_add_options add = {.size = sizeof add, .quantize = quantize};
	struct mxfp_softmax_options softmax = {.size = sizeof softmax, .quantize = quantize};
	const enum mxfp_function function = (enum mxfp_function)s->function;

	switch (s->row->operation) {
	case CAUSAL:
		softmax.causal = true;
		softmax.causal_offset = SPEED_COLS - N_TOKENS;
		/* fall through */
	case SOFTMAX:
		return mxfp_softmax(&s->output, &s->src, &softmax, &api_exec) == MXFP_OK;
	case RMS_NORM:
		return mxfp_rms_norm(&s->output, &s->src, &norm, &api_exec) == MXFP_OK;
	case LAYER_NORM:
		return mxfp_layer_norm(&s->output, &s->src, &norm, &api_exec) == MXFP_OK;
	case ADD:
		return mxfp_rows_add(&s->output, &s->src, &s->src, &add, &api_exec) == MXFP_OK;
	case GATE:
		return mxfp_glu(&s->output, function, &s->src, &s->src, &gate, &api_exec) == MXFP_OK;
	case ROTATE: {
		const struct mxfp_rotary_options rotary = {.size = sizeof rotary, .head_cols = HEAD_COLS, .quantize = quantize};
		return mxfp_rotary(&s->output, &s->src, s->frequencies, &rotary, &api_exec) == MXFP_OK;
	}
	case FAKE:
		return mxfp_fake_quantize(&s->output, s->blocks.format, &s->src, quantize, &api_exec) == MXFP_OK;
	default:
		return mxfp_function_apply(&s->output, function, &s->src, &plain, &api_exec) == MXFP_OK;
	}
}

static void run(const struct speed_work *work, size_t turn)
{
	(void)turn;
	(void)apply(work->state);
}

/* The numbers, or their magnitudes, of which these functions are. */
static const float *numbers(const struct row *row, const struct speed_host *host)
{
	const float *normal = host->numbers(SPEED_NORMAL);

	if (row->function == NULL || (strcmp(row->function, "log") != 0 && strcmp(row->function, "rsqrt") != 0))
		return normal;
	float *magnitudes = host->allocate(N * sizeof *magnitudes);
	for (size_t i = 0; magnitudes != NULL && i < N; i++)
		magnitudes[i] = normal[i] < 0 ? -normal[i] : normal[i];
	return magnitudes;
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	const struct row *row = &rows[i];
	struct state *s = host->allocate(sizeof *s);
	struct mxfp_sizes size;

	if (s == NULL)
		return false;
	*s = (struct state){
		.row = row,
		.output = mxfp_to_numbers(MXFP_FORMAT_F32, host->results),
		.src = mxfp_numbers(MXFP_FORMAT_F32, N_TOKENS, SPEED_COLS, numbers(row, host)),
		.weight = mxfp_numbers(MXFP_FORMAT_F32, 1, SPEED_COLS, host->numbers(SPEED_TAILS)),
		.quantize = {.size = sizeof s->quantize},
	};
	if (row->function != NULL && !api_option(MXFP_OPTION_FUNCTION, row->function, &s->function))
		return false;
	if (s->src.data == NULL)
		return false;
	for (int k = 0; k < HEAD_COLS / 2; k++)
		s->frequencies[k] = 1.0F / (float)(1 + k * k);
	*work = (struct speed_work){run, N * sizeof(float), s};
	if (row->blocks != NULL) {
		const struct mxfp_format_info *info = api_info(row->blocks);
		if (info == NULL || mxfp_blocks_size(&size, info->format, N_TOKENS, SPEED_COLS) != MXFP_OK ||
		    !api_quantize_options(&s->quantize, info, (struct api_how){0}))
			return false;
		s->blocks = mxfp_blocks_at(info->format, N_TOKENS, SPEED_COLS, host->results, (char *)host->results + N * sizeof(float));
		if (row->operation != FAKE) {
			s->output = mxfp_to_blocks(&s->blocks);
			work->result_bytes = size.codes_bytes;
		}
	}
	return apply(s);
}

const struct speed_group speed_vectors = {name_row, start_row};
