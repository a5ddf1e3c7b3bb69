/* SPDX-License-Identifier: MIT */
/*
 * Codes of squares change places: 8 x 8 bytes at a time, in 64-bit lanes of a vector, of which a byte is a code of 8 or 6 bits or
 * those of 4 bits in two rows. A line of each of 32 rows of the result is made before any of it is stored.
 */
#include "tier.h"

#include "body/pack.h"
#include "body/slots.h"
#include "scale.h"

enum {
	SIDE = MXFP_MX_BLOCK,
	LINE_BYTES = 64,
	BYTES = 8,                   /* of a lane, and lanes that are transposed together */
	LANES_64 = SIDE / BYTES,
	GROUPS = LINE_BYTES / BYTES, /* that a line has of what 8 bytes of a column become */
	NIBBLE_ROWS = 2              /* of 4-bit codes in a byte */
};

/* Of one size in every tier, which compilers cut where vectors are shorter. */
typedef uint64_t words __attribute__((vector_size(SIDE)));

/* In each lane, byte k of word i becomes byte i of word k. */
ALWAYS_INLINE void transpose_bytes(words word[BYTES])
{
	static const uint64_t low[] = {0, UINT64_C(0x00FF00FF00FF00FF), UINT64_C(0x0000FFFF0000FFFF), 0, UINT64_C(0x00000000FFFFFFFF)};

	for (int h = BYTES / 2; h != 0; h /= 2)
		for (int i = 0; i < BYTES; i++)
			if ((i & h) == 0) {
				const words change = ((word[i] >> (8 * h)) ^ word[i + h]) & low[h];

				word[i + h] ^= change;
				word[i] ^= change << (8 * h);
			}
}

/* Codes of two rows, those of even columns and then those of odd ones, two in a byte. */
ALWAYS_INLINE words load_nibbles(const uint8_t *even, const uint8_t *odd)
{
	const words shift = {0, 0, 4, 4};
	uint64_t a[2], b[2];

	memcpy(a, even, sizeof a);
	memcpy(b, odd, sizeof b);
	const words low = (words){a[0], a[1], a[0], a[1]} >> shift & UINT64_C(0x0F0F0F0F0F0F0F0F);
	const words high = (words){b[0], b[1], b[0], b[1]} >> shift & UINT64_C(0x0F0F0F0F0F0F0F0F);
	return low | high << 4;
}

ALWAYS_INLINE words load_codes(const uint8_t *row, unsigned bits)
{
	uint8_t codes[SIDE];
	words v;

	unpack_codes(codes, row, SIDE, bits);
	memcpy(&v, codes, sizeof v);
	return v;
}

/* The column of byte k of lane `lane`. */
ALWAYS_INLINE int column_of(int lane, int k, unsigned bits)
{
	if (bits != 4)
		return lane * BYTES + k;
	return lane % 2 * (SIDE / 2) + 2 * k + lane / 2;
}

/* Makes a line, or less at the end, of the 32 columns from `col` on, out of rows from `row` on. */
ALWAYS_INLINE void transpose_line(const struct mxfp_transpose_job *job, size_t row, size_t col, size_t rows, unsigned bits)
{
	static const uint8_t zeros[SIDE];
	const size_t rows_of_byte = bits == 4 ? NIBBLE_ROWS : 1, group_bytes = bits == 6 ? 6 : BYTES;
	const size_t groups = (rows + SIDE - 1) / SIDE * SIDE / (BYTES * rows_of_byte);
	const size_t cols = job->cols - col < SIDE ? job->cols - col : SIDE, n_bytes = groups * group_bytes;
	const uint8_t *src = job->src + row * job->src_stride + col / 8 * bits;
	uint8_t *dst = job->dst + col * job->dst_stride + row / 8 * bits, line[SIDE][LINE_BYTES];

	for (size_t g = 0; g < groups; g++) {
		const uint8_t *at[BYTES * NIBBLE_ROWS];
		words word[BYTES];

		for (size_t i = 0; i < BYTES * rows_of_byte; i++) {
			const size_t from = g * BYTES * rows_of_byte + i;

			at[i] = from < rows ? src + from * job->src_stride : zeros;
		}
		for (size_t i = 0; i < BYTES; i++)
			word[i] = bits == 4 ? load_nibbles(at[2 * i], at[2 * i + 1]) : load_codes(at[i], bits);
		transpose_bytes(word);
		for (int k = 0; k < BYTES; k++)
			for (int lane = 0; lane < LANES_64; lane++) {
				const uint64_t column = bits == 6 ? pack_word(word[k][lane], 6) : word[k][lane];

				memcpy(&line[column_of(lane, k, bits)][g * group_bytes], &column, group_bytes);
			}
	}
	for (size_t j = 0; j < cols; j++, dst += job->dst_stride)
		if (n_bytes == LINE_BYTES)
			memcpy(dst, line[j], LINE_BYTES);
		else
			memcpy(dst, line[j], n_bytes);
}

ALWAYS_INLINE void transpose(const struct mxfp_transpose_job *job, unsigned bits)
{
	const size_t most = bits == 4 ? GROUPS * BYTES * NIBBLE_ROWS : GROUPS * BYTES;

	for (size_t col = 0; col < job->cols; col += SIDE)
		for (size_t row = 0; row < job->rows; row += most)
			transpose_line(job, row, col, job->rows - row < most ? job->rows - row : most, bits);
}

void TIER(transpose)(const struct mxfp_transpose_job *job)
{
	switch (mxfp_format_get_info(mxfp_format_get_info(job->format)->element)->bits) {
	case 4:
		transpose(job, 4);
		break;
	case 6:
		transpose(job, 6);
		break;
	default:
		transpose(job, 8);
		break;
	}
}
