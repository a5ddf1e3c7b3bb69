/* SPDX-License-Identifier: MIT */
/*
 * Small random models of every family against a plain forward pass in binary64 that is written here after transformers'
 * modeling_llama.py, modeling_qwen2_moe.py and modeling_gpt_oss.py and shares no code with the network; and the same bits
 * for every batch and number of threads.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/network_parts.h"
#include "unit/scratch.h"
#include "suite.h"

enum {
	HIDDEN = 48, HEADS = 4, KV_HEADS = 2, HEAD = 16, LAYERS = 2, MLP = 56, VOCABULARY = 60, TOKENS = 70,
	EXPERTS = 5, CHOSEN = 2, EXPERT = 24, SHARED = 40, WINDOW = 40,
	TENSORS_MAX = 128, NAME = 96
};

static const double theta = 10000, epsilon = 1e-5;

/* What a family's layers have. */
struct family {
	const char *type, *more; /* model_type, and what else stands in config.json */
	bool qkv_bias, head_norm, experts, shared, sinks, stacked, windowed, alternating, normalized; /* alternating: windows */
};

static const struct family families[] = {
	{.type = "llama", .more = ""},
	{.type = "mistral", .more = ", \"sliding_window\": 40", .windowed = true},
	{.type = "qwen2", .more = ", \"sliding_window\": 40, \"use_sliding_window\": false", .qkv_bias = true},
	{.type = "qwen3", .more = "", .head_norm = true},
	{.type = "mixtral", .more = ", \"num_local_experts\": 5, \"num_experts_per_tok\": 2, \"intermediate_size\": 24",
	 .experts = true, .normalized = true},
	{.type = "qwen2_moe", .more = ", \"num_experts\": 5, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
	 "\"shared_expert_intermediate_size\": 40", .qkv_bias = true, .experts = true, .shared = true},
	{.type = "qwen3_moe", .more = ", \"num_experts\": 5, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
	 "\"norm_topk_prob\": true", .head_norm = true, .experts = true, .normalized = true},
	{.type = "gpt_oss", .more = ", \"num_local_experts\": 5, \"num_experts_per_tok\": 2, \"intermediate_size\": 24, "
	 "\"rope_parameters\": {\"rope_type\": \"default\"}, \"sliding_window\": 40, \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
	 .qkv_bias = true, .experts = true, .sinks = true, .stacked = true, .windowed = true, .alternating = true,
	 .normalized = true},
};

enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* A model as numbers by name. */
struct tensors {
	size_t n;
	char names[TENSORS_MAX][NAME];
	size_t dims[TENSORS_MAX][3];
	float *data[TENSORS_MAX];
	uint64_t state;
};

static double random_number(struct tensors *t)
{
	t->state = t->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(t->state >> 40) / (1 << 24) * 2 - 1;
}

/* Adds a tensor of numbers around `center`; dimensions that are 0 are left out. */
static void add(struct tensors *t, double center, double spread, size_t a, size_t b, size_t c, const char *format, ...)
	__attribute__((format(printf, 7, 8)));
static void add(struct tensors *t, double center, double spread, size_t a, size_t b, size_t c, const char *format, ...)
{
	const size_t n = a * (b > 0 ? b : 1) * (c > 0 ? c : 1);
	va_list arguments;

	ck_assert_uint_lt(t->n, TENSORS_MAX);
	va_start(arguments, format);
	vsnprintf(t->names[t->n], NAME, format, arguments);
	va_end(arguments);
	t->dims[t->n][0] = a;
	t->dims[t->n][1] = b;
	t->dims[t->n][2] = c;
	t->data[t->n] = malloc(n * sizeof(float));
	ck_assert_ptr_nonnull(t->data[t->n]);
	for (size_t i = 0; i < n; i++)
		t->data[t->n][i] = (float)(center + spread * random_number(t));
	t->n++;
}

static void add_mlp(struct tensors *t, const char *where, const char *const names[3], size_t cols)
{
	add(t, 0, 0.3, cols, HIDDEN, 0, "%s.%s.weight", where, names[0]);
	add(t, 0, 0.3, cols, HIDDEN, 0, "%s.%s.weight", where, names[1]);
	add(t, 0, 0.3, HIDDEN, cols, 0, "%s.%s.weight", where, names[2]);
}

