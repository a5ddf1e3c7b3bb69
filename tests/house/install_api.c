/* SPDX-License-Identifier: MIT */
/* Calls everything that is public, with the warnings of test_install.sh: it compiles, and nothing else is asked of it. */
#include <mxfp.h>
#include <mxfp/engine.h>

static void run(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument)
{
	(void)context;
	for (size_t i = 0; i < n; i++)
		task(argument, i);
}

int use_facts(void);
int use_facts(void)
{
	enum mxfp_format format = MXFP_FORMAT_F32;
	int value = 0;

	return mxfp_format_get_info(MXFP_FORMAT_MXFP4)->block_length == 32 &&
	       mxfp_format_from_name(&format, "nvfp4") == MXFP_OK && mxfp_isa_name(0) != NULL &&
	       mxfp_isa_available() != 0 && mxfp_isa_active() >= 0 && mxfp_isa_lacks(0, 0) == NULL &&
	       mxfp_option_name(MXFP_OPTION_ROUND, MXFP_ROUND_SR) != NULL &&
	       mxfp_option_meaning(MXFP_OPTION_RULE, MXFP_RULE_RCEIL) != NULL &&
	       mxfp_option_from_name(&value, MXFP_OPTION_ACC, "exact") == MXFP_OK && mxfp_version() != NULL &&
	       mxfp_build_info() != NULL && mxfp_status_text(MXFP_OK) != NULL && mxfp_philox_word(1, 2, 3) != 0 &&
	       MXFP_VERSION >= MXFP_VERSION_MAJOR * 1000000 + MXFP_VERSION_MINOR * 1000 + MXFP_VERSION_PATCH;
}

enum mxfp_status use_blocks(const float *x, float *y, unsigned char *memory);
enum mxfp_status use_blocks(const float *x, float *y, unsigned char *memory)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 2, .isa = "ref", .run = run};
	const struct mxfp_convert_options convert = {.size = sizeof convert, .round = MXFP_ROUND_SR, .seed = 1};
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .rule = MXFP_RULE_RCEIL};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 64, 64, x);
	const struct mxfp_result numbers = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 64, 64, memory, NULL);
	struct mxfp_blocks transposed = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 64, 64, memory + 4096, memory + 8192);
	struct mxfp_result result = mxfp_to_blocks(&blocks);
	struct mxfp_sizes sizes;
	float amax = 0;

	enum mxfp_status status = mxfp_blocks_size(&sizes, blocks.format, blocks.rows, blocks.cols);
	blocks.scales = memory + sizes.codes_bytes;
	result.counts = &counts;
	if (status == MXFP_OK)
		status = mxfp_amax(&amax, &source, &exec);
	if (status == MXFP_OK)
		status = mxfp_quantize(&result, &source, &quantize, &exec);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	if (status == MXFP_OK)
		status = mxfp_dequantize(&numbers, &matrix, &exec);
	if (status == MXFP_OK)
		status = mxfp_blocks_transpose(&transposed, &matrix, &exec);
	if (status == MXFP_OK)
		status = mxfp_convert(&numbers, &source, &convert, &exec);
	return status == MXFP_OK ? mxfp_convert_array(memory, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, 128, NULL, NULL) : status;
}

enum mxfp_status use_functions(const float *x, float *y);
enum mxfp_status use_functions(const float *x, float *y)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix input = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_BF16, y);
	const struct mxfp_function_options options = {.size = sizeof options, .parameter = mxfp_some(1.702F)};

	return mxfp_function_apply(&output, MXFP_FUNCTION_SILU, &input, &options, &exec);
}

enum mxfp_status use_rows(const float *x, float *y);
enum mxfp_status use_rows(const float *x, float *y)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix input = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x), weight = mxfp_numbers(MXFP_FORMAT_F32, 1, 64, x);
	const struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .rule = MXFP_RULE_RCEIL};
	const struct mxfp_softmax_options softmax = {.size = sizeof softmax, .scale = {true, 0.125F}, .quantize = &quantize};
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 1e-5, .weight = &weight};
	const struct mxfp_add_options add = {.size = sizeof add};
	const struct mxfp_glu_options glu = {.size = sizeof glu, .limit = {true, 7}};
	const struct mxfp_rotary_options rotary = {.size = sizeof rotary};
	const struct mxfp_frequency_options frequency = {.size = sizeof frequency, .base = 10000};
	float frequencies[32], sums[2];
	size_t largest[2];

	enum mxfp_status status = mxfp_rows_reduce(sums, MXFP_REDUCTION_SUM, &input, &exec);
	if (status == MXFP_OK)
		status = mxfp_rows_argmax(largest, &input, &exec);
	if (status == MXFP_OK)
		status = mxfp_softmax(&output, &input, &softmax, &exec);
	if (status == MXFP_OK)
		status = mxfp_log_softmax(&output, &input, &softmax, &exec);
	if (status == MXFP_OK)
		status = mxfp_rms_norm(&output, &input, &norm, &exec);
	if (status == MXFP_OK)
		status = mxfp_layer_norm(&output, &input, &norm, &exec);
	if (status == MXFP_OK)
		status = mxfp_rows_add(&output, &input, &input, &add, &exec);
	if (status == MXFP_OK)
		status = mxfp_glu(&output, MXFP_FUNCTION_SILU, &input, NULL, &glu, &exec);
	if (status == MXFP_OK)
		status = mxfp_rotary_frequencies(frequencies, NULL, 64, &frequency);
	return status == MXFP_OK ? mxfp_rotary(&output, &input, frequencies, &rotary, &exec) : status;
}

