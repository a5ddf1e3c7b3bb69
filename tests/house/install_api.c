/* SPDX-License-Identifier: MIT */
/* Calls everything that is public, with the warnings of test_install.sh: it compiles, and nothing else is asked of it. */
#include <mxfp.h>

static void run(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument)
{
	(void)context;
	for (size_t i = 0; i < n; i++)
		task(argument, i);
}

static void task(void *argument, size_t i)
{
	((unsigned char *)argument)[i] = 0;
}

int use_facts(void);
int use_facts(void)
{
	enum mxfp_format format = MXFP_FORMAT_F32;
	int value = 0;
	uint32_t words[4], counter[4] = {0}, key[2] = {0};

	mxfp_philox4x32_10(counter, key, words);
	return mxfp_format_get_info(MXFP_FORMAT_MXFP4)->block_length == 32 &&
	       mxfp_format_from_name("nvfp4", &format) == MXFP_OK && mxfp_isa_name(0) != NULL &&
	       mxfp_isa_available() != 0 && mxfp_isa_active() >= 0 && mxfp_isa_status() == MXFP_OK &&
	       mxfp_isa_lacks(0, 0) == NULL && mxfp_option_name(MXFP_OPTION_ROUND, MXFP_ROUND_SR) != NULL &&
	       mxfp_option_meaning(MXFP_OPTION_RULE, MXFP_RULE_RCEIL) != NULL &&
	       mxfp_option_from_name(MXFP_OPTION_ACC, "exact", &value) == MXFP_OK && mxfp_version() != NULL &&
	       mxfp_build_info() != NULL && mxfp_status_text(MXFP_OK) != NULL && mxfp_philox_word(1, 2, 3) != 0 &&
	       MXFP_VERSION >= MXFP_VERSION_MAJOR * 1000000 + MXFP_VERSION_MINOR * 1000 + MXFP_VERSION_PATCH;
}

enum mxfp_status use_blocks(const float *x, float *y, unsigned char *memory);
enum mxfp_status use_blocks(const float *x, float *y, unsigned char *memory)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 2, .isa = "ref", .run = run};
	const struct mxfp_convert_options convert = {.size = sizeof convert, .counts = &counts, .exec = &exec};
	const struct mxfp_quantize_options quantize = {.rule = MXFP_RULE_RCEIL, .counts = &counts, .exec = &exec};
	struct mxfp_blocks blocks = {.format = MXFP_FORMAT_NVFP4, .rows = 2, .cols = 64};
	struct mxfp_sizes sizes;
	float amax = 0;

	enum mxfp_status status = mxfp_blocks_size(blocks.format, blocks.rows, blocks.cols, &sizes);
	blocks.codes = memory;
	blocks.scales = memory + sizes.codes_bytes;
	if (status == MXFP_OK)
		status = mxfp_amax(x, MXFP_FORMAT_F32, 128, &amax, &exec);
	if (status == MXFP_OK)
		status = mxfp_quantize(&blocks, x, MXFP_FORMAT_F32, 0, &quantize);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	if (status == MXFP_OK)
		status = mxfp_dequantize(&matrix, y, MXFP_FORMAT_F32, 0, &exec);
	if (status == MXFP_OK)
		status = mxfp_convert(memory, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, 128, &convert);
	return status == MXFP_OK ? mxfp_parallel_for(&exec, 128, task, memory) : status;
}

enum mxfp_status use_functions(const float *x, float *y);
enum mxfp_status use_functions(const float *x, float *y)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_row_output output = {.size = sizeof output, .data = y};
	const struct mxfp_apply_options options = {.size = sizeof options, .parameter = x, .exec = &exec};

	return mxfp_apply(MXFP_FUNCTION_SILU, &output, x, MXFP_FORMAT_F32, 0, 2, 64, &options);
}