static void add_experts(struct tensors *t, const struct family *f, const char *layer)
{
	static const char *const mixtral[3] = {"w1", "w3", "w2"}, *const others[3] = {"gate_proj", "up_proj", "down_proj"};
	const bool is_mixtral = strcmp(f->type, "mixtral") == 0;
	char where[NAME];

	snprintf(where, sizeof where, "%s.%s", layer, is_mixtral ? "block_sparse_moe" : "mlp");
	add(t, 0, 0.5, EXPERTS, HIDDEN, 0, "%s.%s.weight", where, f->stacked ? "router" : "gate");
	if (f->stacked) {
		add(t, 0, 0.5, EXPERTS, 0, 0, "%s.router.bias", where);
		add(t, 0, 0.6, EXPERTS, HIDDEN, 2 * EXPERT, "%s.experts.gate_up_proj", where);
		add(t, 0, 0.6, EXPERTS, 2 * EXPERT, 0, "%s.experts.gate_up_proj_bias", where);
		add(t, 0, 0.3, EXPERTS, EXPERT, HIDDEN, "%s.experts.down_proj", where);
		add(t, 0, 0.3, EXPERTS, HIDDEN, 0, "%s.experts.down_proj_bias", where);
	}
	for (int e = 0; e < EXPERTS && !f->stacked; e++) {
		char expert[NAME + 32];

		snprintf(expert, sizeof expert, "%s.experts.%d", where, e);
		add_mlp(t, expert, is_mixtral ? mixtral : others, EXPERT);
	}
	if (f->shared) {
		snprintf(where, sizeof where, "%s.mlp.shared_expert", layer);
		add_mlp(t, where, others, SHARED);
		add(t, 0, 0.3, 1, HIDDEN, 0, "%s.mlp.shared_expert_gate.weight", layer);
	}
}

static void make_tensors(struct tensors *t, const struct family *f)
{
	static const char *const mlp[3] = {"gate_proj", "up_proj", "down_proj"};

	*t = (struct tensors){.state = suite_seed()};
	add(t, 0, 1, VOCABULARY, HIDDEN, 0, "model.embed_tokens.weight");
	add(t, 0, 0.3, VOCABULARY, HIDDEN, 0, "lm_head.weight");
	add(t, 1, 0.3, HIDDEN, 0, 0, "model.norm.weight");
	for (int i = 0; i < LAYERS; i++) {
		char layer[NAME / 2];

		snprintf(layer, sizeof layer, "model.layers.%d", i);
		add(t, 1, 0.3, HIDDEN, 0, 0, "%s.input_layernorm.weight", layer);
		add(t, 1, 0.3, HIDDEN, 0, 0, "%s.post_attention_layernorm.weight", layer);
		add(t, 0, 0.4, HEADS * HEAD, HIDDEN, 0, "%s.self_attn.q_proj.weight", layer);
		add(t, 0, 0.4, KV_HEADS * HEAD, HIDDEN, 0, "%s.self_attn.k_proj.weight", layer);
		add(t, 0, 0.4, KV_HEADS * HEAD, HIDDEN, 0, "%s.self_attn.v_proj.weight", layer);
		add(t, 0, 0.4, HIDDEN, HEADS * HEAD, 0, "%s.self_attn.o_proj.weight", layer);
		if (f->qkv_bias) {
			add(t, 0, 0.4, HEADS * HEAD, 0, 0, "%s.self_attn.q_proj.bias", layer);
			add(t, 0, 0.4, KV_HEADS * HEAD, 0, 0, "%s.self_attn.k_proj.bias", layer);
			add(t, 0, 0.4, KV_HEADS * HEAD, 0, 0, "%s.self_attn.v_proj.bias", layer);
		}
		if (f->sinks) {
			add(t, 0, 0.4, HIDDEN, 0, 0, "%s.self_attn.o_proj.bias", layer);
			add(t, 0, 1, HEADS, 0, 0, "%s.self_attn.sinks", layer);
		}
		if (f->head_norm) {
			add(t, 1, 0.3, HEAD, 0, 0, "%s.self_attn.q_norm.weight", layer);
			add(t, 1, 0.3, HEAD, 0, 0, "%s.self_attn.k_norm.weight", layer);
		}
		if (f->experts) {
			add_experts(t, f, layer);
		} else {
			char where[NAME];

			snprintf(where, sizeof where, "%s.mlp", layer);
			add_mlp(t, where, mlp, MLP);
		}
	}
}