enum mxfp_status use_sparse(const float *x, float *y, unsigned char *memory);
enum mxfp_status use_sparse(const float *x, float *y, unsigned char *memory)
{
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result pruned = mxfp_to_numbers(MXFP_FORMAT_F32, y + 128);
	struct mxfp_sparse sparse = {.size = sizeof sparse, .format = MXFP_FORMAT_F32, .rows = 2, .cols = 64, .masks = memory};
	struct mxfp_sparse_sizes sizes;

	sparse.sparsity = *mxfp_sparsity_pattern(0);
	sparse.codes = y;
	enum mxfp_status status = mxfp_sparse_size(&sizes, sparse.format, sparse.sparsity, sparse.rows, sparse.cols);
	if (status == MXFP_OK)
		status = mxfp_sparse_prune(&sparse, &pruned, &source, NULL);
	if (status == MXFP_OK)
		status = mxfp_sparse_check(&sparse);
	if (status == MXFP_OK)
		status = mxfp_sparse_compress(&sparse, x, 0, NULL);
	return status == MXFP_OK ? mxfp_sparse_expand(y + 128, 0, &sparse, NULL) : status;
}

enum mxfp_status use_sums(const float *x, float *y);
enum mxfp_status use_sums(const float *x, float *y)
{
	const struct mxfp_accumulate_options options = {.size = sizeof options, .first_index = 64};
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result sum = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const void *const terms[2] = {x, y};

	enum mxfp_status status = mxfp_accumulate(&sum, &matrix, &options, NULL);
	if (status == MXFP_OK)
		status = mxfp_sum_arrays(y, MXFP_FORMAT_F32, terms, 2, MXFP_FORMAT_F32, 128, &options, NULL);
	return status;
}

enum mxfp_status use_fake_quantization(const float *x, float *y, unsigned char *clamped);
enum mxfp_status use_fake_quantization(const float *x, float *y, unsigned char *clamped)
{
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result output = {.size = sizeof output, .data = y, .clamped = clamped};

	return mxfp_fake_quantize(&output, MXFP_FORMAT_MXFP4, &source, NULL, NULL);
}

enum mxfp_status use_products(const float *x, float *y, unsigned char *memory, size_t bytes);
enum mxfp_status use_products(const float *x, float *y, unsigned char *memory, size_t bytes)
{
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, 1, 64, x), w = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = &a, .w = &w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = 256};
	struct mxfp_engine_place place;
	uint64_t busy[16];
	struct mxfp_engine engine = {.size = sizeof engine, .places = &place, .busy = busy, .n_busy = 16};
	size_t need = 0;

	enum mxfp_status status = mxfp_gemm_workspace_size(&need, &product, 1, &options, NULL);
	engine.chip = mxfp_engine_get_chip(0);
	if (status == MXFP_OK)
		status = mxfp_gemm(&product, &options, memory, bytes, NULL);
	if (status == MXFP_OK)
		status = mxfp_gemm_grouped(NULL, &product, 1, &options, memory, bytes, NULL);
	if (status == MXFP_OK)
		status = mxfp_engine_estimate(&engine, NULL, &product, 1, &options);
	if (status == MXFP_OK)
		status = mxfp_engine_run(&engine, NULL, &product, 1, &options, memory, bytes, NULL);
	if (status == MXFP_OK)
		status = mxfp_pack_size(&need, &w, &options, NULL);
	return status == MXFP_OK ? mxfp_pack(memory, bytes, &w, &options, NULL) : status;
}

enum mxfp_status use_attention(const float *x, float *y, unsigned char *memory, size_t bytes);
enum mxfp_status use_attention(const float *x, float *y, unsigned char *memory, size_t bytes)
{
	const struct mxfp_matrix rows = mxfp_numbers(MXFP_FORMAT_F32, 2, 64, x);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_attention_options options = {.size = sizeof options, .scale = mxfp_some(0.25F), .window = 2};
	struct mxfp_attention_cache cache = {.size = sizeof cache, .heads = 4, .head_cols = 16, .capacity = 2, .memory = memory};
	size_t need = 0;

	enum mxfp_status status = mxfp_attention_cache_size(&cache.memory_bytes, &cache);
	if (status == MXFP_OK)
		status = mxfp_attention_store(&cache, 0, &rows, &rows, NULL);
	if (status == MXFP_OK)
		status = mxfp_attention_workspace_size(&need, &cache, 0, 4, 2, &options, NULL);
	memory += cache.memory_bytes;
	bytes -= cache.memory_bytes;
	return status == MXFP_OK ? mxfp_attention(&result, &rows, &cache, 0, &options, memory, bytes, NULL) : status;
}
