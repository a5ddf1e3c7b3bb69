/* SPDX-License-Identifier: MIT */
/* mxfp_quantize(), mxfp_dequantize(), mxfp_amax(), mxfp_blocks_size(): check the arguments and run one kernel slot over
   fixed groups of rows. */
#include "mxfp/quantize.h"

#include <string.h>

#include "args.h"
#include "kernels.h"
#include "parallel.h"

enum {
	PIECE = 1 << 16, /* elements in a piece of work, about */
	F32_INF = 0x7F800000,
	BF16_OVERFLOW = 0x7F7F8000 /* magnitude bits from which on rounding to bf16 gives Inf: the tie past its largest */
};

static uint32_t f32_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static float f32_from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

enum mxfp_status mxfp_blocks_size(enum mxfp_format format, size_t rows, size_t cols, struct mxfp_sizes *size)
{
	struct mxfp_sizes s;

	if (!mxfp_is_block(format))
		return MXFP_ERR_FORMAT;
	if (size == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_format_info *info = mxfp_format_info(format);
	size_t block_bytes = info->block_length * mxfp_format_info(info->element)->bits / 8;
	s.scales_row_bytes = cols / info->block_length + (cols % info->block_length != 0);
	if (!mxfp_multiply(s.scales_row_bytes, block_bytes, &s.codes_row_bytes) ||
	    !mxfp_multiply(s.codes_row_bytes, rows, &s.codes_bytes) ||
	    !mxfp_multiply(s.scales_row_bytes, rows, &s.scales_bytes) || s.codes_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	*size = s;
	return MXFP_OK;
}

/* Rows in a piece of work. */
static size_t piece_rows(size_t cols)
{
	return cols >= PIECE ? 1 : PIECE / (cols + 1);
}

static size_t piece_count(size_t rows, size_t cols)
{
	size_t per_piece = piece_rows(cols);

	return cols == 0 ? 0 : rows / per_piece + (rows % per_piece != 0);
}

/* The spans in memory of a matrix of numbers and one of blocks; also fills the strides that are 0. */
struct spans {
	size_t numbers, codes, scales;
};

static enum mxfp_status check_blocks(struct mxfp_blocks *b, const void *numbers, enum mxfp_format format,
                                     size_t *stride, struct spans *span)
{
	struct mxfp_sizes size;
	size_t width, stride_bytes, elements;

	if (!mxfp_is_block(b->format) || !mxfp_is_source(format))
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = mxfp_blocks_size(b->format, b->rows, b->cols, &size);
	if (status != MXFP_OK)
		return status;
	if (b->rows != 0 && b->cols != 0 && (b->codes == NULL || b->scales == NULL || numbers == NULL))
		return MXFP_ERR_NULL;
	width = mxfp_format_info(format)->storage_bytes;
	if (*stride == 0)
		*stride = b->cols;
	if (b->codes_stride == 0)
		b->codes_stride = size.codes_row_bytes;
	if (b->scales_stride == 0)
		b->scales_stride = size.scales_row_bytes;
	if (*stride < b->cols || !mxfp_multiply(*stride, width, &stride_bytes) ||
	    !mxfp_multiply(b->rows, b->cols, &elements) ||
	    !mxfp_span(b->rows, b->cols * width, stride_bytes, &span->numbers) ||
	    !mxfp_span(b->rows, size.codes_row_bytes, b->codes_stride, &span->codes) ||
	    !mxfp_span(b->rows, size.scales_row_bytes, b->scales_stride, &span->scales))
		return MXFP_ERR_SIZE;
	if (mxfp_overlap(numbers, span->numbers, b->codes, span->codes) ||
	    mxfp_overlap(numbers, span->numbers, b->scales, span->scales))
		return MXFP_ERR_OVERLAP;
	return MXFP_OK;
}

static enum mxfp_status check_options(const struct mxfp_blocks *dst, const struct mxfp_quantize_options *o)
{
	if (!mxfp_option_valid(MXFP_OPTION_RULE, (int)o->rule) ||
	    !mxfp_option_valid(MXFP_OPTION_RECIPE, (int)o->recipe) ||
	    !mxfp_option_valid(MXFP_OPTION_ROUND, (int)o->round) ||
	    !mxfp_option_valid(MXFP_OPTION_NON_FINITE, (int)o->non_finite))
		return MXFP_ERR_OPTION;
	if (mxfp_format_info(dst->format)->tensor_scale &&
	    (o->via_bf16 || (o->recipe == MXFP_RECIPE_GGML && o->round != MXFP_ROUND_RNE)))
		return MXFP_ERR_OPTION;
	if (o->tensor_amax != NULL && f32_bits(*o->tensor_amax) >= F32_INF)
		return MXFP_ERR_OPTION;
	if (dst->cols != 0 && o->first_index > UINT64_MAX - dst->rows * dst->cols)
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}

/* Largest finite magnitude and first non-finite element of the job's source. */
static struct mxfp_scan_job scan(const struct mxfp_quantize_job *job)
{
	size_t row_bytes = job->src_stride * mxfp_format_info(job->src_format)->storage_bytes;
	struct mxfp_scan_job s = {
		.src_format = job->src_format,
		.n = job->cols,
		.non_finite_from = job->via_bf16 ? BF16_OVERFLOW : F32_INF,
		.first_non_finite = UINT64_MAX,
	};

	for (size_t r = 0; r < job->rows; r++) {
		s.src = (const uint8_t *)job->src + r * row_bytes;
		s.first_index = job->first_index + r * job->cols;
		mxfp_kernels_get()->scan[job->src_format](&s);
	}
	return s;
}

static void quantize_piece(const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct mxfp_quantize_job *whole = context;
	struct mxfp_quantize_job job = *whole;
	size_t per_piece = piece_rows(whole->cols), start = piece * per_piece;

	job.rows = whole->rows - start < per_piece ? whole->rows - start : per_piece;
	job.src = (const uint8_t *)whole->src +
	          start * whole->src_stride * mxfp_format_info(whole->src_format)->storage_bytes;
	job.codes = whole->codes + start * whole->codes_stride;
	job.scales = whole->scales + start * whole->scales_stride;
	job.first_index = whole->first_index + start * whole->cols;
	job.counts = counts;
	mxfp_kernels_get()->quantize[job.format](&job);
}

enum mxfp_status mxfp_quantize(struct mxfp_blocks *dst, const void *src, enum mxfp_format src_format,
                               size_t src_stride, const struct mxfp_quantize_options *options)
{
	static const struct mxfp_quantize_options defaults;
	const struct mxfp_quantize_options *o = options != NULL ? options : &defaults;
	struct mxfp_blocks b;
	struct spans span;

	if (dst == NULL)
		return MXFP_ERR_NULL;
	b = *dst;
	enum mxfp_status status = check_blocks(&b, src, src_format, &src_stride, &span);
	if (status == MXFP_OK)
		status = check_options(&b, o);
	if (status == MXFP_OK && mxfp_overlap(b.codes, span.codes, b.scales, span.scales))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;

	struct mxfp_quantize_job job = {
		.format = b.format,
		.src_format = src_format,
		.rows = b.rows,
		.cols = b.cols,
		.src = src,
		.src_stride = src_stride,
		.codes = b.codes,
		.scales = b.scales,
		.codes_stride = b.codes_stride,
		.scales_stride = b.scales_stride,
		.first_index = o->first_index,
		.rounding = {o->round, MXFP_OVERFLOW_SAT, o->no_negative_zero, o->seed, o->stream},
		.rule = o->rule,
		.recipe = o->recipe,
		.saturate_inf = o->non_finite == MXFP_NON_FINITE_SATURATE,
		.via_bf16 = o->via_bf16,
	};
	bool tensor_scale = mxfp_format_info(b.format)->tensor_scale;
	if (o->non_finite == MXFP_NON_FINITE_ERROR || (tensor_scale && o->tensor_amax == NULL)) {
		struct mxfp_scan_job s = scan(&job);
		if (o->non_finite == MXFP_NON_FINITE_ERROR && s.first_non_finite != UINT64_MAX) {
			if (o->first_non_finite != NULL)
				*o->first_non_finite = s.first_non_finite;
			return MXFP_ERR_NON_FINITE;
		}
		job.tensor_amax = s.amax;
	}
	if (o->tensor_amax != NULL)
		job.tensor_amax = f32_bits(*o->tensor_amax);
	if (tensor_scale)
		dst->tensor_scale = f32_from_bits(
			mxfp_nvfp4_tensor_scale_ref(job.recipe, job.tensor_amax, &dst->tensor_scale_divides));
	mxfp_parallel_for(o->threads, piece_count(b.rows, b.cols), quantize_piece, &job, o->counts);
	return MXFP_OK;
}

static void dequantize_piece(const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct mxfp_dequantize_job *whole = context;
	struct mxfp_dequantize_job job = *whole;
	size_t per_piece = piece_rows(whole->cols), start = piece * per_piece;

	(void)counts;
	job.rows = whole->rows - start < per_piece ? whole->rows - start : per_piece;
	job.codes = whole->codes + start * whole->codes_stride;
	job.scales = whole->scales + start * whole->scales_stride;
	job.dst = (uint8_t *)whole->dst +
	          start * whole->dst_stride * mxfp_format_info(whole->dst_format)->storage_bytes;
	mxfp_kernels_get()->dequantize[job.format](&job);
}

enum mxfp_status mxfp_dequantize(const struct mxfp_blocks *src, void *dst, enum mxfp_format dst_format,
                                 size_t dst_stride, unsigned threads)
{
	struct mxfp_blocks b;
	struct spans span;

	if (src == NULL)
		return MXFP_ERR_NULL;
	b = *src;
	enum mxfp_status status = check_blocks(&b, dst, dst_format, &dst_stride, &span);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_dequantize_job job = {
		.format = b.format,
		.dst_format = dst_format,
		.rows = b.rows,
		.cols = b.cols,
		.codes = b.codes,
		.scales = b.scales,
		.codes_stride = b.codes_stride,
		.scales_stride = b.scales_stride,
		.tensor_scale = f32_bits(b.tensor_scale),
		.tensor_scale_divides = b.tensor_scale_divides,
		.dst = dst,
		.dst_stride = dst_stride,
	};
	mxfp_parallel_for(threads, piece_count(b.rows, b.cols), dequantize_piece, &job, NULL);
	return MXFP_OK;
}

enum mxfp_status mxfp_amax(const void *src, enum mxfp_format src_format, size_t n, float *amax)
{
	size_t bytes;

	if (!mxfp_is_source(src_format))
		return MXFP_ERR_FORMAT;
	if (amax == NULL || (n != 0 && src == NULL))
		return MXFP_ERR_NULL;
	if (!mxfp_multiply(n, mxfp_format_info(src_format)->storage_bytes, &bytes) || bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	struct mxfp_scan_job job = {
		.src_format = src_format,
		.src = src,
		.n = n,
		.non_finite_from = F32_INF,
		.first_non_finite = UINT64_MAX,
	};
	mxfp_kernels_get()->scan[src_format](&job);
	/* As integers: a comparison of floats takes subnormals for 0 where the caller has set DAZ. */
	if (job.amax > f32_bits(*amax))
		*amax = f32_from_bits(job.amax);
	return MXFP_OK;
}