static void free_tensors(struct tensors *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->data[i]);
}

static size_t elements(const struct tensors *t, size_t i)
{
	return t->dims[i][0] * (t->dims[i][1] > 0 ? t->dims[i][1] : 1) * (t->dims[i][2] > 0 ? t->dims[i][2] : 1);
}

/* Writes model.safetensors and config.json; returns the directory. */
static const char *write_model(const struct tensors *t, const char *type, const char *more)
{
	static char text[TENSORS_MAX * 256];
	size_t used = 0, from = 0, all = 0;
	char name[NAME], *bytes;

	for (size_t i = 0; i < t->n; i++) {
		const size_t n = elements(t, i) * sizeof(float);

		used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%zu",
		                         i > 0 ? "," : "{", t->names[i], t->dims[i][0]);
		for (int d = 1; d < 3 && t->dims[i][d] > 0; d++)
			used += (size_t)snprintf(text + used, sizeof text - used, ",%zu", t->dims[i][d]);
		used += (size_t)snprintf(text + used, sizeof text - used, "],\"data_offsets\":[%zu,%zu]}", all, all + n);
		all += n;
	}
	used += (size_t)snprintf(text + used, sizeof text - used, "}");
	ck_assert_uint_lt(used, sizeof text);
	bytes = calloc(8 + used + all, 1);
	ck_assert_ptr_nonnull(bytes);
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(used >> 8 * i);
	memcpy(bytes + 8, text, used);
	from = 8 + used;
	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < elements(t, i); j++, from += 4) {
			uint32_t word;

			memcpy(&word, &t->data[i][j], 4);
			for (int b = 0; b < 4; b++)
				bytes[from + (size_t)b] = (char)(word >> 8 * b);
		}
	const char *directory = access(scratch_path(type), F_OK) == 0 ? scratch_path(type) : scratch_directory(type);
	snprintf(name, sizeof name, "%s/model.safetensors", type);
	scratch_write(name, bytes, from);
	free(bytes);
	snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"hidden_size\": 48, \"num_hidden_layers\": 2, "
	         "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": 60, %s"
	         "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0%s}",
	         type, strstr(more, "\"intermediate_size\"") != NULL ? "" : "\"intermediate_size\": 56, ", more);
	snprintf(name, sizeof name, "%s/config.json", type);
	scratch_text(name, text);
	return directory;
}

/* The plain forward pass. */

static const float *tensor(const struct tensors *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const float *tensor(const struct tensors *t, const char *format, ...)
{
	char name[NAME];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	va_end(arguments);
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->names[i], name) == 0)
			return t->data[i];
	return NULL;
}

/* y = W x + b, W [n][k], or [k][n] if it is turned. */
static void multiply(double *y, const float *w, const float *b, const double *x, size_t n, size_t k, bool turned)
{
	for (size_t i = 0; i < n; i++) {
		y[i] = b != NULL ? (double)b[i] : 0;
		for (size_t j = 0; j < k; j++)
			y[i] += (double)(turned ? w[j * n + i] : w[i * k + j]) * x[j];
	}
}

static void norm(double *y, const double *x, const float *weight, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / (double)n + epsilon) * (double)weight[i];
}

static void rotate(double *head, size_t position)
{
	for (size_t i = 0; i < HEAD / 2; i++) {
		const double angle = (double)position * pow(theta, -2.0 * (double)i / HEAD), a = head[i], b = head[i + HEAD / 2];

		head[i] = a * cos(angle) - b * sin(angle);
		head[i + HEAD / 2] = b * cos(angle) + a * sin(angle);
	}
}

static double silu(double x)
{
	return x / (1 + exp(-x));
}

