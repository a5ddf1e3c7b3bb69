/* SPDX-License-Identifier: MIT */
/* Every struct as C++ makes and names it, beside the functions: test_install.sh compiles this as C++11. */
#include <mxfp.h>
#include <mxfp/engine.h>

mxfp_accumulate_options accumulate_options{};
mxfp_add_options add_options{};
mxfp_attention_cache attention_cache{};
mxfp_attention_options attention_options{};
mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, 32, nullptr, nullptr);
mxfp_convert_options convert_options{};
mxfp_counts counts{};
mxfp_engine engine{};
mxfp_engine_chip chip = *mxfp_engine_get_chip(0);
mxfp_engine_place place{};
mxfp_exec exec{};
mxfp_frequency_options frequency_options{};
mxfp_function_options function_options{};
mxfp_gemm_options gemm_options{};
mxfp_gemm_tile tile{};
mxfp_glu_options glu_options{};
mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
mxfp_norm_options norm_options{};
mxfp_optional optional = mxfp_some(7);
mxfp_product product{};
mxfp_quantize_options quantize_options{};
mxfp_result result = mxfp_to_blocks(&blocks);
mxfp_rotary_options rotary_options{};
mxfp_sizes sizes{};
mxfp_softmax_options softmax_options{};
mxfp_sparse sparse{};
mxfp_sparse_sizes sparse_sizes{};
mxfp_sparsity sparsity{};

mxfp_status use()
{
	float x[4] = {1, 2, 3, 4};
	unsigned char codes[4];
	const mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, 4, x);
	const mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_E4M3, codes);

	exec.size = sizeof exec;
	exec.threads = 1;
	convert_options.size = sizeof convert_options;
	return mxfp_convert(&to, &numbers, &convert_options, &exec);
}
