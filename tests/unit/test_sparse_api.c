/* SPDX-License-Identifier: MIT */
/* Sparsity: unknown patterns, what pruning ignores, whole blocks of dense rows, nothing. */
#include <string.h>

#include "format.h"
#include "mxfp/sparse.h"
#include "suite.h"

enum { CANARY = 0xA5, ROWS = 2, COLS = 32, BYTES = 512 };

static uint8_t dense[BYTES], kept[BYTES], masks[BYTES];

/* 4:16 in f32: 2 x 8 kept numbers, 2 x 4 bytes of masks. */
static struct mxfp_sparse matrix(void)
{
	return (struct mxfp_sparse){sizeof(struct mxfp_sparse), MXFP_FORMAT_F32, {4, 16}, ROWS, COLS, kept, 0, masks, 0};
}

static void set_up(void)
{
	memset(dense, CANARY, BYTES);
	memset(kept, CANARY, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		masks[i] = i % 2 == 0 ? 0x0F : 0;
}

TEST(unknown_patterns)
{
	static const struct mxfp_sparsity unknown[] = {{0, 0}, {0, 4}, {3, 4}, {4, 4}, {8, 4}, {1, 8}, {4, 0}, {8, 16}};
	struct mxfp_sparse_sizes sizes;

	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
		assert_status(mxfp_sparse_size(&sizes, MXFP_FORMAT_F32, unknown[i], 1, 1), MXFP_ERR_OPTION);
	ck_assert_ptr_null(mxfp_sparsity_pattern(7));
	suite_compared(9);
}

/* Making masks has nothing to do with codes. */
TEST(pruning_ignores_format_and_codes)
{
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, dense);
	struct mxfp_sparse s = matrix();

	s.format = (enum mxfp_format)MXFP_N_FORMATS;
	s.codes = NULL;
	s.codes_stride = 7;
	memset(dense, 0, BYTES);
	memset(masks, 0, BYTES);
	assert_status(mxfp_sparse_prune(&s, NULL, &src, NULL), MXFP_OK);
	/* Of equal numbers the first of a group of 16. */
	for (size_t i = 0; i < ROWS * COLS / 8; i++)
		ck_assert_uint_eq(masks[i], i % 2 == 0 ? 0x0F : 0);
	suite_compared(1);
}

/* Blocks of 32 are whole in a dense row, so that 17 columns need 16 bytes of MXFP4. */
TEST(dense_rows_have_whole_blocks)
{
	struct mxfp_sparse s = matrix();

	s.format = MXFP_FORMAT_MXFP4;
	s.cols = 17;
	assert_status(mxfp_sparse_expand(dense, 15, &s, NULL), MXFP_ERR_STRIDE);
	assert_status(mxfp_sparse_expand(dense, 16, &s, NULL), MXFP_OK);
	suite_compared(2);
}

TEST(nothing_is_needed_for_nothing)
{
	struct mxfp_sparse s = {sizeof s, MXFP_FORMAT_F32, {4, 16}, 0, COLS, NULL, 0, NULL, 0};
	const struct mxfp_matrix no_rows = mxfp_numbers(MXFP_FORMAT_F32, 0, COLS, NULL);
	const struct mxfp_matrix no_cols = mxfp_numbers(MXFP_FORMAT_F32, 3, 0, NULL);

	assert_status(mxfp_sparse_prune(&s, NULL, &no_rows, NULL), MXFP_OK);
	assert_status(mxfp_sparse_expand(NULL, 0, &s, NULL), MXFP_OK);
	s.rows = 3;
	s.cols = 0;
	assert_status(mxfp_sparse_prune(&s, NULL, &no_cols, NULL), MXFP_OK);
	assert_status(mxfp_sparse_compress(&s, NULL, 0, NULL), MXFP_OK);
	suite_compared(4);
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = set_up});
}