/* Adds weight times a gated feed-forward part to y. */
static void add_gated(double *y, double weight, const float *gate, const float *up, const float *down, const double *x,
                      size_t cols)
{
	double g[MLP], u[MLP], d[HIDDEN];

	multiply(g, gate, NULL, x, cols, HIDDEN, false);
	multiply(u, up, NULL, x, cols, HIDDEN, false);
	for (size_t i = 0; i < cols; i++)
		g[i] = silu(g[i]) * u[i];
	multiply(d, down, NULL, g, HIDDEN, cols, false);
	for (size_t i = 0; i < HIDDEN; i++)
		y[i] += weight * d[i];
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* An expert of gpt-oss. */
static void add_clamped(const struct tensors *t, double *y, double weight, int layer, size_t expert, const double *x)
{
	const float *w = tensor(t, "model.layers.%d.mlp.experts.gate_up_proj", layer) + expert * HIDDEN * 2 * EXPERT;
	const float *b = tensor(t, "model.layers.%d.mlp.experts.gate_up_proj_bias", layer) + expert * 2 * EXPERT;
	const float *down = tensor(t, "model.layers.%d.mlp.experts.down_proj", layer) + expert * EXPERT * HIDDEN;
	const float *down_bias = tensor(t, "model.layers.%d.mlp.experts.down_proj_bias", layer) + expert * HIDDEN;
	double both[2 * EXPERT], gated[EXPERT], d[HIDDEN];

	multiply(both, w, b, x, 2 * EXPERT, HIDDEN, true);
	for (size_t i = 0; i < EXPERT; i++) {
		const double gate = clamp(both[2 * i], -HUGE_VAL, 7), up = clamp(both[2 * i + 1], -7, 7);

		gated[i] = (up + 1) * gate / (1 + exp(-1.702 * gate));
	}
	multiply(d, down, down_bias, gated, HIDDEN, EXPERT, true);
	for (size_t i = 0; i < HIDDEN; i++)
		y[i] += weight * d[i];
}

static void add_all_experts(const struct tensors *t, const struct family *f, double *y, int layer, const double *x)
{
	const bool mixtral = strcmp(f->type, "mixtral") == 0;
	const char *where = mixtral ? "block_sparse_moe" : "mlp";
	double logits[EXPERTS], sum = 0, chosen_sum = 0, share;
	bool chosen[EXPERTS] = {false};

	multiply(logits, tensor(t, "model.layers.%d.%s.%s.weight", layer, where, f->stacked ? "router" : "gate"),
	         tensor(t, "model.layers.%d.mlp.router.bias", layer), x, EXPERTS, HIDDEN, false);
	for (int i = 0; i < CHOSEN; i++) {
		int best = -1;

		for (int e = 0; e < EXPERTS; e++)
			if (!chosen[e] && (best < 0 || logits[e] > logits[best]))
				best = e;
		chosen[best] = true;
		chosen_sum += exp(logits[best]);
	}
	for (int e = 0; e < EXPERTS; e++)
		sum += exp(logits[e]);
	for (int e = 0; e < EXPERTS; e++) {
		const double weight = exp(logits[e]) / (f->normalized ? chosen_sum : sum);

		if (chosen[e] && f->stacked)
			add_clamped(t, y, weight, layer, (size_t)e, x);
		else if (chosen[e])
			add_gated(y, weight, tensor(t, "model.layers.%d.%s.experts.%d.%s.weight", layer, where, e, mixtral ? "w1" : "gate_proj"),
			          tensor(t, "model.layers.%d.%s.experts.%d.%s.weight", layer, where, e, mixtral ? "w3" : "up_proj"),
			          tensor(t, "model.layers.%d.%s.experts.%d.%s.weight", layer, where, e, mixtral ? "w2" : "down_proj"), x,
			          EXPERT);
	}
	if (!f->shared)
		return;
	multiply(&share, tensor(t, "model.layers.%d.mlp.shared_expert_gate.weight", layer), NULL, x, 1, HIDDEN, false);
	add_gated(y, 1 / (1 + exp(-share)), tensor(t, "model.layers.%d.mlp.shared_expert.gate_proj.weight", layer),
	          tensor(t, "model.layers.%d.mlp.shared_expert.up_proj.weight", layer),
	          tensor(t, "model.layers.%d.mlp.shared_expert.down_proj.weight", layer), x, SHARED);
}

/* What becomes MXFP8 with e4m3 elements, by the rule floor: keys and values; queries and probabilities. */
static bool rounds_cache, rounds_attention;

/* Rounds n numbers by the OCP's MX specification: blocks of 32 share 2^(floor(log2(amax)) - 8). */
static void round_blocks(double *x, size_t n)
{
	for (size_t from = 0; from < n; from += 32) {
		const size_t end = n - from < 32 ? n : from + 32;
		double amax = 0;

		for (size_t i = from; i < end; i++)
			amax = fmax(amax, fabs(x[i]));
		for (size_t i = from; i < end && amax > 0; i++) {
			const double scale = ldexp(1, ilogb(amax) - 8), y = x[i] / scale;
			const double step = ldexp(1, (fabs(y) < 0x1p-6 ? -6 : ilogb(y)) - 3);

			x[i] = scale * fmax(-448, fmin(448, nearbyint(y / step) * step));
		}
	}
}

/* Keys and values of all tokens. */
static double keys[LAYERS][TOKENS][KV_HEADS][HEAD], values[LAYERS][TOKENS][KV_HEADS][HEAD];

static void add_attention(const struct tensors *t, const struct family *f, double *x, int layer, size_t position)
{
	const float *sinks = tensor(t, "model.layers.%d.self_attn.sinks", layer);
	double h[HIDDEN], q[HEADS][HEAD], sums[HEADS * HEAD] = {0}, out[HIDDEN], scores[TOKENS];

#define ATTENTION(name) tensor(t, "model.layers.%d.self_attn." name, layer)
	norm(h, x, tensor(t, "model.layers.%d.input_layernorm.weight", layer), HIDDEN);
	multiply(q[0], ATTENTION("q_proj.weight"), ATTENTION("q_proj.bias"), h, HEADS * HEAD, HIDDEN, false);
	multiply(keys[layer][position][0], ATTENTION("k_proj.weight"), ATTENTION("k_proj.bias"), h, KV_HEADS * HEAD, HIDDEN,
	         false);
	multiply(values[layer][position][0], ATTENTION("v_proj.weight"), ATTENTION("v_proj.bias"), h, KV_HEADS * HEAD, HIDDEN,
	         false);
	for (size_t i = 0; i < HEADS; i++) {
		if (f->head_norm)
			norm(q[i], q[i], ATTENTION("q_norm.weight"), HEAD);
		rotate(q[i], position);
		if (rounds_attention)
			round_blocks(q[i], HEAD);
	}
	for (size_t i = 0; i < KV_HEADS; i++) {
		if (f->head_norm)
			norm(keys[layer][position][i], keys[layer][position][i], ATTENTION("k_norm.weight"), HEAD);
		rotate(keys[layer][position][i], position);
		if (rounds_cache) {
			round_blocks(keys[layer][position][i], HEAD);
			round_blocks(values[layer][position][i], HEAD);
		}
	}
	const bool windowed = f->windowed && !(f->alternating && layer % 2 != 0);
	const size_t first = windowed && position >= WINDOW ? position - WINDOW + 1 : 0;
	for (size_t head = 0; head < HEADS; head++) {
		const size_t kv = head / (HEADS / KV_HEADS);
		double total = sinks != NULL ? exp((double)sinks[head]) : 0, weights[TOKENS] = {0};

		for (size_t p = first; p <= position; p++) {
			double score = 0;

			for (size_t i = 0; i < HEAD; i++)
				score += q[head][i] * keys[layer][p][kv][i];
			scores[p] = exp(score / sqrt(HEAD));
			total += scores[p];
		}
		for (size_t p = first; p <= position; p++)
			weights[p] = scores[p] / total;
		if (rounds_attention)
			round_blocks(weights, TOKENS);
		for (size_t p = first; p <= position; p++)
			for (size_t i = 0; i < HEAD; i++)
				sums[head * HEAD + i] += weights[p] * values[layer][p][kv][i];
	}
	multiply(out, ATTENTION("o_proj.weight"), ATTENTION("o_proj.bias"), sums, HIDDEN, HEADS * HEAD, false);
#undef ATTENTION
	for (size_t i = 0; i < HIDDEN; i++)
		x[i] += out[i];
}

static void run_plainly(const struct tensors *t, const struct family *f, const uint32_t *ids, double *logits)
{
	for (size_t position = 0; position < TOKENS; position++) {
		double x[HIDDEN], h[HIDDEN];

		for (size_t i = 0; i < HIDDEN; i++)
			x[i] = (double)tensor(t, "model.embed_tokens.weight")[ids[position] * HIDDEN + i];
		for (int layer = 0; layer < LAYERS; layer++) {
			add_attention(t, f, x, layer, position);
			norm(h, x, tensor(t, "model.layers.%d.post_attention_layernorm.weight", layer), HIDDEN);
			if (f->experts)
				add_all_experts(t, f, x, layer, h);
			else
				add_gated(x, 1, tensor(t, "model.layers.%d.mlp.gate_proj.weight", layer),
				          tensor(t, "model.layers.%d.mlp.up_proj.weight", layer),
				          tensor(t, "model.layers.%d.mlp.down_proj.weight", layer), h, MLP);
		}
		norm(h, x, tensor(t, "model.norm.weight"), HIDDEN);
		multiply(logits + position * VOCABULARY, tensor(t, "lm_head.weight"), NULL, h, VOCABULARY, HIDDEN, false);
	}
}

/* The network */

static struct error error;

static int take_logits(void *context, size_t piece, size_t row, size_t n, const float *logits, struct error *unused)
{
	float *to = context;

	(void)unused;
	ck_assert_uint_eq(piece, 0);
	memcpy(to + row * VOCABULARY, logits, n * VOCABULARY * sizeof *to);
	return EXIT_OK;
}

static void run_network(const char *path, const struct network_options *options, const uint32_t *ids, float *logits)
{
	struct model model;
	struct network *network;

	ck_assert_msg(model_open(&model, path, &error) == EXIT_OK, "%s", error.text);
	ck_assert_msg(network_open(&network, &model, options, &error) == EXIT_OK, "%s", error.text);
	ck_assert_uint_eq(network_vocabulary(network), VOCABULARY);
	for (size_t at = 0, n; at < TOKENS; at += n) {
		n = TOKENS - at < options->batch ? TOKENS - at : options->batch;
		const struct network_piece piece = {.ids = ids + at, .first = at, .n = n, .total = TOKENS};

		ck_assert_msg(network_run(network, &piece, 1, take_logits, logits + at * VOCABULARY, &error) == EXIT_OK, "%s",
		              error.text);
	}
	network_close(network);
	model_close(&model);
}

static void make_ids(uint32_t ids[TOKENS])
{
	for (uint32_t i = 0; i < TOKENS; i++)
		ids[i] = i * i * 7 % VOCABULARY;
}

static const struct network_options plain = {
	.activations = OPTION_FORMAT_NONE,
	.kv_cache = OPTION_FORMAT_NONE,
	.attention = OPTION_FORMAT_NONE,
	.batch = TOKENS,
	.threads = 1,
};

/* The larger number; NaN if one is, which fmax() would hide. */
static double larger(double a, double b)
{
	return a >= b || isnan(a) ? a : b;
}

TEST_LOOP(network_equals_plain_forward, N_FAMILIES)
{
	static double want[TOKENS * VOCABULARY];
	static float got[TOKENS * VOCABULARY];
	const struct family *f = &families[_i];
	struct tensors t;
	uint32_t ids[TOKENS];
	double largest = 0, error_most = 0;

	make_ids(ids);
	make_tensors(&t, f);
	run_plainly(&t, f, ids, want);
	run_network(write_model(&t, f->type, f->more), &plain, ids, got);
	for (size_t i = 0; i < TOKENS * VOCABULARY; i++) {
		largest = larger(largest, fabs(want[i]));
		error_most = larger(error_most, fabs((double)got[i] - want[i]));
	}
	/* Measured: up to 1.2e-6, some 30 roundings of binary32 one after the other. */
	ck_assert_msg(largest > 1 && error_most < 1e-5 * largest, "%s: %g of %g", f->type, error_most, largest);
	free_tensors(&t);
}

/* Numbers that lie near the middle of two become one in binary32 and the other in binary64, about one of 2e4: not every logit
   is near, but their errors are far below what the rounding itself changes. If a scale is the other one, from that token on they are
   more, measured up to 0.016 of its square; a quarter of the tokens, those before, must then be equal but for roundings. */
TEST_LOOP(attention_in_blocks_equals_plain_forward, N_FAMILIES)
{
	static double want[TOKENS * VOCABULARY], before[TOKENS * VOCABULARY];
	static float got[TOKENS * VOCABULARY];
	const struct family *f = &families[_i];
	struct network_options options = plain;
	struct tensors t;
	uint32_t ids[TOKENS];

	options.activation_rule = MXFP_RULE_FLOOR;
	make_ids(ids);
	make_tensors(&t, f);
	const char *path = write_model(&t, f->type, f->more);
	run_plainly(&t, f, ids, before);
	for (int attention = 0; attention < 3; attention++) {
		double change = 0, difference = 0;
		size_t n_equal = 0;

		rounds_cache = true;
		rounds_attention = attention > 0;
		options.kv_cache = attention < 2 ? MXFP_FORMAT_MXFP8_E4M3 : OPTION_FORMAT_NONE; /* it follows attention */
		options.attention = attention > 0 ? MXFP_FORMAT_MXFP8_E4M3 : OPTION_FORMAT_NONE;
		run_plainly(&t, f, ids, want);
		run_network(path, &options, ids, got);
		for (size_t i = 0; i < TOKENS * VOCABULARY; i++)
			change += (want[i] - before[i]) * (want[i] - before[i]);
		for (size_t token = 0; token < TOKENS; token++) {
			double of_token = 0;

			for (size_t i = token * VOCABULARY; i < (token + 1) * VOCABULARY; i++)
				of_token += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
			n_equal += of_token < 1e-9 * change;
			difference += of_token;
		}
		ck_assert_msg(difference < (n_equal > TOKENS / 4 ? 0.05 : 0.01) * change, "%s, %d: %g of %g", f->type, attention, sqrt(difference), sqrt(change));
		if (attention == 0)
			memcpy(before, want, sizeof before); /* what follows is the change by attention alone */
	}
	rounds_cache = rounds_attention = false;
	free_tensors(&t);
}

TEST_LOOP(logits_do_not_depend_on_batch_or_threads, N_FAMILIES)
{
	static const size_t batches[] = {1, 7, 33, TOKENS, 512};
	static const enum mxfp_format formats[][2] = { /* of keys and values; of queries and probabilities */
		{OPTION_FORMAT_NONE, OPTION_FORMAT_NONE},
		{MXFP_FORMAT_MXFP8_E4M3, OPTION_FORMAT_NONE},
		{OPTION_FORMAT_NONE, MXFP_FORMAT_MXFP4},
		{MXFP_FORMAT_NVFP4, MXFP_FORMAT_MXFP8_E4M3},
	};
	static float want[TOKENS * VOCABULARY], got[TOKENS * VOCABULARY];
	const struct family *f = &families[_i];
	struct network_options options = plain;
	struct tensors t;
	uint32_t ids[TOKENS];

	make_ids(ids);
	make_tensors(&t, f);
	const char *path = write_model(&t, f->type, f->more);
	for (size_t kind = 0; kind < sizeof formats / sizeof formats[0]; kind++) {
		options.kv_cache = formats[kind][0];
		options.attention = formats[kind][1];
		options.batch = TOKENS;
		options.threads = 1;
		run_network(path, &options, ids, want);
		for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
			options.batch = batches[i];
			options.threads = (unsigned)(1 + i % 3);
			run_network(path, &options, ids, got);
			ck_assert_mem_eq(got, want, sizeof want);
		}
	}
	free_tensors(&t);
}

