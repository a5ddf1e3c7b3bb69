/* SPDX-License-Identifier: MIT */
/*
 * mxfp_attention(): numbers calculated by hand; each query alone by mxfp_gemm() and mxfp_softmax() of the reference, in every
 * tier, in any batches and on any threads; later tokens that must not show; no scale.
 */
#include <math.h>
#include <string.h>

#include "bits.h"
#include "mxfp.h"
#include "oracle/inputs.h"
#include "suite.h"

enum {
	MOST_TOKENS = 280, MOST_HEADS = 6, MOST_COLS = 200, ROW = MOST_HEADS * MOST_COLS, PASS = 128,
	MEMORY = 4 << 20, CANARY = 0xA5
};

static struct random draw;
static float q[MOST_TOKENS * ROW], k[MOST_TOKENS * ROW], v[MOST_TOKENS * ROW], out[MOST_TOKENS * ROW], want[MOST_TOKENS * ROW];
static uint8_t memory[MEMORY], workspace[MEMORY];

/* A model's attention and what is asked of it. */
struct asked {
	size_t heads, kv_heads, cols, tokens, window;
	float scale;
	const float *sinks;
};

static struct mxfp_attention_cache cache_of(const struct asked *a)
{
	struct mxfp_attention_cache cache = {
		.size = sizeof cache, .heads = a->kv_heads, .head_cols = a->cols, .capacity = a->tokens, .memory = memory,
	};

	assert_status(mxfp_attention_cache_size(&cache.memory_bytes, &cache), MXFP_OK);
	ck_assert_uint_le(cache.memory_bytes, sizeof memory);
	return cache;
}

/* n rows of `cols` numbers, stride apart. */
static struct mxfp_matrix rows_of(const float *x, size_t n, size_t cols, size_t stride)
{
	struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, n, cols, x);

	matrix.stride = stride;
	return matrix;
}

static enum mxfp_status store(const struct mxfp_attention_cache *cache, size_t first, size_t n, const float *keys,
                              const float *values, size_t stride, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix key_rows = rows_of(keys, n, cache->heads * cache->head_cols, stride);
	const struct mxfp_matrix value_rows = rows_of(values, n, cache->heads * cache->head_cols, stride);

	return mxfp_attention_store(cache, first, &key_rows, &value_rows, exec);
}

/* Attention of rows of `cols` numbers, in the whole workspace. */
static enum mxfp_status attend(float *to, size_t to_stride, const float *from, size_t stride, size_t cols,
                               const struct mxfp_attention_cache *cache, size_t first, size_t n,
                               const struct mxfp_attention_options *o, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix queries = rows_of(from, n, cols, stride);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, to);

	result.stride = to_stride;
	return mxfp_attention(&result, &queries, cache, first, o, workspace, sizeof workspace, exec);
}

/* Tokens first .. first + n - 1 into `out`. */
static void run(const struct asked *a, size_t first, size_t n, const struct mxfp_exec *exec)
{
	const struct mxfp_attention_cache cache = cache_of(a);
	const struct mxfp_attention_options o = {
		.size = sizeof o, .scale = {true, a->scale}, .window = a->window, .sinks = a->sinks,
	};
	const size_t row = a->heads * a->cols, kv_row = a->kv_heads * a->cols;
	const struct mxfp_matrix queries = rows_of(q + first * row, n, row, 0);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, out + first * row);
	size_t bytes;

	assert_status(store(&cache, first, n, k + first * kv_row, v + first * kv_row, 0, exec), MXFP_OK);
	assert_status(mxfp_attention_workspace_size(&bytes, &cache, first, a->heads, n, &o, exec), MXFP_OK);
	ck_assert_uint_le(bytes, sizeof workspace);
	assert_status(mxfp_attention(&result, &queries, &cache, first, &o, workspace, bytes, exec), MXFP_OK);
}

