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
	return (struct mxfp_sparse){sizeof(struct mxfp_sparse), MXFP_FORMAT_F32, {4, 16}, ROWS, COLS, kept, 0, masks, 0};
}

static void set_up(void)
{
	memset(dense, CANARY, BYTES);
	memset(pruned, CANARY, BYTES);
	memset(kept, CANARY, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		masks[i] = i % 2 == 0 ? 0x0F : 0;
}

/* Of ROWS x COLS numbers in f32; without `to`, masks alone. */
static enum mxfp_status prune(const struct mxfp_sparse *s, void *to, size_t to_stride, const void *from, size_t stride)
{
	struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, from);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, to);

	src.stride = stride;
	result.stride = to_stride;
	return mxfp_sparse_prune(s, to != NULL ? &result : NULL, &src, NULL);
}

static void check_nothing_written(const uint8_t *masks_before)
{
	uint8_t canaries[BYTES];

	memset(canaries, CANARY, BYTES);
	ck_assert_mem_eq(pruned, canaries, BYTES);
	ck_assert_mem_eq(kept, canaries, BYTES);
	ck_assert_mem_eq(dense, canaries, BYTES);
	ck_assert_mem_eq(masks, masks_before, BYTES);
}

/* The functions that have to do with codes refuse it with the status and write nothing. */
static void check_codes(const struct mxfp_sparse *s, enum mxfp_status want)
{
	uint8_t before[BYTES];

	memcpy(before, masks, BYTES);
	assert_status(mxfp_sparse_check(s), want);
	assert_status(mxfp_sparse_compress(s, dense, 0, NULL), want);
	assert_status(mxfp_sparse_expand(dense, 0, s, NULL), want);
	check_nothing_written(before);
	suite_compared(3);
}

/* And all functions. */
static void check_all(const struct mxfp_sparse *s, enum mxfp_status want)
{
	uint8_t before[BYTES];

	memcpy(before, masks, BYTES);
	assert_status(prune(s, pruned, 0, dense, 0), want);
	check_nothing_written(before);
	check_codes(s, want);
	suite_compared(1);
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
	s.size = 0;
	check_all(&s, MXFP_ERR_VERSION);
	s = matrix();
	s.format = (enum mxfp_format)MXFP_N_FORMATS;
	check_codes(&s, MXFP_ERR_FORMAT);
	s = matrix();
	s.masks = NULL;
	check_all(&s, MXFP_ERR_NULL);
	s = matrix();
	s.codes_stride = 7;
	check_codes(&s, MXFP_ERR_STRIDE);
	s.codes_stride = SIZE_MAX / 2;
	check_codes(&s, MXFP_ERR_SIZE);
	s = matrix();
	s.masks_stride = 3;
	check_all(&s, MXFP_ERR_STRIDE);
	s = matrix();
	s.rows = SIZE_MAX / 16;
	check_all(&s, MXFP_ERR_SIZE);
	s.rows = 1;
	s.cols = SIZE_MAX;
	check_all(&s, MXFP_ERR_SIZE);
}

