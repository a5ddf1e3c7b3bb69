/* SPDX-License-Identifier: MIT */
/* Every struct as C++ makes and names it, beside the functions: test_install.sh compiles this as C++11. */
#include <mxfp.h>

mxfp_accumulate_options accumulate_options{};
mxfp_blocks blocks{};
mxfp_convert_options convert_options{};
mxfp_counts counts{};
mxfp_engine engine{};
mxfp_engine_chip chip = *mxfp_engine_get_chip(0);
mxfp_engine_place place{};
mxfp_exec exec{};
mxfp_fake_output fake_output{};
mxfp_gemm_options gemm_options{};
mxfp_gemm_tile tile{};
mxfp_product product{};
mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
mxfp_quantize_options quantize_options{};
mxfp_sizes sizes{};
mxfp_sparse sparse{};
mxfp_sparse_sizes sparse_sizes{};
mxfp_sparsity sparsity{};

mxfp_status use()
{
	exec.threads = 1;
	convert_options.exec = &exec;
	float x[4] = {1, 2, 3, 4};
	unsigned char codes[4];
	return mxfp_convert(codes, MXFP_FORMAT_E4M3, x, MXFP_FORMAT_F32, 4, &convert_options);
}
