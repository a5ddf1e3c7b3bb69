/* SPDX-License-Identifier: MIT */
/*
 * Activation, gate, residual and blocks of C in a product: the same as the product alone, then mxfp_function_apply(),
 * one operation after the other, and mxfp_quantize().
 */
#include "mxfp.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "body/fp_state.h"
#include "f32.h"
#include "oracle/inputs.h"
#include "pool.h"
#include "suite.h"

enum { M = 70, N = 601, K = 96, WORKSPACE_BYTES = 1 << 22, BLOCKS_BYTES = M * (N + 32), CANARY = 0x5A };

static struct {
	float a[M * K], w[N * K], bias[N], gate[M * N], residual[M * N];
	uint16_t gate16[M * (N + 3)];
	float c[M * N], want[M * N];
	uint16_t c16[M * N], want16[M * N];
	uint8_t codes[BLOCKS_BYTES], scales[BLOCKS_BYTES / 16];
	uint8_t want_codes[BLOCKS_BYTES], want_scales[BLOCKS_BYTES / 16];
} memory;

static uint8_t *workspace;

static const struct mxfp_matrix a = {.size = sizeof a, .rows = M, .cols = K, .data = memory.a};
static const struct mxfp_matrix w = {.size = sizeof w, .rows = N, .cols = K, .data = memory.w};
static const struct mxfp_matrix gate = {.size = sizeof gate, .rows = M, .cols = N, .data = memory.gate};
static const struct mxfp_matrix gate16 = {
	.size = sizeof gate16, .format = MXFP_FORMAT_BF16, .rows = M, .cols = N, .data = memory.gate16, .stride = N + 3};
static const struct mxfp_matrix residual = {.size = sizeof residual, .rows = M, .cols = N, .data = memory.residual};
static const struct mxfp_exec three_threads = {.size = sizeof three_threads, .threads = 3};

static void fill_numbers(struct random *r, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = random_f32_between(r, -6, 1);

		memcpy(&x[i], &bits, sizeof bits);
	}
}

static void fill(void)
{
	struct random r = {suite_seed()};

	memset(&memory, CANARY, sizeof memory);
	fill_numbers(&r, memory.a, M * K);
	fill_numbers(&r, memory.w, N * K);
	fill_numbers(&r, memory.bias, N);
	fill_numbers(&r, memory.gate, M * N);
	fill_numbers(&r, memory.residual, M * N);
	for (size_t i = 0; i < M * (N + 3); i++)
		memory.gate16[i] = (uint16_t)(random_f32_between(&r, -6, 1) >> 16);
	memory.a[5] = NAN;
	memory.gate[7] = INFINITY;
	memory.residual[3 * N + 1] = -INFINITY;
}

static struct mxfp_product product_of_all(const struct mxfp_result *c)
{
	return (struct mxfp_product){.size = sizeof(struct mxfp_product), .c = c, .a = &a, .w = &w, .bias = memory.bias,
	                             .gate = &gate, .residual = &residual};
}

static struct mxfp_gemm_options options_of(enum mxfp_function activation)
{
	return (struct mxfp_gemm_options){.size = sizeof(struct mxfp_gemm_options), .activation = activation};
}

