/* SPDX-License-Identifier: MIT */
#include "oracle/matrix.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_mx.h"

void *matrix_allocate(size_t bytes)
{
	void *p = malloc(bytes != 0 ? bytes : 1);

	ck_assert_ptr_nonnull(p);
	memset(p, MATRIX_CANARY, bytes);
	return p;
}

struct matrix matrix_of(enum mxfp_format format, size_t rows, size_t cols, size_t gap)
{
	struct matrix m = {.rows = rows, .cols = cols, .stride = cols + gap, .src_format = MXFP_FORMAT_F32};
	struct mxfp_sizes size;

	ck_assert_int_eq((int)mxfp_blocks_size(&size, format, rows, cols), (int)MXFP_OK);
	m.blocks = (struct mxfp_blocks){
		.size = sizeof m.blocks,
		.format = format,
		.rows = rows,
		.cols = cols,
		.codes_stride = size.codes_row_bytes + gap,
		.scales_stride = size.scales_row_bytes + gap,
	};
	m.codes_bytes = rows * m.blocks.codes_stride + 1;
	m.scales_bytes = rows * m.blocks.scales_stride + 1;
	m.blocks.codes = matrix_allocate(m.codes_bytes);
	m.blocks.scales = matrix_allocate(m.scales_bytes);
	m.src = matrix_allocate(rows * m.stride * 4);
	return m;
}

void matrix_free(struct matrix *m)
{
	free(m->src);
	free(m->blocks.codes);
	free(m->blocks.scales);
}

uint32_t matrix_element(const struct matrix *m, size_t row, size_t col)
{
	size_t i = row * m->stride + col;
	uint16_t half;
	uint32_t word;

	if (m->src_format == MXFP_FORMAT_F32) {
		memcpy(&word, (const uint8_t *)m->src + 4 * i, 4);
		return word;
	}
	memcpy(&half, (const uint8_t *)m->src + 2 * i, 2);
	return oracle_decode(mxfp_format_get_info(m->src_format), half);
}

uint32_t matrix_generated(struct random *r, int shape, int top, size_t i)
{
	int low = top - 12 < -126 ? -126 : top - 12;

	switch (shape) {
	case 0: /* a spread of exponents */
		return random_f32_between(r, low, top);
	case 1: /* all of nearly one size */
		return random_f32_between(r, top, top);
	case 2: /* short significands: ties and exact values */
		return random_f32_between(r, low, top) & UINT32_C(0xFFF00000);
	case 3: /* one outlier */
		return i == 5 ? random_f32_between(r, top, top) : random_f32_between(r, low, low + 2);
	case 4: /* zeros of both signs, and a few numbers */
		return i % 7 == 3 ? random_f32_between(r, low, top) : (uint32_t)random_u64(r) & F32_SIGN;
	case 5: /* subnormals */
		return (random_f32_between(r, 0, 0) & UINT32_C(0x807FFFFF)) >> random_below(r, 20);
	case 6: /* any finite number */
		return random_f32_between(r, -126, 127);
	case 7: /* all zero */
		return (uint32_t)random_u64(r) & F32_SIGN;
	case 8: /* thresholds of the rules: the largest element a unit about k / 16 */
		return i == 0 ? ((uint32_t)(top + 127) << 23 | random_below(r, 16) << 19) + random_below(r, 2) :
		                random_f32_between(r, low, low + 8);
	default: /* anything, NaN and Inf too */
		return random_below(r, 24) == 0 ? inputs_edge[random_below(r, (uint32_t)inputs_n_edge)] :
		                                  random_f32_between(r, -126, 127);
	}
}

void matrix_fill(struct matrix *m, struct random *r)
{
	for (size_t row = 0; row < m->rows; row++)
		for (size_t col = 0; col < m->cols; col++) {
			int shape = (int)((row + col / MX_BLOCK) % MATRIX_N_SHAPES);
			/* Mostly ordinary numbers; every fourth row at an end of the range. */
			int top = row % 4 != 3 ? (int)(row % 9) - 4 : row % 8 == 3 ? 127 : -120 - (int)(row % 7);
			uint32_t x = matrix_generated(r, shape, top, col % MX_BLOCK);
			size_t i = row * m->stride + col;
			uint16_t half = (uint16_t)(x >> 16);
			if (m->src_format == MXFP_FORMAT_F32)
				memcpy((uint8_t *)m->src + 4 * i, &x, 4);
			else
				memcpy((uint8_t *)m->src + 2 * i, &half, 2);
		}
}

struct mxfp_matrix matrix_source(const struct matrix *m)
{
	struct mxfp_matrix source = mxfp_numbers(m->src_format, m->rows, m->cols, m->src);

	source.stride = m->stride;
	return source;
}

void matrix_check_gaps(const uint8_t *bytes, size_t n, size_t row_bytes, size_t stride)
{
	for (size_t i = 0; i < n; i++)
		if ((i % stride >= row_bytes || i == n - 1) && bytes[i] != MATRIX_CANARY)
			ck_abort_msg("byte %zu of a gap was written", i);
}