TEST(what_is_wrong_beside_it)
{
	const struct mxfp_exec no_tier = {.size = sizeof no_tier, .isa = "none"}, no_size = {.threads = 1};
	const struct mxfp_matrix good = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, dense);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, pruned);
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_result r = result;
	struct mxfp_matrix m = good;
	struct mxfp_sparse s = matrix();

	assert_status(mxfp_sparse_prune(&s, &result, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_prune(&s, &result, &good, &no_tier), MXFP_ERR_ISA);
	assert_status(mxfp_sparse_prune(&s, &result, &good, &no_size), MXFP_ERR_VERSION);
	assert_status(mxfp_sparse_compress(&s, dense, 0, &no_tier), MXFP_ERR_ISA);
	assert_status(mxfp_sparse_expand(dense, 0, &s, &no_tier), MXFP_ERR_ISA);
	m.format = MXFP_FORMAT_TF32;
	assert_status(mxfp_sparse_prune(&s, NULL, &m, NULL), MXFP_ERR_FORMAT);
	m.format = MXFP_FORMAT_MXFP4;
	assert_status(mxfp_sparse_prune(&s, NULL, &m, NULL), MXFP_ERR_FORMAT);
	m.format = MXFP_FORMAT_BF16; /* and the result in f32 */
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_FORMAT);
	m = good;
	m.transposed = true;
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_FORMAT);
	m = good;
	m.sparsity = s.sparsity;
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_FORMAT);
	m = good;
	m.size = 0;
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_VERSION);
	m = good;
	m.rows++;
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_SHAPE);
	m = good;
	m.cols--;
	assert_status(mxfp_sparse_prune(&s, &result, &m, NULL), MXFP_ERR_SHAPE);
	r.size = 0;
	assert_status(mxfp_sparse_prune(&s, &r, &good, NULL), MXFP_ERR_VERSION);
	r = result;
	r.counts = &counts;
	assert_status(mxfp_sparse_prune(&s, &r, &good, NULL), MXFP_ERR_OPTION);
	r = result;
	r.clamped = kept;
	assert_status(mxfp_sparse_prune(&s, &r, &good, NULL), MXFP_ERR_OPTION);
	assert_status(prune(&s, pruned, 0, NULL, 0), MXFP_ERR_NULL);
	assert_status(prune(&s, pruned, 0, dense, COLS - 1), MXFP_ERR_STRIDE);
	assert_status(prune(&s, pruned, COLS - 1, dense, 0), MXFP_ERR_STRIDE);
	assert_status(prune(&s, dense + 4, 0, dense, 0), MXFP_ERR_OVERLAP);
	assert_status(prune(&s, dense, COLS + 1, dense, 0), MXFP_ERR_OVERLAP);
	assert_status(prune(&s, masks, 0, dense, 0), MXFP_ERR_OVERLAP);
	assert_status(prune(&s, NULL, 0, masks, 0), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_compress(&s, NULL, 0, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_expand(dense, COLS - 1, &s, NULL), MXFP_ERR_STRIDE);
	assert_status(mxfp_sparse_expand(kept, 0, &s, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sparse_compress(&s, masks, 0, NULL), MXFP_ERR_OVERLAP);
	s.codes = masks;
	assert_status(mxfp_sparse_compress(&s, dense, 0, NULL), MXFP_ERR_OVERLAP);
	s.codes = NULL;
	assert_status(mxfp_sparse_expand(dense, 0, &s, NULL), MXFP_ERR_NULL);
	suite_compared(29);
}

/* Making masks has nothing to do with codes. */
TEST(pruning_ignores_format_and_codes)
{
	struct mxfp_sparse s = matrix();

	s.format = (enum mxfp_format)MXFP_N_FORMATS;
	s.codes = NULL;
	s.codes_stride = 7;
	memset(dense, 0, BYTES);
	memset(masks, 0, BYTES);
	assert_status(prune(&s, NULL, 0, dense, 0), MXFP_OK);
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

TEST(sizes_are_refused)
{
	struct mxfp_sparse_sizes sizes;
	const struct mxfp_sparsity p = {1, 2};

	assert_status(mxfp_sparse_size(NULL, MXFP_FORMAT_F32, p, 1, 1), MXFP_ERR_NULL);
	assert_status(mxfp_sparse_size(&sizes, (enum mxfp_format)-1, p, 1, 1), MXFP_ERR_FORMAT);
	assert_status(mxfp_sparse_size(&sizes, MXFP_FORMAT_F32, (struct mxfp_sparsity){2, 2}, 1, 1), MXFP_ERR_OPTION);
	assert_status(mxfp_sparse_size(&sizes, MXFP_FORMAT_F32, p, 1, SIZE_MAX), MXFP_ERR_SIZE);
	assert_status(mxfp_sparse_size(&sizes, MXFP_FORMAT_F32, p, SIZE_MAX, 3), MXFP_ERR_SIZE);
	ck_assert_ptr_null(mxfp_sparsity_pattern(7));
	suite_compared(6);
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
