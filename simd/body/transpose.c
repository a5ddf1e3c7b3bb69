/* SPDX-License-Identifier: MIT */
/*
 * Codes of squares change places, a tile of 64 x 64 bytes at a time: one code of 8 or 6 bits in a byte, or codes of 4 bits in two
 * rows and, in another tile, those of the odd columns. Both sides of a tile are whole cache lines.
 */
#include "tier.h"

#include "body/slots.h"
#include "scale.h"

enum {
	SIDE = MXFP_MX_BLOCK,
	TILE = 64,
	PART = 16, /* bytes of a row that change places together */
	PARTS = TILE / PART,
	ROWS_AT_ONCE = VECTOR_BYTES /* by one vector of columns' bytes */
};

/* Of one size in every tier, which compilers cut where vectors are shorter. */
typedef uint64_t words __attribute__((vector_size(SIDE)));
typedef uint8_t part_bytes __attribute__((vector_size(PART)));

/* Parts of rows: those that a vector has in its parts follow each other. */
typedef uint8_t tile_rows[PARTS][TILE][PART];
typedef uint8_t tile_columns[TILE][TILE];

ALWAYS_INLINE size_t place_of(size_t row)
{
	return row / ROWS_AT_ONCE * ROWS_AT_ONCE + row % PART * (ROWS_AT_ONCE / PART) + row % ROWS_AT_ONCE / PART;
}

/* Bytes of rows r and columns c in every part of vectors: the bits of r and c, one after the other, are rotated. */
ALWAYS_INLINE void rotate(vu8 x[PART])
{
	vu8 from[PART];

	memcpy(from, x, sizeof from);
#pragma GCC unroll 8
	for (size_t i = 0; i < PART / 2; i++) {
		vu16 pair[2];

		interleave_bytes(from[i], from[i + PART / 2], pair);
		x[2 * i] = (vu8)pair[0];
		x[2 * i + 1] = (vu8)pair[1];
	}
}

static NOINLINE void transpose_tile(tile_rows from, tile_columns to)
{
	for (size_t p = 0; p < PARTS; p++)
		for (size_t row = 0; row < TILE; row += ROWS_AT_ONCE) {
			vu8 x[PART];

#pragma GCC unroll 16
			for (size_t i = 0; i < PART; i++)
				x[i] = (vu8)load(from[p][row + i * (ROWS_AT_ONCE / PART)]);
			rotate(x);
			rotate(x);
			rotate(x);
			rotate(x);
#pragma GCC unroll 16
			for (size_t i = 0; i < PART; i++)
				store(&to[p * PART + i][row], (vu32)x[i]);
		}
}

/* 32 codes of 6 bits in bytes. Nothing past them is read. */
ALWAYS_INLINE words load_sixes(const uint8_t *at)
{
	uint64_t word[4];

	for (size_t i = 0; i < 3; i++)
		memcpy(&word[i], at + 6 * i, sizeof word[i]);
	memcpy(&word[3], at + 16, sizeof word[3]);
	words v = {word[0], word[1], word[2], word[3] >> 16};

	v = (v & UINT64_C(0xFFFFFF)) | (v & UINT64_C(0xFFFFFF000000)) << 8;
	v = (v & UINT64_C(0x00000FFF00000FFF)) | (v & UINT64_C(0x00FFF00000FFF000)) << 4;
	return (v & UINT64_C(0x003F003F003F003F)) | (v & UINT64_C(0x0FC00FC00FC00FC0)) << 2;
}

/* Stores such codes. Nothing past them is written. */
ALWAYS_INLINE void store_sixes(uint8_t *to, words v)
{
	v = (v & UINT64_C(0x003F003F003F003F)) | (v >> 2 & UINT64_C(0x0FC00FC00FC00FC0));
	v = (v & UINT64_C(0x00000FFF00000FFF)) | (v >> 4 & UINT64_C(0x00FFF00000FFF000));
	v = (v & UINT64_C(0xFFFFFF)) | (v >> 8 & UINT64_C(0xFFFFFF000000));
	const uint64_t word[] = {v[0], v[1], v[2], v[3] << 16 | v[2] >> 32};

	for (size_t i = 0; i < 3; i++)
		memcpy(to + 6 * i, &word[i], sizeof word[i]);
	memcpy(to + 16, &word[3], sizeof word[3]);
}

