/* SPDX-License-Identifier: MIT */
/*
 * Activation, gate, residual and blocks of C in a product: the same as the product alone, then mxfp_apply(), one
 * operation after the other, and mxfp_quantize(). And what such a call refuses.
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

static const struct mxfp_matrix a = {.rows = M, .cols = K, .data = memory.a};
static const struct mxfp_matrix w = {.rows = N, .cols = K, .data = memory.w};
static const struct mxfp_matrix gate = {.rows = M, .cols = N, .data = memory.gate};
static const struct mxfp_matrix gate16 = {
	.format = MXFP_FORMAT_BF16, .rows = M, .cols = N, .data = memory.gate16, .stride = N + 3};
static const struct mxfp_matrix residual = {.rows = M, .cols = N, .data = memory.residual};
static const struct mxfp_exec three_threads = {.threads = 3};

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

static struct mxfp_product product_of_all(void)
{
	return (struct mxfp_product){.size = sizeof(struct mxfp_product), .a = &a, .w = &w, .c = memory.c, .bias = memory.bias,
	                             .gate = &gate, .residual = &residual};
}

static struct mxfp_gemm_options options_of(enum mxfp_function activation)
{
	return (struct mxfp_gemm_options){
		.size = sizeof(struct mxfp_gemm_options), .activation = activation, .exec = &three_threads};
}

static struct mxfp_blocks blocks_of(enum mxfp_format format)
{
	return (struct mxfp_blocks){.format = format, .rows = M, .cols = N, .codes = memory.codes, .scales = memory.scales};
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
static void make_want(enum mxfp_function activation, const float *parameter, bool bf16_gate)
{
	struct mxfp_product plain = product_of_all();
	const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	const struct mxfp_row_output in_place = {.data = memory.want};
	const struct mxfp_apply_options apply = {.parameter = parameter};

	plain.c = memory.want;
	plain.gate = plain.residual = NULL;
	assert_status(mxfp_gemm(&plain, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
	assert_status(mxfp_apply(activation, &in_place, memory.want, MXFP_FORMAT_F32, 0, M, N, &apply), MXFP_OK);
	for (size_t i = 0; i < M * N; i++) {
		uint32_t g = bf16_gate ? (uint32_t)memory.gate16[i / N * (N + 3) + i % N] << 16 : bits_of(memory.gate[i]);
		uint32_t v = mxfp_f32_mul(bits_of(memory.want[i]), g);

		v = canonical(mxfp_f32_add(v, bits_of(memory.residual[i])));
		memcpy(&memory.want[i], &v, sizeof v);
	}
}

static void check_blocks(const struct mxfp_blocks *got, const struct mxfp_quantize_options *options)
{
	struct mxfp_blocks want = *got;

	want.codes = memory.want_codes;
	want.scales = memory.want_scales;
	assert_status(mxfp_quantize(&want, memory.want, MXFP_FORMAT_F32, 0, options), MXFP_OK);
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
	static const float amax = 100, slope = 0.25F;

	for (size_t i = 0; i < 2; i++) {
		struct mxfp_counts counts = {0}, want_counts = {0};
		const enum mxfp_function activation = i == 0 ? MXFP_FUNCTION_LEAKY_RELU : MXFP_FUNCTION_SILU;
		struct mxfp_quantize_options quantize = {
			.round = rounds[i], .first_index = 123457, .seed = 9, .tensor_amax = &amax, .counts = &counts};
		struct mxfp_gemm_options options = options_of(activation);
		struct mxfp_blocks blocks = blocks_of(formats[_i]);
		struct mxfp_product product = product_of_all();

		fill();
		options.c_quantize = &quantize;
		options.activation_parameter = i == 0 ? &slope : NULL;
		product.gate = i == 0 ? &gate16 : &gate;
		product.c_blocks = &blocks;
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
		make_want(activation, options.activation_parameter, i == 0);
		ck_assert_mem_eq(memory.c, memory.want, sizeof memory.c);
		quantize.counts = &want_counts;
		check_blocks(&blocks, &quantize);
		ck_assert_mem_eq(&counts, &want_counts, sizeof counts);
		/* The blocks alone, and beside a C in bf16, from whose numbers they are not made. */
		memset(memory.codes, CANARY, sizeof memory.codes);
		memset(memory.scales, CANARY, sizeof memory.scales);
		product.c = NULL;
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
		check_blocks(&blocks, &quantize);
		memset(memory.codes, CANARY, sizeof memory.codes);
		memset(memory.scales, CANARY, sizeof memory.scales);
		product.c = memory.c16;
		options.c_format = MXFP_FORMAT_BF16;
		assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
		check_blocks(&blocks, &quantize);
		assert_status(mxfp_convert(memory.want16, MXFP_FORMAT_BF16, memory.want, MXFP_FORMAT_F32, M * N, NULL), MXFP_OK);
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
			const struct mxfp_matrix c = {.rows = M, .cols = N, .data = odd + offset, .stride = N};
			struct mxfp_product product = product_of_all();

			fill();
			memcpy(odd + offset, of_gate != 0 ? memory.gate : memory.residual, sizeof memory.gate);
			product.c = odd + offset;
			if (of_gate != 0)
				product.gate = &c;
			else
				product.residual = &c;
			assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
			make_want(MXFP_FUNCTION_RELU, NULL, false);
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
	const struct mxfp_matrix no_a = {.rows = 2}, no_w = {.rows = 2};
	const struct mxfp_matrix g = {.rows = 2, .cols = 2, .data = gates}, r = {.rows = 2, .cols = 2, .data = residuals};
	const struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_RELU);
	float c[4];
	const struct mxfp_product product = {
		.size = sizeof product, .a = &no_a, .w = &no_w, .c = c, .bias = bias, .gate = &g, .residual = &r};

	assert_status(mxfp_gemm(&product, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert_mem_eq(c, want, sizeof c);
	suite_compared(4);
}

/* Blocks of nothing get their tensor scale as those of something do: fl32(amax / 2688). */
TEST(empty_blocks)
{
	static const float amax = 2688;
	const struct mxfp_quantize_options quantize = {.tensor_amax = &amax};
	const struct mxfp_matrix no_rows = {.cols = K};
	struct mxfp_blocks blocks = {.format = MXFP_FORMAT_NVFP4, .cols = N, .tensor_scale = 77};
	struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	const struct mxfp_product product = {.size = sizeof product, .a = &no_rows, .w = &w, .c_blocks = &blocks};

	options.c_quantize = &quantize;
	assert_status(mxfp_gemm(&product, &options, NULL, 0), MXFP_OK);
	ck_assert(blocks.tensor_scale == 1);
	suite_compared(1);
}

static void refused(const char *what, enum mxfp_status want, const struct mxfp_product *product,
                    const struct mxfp_gemm_options *options)
{
	static uint8_t before[sizeof memory];

	memcpy(before, &memory, sizeof memory);
	enum mxfp_status status = mxfp_gemm(product, options, workspace, WORKSPACE_BYTES);
	ck_assert_msg(status == want, "%s: status %d instead of %d", what, (int)status, (int)want);
	ck_assert_msg(memcmp(before, &memory, sizeof memory) == 0, "%s: memory was written", what);
	suite_compared(1);
}

/* A right call, spoiled by statements. */
#define REFUSED(status, ...) \
	do { \
		struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_SILU); \
		struct mxfp_quantize_options quantize = {.size = sizeof quantize}; \
		struct mxfp_blocks blocks = blocks_of(MXFP_FORMAT_MXFP8_E4M3); \
		struct mxfp_product product = product_of_all(); \
		struct mxfp_matrix like = gate; \
\
		product.gate = &like; \
		product.c_blocks = &blocks; \
		options.c_quantize = &quantize; \
		__VA_ARGS__; \
		refused(#__VA_ARGS__, status, &product, &options); \
	} while (0)

TEST(refusals)
{
	static const float nan = NAN, amax = 1;
	uint64_t first = 0;
	size_t bytes, of_blocks;

	fill();
	REFUSED(MXFP_ERR_FORMAT, like.format = MXFP_FORMAT_F16);
	REFUSED(MXFP_ERR_FORMAT, like.format = MXFP_FORMAT_MXFP4);
	REFUSED(MXFP_ERR_FORMAT, like.transposed = true);
	REFUSED(MXFP_ERR_FORMAT, blocks.format = MXFP_FORMAT_BF16);
	REFUSED(MXFP_ERR_OPTION, like.sparsity = (struct mxfp_sparsity){2, 4});
	REFUSED(MXFP_ERR_OPTION, like.size = 8);
	REFUSED(MXFP_ERR_OPTION, blocks.size = 8);
	REFUSED(MXFP_ERR_OPTION, quantize.size = 16);
	REFUSED(MXFP_ERR_OPTION, options.activation = (enum mxfp_function)99);
	REFUSED(MXFP_ERR_OPTION, options.activation = (enum mxfp_function)-1);
	REFUSED(MXFP_ERR_OPTION, options.activation_parameter = &nan);
	REFUSED(MXFP_ERR_OPTION, quantize.non_finite = MXFP_NON_FINITE_ERROR);
	REFUSED(MXFP_ERR_OPTION, quantize.first_non_finite = &first);
	REFUSED(MXFP_ERR_OPTION, quantize.rule = (enum mxfp_rule)99);
	REFUSED(MXFP_ERR_OPTION, blocks.format = MXFP_FORMAT_NVFP4);
	REFUSED(MXFP_ERR_OVERLAP, blocks.codes = memory.c);
	REFUSED(MXFP_ERR_OVERLAP, blocks.scales = memory.c + M * N - 1);
	REFUSED(MXFP_ERR_OVERLAP, blocks.scales = memory.codes);
	REFUSED(MXFP_ERR_OVERLAP, blocks.scales = memory.residual);
	REFUSED(MXFP_ERR_OVERLAP, blocks.codes = workspace);
	REFUSED(MXFP_ERR_OVERLAP, like.data = workspace);
	REFUSED(MXFP_ERR_OVERLAP, like.data = memory.c + 1);
	REFUSED(MXFP_ERR_OVERLAP, like.data = memory.c; like.format = MXFP_FORMAT_BF16);
	REFUSED(MXFP_ERR_OVERLAP, like.data = memory.c; product.c_stride = N + 1);
	REFUSED(MXFP_ERR_SIZE, like.rows = M - 1);
	REFUSED(MXFP_ERR_SIZE, like.cols = N + 1);
	REFUSED(MXFP_ERR_SIZE, like.stride = N - 1);
	REFUSED(MXFP_ERR_SIZE, like.stride = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, blocks.rows = M + 1);
	REFUSED(MXFP_ERR_SIZE, blocks.cols = N - 1);
	REFUSED(MXFP_ERR_SIZE, blocks.codes_stride = 5);
	REFUSED(MXFP_ERR_SIZE, quantize.first_index = UINT64_MAX);
	REFUSED(MXFP_ERR_NULL, like.data = NULL);
	REFUSED(MXFP_ERR_NULL, blocks.codes = NULL);
	REFUSED(MXFP_ERR_NULL, blocks.scales = NULL);
	REFUSED(MXFP_ERR_NULL, product.c = NULL; product.c_blocks = NULL);
	REFUSED(MXFP_ERR_NULL, product.c = NULL; options.accumulate = true);
	/* A tensor scale that is given, or not needed, is all that NVFP4 asks for. */
	REFUSED(MXFP_ERR_NULL, blocks.format = MXFP_FORMAT_NVFP4; quantize.tensor_amax = &amax; blocks.codes = NULL);
	REFUSED(MXFP_ERR_NULL, blocks.format = MXFP_FORMAT_NVFP4; quantize.recipe = MXFP_RECIPE_GGML; blocks.codes = NULL);
	/* Sizes are known without memory, and blocks may change them. */
	struct mxfp_product product = product_of_all();
	struct mxfp_blocks blocks = {.format = MXFP_FORMAT_MXFP4, .rows = M, .cols = N};
	product.c = NULL;
	assert_status(mxfp_gemm_workspace_size(&product, 1, NULL, &bytes), MXFP_OK);
	product.c_blocks = &blocks;
	assert_status(mxfp_gemm_workspace_size(&product, 1, NULL, &of_blocks), MXFP_OK);
	suite_compared(2);
}

/* In a group: what one product writes another may not read or write, and failed_product names it. */
TEST(groups)
{
	struct mxfp_gemm_options options = options_of(MXFP_FUNCTION_IDENTITY);
	struct mxfp_blocks blocks[2] = {blocks_of(MXFP_FORMAT_MXFP4), blocks_of(MXFP_FORMAT_MXFP4)};
	struct mxfp_product group[2] = {product_of_all(), product_of_all()};
	size_t failed = 77;

	fill();
	options.failed_product = &failed;
	group[1].c = memory.want;
	group[0].c_blocks = &blocks[0];
	group[1].c_blocks = &blocks[1];
	blocks[1].codes = memory.want_codes;
	blocks[1].scales = memory.want_scales;
	assert_status(mxfp_gemm_grouped(group, 2, &options, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert_mem_eq(memory.c, memory.want, sizeof memory.c);
	ck_assert_mem_eq(memory.codes, memory.want_codes, sizeof memory.codes);
	ck_assert_mem_eq(memory.scales, memory.want_scales, sizeof memory.scales);
	blocks[1].scales = memory.scales;
	assert_status(mxfp_gemm_grouped(group, 2, &options, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
	blocks[1].scales = memory.want_scales;
	group[0].bias = (const float *)(const void *)(memory.want_codes + 4);
	failed = 77;
	assert_status(mxfp_gemm_grouped(group, 2, &options, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
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
	struct mxfp_gemm_tile whole = {.rows = M, .cols = N, .values = memory.want, .stride = N};

	alarm(60);
	for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
		for (unsigned threads = 1; threads <= 2; threads++) {
			atomic_uint to_begin = mxfp_processors() > 1 ? threads : 1;
			const struct mxfp_exec exec = {.threads = threads};
			struct mxfp_product p = product_of_all();
			struct mxfp_gemm_options o = options_of(MXFP_FUNCTION_IDENTITY);

			fill();
			memory.gate[7] = memory.residual[3 * N + 1] = memory.a[5] = 1; /* a NaN would become canonical */
			o.exec = &exec;
			p.c = memory.want;
			assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
			p.c = memory.c;
			o.epilogue = divide;
			o.epilogue_context = &to_begin;
			fp_state_set(fp_state_hostile(states[i]));
			const enum mxfp_status status = mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES);
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