/* Refusals */

static void expect_refusal(const struct tensors *t, const char *type, const char *more, const char *text)
{
	struct model model;
	struct network *network;

	ck_assert_msg(model_open(&model, write_model(t, type, more), &error) == EXIT_OK, "%s", error.text);
	ck_assert_int_eq(network_open(&network, &model, &plain, &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
	model_close(&model);
}

TEST(what_is_not_known_is_refused)
{
	struct tensors t;

	make_tensors(&t, &families[0]);
	expect_refusal(&t, "gemma2", "", "model_type: 'gemma2' is not a family of models that is known");
	expect_refusal(&t, "llama", ", \"hidden_act\": \"gelu\"", "hidden_act: is not silu");
	expect_refusal(&t, "llama", ", \"rope_scaling\": {\"rope_type\": \"longrope\"}", "rope_scaling: its rope_type");
	expect_refusal(&t, "llama", ", \"final_logit_softcapping\": 30.0", "final_logit_softcapping");
	expect_refusal(&t, "mistral", ", \"sliding_window\": -1", "sliding_window: is not a whole number");
	expect_refusal(&t, "qwen2", "", "has no tensor 'model.layers.0.self_attn.q_proj.bias'");
	expect_refusal(&t, "qwen3", "", "has no tensor 'model.layers.0.self_attn.q_norm.weight'");
	expect_refusal(&t, "mixtral", "", "has no tensor 'model.layers.0.mlp.gate.weight'");
	free_tensors(&t);
}

TEST(wrong_tensors_are_refused)
{
	struct tensors t;

	make_tensors(&t, &families[0]);
	add(&t, 0, 1, HIDDEN, 0, 0, "model.layers.0.extra_norm.weight");
	expect_refusal(&t, "llama", "", "'model.layers.0.extra_norm.weight': a model of llama has no such tensor");
	free_tensors(&t);
	make_tensors(&t, &families[0]);
	strcpy(t.names[1], "model.layers.0.mlp.gate_proj.bias");
	expect_refusal(&t, "llama", "", "has no tensor 'lm_head.weight', and tie_word_embeddings is not true");
	expect_refusal(&t, "llama", ", \"tie_word_embeddings\": true, \"mlp_bias\": true", "is not a vector of 56 numbers");
	expect_refusal(&t, "llama", ", \"tie_word_embeddings\": true", "'model.layers.0.mlp.gate_proj.bias': a model of llama with "
	               "this config.json has no such bias");
	expect_refusal(&t, "llama", ", \"tie_word_embeddings\": true, \"attention_bias\": true",
	               "has no tensor 'model.layers.0.self_attn.q_proj.bias'");
	free_tensors(&t);
	make_tensors(&t, &families[0]);
	t.dims[1][0] = HIDDEN;
	t.dims[1][1] = VOCABULARY;
	expect_refusal(&t, "llama", "", "'lm_head.weight': is 48 x 60");
	free_tensors(&t);
}

TEST(ids_are_below_the_vocabulary)
{
	const uint32_t ids[2] = {3, VOCABULARY};
	const struct network_piece piece = {.ids = ids, .n = 2};
	struct tensors t;
	struct model model;
	struct network *network;

	make_tensors(&t, &families[0]);
	ck_assert_int_eq(model_open(&model, write_model(&t, "llama", ""), &error), EXIT_OK);
	ck_assert_int_eq(network_open(&network, &model, &plain, &error), EXIT_OK);
	ck_assert_int_eq(network_run(network, &piece, 1, take_logits, NULL, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "token 1 of a sequence: id 60 is not below 60"));
	network_close(network);
	model_close(&model);
	free_tensors(&t);
}

/* Begins a sequence of so many tokens in slot 0, and returns where its keys and values lie. */
static const void *begin(struct network *network, size_t total)
{
	static const uint32_t id = 3;
	static float logits[VOCABULARY];
	const struct network_piece piece = {.ids = &id, .n = 1, .total = total};

	ck_assert_int_eq(network_run(network, &piece, 1, take_logits, logits, &error), EXIT_OK);
	return network->slots[0].memory;
}

/* Memory of keys and values goes to the next sequence if it fits, else back to the system before more is taken. */
TEST(memory_of_a_sequence_that_has_ended)
{
	struct tensors t;
	struct model model;
	struct network *network;

	make_tensors(&t, &families[0]);
	ck_assert_int_eq(model_open(&model, write_model(&t, "llama", ""), &error), EXIT_OK);
	ck_assert_int_eq(network_open(&network, &model, &plain, &error), EXIT_OK);
	const void *memory = begin(network, ATTENTION_TILE);
	network_release(network, 0);
	ck_assert_ptr_eq(begin(network, ATTENTION_TILE - 1), memory);
	ck_assert_ptr_null(network->spare.memory);
	network_release(network, 0);
	begin(network, ATTENTION_TILE + 1);
	ck_assert_ptr_null(network->spare.memory);
	ck_assert_uint_eq(network->slots[0].capacity, 2 * ATTENTION_TILE);
	network_close(network);
	model_close(&model);
	free_tensors(&t);
}
