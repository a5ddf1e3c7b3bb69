/* SPDX-License-Identifier: MIT */
/* Structured sparsity (doc/numerics.md, section 7): sizes, masks and codes by hand; every pattern and format beside a
   search of all subsets and codes taken bit by bit; masks that must be refused. */
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/matrix.h"
#include "format.h"
#include "mxfp/sparse.h"
#include "suite.h"

enum { PATTERNS = 7, ROWS = 3, COLS = 70, BYTES = 2048, GROUP_MAX = 16 };

static const struct mxfp_sparsity two_of_four = {2, 4};

TEST(sizes_by_hand)
{
	static const struct {
		enum mxfp_format format;
		struct mxfp_sparsity sparsity;
		size_t cols, codes, masks;
	} want[] = {
		{MXFP_FORMAT_MXFP4, {4, 16}, 4096, 512, 512}, /* 256 groups: 1024 codes of 4 bits; 4096 bits */
		{MXFP_FORMAT_MXFP4, {1, 4}, 9, 2, 2},         /* 3 groups: 12 bits; 12 bits */
		{MXFP_FORMAT_MXFP6_E3M2, {2, 4}, 5, 3, 1},    /* 2 groups: 24 bits; 8 bits */
		{MXFP_FORMAT_MXFP8_E4M3, {4, 12}, 13, 8, 3},  /* 2 groups: 8 codes; 24 bits */
		{MXFP_FORMAT_F32, {1, 2}, 3, 8, 1},           /* 2 groups: 2 codes; 4 bits */
		{MXFP_FORMAT_E2M1, {2, 8}, 8, 2, 1},          /* a code a byte */
		{MXFP_FORMAT_BF16, {4, 8}, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct mxfp_sparse_sizes got;

		ck_assert_int_eq(mxfp_sparse_size(&got, want[i].format, want[i].sparsity, 3, want[i].cols), MXFP_OK);
		ck_assert_uint_eq(got.codes_row_bytes, want[i].codes);
		ck_assert_uint_eq(got.masks_row_bytes, want[i].masks);
		ck_assert_uint_eq(got.codes_bytes, 3 * want[i].codes);
		ck_assert_uint_eq(got.masks_bytes, 3 * want[i].masks);
	}
	suite_compared(sizeof want / sizeof want[0]);
}

static struct mxfp_sparse sparse_of(enum mxfp_format format, struct mxfp_sparsity sparsity, size_t rows, size_t cols,
                                    uint8_t *masks)
{
	return (struct mxfp_sparse){
		.size = sizeof(struct mxfp_sparse), .format = format, .sparsity = sparsity, .rows = rows, .cols = cols, .masks = masks,
	};
}

/* Numbers in s->format; without `to`, masks alone. */
static enum mxfp_status prune(const struct mxfp_sparse *s, void *to, size_t to_stride, const void *from, size_t stride)
{
	struct mxfp_matrix src = mxfp_numbers(s->format, s->rows, s->cols, from);
	struct mxfp_result pruned = mxfp_to_numbers(s->format, to);

	src.stride = stride;
	pruned.stride = to_stride;
	return mxfp_sparse_prune(s, to != NULL ? &pruned : NULL, &src, NULL);
}

/* 2:4. Of 1 -3 2 -2: -3, and 2 before -2. Of 0 -0 0 NaN: NaN and the first zero. The last group has one element: its
   padding is kept too. Masks 6, 9, 3. Numbers stay, bit for bit. */
TEST(pruning_by_hand)
{
	const uint32_t src[] = {0x3F800000, 0xC0400000, 0x40000000, 0xC0000000, 0, 0x80000000, 0, 0xFF800001, 0x40A00000};
	const uint32_t want[] = {0, 0xC0400000, 0x40000000, 0, 0, 0, 0, 0xFF800001, 0x40A00000};
	uint32_t pruned[9], in_place[9];
	uint8_t masks[2];
	struct mxfp_sparse s = sparse_of(MXFP_FORMAT_F32, two_of_four, 1, 9, masks);

	ck_assert_int_eq(prune(&s, pruned, 0, src, 0), MXFP_OK);
	ck_assert_mem_eq(pruned, want, sizeof want);
	ck_assert_uint_eq(masks[0], 0x96);
	ck_assert_uint_eq(masks[1], 0x03);
	memcpy(in_place, src, sizeof src);
	memset(masks, 0, sizeof masks);
	ck_assert_int_eq(prune(&s, in_place, 0, in_place, 9), MXFP_OK);
	ck_assert_mem_eq(in_place, want, sizeof want);
	ck_assert_uint_eq(masks[0], 0x96);
	suite_compared(18);
}

/* A signalling NaN of f16 is above Inf and below a quiet one: only the integer counts. */
TEST(magnitudes_are_integers)
{
	const uint16_t src[] = {0xFC00, 0x7C01, 0xFE00, 0x7BFF};
	uint8_t mask;
	struct mxfp_sparse s = sparse_of(MXFP_FORMAT_F16, two_of_four, 1, 4, &mask);

	ck_assert_int_eq(prune(&s, NULL, 0, src, 0), MXFP_OK);
	ck_assert_uint_eq(mask, 0x6);
	suite_compared(4);
}

/* 1:4 of MXFP4, 40 columns: 10 groups that keep codes 1 to 10, of group g element g mod 4. */
TEST(codes_by_hand)
{
	const uint8_t masks[] = {0x21, 0x84, 0x21, 0x84, 0x21}, want[] = {0x21, 0x43, 0x65, 0x87, 0xA9};
	uint8_t dense[32] = {0x01, 0xF0, 0x20, 0x00, 0x00, 0x03, 0x00, 0x40, 0x05, 0x00, 0x60,
	                     0x00, 0x00, 0x07, 0x00, 0x80, 0x09, 0x00, 0xA0, 0x00};
	uint8_t kept[5], back[32], copy[5];
	struct mxfp_sparse s = {
		.size = sizeof s, .format = MXFP_FORMAT_MXFP4, .sparsity = {1, 4}, .rows = 1, .cols = 40, .codes = kept, .masks = copy,
	};

	memcpy(copy, masks, sizeof masks);
	ck_assert_int_eq(mxfp_sparse_compress(&s, dense, 0, NULL), MXFP_OK);
	ck_assert_mem_eq(kept, want, sizeof want);
	memset(back, MATRIX_CANARY, sizeof back);
	ck_assert_int_eq(mxfp_sparse_expand(back, 0, &s, NULL), MXFP_OK);
	dense[1] = 0; /* F, which no mask names */
	ck_assert_mem_eq(back, dense, sizeof dense);
	suite_compared(20);
}

/* Whether a width is tried with the n-th format or pattern: all are, or of a share one in four, others with each. */
static bool is_tried(size_t cols, int n)
{
	return suite_shares() == 1 || (cols + (size_t)n) % 4 == 0;
}

static unsigned bit(const uint8_t *row, size_t i)
{
	return row[i / 8] >> i % 8 & 1U;
}

/* libcheck's assertions write to a file, which takes longer than what there is to compare. */
static void same_bit(unsigned got, unsigned want)
{
	if (got != want)
		ck_abort_msg("a bit is %u instead of %u", got, want);
}

static unsigned ones(uint32_t x)
{
	unsigned n = 0;

	for (int i = 0; i < 32; i++)
		n += x >> i & 1;
	return n;
}

/* Of all subsets of n that no element outside beats, the one whose places sum to the least. The next subset with as many elements
   has the lowest run of ones moved up by its end, and the rest of it at the bottom. */
static uint32_t best_subset(const uint32_t *magnitude, struct mxfp_sparsity s)
{
	uint32_t best = 0;
	unsigned best_sum = UINT32_MAX;

	for (uint32_t subset = (UINT32_C(1) << s.n) - 1, lowest, carried; subset < UINT32_C(1) << s.m;
	     lowest = subset & -subset, carried = subset + lowest, subset = (carried ^ subset) / lowest >> 2 | carried) {
		uint32_t least_in = UINT32_MAX, most_out = 0;
		unsigned sum = 0;

		for (unsigned i = 0; i < s.m; i++) {
			bool in = subset >> i & 1;
			sum += in ? i : 0;
			least_in = in && magnitude[i] < least_in ? magnitude[i] : least_in;
			most_out = !in && magnitude[i] > most_out ? magnitude[i] : most_out;
		}
		if (least_in >= most_out && sum < best_sum) {
			best = subset;
			best_sum = sum;
		}
	}
	return best;
}

/* Numbers of which many have the same magnitude, in the 16 or 32 high bits. */
static uint32_t any_number(struct random *r)
{
	static const uint32_t few[] = {0, 0x80000000, 0x3F800000, 0xBF800000, 0x7FC00000, 0x7F800000};

	return random_below(r, 3) != 0 ? few[random_below(r, 6)] : random_f32(r);
}

/* Magnitude bits of number i, which has `width` bytes. */
static uint32_t magnitude_of(const uint8_t *row, size_t width, size_t i)
{
	uint32_t word;
	uint16_t half;

	if (width == sizeof half) {
		memcpy(&half, row + i * width, width);
		return half & 0x7FFFU;
	}
	memcpy(&word, row + i * width, width);
	return word & 0x7FFFFFFF;
}

/* One row beside the search. */
static void check_pruned_row(const struct mxfp_sparse *s, const uint8_t *src, const uint8_t *pruned,
                             const uint8_t *masks)
{
	const size_t width = mxfp_format_get_info(s->format)->storage_bytes;
	static const uint8_t zero[4];
	uint32_t magnitude[COLS + GROUP_MAX] = {0}, want = 0;

	for (size_t k = 0; k < s->cols; k++)
		magnitude[k] = magnitude_of(src, width, k);
	for (size_t k = 0; k < s->cols || k % s->sparsity.m != 0; k++) {
		if (k % s->sparsity.m == 0)
			want = best_subset(magnitude + k, s->sparsity);
		bool in = want >> k % s->sparsity.m & 1;
		same_bit(bit(masks, k), in);
		if (k < s->cols)
			ck_assert_mem_eq(pruned + k * width, in ? src + k * width : zero, width);
	}
}

/* One matrix beside the search. */
static void check_pruning(struct random *r, enum mxfp_format format, struct mxfp_sparsity p, size_t cols)
{
	const size_t width = mxfp_format_get_info(format)->storage_bytes, gap = random_below(r, 3);
	uint8_t src[BYTES], pruned[BYTES], masks[BYTES];
	struct mxfp_sparse s = sparse_of(format, p, ROWS, cols, masks);
	struct mxfp_sparse_sizes sizes;

	ck_assert_int_eq(mxfp_sparse_size(&sizes, format, p, ROWS, cols), MXFP_OK);
	s.masks_stride = sizes.masks_row_bytes + gap;
	memset(src, MATRIX_CANARY, sizeof src);
	memset(pruned, MATRIX_CANARY, sizeof pruned);
	memset(masks, MATRIX_CANARY, sizeof masks);
	for (size_t i = 0; i < ROWS * (cols + gap); i++) {
		uint32_t word = any_number(r) >> (32 - 8 * width);
		uint16_t half = (uint16_t)word;
		memcpy(src + i * width, width == 4 ? (void *)&word : (void *)&half, width);
	}
	ck_assert_int_eq(prune(&s, pruned, cols + gap, src, cols + gap), MXFP_OK);
	for (size_t row = 0; row < ROWS; row++) {
		const size_t at = row * (cols + gap) * width;
		check_pruned_row(&s, src + at, pruned + at, masks + row * s.masks_stride);
	}
	matrix_check_gaps(masks, ROWS * s.masks_stride + 1, sizes.masks_row_bytes, s.masks_stride);
	matrix_check_gaps(pruned, ROWS * (cols + gap) * width + 1, cols * width, (cols + gap) * width);
	suite_compared(ROWS * cols);
}

TEST_LOOP(pruning_equals_a_search_of_all_subsets, PATTERNS)
{
	static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	const struct mxfp_sparsity *p = mxfp_sparsity_pattern((size_t)_i);
	struct random r = {suite_seed() + (uint64_t)_i};

	ck_assert_ptr_nonnull(p);
	for (int f = 0; f < 3; f++)
		for (size_t cols = 1; cols < 35; cols++)
			if (is_tried(cols, f + _i))
				check_pruning(&r, numbers[f], *p, cols);
}

/* Masks that prune() could have made. */
static void make_masks(struct random *r, const struct mxfp_sparse *s)
{
	const size_t groups = (s->cols + s->sparsity.m - 1) / s->sparsity.m;
	const struct mxfp_sparse made = {sizeof made, MXFP_FORMAT_F32, s->sparsity, s->rows, s->cols, NULL, 0, s->masks,
	                                 s->masks_stride};
	uint32_t src[ROWS * (COLS + GROUP_MAX)];

	for (size_t i = 0; i < ROWS * groups * s->sparsity.m; i++)
		src[i] = any_number(r);
	ck_assert_int_eq(prune(&made, NULL, 0, src, 0), MXFP_OK);
}

/* One row: kept codes are those of the dense row that the mask names, and come back; the others are 0. */
static void check_row_of_codes(const struct mxfp_sparse *s, size_t bits, const uint8_t *dense, const uint8_t *kept,
                               const uint8_t *back, const uint8_t *mask)
{
	size_t groups = (s->cols + s->sparsity.m - 1) / s->sparsity.m, at = 0;

	for (size_t i = 0; i < groups * s->sparsity.m * bits; i++) {
		const size_t k = i / bits;
		const bool in = bit(mask, k) != 0;
		const unsigned want = in && k < s->cols ? bit(dense, i) : 0;

		if (k < s->cols)
			same_bit(bit(back, i), want);
		if (in)
			same_bit(bit(kept, at++), want);
	}
	for (; at % 8 != 0; at++)
		same_bit(bit(kept, at), 0);
}

/* The padding of the last block. */
static void check_padding(const uint8_t *row, size_t first_bit, size_t end_bit)
{
	for (; first_bit < end_bit; first_bit++)
		same_bit(bit(row, first_bit), 0);
}

/* Random codes compressed and expanded, beside codes taken bit by bit. */
static void check_codes(struct random *r, enum mxfp_format format, struct mxfp_sparsity p, size_t cols)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const bool block = info->kind == MXFP_KIND_BLOCK;
	const size_t bits = block ? mxfp_format_get_info(info->element)->bits : 8 * info->storage_bytes;
	const size_t unit = block ? 1 : info->storage_bytes, gap = random_below(r, 3);
	const size_t length = block ? info->block_length : 1;
	const size_t dense_row = (cols + length - 1) / length * length * bits / 8, stride = dense_row + gap * unit;
	static uint8_t dense[BYTES], kept[BYTES], masks[BYTES], back[BYTES];
	struct mxfp_sparse_sizes sizes;

	ck_assert_int_eq(mxfp_sparse_size(&sizes, format, p, ROWS, cols), MXFP_OK);
	struct mxfp_sparse s = {sizeof s, format, p, ROWS, cols, kept, sizes.codes_row_bytes / unit + gap, masks,
	                        sizes.masks_row_bytes + gap};
	make_masks(r, &s);
	for (size_t i = 0; i < BYTES; i++)
		dense[i] = (uint8_t)random_u64(r);
	memset(kept, MATRIX_CANARY, BYTES);
	memset(back, MATRIX_CANARY, BYTES);
	ck_assert_int_eq(mxfp_sparse_compress(&s, dense, stride / unit, NULL), MXFP_OK);
	ck_assert_int_eq(mxfp_sparse_expand(back, stride / unit, &s, NULL), MXFP_OK);
	for (size_t row = 0; row < ROWS; row++) {
		check_row_of_codes(&s, bits, dense + row * stride, kept + row * s.codes_stride * unit, back + row * stride,
		                   masks + row * s.masks_stride);
		check_padding(back + row * stride, cols * bits, 8 * dense_row);
	}
	matrix_check_gaps(kept, ROWS * s.codes_stride * unit + 1, sizes.codes_row_bytes, s.codes_stride * unit);
	matrix_check_gaps(back, ROWS * stride + 1, dense_row, stride);
	suite_compared(2 * ROWS * cols);
}