/* Asks for what is `distance` bytes further, which need not exist. */
ALWAYS_INLINE void fetch_ahead(const void *at, size_t distance)
{
	__builtin_prefetch((const void *)((uintptr_t)at + distance), 0, 2);
}

/* Loads blocks of 32 codes of a row of a tile. */
ALWAYS_INLINE void load_row(tile_rows to, size_t row, const uint8_t *at, size_t blocks, unsigned bits)
{
	for (size_t i = 0; i < blocks; i++, at += SIDE / 8 * bits) {
		uint8_t codes[SIDE];

		if (bits == 6) {
			const words v = load_sixes(at);

			memcpy(codes, &v, sizeof codes);
		} else {
			memcpy(codes, at, sizeof codes);
		}
		memcpy(to[2 * i][place_of(row)], codes, PART);
		memcpy(to[2 * i + 1][place_of(row)], codes + PART, PART);
	}
}

/* Loads blocks of 32 codes of 4 bits of two rows. */
ALWAYS_INLINE void load_nibbles(tile_rows even, tile_rows odd, size_t pair, const uint8_t *first, const uint8_t *second, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++) {
		part_bytes a, b;

		memcpy(&a, first + i * PART, sizeof a);
		memcpy(&b, second + i * PART, sizeof b);
		const part_bytes e = (a & 0x0F) | b << 4, o = a >> 4 | (b & 0xF0);
		memcpy(even[i][place_of(pair)], &e, sizeof e);
		memcpy(odd[i][place_of(pair)], &o, sizeof o);
	}
}

/* Stores n columns as rows of blocks of 32 codes. */
ALWAYS_INLINE void store_rows(uint8_t *to, size_t stride, tile_columns from, size_t n, size_t blocks, unsigned bits)
{
	const size_t bytes = blocks * SIDE / 8 * bits;

	for (size_t j = 0; j < n; j++, to += stride) {
		fetch_ahead(to, TILE * stride);
		if (bits == 6)
			for (size_t i = 0; i < blocks; i++) {
				words v;

				memcpy(&v, from[j] + i * SIDE, sizeof v);
				store_sixes(to + i * SIDE / 8 * 6, v);
			}
		else if (bytes == TILE)
			memcpy(to, from[j], TILE);
		else
			memcpy(to, from[j], bytes);
	}
}

ALWAYS_INLINE size_t blocks_of(size_t n)
{
	return (n + SIDE - 1) / SIDE;
}

/* The tile, or less at the end, from this row and column on. */
ALWAYS_INLINE void transpose_at(const struct mxfp_transpose_job *job, size_t row, size_t col, size_t side, unsigned bits)
{
	static const uint8_t zeros[TILE];
	const size_t rows = job->rows - row < side ? job->rows - row : side, cols = job->cols - col < side ? job->cols - col : side;
	const uint8_t *src = job->src + row * job->src_stride + col / 8 * bits;
	uint8_t *dst = job->dst + col * job->dst_stride + row / 8 * bits;
	const size_t tile_bytes = side / 8 * bits;
	tile_rows in[2];
	tile_columns out;

	if (rows < side || cols < side)
		memset(in, 0, sizeof in);
	if (bits != 4) {
		for (size_t i = 0; i < rows; i++, src += job->src_stride) {
			fetch_ahead(src, tile_bytes);
			load_row(in[0], i, src, blocks_of(cols), bits);
		}
		transpose_tile(in[0], out);
		store_rows(dst, job->dst_stride, out, cols, blocks_of(rows), bits);
		return;
	}
	for (size_t i = 0; i < rows; i += 2, src += 2 * job->src_stride) {
		fetch_ahead(src, tile_bytes);
		fetch_ahead(src + job->src_stride, tile_bytes);
		load_nibbles(in[0], in[1], i / 2, src, i + 1 < rows ? src + job->src_stride : zeros, blocks_of(cols));
	}
	for (size_t odd = 0; odd < 2; odd++) {
		transpose_tile(in[odd], out);
		store_rows(dst + odd * job->dst_stride, 2 * job->dst_stride, out, (cols + 1 - odd) / 2, blocks_of(rows), bits);
	}
}

ALWAYS_INLINE void transpose(const struct mxfp_transpose_job *job, unsigned bits)
{
	const size_t side = bits == 4 ? 2 * TILE : TILE;

	for (size_t row = 0; row < job->rows; row += side)
		for (size_t col = 0; col < job->cols; col += side)
			transpose_at(job, row, col, side, bits);
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