/* A product by the reference. */
static void multiply(float *c, const float *x, size_t cols, const struct mxfp_matrix *w)
{
	static uint8_t space[1 << 20];
	const struct mxfp_exec exec = {.size = sizeof exec, .isa = "ref", .threads = 1};
	const struct mxfp_gemm_options o = {.size = sizeof o};
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, x);
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {.size = sizeof product, .c = &to, .a = &a, .w = w};

	assert_status(mxfp_gemm(&product, &o, space, sizeof space, &exec), MXFP_OK);
}

/* One head of one token, of keys and values that lie as the caller has them. */
static void expect(const struct asked *a, size_t token, size_t head, float *result)
{
	static float weights[MOST_TOKENS], values[MOST_TOKENS * MOST_COLS];
	const size_t kv_row = a->kv_heads * a->cols, at = head / (a->heads / a->kv_heads) * a->cols;
	const size_t first = a->window != 0 && token + 1 > a->window ? token + 1 - a->window : 0, pass = first / PASS * PASS;
	const struct mxfp_exec exec = {.size = sizeof exec, .isa = "ref", .threads = 1};
	const struct mxfp_softmax_options o = {
		.size = sizeof o, .scale = {true, a->scale}, .sinks = a->sinks != NULL ? a->sinks + head : NULL,
	};
	const struct mxfp_matrix scores = mxfp_numbers(MXFP_FORMAT_F32, 1, token + 1 - first, weights + (first - pass));
	const struct mxfp_result softmax = mxfp_to_numbers(MXFP_FORMAT_F32, weights + (first - pass));
	const struct mxfp_matrix keys = rows_of(k + first * kv_row + at, token + 1 - first, a->cols, kv_row);
	struct mxfp_matrix columns = mxfp_numbers(MXFP_FORMAT_F32, a->cols, token + 1 - pass, values);

	columns.transposed = true;
	memset(weights, 0, sizeof weights);
	memset(values, 0, sizeof values);
	for (size_t j = first; j <= token; j++)
		memcpy(values + (j - pass) * a->cols, v + j * kv_row + at, a->cols * sizeof *values);
	multiply(weights + (first - pass), q + (token * a->heads + head) * a->cols, a->cols, &keys);
	assert_status(mxfp_softmax(&softmax, &scores, &o, &exec), MXFP_OK);
	multiply(result, weights, token + 1 - pass, &columns);
}

static void expect_all(const struct asked *a)
{
	for (size_t t = 0; t < a->tokens; t++)
		for (size_t h = 0; h < a->heads; h++)
			expect(a, t, h, want + (t * a->heads + h) * a->cols);
}

static void check(const struct asked *a, const char *tier)
{
	for (size_t i = 0; i < a->tokens * a->heads; i++)
		ck_assert_msg(memcmp(out + i * a->cols, want + i * a->cols, a->cols * sizeof *want) == 0,
		              "%s: token %zu of %zu, head %zu of %zu over %zu, %zu numbers, window %zu", tier, i / a->heads, a->tokens,
		              i % a->heads, a->heads, a->kv_heads, a->cols, a->window);
	suite_compared(a->tokens * a->heads * a->cols);
}

/* Numbers about 1; now and then one that is not finite, huge or tiny. */
static void fill(float *x, size_t n, unsigned rare)
{
	static const uint32_t odd[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00000001, 0x80000000, 0x8000F000};

	for (size_t i = 0; i < n; i++) {
		const bool is_odd = rare != 0 && random_below(&draw, rare) == 0;

		x[i] = mxfp_f32_from_bits(is_odd ? odd[random_below(&draw, 7)]
		                                 : ((uint32_t)random_u64(&draw) & UINT32_C(0x807FFFFF)) | (random_below(&draw, 4) + 125) << 23);
	}
}