TEST_LOOP(codes_equal_those_taken_bit_by_bit, PATTERNS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int f = 0; f < MXFP_N_FORMATS; f++)
		for (size_t cols = 1; cols < COLS; cols++)
			if (is_tried(cols, f + _i))
				check_codes(&r, (enum mxfp_format)f, *mxfp_sparsity_pattern((size_t)_i), cols);
}

/* Compressing and expanding refuse the masks and write nothing. */
static void check_refusal(struct mxfp_sparse *s, enum mxfp_status status)
{
	uint8_t dense[64], kept[64], want[64];

	memset(dense, MATRIX_CANARY, sizeof dense);
	memset(kept, MATRIX_CANARY, sizeof kept);
	memset(want, MATRIX_CANARY, sizeof want);
	s->codes = kept;
	const enum mxfp_status compressed = mxfp_sparse_compress(s, dense, 0, NULL);
	const bool kept_is_same = memcmp(kept, want, sizeof want) == 0;
	memset(dense, MATRIX_CANARY, sizeof dense);
	const enum mxfp_status expanded = mxfp_sparse_expand(dense, 0, s, NULL);
	if (compressed != status || expanded != status ||
	    (status != MXFP_OK && (!kept_is_same || memcmp(dense, want, sizeof want) != 0)))
		ck_abort_msg("status %d and %d instead of %d, or something was written", (int)compressed, (int)expanded, (int)status);
	suite_compared(2);
}

