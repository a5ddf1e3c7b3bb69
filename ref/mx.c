/* SPDX-License-Identifier: MIT */
/*
 * MX blocks: doc/numerics.md, section 3. A block is quantized in three steps: load its elements, choose s from them,
 * and encode every element as round(x * 2^-s), where the product is exact and rounded once.
 */
#include <string.h>

#include "f32.h"
#include "minifloat.h"
#include "pack.h"
#include "mxfp/philox.h"
#include "ref.h"
#include "scale.h"

static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};

/* Rounds x to bf16 (rne) and converts it back. */
static uint32_t through_bf16(uint32_t x, struct mxfp_counts *counts)
{
	const struct mxfp_format_info *bf16 = mxfp_format_get_info(MXFP_FORMAT_BF16);

	return mxfp_minifloat_decode(bf16, mxfp_minifloat_encode(bf16, x, 0, &rne, 0, counts));
}

void mxfp_ref_load_block(const struct mxfp_quantize_job *job, size_t row, size_t block, struct mxfp_ref_block *b)
{
	const struct mxfp_format_info *source = mxfp_format_get_info(job->src_format);
	size_t length = mxfp_format_get_info(job->format)->block_length, start = block * length;

	memset(b, 0, sizeof *b);
	b->n = job->cols - start < length ? job->cols - start : length;
	for (size_t i = 0; i < b->n; i++) {
		uint32_t x = mxfp_ref_load(source, job->src, row * job->src_stride + start + i);

		job->counts->nan += mxfp_f32_is_nan(x);
		job->counts->inf += mxfp_f32_is_inf(x);
		if (job->via_bf16) {
			struct mxfp_counts counts = {0};

			x = through_bf16(x, &counts);
			b->flushed += counts.flushed;
			job->counts->overflowed += counts.overflowed;
		}
		if (job->saturate_inf && mxfp_f32_is_inf(x))
			x = (x & MXFP_F32_SIGN) | MXFP_F32_MAX;
		b->x[i] = x;
		if ((b->x[i] & ~MXFP_F32_SIGN) > b->amax)
			b->amax = b->x[i] & ~MXFP_F32_SIGN;
	}
	b->all_nan = b->amax >= MXFP_F32_INF;
}

uint32_t mxfp_ref_random(const struct mxfp_quantize_job *job, size_t row, size_t block, size_t i)
{
	size_t length = mxfp_format_get_info(job->format)->block_length;

	if (job->rounding.mode != MXFP_ROUND_SR)
		return 0;
	return mxfp_philox_word(job->rounding.seed, job->rounding.stream,
	                        job->first_index + row * job->cols + block * length + i);
}

uint32_t mxfp_ref_squared_error(const uint32_t *d, size_t n)
{
	uint32_t lane[MXFP_MX_BLOCK / 2];
	size_t lanes = n / 2;

	for (size_t j = 0; j < lanes; j++)
		lane[j] = mxfp_f32_fma(d[j + lanes], d[j + lanes], mxfp_f32_mul(d[j], d[j]));
	while (lanes > 1) {
		lanes /= 2;
		for (size_t j = 0; j < lanes; j++)
			lane[j] = mxfp_f32_add(lane[j], lane[j + lanes]);
	}
	return lane[0];
}

/* The differences of a block at scale 2^s, measured in units of 2^s0. */
static void differences_at(const struct mxfp_format_info *element, const struct mxfp_ref_block *b, int s, int s0,
                           uint32_t *d)
{
	struct mxfp_counts counts = {0};

	for (size_t i = 0; i < MXFP_MX_BLOCK; i++) {
		uint32_t y = mxfp_f32_scale(b->x[i], -s0);
		uint32_t q = mxfp_minifloat_encode(element, b->x[i], s, &rne, 0, &counts);

		d[i] = mxfp_f32_sub(y, mxfp_f32_scale(mxfp_minifloat_decode(element, q), s - s0));
	}
}