/* Stores and runs in batches of random lengths, in each tier. */
static void in_batches(const struct asked *a, size_t longest)
{
	static const char *const tiers[] = {"ref", "avx2", "avx512", "neon"};

	for (size_t tier = 0; tier < 4; tier++) {
		struct mxfp_exec exec = {.size = sizeof exec, .isa = tiers[tier]};
		size_t bytes;
		const struct mxfp_attention_cache none = {.size = sizeof none, .heads = 1, .head_cols = 1};
		const struct mxfp_attention_options o = {.size = sizeof o};

		if (mxfp_attention_workspace_size(&bytes, &none, 0, 1, 0, &o, &exec) != MXFP_OK)
			continue; /* not of this machine */
		memset(memory, 0xFF, cache_of(a).memory_bytes); /* NaN, of which nothing may show */
		memset(out, CANARY, sizeof out);
		for (size_t first = 0, n; first < a->tokens; first += n) {
			n = 1 + random_below(&draw, (uint32_t)longest);
			n = n < a->tokens - first ? n : a->tokens - first;
			exec.threads = 1 + random_below(&draw, 3);
			run(a, first, n, &exec);
		}
		check(a, tiers[tier]);
	}
}

TEST(like_products_and_softmax)
{
	static const size_t cols[] = {1, 8, 32, 33, 64, 100, 128, 200};
	const float sinks[MOST_HEADS] = {0.5F, -3, 20, 0, 1, 2};

	draw = (struct random){suite_seed()};
	for (int i = 0; i < 24; i++) {
		struct asked a = {.kv_heads = 1 + random_below(&draw, 2), .scale = 0.125F};

		a.heads = a.kv_heads * (1 + random_below(&draw, 3));
		/* The reference takes a task's time for each product of two numbers: rows of three passes have few of them. */
		a.cols = cols[random_below(&draw, i % 8 == 7 ? 4 : 8)];
		a.tokens = i % 8 == 7 ? 2 * PASS + 1 + random_below(&draw, 20) : 1 + random_below(&draw, 60);
		a.window = random_below(&draw, 2) == 0 ? 0 : 1 + random_below(&draw, (uint32_t)a.tokens + 10);
		a.sinks = random_below(&draw, 2) == 0 ? NULL : sinks;
		fill(q, a.tokens * a.heads * a.cols, i % 3 == 2 ? 5000 : 0);
		fill(k, a.tokens * a.kv_heads * a.cols, i % 3 == 2 ? 5000 : 0);
		fill(v, a.tokens * a.kv_heads * a.cols, i % 3 != 0 ? 500 : 0);
		expect_all(&a);
		in_batches(&a, i % 2 == 0 ? a.tokens : 7);
	}
}

/* So many scores that fewer queries than usual make a task. */
TEST(many_keys)
{
	const struct asked a = {.heads = 32, .kv_heads = 1, .cols = 2, .tokens = PASS + 22, .scale = 1};

	draw = (struct random){suite_seed()};
	fill(q, a.tokens * a.heads * a.cols, 0);
	fill(k, a.tokens * a.kv_heads * a.cols, 0);
	fill(v, a.tokens * a.kv_heads * a.cols, 100);
	expect_all(&a);
	in_batches(&a, a.tokens);
}

/* Two keys whose scores are 0 and 2 log 2 / 2 = log 2 take a third and two thirds; the third key is hidden by a window of 2. */
TEST(by_hand)
{
	const struct asked a = {.heads = 1, .kv_heads = 1, .cols = 1, .tokens = 3, .window = 2, .scale = 0.5F};

	k[0] = 100;
	k[1] = 0;
	k[2] = 1.3862944F;
	v[0] = INFINITY;
	v[1] = 3;
	v[2] = 6;
	q[0] = q[1] = q[2] = 1;
	run(&a, 0, 3, NULL);
	ck_assert(isinf(out[0]) && fabsf(out[2] - 5) < 1e-6F);
	suite_compared(2);
}