enum mxfp_status use_rows(const float *x, float *y);
enum mxfp_status use_rows(const float *x, float *y)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_row_input input = {.size = sizeof input, .data = x};
	const struct mxfp_row_output output = {.size = sizeof output, .data = y};
	const struct mxfp_softmax_options softmax = {.size = sizeof softmax, .scale = x, .exec = &exec};
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 1e-5, .weight = &input, .exec = &exec};
	const struct mxfp_gate_options gate = {.size = sizeof gate, .exec = &exec};
	const struct mxfp_rotate_options rotate = {.size = sizeof rotate, .exec = &exec};
	const struct mxfp_rotary_options rotary = {.size = sizeof rotary, .base = 10000};
	float frequencies[32], sums[2];
	size_t largest[2];

	enum mxfp_status status = mxfp_row_reduce(MXFP_REDUCTION_SUM, sums, &input, 2, 64, &exec);
	if (status == MXFP_OK)
		status = mxfp_row_argmax(largest, &input, 2, 64, &exec);
	if (status == MXFP_OK)
		status = mxfp_softmax(&output, &input, 2, 64, &softmax);
	if (status == MXFP_OK)
		status = mxfp_log_softmax(&output, &input, 2, 64, &softmax);
	if (status == MXFP_OK)
		status = mxfp_rms_norm(&output, &input, 2, 64, &norm);
	if (status == MXFP_OK)
		status = mxfp_layer_norm(&output, &input, 2, 64, &norm);
	if (status == MXFP_OK)
		status = mxfp_add(&output, &input, &input, 2, 64, &exec);
	if (status == MXFP_OK)
		status = mxfp_gate(MXFP_FUNCTION_SILU, &output, &input, NULL, 1, 64, &gate);
	if (status == MXFP_OK)
		status = mxfp_rotary_frequencies(frequencies, NULL, 64, &rotary);
	return status == MXFP_OK ? mxfp_rotate(&output, &input, frequencies, 2, 64, &rotate) : status;
}

enum mxfp_status use_sparse(const float *x, float *y, unsigned char *memory);
enum mxfp_status use_sparse(const float *x, float *y, unsigned char *memory)
{
	struct mxfp_sparse sparse = {.format = MXFP_FORMAT_F32, .rows = 2, .cols = 64, .masks = memory};
	struct mxfp_sparse_sizes sizes;

	sparse.sparsity = *mxfp_sparsity_pattern(0);
	sparse.codes = y;
	enum mxfp_status status = mxfp_sparse_size(sparse.format, sparse.sparsity, sparse.rows, sparse.cols, &sizes);
	if (status == MXFP_OK)
		status = mxfp_sparse_prune(&sparse, NULL, 0, x, 0, NULL);
	if (status == MXFP_OK)
		status = mxfp_sparse_check(&sparse);
	if (status == MXFP_OK)
		status = mxfp_sparse_compress(&sparse, x, 0, NULL);
	return status == MXFP_OK ? mxfp_sparse_expand(&sparse, y + 128, 0, NULL) : status;
}

enum mxfp_status use_sums(const float *x, float *y);
enum mxfp_status use_sums(const float *x, float *y)
{
	const struct mxfp_accumulate_options options = {.first_index = 64};
	const struct mxfp_matrix matrix = {.rows = 2, .cols = 64, .data = x};
	const void *const buffers[2] = {x, y};

	enum mxfp_status status = mxfp_accumulate(&matrix, y, MXFP_FORMAT_F32, 0, &options);
	return status == MXFP_OK ? mxfp_reduce(y, MXFP_FORMAT_F32, buffers, MXFP_FORMAT_F32, 2, 128, &options) : status;
}

enum mxfp_status use_fake_quantization(const float *x, float *y, unsigned char *clamped);
enum mxfp_status use_fake_quantization(const float *x, float *y, unsigned char *clamped)
{
	const struct mxfp_fake_output output = {.data = y, .clamped = clamped};

	return mxfp_fake_quantize(MXFP_FORMAT_MXFP4, &output, x, MXFP_FORMAT_F32, 0, 2, 64, NULL);
}

enum mxfp_status use_products(const float *x, float *y, unsigned char *memory, size_t bytes);
enum mxfp_status use_products(const float *x, float *y, unsigned char *memory, size_t bytes)
{
	const struct mxfp_matrix a = {.format = MXFP_FORMAT_F32, .rows = 1, .cols = 64, .data = x};
	const struct mxfp_matrix w = {.format = MXFP_FORMAT_F32, .rows = 2, .cols = 64, .data = x};
	const struct mxfp_product product = {.size = sizeof product, .a = &a, .w = &w, .c = y};
	const struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = 256};
	struct mxfp_engine_place place;
	uint64_t busy[16];
	struct mxfp_engine engine = {.places = &place, .busy = busy, .n_busy = 16};
	size_t need = 0;

	enum mxfp_status status = mxfp_gemm_workspace_size(&product, 1, &options, &need);
	engine.chip = mxfp_engine_get_chip(0);
	if (status == MXFP_OK)
		status = mxfp_gemm(&product, &options, memory, bytes);
	if (status == MXFP_OK)
		status = mxfp_gemm_grouped(&product, 1, &options, memory, bytes);
	if (status == MXFP_OK)
		status = mxfp_engine_estimate(&product, 1, &options, &engine);
	if (status == MXFP_OK)
		status = mxfp_engine_run(&product, 1, &options, memory, bytes, &engine);
	if (status == MXFP_OK)
		status = mxfp_pack_size(&w, &options, &need);
	return status == MXFP_OK ? mxfp_pack(memory, bytes, &w, &options) : status;
}
