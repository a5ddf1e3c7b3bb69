/* SPDX-License-Identifier: MIT */
#include "oracle/operands.h"

#include <stdlib.h>
#include <string.h>

#include "oracle/matrix.h"
#include "minifloat.h"
#include "pack.h"
#include "ref.h"

enum { GROUP = 32 };

/* What a group of elements is like. */
enum shape {
	SHAPE_ANY,      /* any finite codes */
	SHAPE_ZERO,     /* of both signs */
	SHAPE_FEW,      /* mostly zeros: few products, so that sums end in ties */
	SHAPE_FAR,      /* a large, a middle and a least one: beside another of e5m2, a tie that 2^-62 of the sum decides */
	SHAPE_LARGEST,  /* of both signs */
	SHAPE_HIGH,     /* mostly the largest, all of one sign: the largest sums, of many bits */
	SHAPE_LEAST,    /* subnormals and zeros */
	SHAPE_EQUAL,    /* element 2i + 1 is element 2i */
	SHAPE_OPPOSITE, /* element 2i + 1 is minus element 2i: beside SHAPE_EQUAL everything cancels */
	N_SHAPES
};

bool operand_format(size_t i, enum mxfp_format *format)
{
	static const enum mxfp_format formats[] = {
		MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXFP6_E2M3,
		MXFP_FORMAT_MXFP4,      MXFP_FORMAT_MXINT8,     MXFP_FORMAT_NVFP4,      MXFP_FORMAT_F32,
		MXFP_FORMAT_BF16,       MXFP_FORMAT_F16,        MXFP_FORMAT_TF32,
	};

	if (i >= sizeof formats / sizeof formats[0])
		return false;
	*format = formats[i];
	return true;
}

static int cut(int x, int low, int high)
{
	return x < low ? low : x > high ? high : x;
}

void operand_ranges(struct random *r, int sum, struct operand_range range[2])
{
	int low = cut(sum - 127, -127, 127), high = cut(sum + 127, -127, 127);

	range[0].center = low + (int)random_below(r, (uint32_t)(high - low + 1));
	if (random_below(r, 2) == 0)
		range[0].center = sum / 2;
	range[1].center = sum - range[0].center;
	for (int i = 0; i < 2; i++) {
		range[i].high = false;
		range[i].spread = (int)random_below(r, 3) * (int)random_below(r, 16);
	}
}

static int any_exponent(struct random *r, const struct operand_range *range)
{
	return range->center - range->spread + (int)random_below(r, 2 * (uint32_t)range->spread + 1);
}

/* The shape of a group, and whether one of its elements may be NaN or Inf. */
static enum shape any_shape(struct random *r, const struct operand_range *range)
{
	if (range->high)
		return SHAPE_HIGH;
	return random_below(r, 2) == 0 ? SHAPE_ANY : (enum shape)random_below(r, N_SHAPES);
}

/* A code by its bits without the sign. */
static uint8_t with_sign(const struct mxfp_format_info *f, uint32_t magnitude, bool negative)
{
	if (f->kind == MXFP_KIND_FIXED)
		return (uint8_t)(negative ? 0x100 - magnitude : magnitude);
	return (uint8_t)(magnitude | (negative ? UINT32_C(1) << (f->bits - 1) : 0));
}

/* Element i of SHAPE_FAR. The first two, positive, are powers of two 12 binades apart, their squares 24. */
static uint8_t far_code(struct random *r, const struct mxfp_format_info *f, size_t i)
{
	uint32_t binade = UINT32_C(1) << f->significand_bits, top = f->max_code / binade * binade, magnitude = 0;

	if (i == 0)
		magnitude = top;
	else if (i == 1 && top > 12 * binade)
		magnitude = top - 12 * binade;
	else if (i == 2)
		magnitude = random_below(r, binade);
	return with_sign(f, magnitude, i == 2 && random_below(r, 2) == 0);
}

