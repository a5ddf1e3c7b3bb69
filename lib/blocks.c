/* SPDX-License-Identifier: MIT */
/* mxfp_blocks_size(), and the checks that quantizing, dequantizing and products share. */
#include "blocks.h"

#include "bits.h"
#include "scale.h"
#include "sized.h"
#include "sparse.h"

static size_t block_bytes(const struct mxfp_format_info *info)
{
	return info->block_length * mxfp_format_get_info(info->element)->bits / 8;
}

enum mxfp_status mxfp_blocks_size(struct mxfp_sizes *size, enum mxfp_format format, size_t rows, size_t cols)
{
	struct mxfp_sizes s;

	if (!mxfp_is_block(format))
		return MXFP_ERR_FORMAT;
	if (size == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	s.scales_row_bytes = cols / info->block_length + (cols % info->block_length != 0);
	if (!mxfp_multiply(s.scales_row_bytes, block_bytes(info), &s.codes_row_bytes) ||
	    !mxfp_multiply(s.codes_row_bytes, rows, &s.codes_bytes) ||
	    !mxfp_multiply(s.scales_row_bytes, rows, &s.scales_bytes) || s.codes_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	*size = s;
	return MXFP_OK;
}

enum mxfp_status mxfp_check_codes(const struct mxfp_matrix *b, struct mxfp_spans *span)
{
	struct mxfp_sizes size;

	enum mxfp_status status = mxfp_blocks_size(&size, b->format, b->rows, b->cols);
	if (status != MXFP_OK)
		return status;
	span->codes_stride = b->stride != 0 ? b->stride : size.codes_row_bytes;
	span->scales_stride = b->scales_stride != 0 ? b->scales_stride : size.scales_row_bytes;
	status = mxfp_check_region(&span->codes, b->data, b->rows, size.codes_row_bytes, span->codes_stride);
	return status == MXFP_OK ? mxfp_check_region(&span->scales, b->scales, b->rows, size.scales_row_bytes, span->scales_stride) : status;
}

enum mxfp_status mxfp_check_source_blocks(struct mxfp_matrix *checked, struct mxfp_spans *span, const struct mxfp_matrix *matrix)
{
	struct mxfp_matrix copy;
	size_t elements;

	if (matrix == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_matrix *m = MXFP_SIZED(matrix, &copy);
	if (m == NULL)
		return MXFP_ERR_VERSION;
	if (m->transposed || mxfp_is_sparse(m))
		return MXFP_ERR_FORMAT;
	*checked = *m;
	enum mxfp_status status = mxfp_check_codes(m, span);
	if (status != MXFP_OK)
		return status;
	if (!mxfp_multiply(m->rows, m->cols, &elements))
		return MXFP_ERR_SIZE;
	checked->stride = span->codes_stride;
	checked->scales_stride = span->scales_stride;
	return elements == 0 || (m->data != NULL && m->scales != NULL) ? MXFP_OK : MXFP_ERR_NULL;
}

size_t mxfp_codes_offset(enum mxfp_format format, size_t stride, size_t row, size_t col)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return row * stride + col / info->block_length * block_bytes(info);
}

size_t mxfp_scales_offset(enum mxfp_format format, size_t stride, size_t row, size_t col)
{
	return row * stride + col / mxfp_format_get_info(format)->block_length;
}

enum mxfp_status mxfp_check_quantize_options(enum mxfp_format format, size_t rows, size_t cols,
                                             const struct mxfp_quantize_options *o)
{
	if (!mxfp_option_valid(MXFP_OPTION_RULE, (int)o->rule) ||
	    !mxfp_option_valid(MXFP_OPTION_RECIPE, (int)o->recipe) ||
	    !mxfp_option_valid(MXFP_OPTION_ROUND, (int)o->round) ||
	    !mxfp_option_valid(MXFP_OPTION_NON_FINITE, (int)o->non_finite))
		return MXFP_ERR_OPTION;
	if (o->block_rows > 1 && o->block_rows != MXFP_MX_BLOCK)
		return MXFP_ERR_OPTION;
	if (mxfp_format_get_info(format)->tensor_scale &&
	    (o->via_bf16 || o->block_rows > 1 || (o->recipe == MXFP_RECIPE_GGML && o->round != MXFP_ROUND_RNE)))
		return MXFP_ERR_OPTION;
	if (o->tensor_amax.given && mxfp_f32_bits(o->tensor_amax.value) >= MXFP_F32_INF &&
	    mxfp_f32_bits(o->tensor_amax.value) != MXFP_F32_SIGN)
		return MXFP_ERR_OPTION;
	if (cols != 0 && o->first_index > UINT64_MAX - rows * cols)
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}

void mxfp_set_quantize_job(struct mxfp_quantize_job *job, const struct mxfp_quantize_options *o)
{
	job->first_index = o->first_index;
	job->rounding = (struct mxfp_rounding){o->round, MXFP_OVERFLOW_SAT, o->no_negative_zero, o->seed, o->stream};
	job->rule = o->rule;
	job->recipe = o->recipe;
	job->saturate_inf = o->non_finite == MXFP_NON_FINITE_SATURATE;
	job->via_bf16 = o->via_bf16;
	job->squares = o->block_rows > 1;
	if (o->tensor_amax.given)
		job->tensor_amax = mxfp_f32_bits(o->tensor_amax.value) & ~MXFP_F32_SIGN;
}

size_t mxfp_quantize_piece_count(const struct mxfp_quantize_job *job)
{
	return (job->squares ? mxfp_square_tile_count : mxfp_tile_count)(job->rows, job->cols);
}

struct mxfp_tile mxfp_quantize_piece(const struct mxfp_quantize_job *job, size_t piece)
{
	return (job->squares ? mxfp_square_tile : mxfp_tile)(job->rows, job->cols, piece);
}

void mxfp_quantize_tile(const struct mxfp_kernels *kernels, const struct mxfp_quantize_job *whole,
                        const struct mxfp_tile *tile, struct mxfp_quantize_job *job)
{
	job->rows = tile->rows;
	job->cols = tile->cols;
	job->src = (const uint8_t *)whole->src + (tile->row * whole->src_stride + tile->col) *
	                                                 mxfp_format_get_info(whole->src_format)->storage_bytes;
	job->first_index = whole->first_index + tile->row * whole->cols + tile->col;
	job->index_stride = whole->cols;
	(job->squares ? kernels->quantize_squares : kernels->quantize)[job->format](job);
}