static struct mxfp_blocks blocks_of(enum mxfp_format format)
{
	return mxfp_blocks_at(format, M, N, memory.codes, memory.scales);
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static uint32_t canonical(uint32_t x)
{
	return mxfp_f32_is_nan(x) ? MXFP_F32_NAN : x;
}

/* memory.want: the product alone, then step after step. */
static void make_want(enum mxfp_function activation, struct mxfp_optional parameter, bool bf16_gate)
{
	const struct mxfp_result in_place = mxfp_to_numbers(MXFP_FORMAT_F32, memory.want);
	const struct mxfp_matrix sums = mxfp_numbers(MXFP_FORMAT_F32, M, N, memory.want);
	struct mxfp_product plain = product_of_all(&in_place);
	const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	const struct mxfp_function_options apply = {.size = sizeof apply, .parameter = parameter};

	plain.gate = plain.residual = NULL;
	assert_status(mxfp_gemm(&plain, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
	assert_status(mxfp_function_apply(&in_place, activation, &sums, &apply, NULL), MXFP_OK);
	for (size_t i = 0; i < M * N; i++) {
		uint32_t g = bf16_gate ? (uint32_t)memory.gate16[i / N * (N + 3) + i % N] << 16 : bits_of(memory.gate[i]);
		uint32_t v = mxfp_f32_mul(bits_of(memory.want[i]), g);

		v = canonical(mxfp_f32_add(v, bits_of(memory.residual[i])));
		memcpy(&memory.want[i], &v, sizeof v);
	}
}

static void check_blocks(const struct mxfp_blocks *got, const struct mxfp_quantize_options *options, struct mxfp_counts *counts)
{
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, M, N, memory.want);
	struct mxfp_blocks want = *got;
	struct mxfp_result to_want = mxfp_to_blocks(&want);

	want.codes = memory.want_codes;
	want.scales = memory.want_scales;
	to_want.counts = counts;
	assert_status(mxfp_quantize(&to_want, &numbers, options, NULL), MXFP_OK);
	ck_assert_mem_eq(memory.codes, memory.want_codes, sizeof memory.codes);
	ck_assert_mem_eq(memory.scales, memory.want_scales, sizeof memory.scales);
	ck_assert_mem_eq(&got->tensor_scale, &want.tensor_scale, sizeof want.tensor_scale);
}

/* More columns than a tile has and no multiple of a block, by formats of all widths. Stochastic rounding shows the index of
   every element. */
TEST_LOOP(blocks_are_those_of_the_steps, 4)
{
	static const enum mxfp_format formats[] = {
		MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4, MXFP_FORMAT_NVFP4};
	static const enum mxfp_round rounds[] = {MXFP_ROUND_RNE, MXFP_ROUND_SR};

	for (size_t i = 0; i < 2; i++) {
		struct mxfp_counts counts = {.size = sizeof counts}, want_counts = {.size = sizeof want_counts};
		const enum mxfp_function activation = i == 0 ? MXFP_FUNCTION_LEAKY_RELU : MXFP_FUNCTION_SILU;
		const struct mxfp_quantize_options quantize = {
			.size = sizeof quantize, .round = rounds[i], .first_index = 123457, .seed = 9, .tensor_amax = {true, 100},
		};
		struct mxfp_gemm_options options = options_of(activation);
		struct mxfp_blocks blocks = blocks_of(formats[_i]);
		struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, memory.c);
		const struct mxfp_result want16 = mxfp_to_numbers(MXFP_FORMAT_BF16, memory.want16);
		const struct mxfp_matrix want = mxfp_numbers(MXFP_FORMAT_F32, M, N, memory.want);
		struct mxfp_product product = product_of_all(&c);

		fill();
		options.c_quantize = &quantize;
		if (i == 0)
			options.activation_parameter = mxfp_some(0.25F);
		product.gate = i == 0 ? &gate16 : &gate;
		c.blocks = &blocks;
		c.counts = &counts;
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
		make_want(activation, options.activation_parameter, i == 0);
		ck_assert_mem_eq(memory.c, memory.want, sizeof memory.c);
		check_blocks(&blocks, &quantize, &want_counts);
		ck_assert_mem_eq(&counts, &want_counts, sizeof counts);
		/* The blocks alone, and beside a C in bf16, from whose numbers they are not made. */
		memset(memory.codes, CANARY, sizeof memory.codes);
		memset(memory.scales, CANARY, sizeof memory.scales);
		c = mxfp_to_blocks(&blocks);
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
		check_blocks(&blocks, &quantize, NULL);
		memset(memory.codes, CANARY, sizeof memory.codes);
		memset(memory.scales, CANARY, sizeof memory.scales);
		c.data = memory.c16;
		c.format = MXFP_FORMAT_BF16;
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
		check_blocks(&blocks, &quantize, NULL);
		assert_status(mxfp_convert(&want16, &want, NULL, NULL), MXFP_OK);
		ck_assert_mem_eq(memory.c16, memory.want16, sizeof memory.c16);
		suite_compared(4 * M * N);
	}
}

/* C as its own residual, and as its own gate, also at an odd address. */
TEST(c_in_place)
{
	static uint8_t odd[M * N * 4 + 1];

	for (int of_gate = 0; of_gate < 2; of_gate++)
		for (int offset = 0; offset < 2; offset++) {
			const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_RELU);
			const struct mxfp_matrix c = mxfp_numbers(MXFP_FORMAT_F32, M, N, odd + offset);
			struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, odd + offset);
			struct mxfp_product product = product_of_all(&to);