static uint8_t any_code(struct random *r, const struct mxfp_format_info *f, enum shape shape)
{
	uint32_t magnitude = random_below(r, f->max_code + 1);
	bool negative = random_below(r, 2) == 0;

	switch (shape) {
	case SHAPE_ZERO:
		return with_sign(f, 0, negative && f->kind != MXFP_KIND_FIXED);
	case SHAPE_FEW:
		/* Powers of two, mostly. */
		if (random_below(r, 8) != 0)
			return 0;
		return with_sign(f, random_below(r, 4) == 0 ? magnitude : magnitude >> 2 << 2, negative);
	case SHAPE_LARGEST:
		/* An int8 has one more negative code. */
		return with_sign(f, f->max_code + (negative && f->kind == MXFP_KIND_FIXED), negative);
	case SHAPE_HIGH:
		return with_sign(f, random_below(r, 4) == 0 ? magnitude : f->max_code - random_below(r, 4), false);
	case SHAPE_LEAST:
		return with_sign(f, random_below(r, UINT32_C(1) << f->significand_bits) & 3, negative);
	default:
		return with_sign(f, magnitude, negative);
	}
}

static uint8_t opposite(const struct mxfp_format_info *f, uint8_t code)
{
	return f->kind == MXFP_KIND_FIXED ? (uint8_t)-code : code ^ (uint8_t)(1U << (f->bits - 1));
}

/* Moves a magnitude that is not 0 to `least` or above. */
static uint8_t raised(const struct mxfp_format_info *f, uint8_t code, uint32_t least)
{
	uint32_t sign = f->kind == MXFP_KIND_FIXED ? 0 : UINT32_C(1) << (f->bits - 1), magnitude = code & ~sign;

	if (sign == 0 || magnitude == 0 || magnitude >= least)
		return code;
	return (uint8_t)((code & sign) | (least + magnitude % (f->max_code - least + 1)));
}

/* n codes of a row, packed. */
static void fill_codes(struct random *r, const struct mxfp_format_info *f, uint8_t *packed, size_t n, uint32_t least,
                       enum shape shape, bool special)
{
	/* Inf, and two NaNs, in the formats that have them: e4m3 has but the last. */
	static const uint8_t specials[] = {0x7C, 0x7C, 0x7D, 0x7F, 0x7F, 0x7F};
	uint8_t codes[GROUP];

	for (size_t i = 0; i < n; i++) {
		bool second = i % 2 != 0 && (shape == SHAPE_EQUAL || shape == SHAPE_OPPOSITE);

		if (second)
			codes[i] = codes[i - 1];
		else if (shape == SHAPE_FAR)
			codes[i] = far_code(r, f, i);
		else
			codes[i] = raised(f, any_code(r, f, shape), least);
		if (second && shape == SHAPE_OPPOSITE)
			codes[i] = opposite(f, codes[i]);
	}
	if (special && random_below(r, 4) == 0)
		codes[random_below(r, (uint32_t)n)] = (uint8_t)(specials[random_below(r, sizeof specials)] | random_below(r, 2) << 7);
	for (size_t i = 0; i < n; i++)
		codes[i] &= (uint8_t)((1U << f->bits) - 1);
	mxfp_ref_pack(packed, codes, n, f->bits);
}

static uint8_t any_scale(struct random *r, const struct mxfp_format_info *scale, const struct operand_range *range,
                         bool special)
{
	if (special && random_below(r, 8) == 0)
		return 0xFF;
	if (scale->kind == MXFP_KIND_EXPONENT)
		return (uint8_t)cut(any_exponent(r, range) + scale->bias, 0, (int)scale->max_code);
	/* ue4m3: any but NaN, zero often; the spare bit means nothing. */
	uint32_t code = random_below(r, 6) == 0 ? 0 : random_below(r, scale->max_code + 1);
	return (uint8_t)(code | (random_below(r, 4) == 0 ? 0x80 : 0));
}

static void fill_blocks(struct random *r, const struct operand_range *range, struct operand *o)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(o->matrix.format), *element = mxfp_format_get_info(f->element);
	size_t blocks = (o->matrix.cols + f->block_length - 1) / f->block_length;
	size_t block_bytes = f->block_length * element->bits / 8;
	uint8_t *data = (uint8_t *)o->matrix.data, *scales = (uint8_t *)o->matrix.scales;
	/* In every second matrix elements lie as near to each other as quantized ones do. */
	uint32_t least = random_below(r, 2) == 0 ? 0 : random_below(r, element->max_code);

	if (range->high)
		least = element->max_code / 2;

	for (size_t row = 0; row < o->matrix.rows; row++) {
		bool special = range->special && random_below(r, 2) == 0;

		for (size_t b = 0; b < blocks; b++) {
			fill_codes(r, element, data + row * o->matrix.stride + b * block_bytes, f->block_length,
			           least, any_shape(r, range), special);
			scales[row * o->matrix.scales_stride + b] =
				any_scale(r, mxfp_format_get_info(f->scale), range, special && random_below(r, 4) == 0);
		}
	}
}

