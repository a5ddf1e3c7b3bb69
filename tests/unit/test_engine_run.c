/* SPDX-License-Identifier: MIT */
/* mxfp_engine_run(): the grouped product's bits, and the account of products that were computed. */
#include "mxfp/engine.h"

#include <stdlib.h>
#include <string.h>

#include "suite.h"

enum { M = 33, N = 130, K = 300 };

/* Three W4A8 products of one pair of matrices that hold some of every code; scales of 2^-7 to 2^8. */
TEST(a_run_is_the_grouped_product_with_an_account)
{
	static unsigned char a_codes[M * 320], a_scales[M * 10], w_codes[N * 160], w_scales[N * 10];
	static float expected[3][M * N], results[3][M * N];
	struct mxfp_gemm_options options = {.size = sizeof options, .pass_k = 128};
	struct mxfp_product products[3];
	struct mxfp_result c[3];
	struct mxfp_matrix w[3];
	const struct mxfp_blocks a_blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, M, K, a_codes, a_scales);
	const struct mxfp_matrix a = mxfp_blocks_matrix(&a_blocks);
	struct mxfp_engine_place places[3];
	uint64_t busy[4] = {7, 7, 7, 7};
	struct mxfp_engine engine = {.size = sizeof engine, .cores = 1, .places = places, .busy = busy, .n_busy = 4, .cycles = 7};
	size_t bytes;

	for (size_t i = 0; i < sizeof a_codes; i++)
		a_codes[i] = (unsigned char)(i * 29 % 0x7F);
	for (size_t i = 0; i < sizeof w_codes; i++)
		w_codes[i] = (unsigned char)(i * 37 + i / 160);
	for (size_t i = 0; i < sizeof a_scales; i++)
		a_scales[i] = (unsigned char)(120 + i % 16);
	for (size_t i = 0; i < sizeof w_scales; i++)
		w_scales[i] = (unsigned char)(120 + i * 7 % 16);
	for (size_t i = 0; i < 3; i++) {
		const struct mxfp_blocks w_blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, N - 40 * i, K, w_codes, w_scales);

		w[i] = mxfp_blocks_matrix(&w_blocks);
		c[i] = mxfp_to_numbers(MXFP_FORMAT_F32, expected[i]);
		products[i] = (struct mxfp_product){.size = sizeof products[i], .a = &a, .w = &w[i], .c = &c[i]};
	}
	assert_status(mxfp_gemm_workspace_size(&bytes, products, 3, &options, NULL), MXFP_OK);
	void *workspace = malloc(bytes); /* grows with the threads of this machine */
	ck_assert_ptr_nonnull(workspace);
	assert_status(mxfp_gemm_grouped(NULL, products, 3, &options, workspace, bytes, NULL), MXFP_OK);
	for (size_t i = 0; i < 3; i++)
		c[i].data = results[i];
	ck_assert_int_eq((int)mxfp_engine_run(&engine, NULL, products, 3, &options, workspace, bytes, NULL), (int)MXFP_OK);
	ck_assert_mem_eq(results, expected, sizeof results);
	/* Three tiles of K; 130 columns are a strip of 128 and one of 2; 33 rows wait for 64 columns, not for 2 or 50. */
	ck_assert_uint_eq(busy[0], 64 + 3 * (64 + 33));
	ck_assert_uint_eq(busy[1], 64 + 3 * 64);
	ck_assert_uint_eq(busy[2], 50 + 3 * 50);
	ck_assert_uint_eq(busy[3], 0);
	ck_assert_uint_eq(engine.cycles, busy[0]);
	free(workspace);
	suite_compared(3);
}