			fill();
			memcpy(odd + offset, of_gate != 0 ? memory.gate : memory.residual, sizeof memory.gate);
			to.stride = N;
			if (of_gate != 0)
				product.gate = &c;
			else
				product.residual = &c;
			assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
			make_want(MXFP_FUNCTION_RELU, (struct mxfp_optional){0}, false);
			ck_assert_mem_eq(odd + offset, memory.want, sizeof memory.want);
			suite_compared(M * N);
		}
}

/* Worked by hand: K = 0 leaves the bias; f, gate and residual follow. relu(-2) = 0, 0 * 5 + 1 = 1; relu(3) * 5 + 1 = 16. A
   gate of Inf makes a NaN of the 0. */
TEST(without_k)
{
	static const float bias[2] = {-2, 3}, gates[4] = {5, 5, INFINITY, 5}, residuals[4] = {1, 1, 1, 1};
	static const uint32_t want[4] = {0x3F800000, 0x41800000, 0x7FC00000, 0x41800000};
	const struct mxfp_matrix no_k = mxfp_numbers(MXFP_FORMAT_F32, 2, 0, NULL);
	const struct mxfp_matrix g = mxfp_numbers(MXFP_FORMAT_F32, 2, 2, gates), r = mxfp_numbers(MXFP_FORMAT_F32, 2, 2, residuals);
	const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_RELU);
	float c[4];
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {
		.size = sizeof product, .c = &to, .a = &no_k, .w = &no_k, .bias = bias, .gate = &g, .residual = &r};

	assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
	ck_assert_mem_eq(c, want, sizeof c);
	suite_compared(4);
}

/* Blocks of nothing get their tensor scale as those of something do: fl32(amax / 2688). */
TEST(empty_blocks)
{
	struct mxfp_quantize_options quantize = {.size = sizeof quantize, .tensor_amax = {true, 2688}};
	const struct mxfp_matrix no_rows = mxfp_numbers(MXFP_FORMAT_F32, 0, K, NULL);
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 0, N, NULL, NULL);
	struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	const struct mxfp_result to = mxfp_to_blocks(&blocks);
	const struct mxfp_product product = {.size = sizeof product, .c = &to, .a = &no_rows, .w = &w};

	blocks.tensor_scale = 77;
	options.c_quantize = &quantize;
	assert_status(mxfp_gemm(&product, &options, NULL, 0, &three_threads), MXFP_OK);
	ck_assert(blocks.tensor_scale == 1);
	/* Recipe ggml needs none. */
	quantize = (struct mxfp_quantize_options){.size = sizeof quantize, .recipe = MXFP_RECIPE_GGML};
	assert_status(mxfp_gemm(&product, &options, NULL, 0, &three_threads), MXFP_OK);
	suite_compared(2);
}

/* Sizes are known without memory, and blocks may change them. */
TEST(sizes_without_memory)
{
	size_t bytes, of_blocks;
	struct mxfp_product product = product_of_all(NULL);
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, M, N, NULL, NULL);
	const struct mxfp_result c = mxfp_to_blocks(&blocks);
	assert_status(mxfp_gemm_workspace_size(&bytes, &product, 1, NULL, NULL), MXFP_OK);
	product.c = &c;
	assert_status(mxfp_gemm_workspace_size(&of_blocks, &product, 1, NULL, NULL), MXFP_OK);
	suite_compared(2);
}