/* A number of a group as binary32. */
static uint32_t any_number(struct random *r, const struct operand_range *range, enum shape shape)
{
	int exponent = cut(any_exponent(r, range), -126, 127);
	uint32_t x = random_f32_between(r, exponent, exponent);

	switch (shape) {
	case SHAPE_ZERO:
		return x & MXFP_F32_SIGN;
	case SHAPE_FEW:
		return random_below(r, 8) != 0 ? 0 : x & UINT32_C(0xFFF00000);
	case SHAPE_LARGEST: /* of their exponent */
		return x | UINT32_C(0x007F0000);
	case SHAPE_HIGH:
		return (x | UINT32_C(0x007F0000)) & ~MXFP_F32_SIGN;
	case SHAPE_LEAST:
		return range->center > 0 ? x : (x & UINT32_C(0x807FFFFF)) >> random_below(r, 23);
	default:
		return x;
	}
}

static void fill_numbers(struct random *r, const struct operand_range *range, struct operand *o)
{
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE, .overflow = MXFP_OVERFLOW_OVF};
	const struct mxfp_format_info *f = mxfp_format_get_info(o->matrix.format);
	struct mxfp_counts counts = {.size = sizeof counts};
	enum shape shape = SHAPE_ANY;
	bool special = false;
	uint32_t x = 0;

	for (size_t i = 0; i < o->matrix.rows * o->matrix.cols; i++) {
		size_t row = i / o->matrix.cols, k = i % o->matrix.cols;

		if (k % GROUP == 0)
			shape = any_shape(r, range);
		if (k == 0)
			special = range->special && random_below(r, 2) == 0;
		if (k % 2 == 0 || (shape != SHAPE_EQUAL && shape != SHAPE_OPPOSITE))
			x = any_number(r, range, shape);
		else if (shape == SHAPE_OPPOSITE)
			x ^= MXFP_F32_SIGN;
		if (special && random_below(r, 64) == 0)
			x = inputs_edge[random_below(r, (uint32_t)inputs_n_edge)];
		mxfp_ref_store(f, (void *)o->matrix.data, row * o->matrix.stride + k,
		               mxfp_minifloat_encode(f, x, 0, &rne, 0, &counts));
	}
}

/* Bytes from the first row's first to the last row's last. */
static size_t span(size_t rows, size_t stride, size_t row_bytes)
{
	return rows == 0 ? 0 : (rows - 1) * stride + row_bytes;
}

static void fill_tensor_scale(struct random *r, const struct operand_range *range, struct mxfp_matrix *m)
{
	uint32_t bits = random_f32_between(r, -20, 20);

	if (range->special && random_below(r, 4) == 0)
		bits = random_f32(r);
	memcpy(&m->tensor_scale, &bits, sizeof bits);
	m->tensor_scale_divides = random_below(r, 2) == 0;
}

struct operand operand_of(struct random *r, const struct operand_range *range, enum mxfp_format format, size_t rows,
                          size_t cols, size_t gap)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(format);
	struct operand o = {.matrix = {.size = sizeof o.matrix, .format = format, .rows = rows, .cols = cols}};
	struct mxfp_sizes size = {0};

	if (f->kind != MXFP_KIND_BLOCK) {
		o.matrix.stride = cols + gap;
		o.data_bytes = span(rows, o.matrix.stride, cols) * f->storage_bytes;
		o.matrix.data = matrix_allocate(o.data_bytes);
		fill_numbers(r, range, &o);
		return o;
	}
	mxfp_blocks_size(&size, format, rows, cols);
	o.matrix.stride = size.codes_row_bytes + gap;
	o.matrix.scales_stride = size.scales_row_bytes + gap;
	o.data_bytes = span(rows, o.matrix.stride, size.codes_row_bytes);
	o.scales_bytes = span(rows, o.matrix.scales_stride, size.scales_row_bytes);
	o.matrix.data = matrix_allocate(o.data_bytes);
	o.matrix.scales = matrix_allocate(o.scales_bytes);
	fill_blocks(r, range, &o);
	if (f->tensor_scale)
		fill_tensor_scale(r, range, &o.matrix);
	return o;
}

void operand_free(struct operand *o)
{
	free((void *)o->matrix.data);
	free((void *)o->matrix.scales);
}