uint32_t mxfp_ref_square_error(uint32_t e[MXFP_MX_BLOCK][MXFP_MX_BLOCK])
{
	for (size_t i = 0; i < MXFP_MX_BLOCK; i++)
		for (size_t j = 0; j < MXFP_MX_BLOCK; j++)
			e[i][j] = mxfp_f32_mul(e[i][j], e[i][j]);
	for (size_t h = MXFP_MX_BLOCK / 2; h != 0; h /= 2)
		for (size_t i = 0; i < h; i++)
			for (size_t j = 0; j < h; j++)
				e[i][j] = mxfp_f32_add(mxfp_f32_add(e[i][j], e[i + h][j + h]),
				                       mxfp_f32_add(e[i][j + h], e[i + h][j]));
	return e[0][0];
}

/* The squared error of blocks that share a scale: one, or the 32 rows of a square. */
static uint32_t error_at(const struct mxfp_format_info *element, const struct mxfp_ref_block *b, size_t rows, int s,
                         int s0)
{
	uint32_t d[MXFP_MX_BLOCK][MXFP_MX_BLOCK] = {0};

	for (size_t i = 0; i < rows; i++)
		differences_at(element, &b[i], s, s0, d[i]);
	return rows == 1 ? mxfp_ref_squared_error(d[0], MXFP_MX_BLOCK) : mxfp_ref_square_error(d);
}

/* The scale of blocks that share one; amax is that of all. */
static int choose_scale(enum mxfp_rule rule, const struct mxfp_format_info *element, const struct mxfp_ref_block *b,
                        size_t rows, uint32_t amax)
{
	int s = amax == 0 ? MXFP_SCALE_MIN : mxfp_ref_scale(rule, element, amax);

	if (amax == 0 || rule != MXFP_RULE_MSE || s == MXFP_SCALE_MAX)
		return s;
	/* Before clamping, floor may be below -128; then floor + 1 also clamps to -127. */
	if (s == MXFP_SCALE_MIN && mxfp_ref_scale(MXFP_RULE_TRN3, element, amax) == MXFP_SCALE_MIN)
		return s;
	return mxfp_f32_compare(error_at(element, b, rows, s + 1, s), error_at(element, b, rows, s, s)) <= 0 ? s + 1 : s;
}

/* Quantizes one block: writes its codes and returns its scale byte. */
static uint8_t quantize_block(const struct mxfp_quantize_job *job, size_t row, size_t block, uint8_t *codes)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(job->format)->element);
	struct mxfp_ref_block b;

	mxfp_ref_load_block(job, row, block, &b);
	memset(codes, 0, MXFP_MX_BLOCK);
	if (b.all_nan || (job->given != NULL && job->given[block] == MXFP_SCALE_NAN))
		return MXFP_SCALE_NAN;
	job->counts->flushed += b.flushed;
	int s = job->given != NULL ? job->given[block] - MXFP_SCALE_BIAS : choose_scale(job->rule, element, &b, 1, b.amax);
	for (size_t i = 0; i < b.n; i++)
		codes[i] = (uint8_t)mxfp_minifloat_encode(element, b.x[i], s, &job->rounding,
		                                          mxfp_ref_random(job, row, block, i), job->counts);
	return (uint8_t)(s + MXFP_SCALE_BIAS);
}

void mxfp_quantize_mx_ref(const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(job->format);
	unsigned bits = mxfp_format_get_info(format->element)->bits;
	size_t blocks = (job->cols + format->block_length - 1) / format->block_length;
	uint8_t codes[MXFP_MX_BLOCK];

	for (size_t row = 0; row < job->rows; row++)
		for (size_t block = 0; block < blocks; block++) {
			job->scales[row * job->scales_stride + block] = quantize_block(job, row, block, codes);
			mxfp_ref_pack(job->codes + row * job->codes_stride + block * format->block_length * bits / 8, codes,
			              format->block_length, bits);
		}
}

