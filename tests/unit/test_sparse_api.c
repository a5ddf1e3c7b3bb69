/* SPDX-License-Identifier: MIT */
/* Argument checks of the functions of mxfp/sparse.h: each status of each, with every output untouched. */
#include <string.h>

#include "format.h"
#include "mxfp/sparse.h"
#include "suite.h"

enum { CANARY = 0xA5, ROWS = 2, COLS = 32, BYTES = 512 };

static uint8_t dense[BYTES], pruned[BYTES], kept[BYTES], masks[BYTES];

/* 4:16 in f32: 2 x 8 kept numbers, 2 x 4 bytes of masks. */
static struct mxfp_sparse matrix(void)
{
	return (struct mxfp_sparse){0, MXFP_FORMAT_F32, {4, 16}, ROWS, COLS, kept, 0, masks, 0};
}

static void set_up(void)
{
	memset(dense, CANARY, BYTES);
	memset(pruned, CANARY, BYTES);
	memset(kept, CANARY, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		masks[i] = i % 2 == 0 ? 0x0F : 0;
}

/* All three functions refuse it with the status and write nothing. */
static void check_all(const struct mxfp_sparse *s, enum mxfp_status want)
{
	uint8_t canaries[BYTES], before[BYTES];

	memset(canaries, CANARY, BYTES);
	memcpy(before, masks, BYTES);
	assert_status(mxfp_sparse_prune(s, pruned, 0, dense, 0, NULL), want);
	assert_status(mxfp_sparse_compress(s, dense, 0, NULL), want);
	assert_status(mxfp_sparse_expand(s, dense, 0, NULL), want);
	ck_assert_mem_eq(pruned, canaries, BYTES);
	ck_assert_mem_eq(kept, canaries, BYTES);
	ck_assert_mem_eq(dense, canaries, BYTES);
	ck_assert_mem_eq(masks, before, BYTES);
	suite_compared(3);
}

TEST(what_is_wrong_in_the_matrix)
{
	static const struct mxfp_sparsity unknown[] = {{0, 0}, {0, 4}, {3, 4}, {4, 4}, {8, 4}, {1, 8}, {4, 0}, {8, 16}};
	struct mxfp_sparse s = matrix();

	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
		s.sparsity = unknown[i];
		check_all(&s, MXFP_ERR_OPTION);
	}
	check_all(NULL, MXFP_ERR_NULL);
	s = matrix();
	s.format = (enum mxfp_format)MXFP_N_FORMATS;
	check_all(&s, MXFP_ERR_FORMAT);
	s = matrix();
	s.masks = NULL;
	check_all(&s, MXFP_ERR_NULL);
	s = matrix();
	s.codes_stride = 7;
	check_all(&s, MXFP_ERR_SIZE);
	s.codes_stride = SIZE_MAX / 2;
	check_all(&s, MXFP_ERR_SIZE);
	s = matrix();
	s.masks_stride = 3;
	check_all(&s, MXFP_ERR_SIZE);
	s = matrix();
	s.rows = SIZE_MAX / 16;
	check_all(&s, MXFP_ERR_SIZE);
	s.rows = 1;
	s.cols = SIZE_MAX;
	check_all(&s, MXFP_ERR_SIZE);
}

TEST(what_is_wrong_beside_it)
{
	struct mxfp_sparse s = matrix();

	assert_status(mxfp_sparse_prune(&s, pruned, 0, NULL, 0, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_prune(&s, pruned, 0, dense, COLS - 1, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_prune(&s, pruned, COLS - 1, dense, 0, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_prune(&s, dense + 4, 0, dense, 0, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_prune(&s, dense, COLS + 1, dense, 0, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_prune(&s, masks, 0, dense, 0, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_prune(&s, NULL, 0, masks, 0, NULL), MXFP_ERR_OVERLAP);
	s.format = MXFP_FORMAT_TF32;
	assert_status(mxfp_sparse_prune(&s, pruned, 0, dense, 0, NULL), MXFP_ERR_FORMAT);
	s.format = MXFP_FORMAT_MXFP4;
	assert_status(mxfp_sparse_prune(&s, pruned, 0, dense, 0, NULL), MXFP_ERR_FORMAT);
	s = matrix();
	assert_status(mxfp_sparse_compress(&s, NULL, 0, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_expand(&s, dense, COLS - 1, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_expand(&s, kept, 0, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_compress(&s, masks, 0, NULL), MXFP_ERR_OVERLAP);
	s.codes = masks;
	assert_status(mxfp_sparse_compress(&s, dense, 0, NULL), MXFP_ERR_OVERLAP);
	s.codes = NULL;
	assert_status(mxfp_sparse_expand(&s, dense, 0, NULL), MXFP_ERR_NULL);
	suite_compared(15);
}

/* Blocks of 32 are whole in a dense row, so that 17 columns need 16 bytes of MXFP4. */
TEST(dense_rows_have_whole_blocks)
{
	struct mxfp_sparse s = matrix();

	s.format = MXFP_FORMAT_MXFP4;
	s.cols = 17;
	assert_status(mxfp_sparse_expand(&s, dense, 15, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_expand(&s, dense, 16, NULL), MXFP_OK);
	suite_compared(2);
}

TEST(sizes_are_refused)
{
	struct mxfp_sparse_sizes sizes;
	const struct mxfp_sparsity p = {1, 2};

	assert_status(mxfp_sparse_size(MXFP_FORMAT_F32, p, 1, 1, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_size((enum mxfp_format)-1, p, 1, 1, &sizes), MXFP_ERR_FORMAT);
	assert_status(mxfp_sparse_size(MXFP_FORMAT_F32, (struct mxfp_sparsity){2, 2}, 1, 1, &sizes), MXFP_ERR_OPTION);
	assert_status(mxfp_sparse_size(MXFP_FORMAT_F32, p, 1, SIZE_MAX, &sizes), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_size(MXFP_FORMAT_F32, p, SIZE_MAX, 3, &sizes), MXFP_ERR_SIZE);
	ck_assert_ptr_null(mxfp_sparsity_pattern(7));
	suite_compared(6);
}

TEST(nothing_is_needed_for_nothing)
{
	struct mxfp_sparse s = {0, MXFP_FORMAT_F32, {4, 16}, 0, COLS, NULL, 0, NULL, 0};

	assert_status(mxfp_sparse_prune(&s, NULL, 0, NULL, 0, NULL), MXFP_OK);
	assert_status(mxfp_sparse_expand(&s, NULL, 0, NULL), MXFP_OK);
	s.rows = 3;
	s.cols = 0;
	assert_status(mxfp_sparse_prune(&s, NULL, 0, NULL, 0, NULL), MXFP_OK);
	assert_status(mxfp_sparse_compress(&s, NULL, 0, NULL), MXFP_OK);
	suite_compared(4);
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = set_up});
}