/* In a group: what one product writes another may not read or write, and its index is told. */
TEST(groups)
{
	const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	struct mxfp_blocks blocks[2] = {blocks_of(MXFP_FORMAT_MXFP4), blocks_of(MXFP_FORMAT_MXFP4)};
	struct mxfp_result c[2] = {mxfp_to_blocks(&blocks[0]), mxfp_to_blocks(&blocks[1])};
	struct mxfp_product group[2] = {product_of_all(&c[0]), product_of_all(&c[1])};
	size_t failed = 77;

	fill();
	c[0].data = memory.c;
	c[1].data = memory.want;
	blocks[1].codes = memory.want_codes;
	blocks[1].scales = memory.want_scales;
	assert_status(mxfp_gemm_grouped(&failed, group, 2, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_OK);
	ck_assert_mem_eq(memory.c, memory.want, sizeof memory.c);
	ck_assert_mem_eq(memory.codes, memory.want_codes, sizeof memory.codes);
	ck_assert_mem_eq(memory.scales, memory.want_scales, sizeof memory.scales);
	blocks[1].scales = memory.scales;
	assert_status(mxfp_gemm_grouped(&failed, group, 2, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_ERR_OVERLAP);
	blocks[1].scales = memory.want_scales;
	group[0].bias = (const float *)(const void *)(memory.want_codes + 4);
	failed = 77;
	assert_status(mxfp_gemm_grouped(&failed, group, 2, &options, workspace, WORKSPACE_BYTES, &three_threads), MXFP_ERR_OVERLAP);
	ck_assert_uint_eq(failed, 1);
	suite_compared(3);
}

/* A third of each number, by the processor, once so many calls have begun, each on a thread of its own. */
static void divide(void *context, const struct mxfp_gemm_tile *tile)
{
	atomic_uint *to_begin = context;

	for (unsigned n = to_begin != NULL && *to_begin != 0 ? --*to_begin : 0; n != 0; n = *to_begin)
		sched_yield();
	for (size_t row = 0; row < tile->rows; row++)
		for (size_t col = 0; col < tile->cols; col++)
			tile->values[row * tile->stride + col] /= 3;
	fp_state_set(fp_state_hostile(5)); /* which the next tile must not see */
}

/* Whatever the state was when the library's threads were started: by the first round, which is in a state of its own, or before. */
TEST(an_epilogue_runs_in_the_state_of_the_caller)
{
	static const unsigned states[] = {15, 0, 1, 2, 3}; /* all that a state has first, then each rounding */
	const uint64_t own = fp_state_get();
	const struct mxfp_result want = mxfp_to_numbers(MXFP_FORMAT_F32, memory.want);
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, memory.c);
	struct mxfp_gemm_tile whole = {.rows = M, .cols = N, .values = memory.want, .stride = N};

	alarm(60);
	for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
		for (unsigned threads = 1; threads <= 2; threads++) {
			atomic_uint to_begin = mxfp_processors() > 1 ? threads : 1;
			const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
			struct mxfp_product p = product_of_all(&want);
			struct mxfp_gemm_options o = options_of(MXFP_FUNCTION_IDENTITY);

			fill();
			memory.gate[7] = memory.residual[3 * N + 1] = memory.a[5] = 1; /* a NaN would become canonical */
			assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, &exec), MXFP_OK);
			p.c = &c;
			o.epilogue = divide;
			o.epilogue_context = &to_begin;
			fp_state_set(fp_state_hostile(states[i]));
			const enum mxfp_status status = mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, &exec);
			divide(NULL, &whole);
			fp_state_set(own);
			assert_status(status, MXFP_OK);
			ck_assert_mem_eq(memory.c, memory.want, sizeof memory.c);
			suite_compared(M * N);
		}
	alarm(0);
}

int main(void)
{
	workspace = malloc(WORKSPACE_BYTES);
	if (workspace == NULL)
		return 1;
	int status = suite_run(NULL);
	free(workspace);
	return status;
}