uint8_t mxfp_ref_square_scale(const struct mxfp_quantize_job *of, size_t block)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(of->format)->element);
	struct mxfp_ref_block b[MXFP_MX_BLOCK] = {{{0}, 0, 0, 0, false}};
	struct mxfp_quantize_job job = *of;
	struct mxfp_counts counts = {0};
	uint32_t amax = 0;

	job.counts = &counts; /* what is loaded here is counted where it is encoded */
	for (size_t row = 0; row < job.rows; row++) {
		mxfp_ref_load_block(&job, row, block, &b[row]);
		amax = b[row].amax > amax ? b[row].amax : amax;
	}
	if (amax >= MXFP_F32_INF)
		return MXFP_SCALE_NAN;
	return (uint8_t)(choose_scale(job.rule, element, b, MXFP_MX_BLOCK, amax) + MXFP_SCALE_BIAS);
}

void mxfp_quantize_squares_ref(const struct mxfp_quantize_job *whole)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(whole->format);
	size_t block_bytes = MXFP_MX_BLOCK / 8 * mxfp_format_get_info(format->element)->bits;
	size_t source_bytes = mxfp_format_get_info(whole->src_format)->storage_bytes;

	for (size_t row = 0; row < whole->rows; row += MXFP_MX_BLOCK)
		for (size_t col = 0; col < whole->cols; col += MXFP_MX_BLOCK) {
			struct mxfp_quantize_job job = *whole;
			size_t rows = whole->rows - row < MXFP_MX_BLOCK ? whole->rows - row : MXFP_MX_BLOCK;

			job.rows = rows;
			job.cols = whole->cols - col < MXFP_MX_BLOCK ? whole->cols - col : MXFP_MX_BLOCK;
			job.src = (const uint8_t *)whole->src + (row * whole->src_stride + col) * source_bytes;
			const uint8_t scale = mxfp_ref_square_scale(&job, 0);
			job.given = &scale;
			job.rows = 1;
			for (size_t i = row; i < row + rows; i++) {
				job.src = (const uint8_t *)whole->src + (i * whole->src_stride + col) * source_bytes;
				job.codes = whole->codes + i * whole->codes_stride + col / MXFP_MX_BLOCK * block_bytes;
				job.scales = whole->scales + i * whole->scales_stride + col / MXFP_MX_BLOCK;
				job.first_index = whole->first_index + i * whole->index_stride + col;
				mxfp_quantize_mx_ref(&job);
			}
		}
}

/* fl32(code * 2^s). */
static uint32_t dequantize_element(const struct mxfp_format_info *element, uint8_t code, uint8_t scale)
{
	uint32_t x = mxfp_minifloat_decode(element, code);

	if (scale == MXFP_SCALE_NAN)
		return MXFP_F32_NAN;
	if (mxfp_f32_is_nan(x))
		return x;
	return mxfp_f32_scale(x, scale - MXFP_SCALE_BIAS);
}

void mxfp_dequantize_mx_ref(const struct mxfp_dequantize_job *job)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(job->format), *to = mxfp_format_get_info(job->dst_format);
	const struct mxfp_format_info *element = mxfp_format_get_info(format->element);
	struct mxfp_counts counts = {0};
	uint8_t codes[MXFP_MX_BLOCK];

	for (size_t row = 0; row < job->rows; row++)
		for (size_t k = 0; k < job->cols; k++) {
			size_t block = k / format->block_length, i = k % format->block_length;

			if (i == 0)
				mxfp_ref_unpack(codes,
				                job->codes + row * job->codes_stride + k * element->bits / 8,
				                format->block_length, element->bits);
			uint32_t x = dequantize_element(element, codes[i], job->scales[row * job->scales_stride + block]);
			mxfp_ref_store(to, job->dst, row * job->dst_stride + k,
			               mxfp_minifloat_encode(to, x, 0, &rne, 0, &counts));
		}
}