/* Every mask of a last group of r elements, or some: right are n bits among the first max(r, n), and nothing after them. */
TEST_LOOP(every_mask_of_a_short_group, PATTERNS)
{
	const struct mxfp_sparsity p = *mxfp_sparsity_pattern((size_t)_i);
	uint8_t masks[3] = {0};

	for (size_t r = 1; r <= p.m; r++)
		for (uint32_t mask = 0; mask < UINT32_C(1) << (p.m < 8 ? 8 : p.m); mask += suite_shares() > 1 ? 7 : 1) {
			struct mxfp_sparse s = sparse_of(MXFP_FORMAT_E4M3, p, 1, r, masks);
			bool right = ones(mask) == p.n && mask >> (r > p.n ? r : p.n) == 0;
			masks[0] = (uint8_t)mask;
			masks[1] = (uint8_t)(mask >> 8);
			check_refusal(&s, right ? MXFP_OK : MXFP_ERR_MASK);
		}
}

/* One wrong bit anywhere in the second row, spare bits included. */
TEST_LOOP(every_flipped_bit_is_found, PATTERNS)
{
	const struct mxfp_sparsity p = *mxfp_sparsity_pattern((size_t)_i);
	struct random r = {suite_seed()};

	for (size_t cols = 1; cols < 30; cols++) {
		uint8_t masks[64];
		struct mxfp_sparse_sizes sizes;
		struct mxfp_sparse s = sparse_of(MXFP_FORMAT_E2M1, p, 2, cols, masks);
		if (!is_tried(cols, _i))
			continue;
		mxfp_sparse_size(&sizes, s.format, p, 2, cols);
		make_masks(&r, &s);
		for (size_t i = 0; i < 8 * sizes.masks_row_bytes; i++) {
			masks[sizes.masks_row_bytes + i / 8] ^= (uint8_t)(1U << i % 8);
			check_refusal(&s, MXFP_ERR_MASK);
			masks[sizes.masks_row_bytes + i / 8] ^= (uint8_t)(1U << i % 8);
		}
		check_refusal(&s, MXFP_OK);
	}
}