/* Rows apart, in place, and no token. */
TEST(strides)
{
	enum { TOKENS = 40, COLS = 8, GAP = 5 };
	const struct asked a = {.heads = 2, .kv_heads = 1, .cols = COLS, .tokens = TOKENS, .scale = 1};
	static float rows[TOKENS * (2 * COLS + GAP)];
	const struct mxfp_attention_cache cache = cache_of(&a);
	const struct mxfp_attention_options o = {.size = sizeof o, .scale = {true, a.scale}};
	const struct mxfp_matrix no_queries = rows_of(NULL, 0, 2 * COLS, 0);
	const struct mxfp_result nowhere = mxfp_to_numbers(MXFP_FORMAT_F32, NULL);

	draw = (struct random){suite_seed()};
	fill(q, TOKENS * 2 * COLS, 0);
	fill(k, TOKENS * COLS, 0);
	fill(v, TOKENS * COLS, 0);
	run(&a, 0, TOKENS, NULL);
	memset(rows, CANARY, sizeof rows);
	for (size_t t = 0; t < TOKENS; t++)
		memcpy(rows + t * (2 * COLS + GAP), q + t * 2 * COLS, 2 * COLS * sizeof *q);
	assert_status(attend(rows, 2 * COLS + GAP, rows, 2 * COLS + GAP, 2 * COLS, &cache, 0, TOKENS, &o, NULL), MXFP_OK);
	for (size_t t = 0; t < TOKENS; t++) {
		const uint8_t gap[GAP * sizeof(float)] = {[0] = CANARY, [sizeof gap - 1] = CANARY};

		ck_assert_mem_eq(rows + t * (2 * COLS + GAP), out + t * 2 * COLS, 2 * COLS * sizeof *out);
		ck_assert(memcmp(rows + t * (2 * COLS + GAP) + 2 * COLS, gap, 1) == 0);
	}
	assert_status(mxfp_attention(&nowhere, &no_queries, &cache, TOKENS, &o, NULL, 0, NULL), MXFP_OK);
	assert_status(store(&cache, TOKENS, 0, NULL, NULL, 0, NULL), MXFP_OK);
	suite_compared(TOKENS * 2 * COLS);
}

/* Without a scale, scores are as they are: a scale of 1 changes none. */
TEST(no_scale)
{
	const struct asked a = {.heads = 4, .kv_heads = 4, .cols = 8, .tokens = 40, .scale = 1};
	const struct mxfp_attention_cache cache = cache_of(&a);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};

	draw = (struct random){suite_seed()};
	fill(q, a.tokens * a.heads * a.cols, 0);
	fill(k, a.tokens * a.kv_heads * a.cols, 0);
	fill(v, a.tokens * a.kv_heads * a.cols, 0);
	expect_all(&a);
	assert_status(store(&cache, 0, a.tokens, k, v, 0, &exec), MXFP_OK);
	assert_status(attend(out, 0, q, 0, a.heads * a.cols, &cache, 0, a.tokens, NULL, &exec), MXFP_OK);
	check(&a, "no scale");
}

/* A scale of NaN makes every result NaN, a sink of Inf every weight 0 or NaN: none is refused. */
TEST(scale_and_sinks_that_are_not_finite)
{
	struct asked a = {.heads = 1, .kv_heads = 1, .cols = 8, .tokens = 3, .scale = NAN};
	static const float sinks[] = {INFINITY};

	draw = (struct random){suite_seed()};
	fill(q, a.tokens * a.cols, 0);
	fill(k, a.tokens * a.cols, 0);
	fill(v, a.tokens * a.cols, 0);
	for (int i = 0; i < 2; i++) {
		run(&a, 0, a.tokens, NULL);
		for (size_t j = 0; j < a.tokens * a.cols; j++)
			ck_assert_uint_eq(mxfp_f32_bits(out[j]), UINT32_C(0x7FC00000));
		a.scale = 1;
		a.sinks = sinks;
	}
	suite_compared(2 * a.tokens * a.cols);
}
