/* SPDX-License-Identifier: MIT */
/*
 * mxfp_accumulate() and mxfp_reduce(): check the arguments and run kernel slots over strips, which are decoded to and
 * rounded from binary32 in a small buffer where the caller's memory does not hold binary32 already.
 */
#include "mxfp/accumulate.h"

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "sized.h"
#include "tile.h"

enum { STRIP = 1024 }; /* numbers: a multiple of every block length, and two buffers of it stay in the first cache */

/* What both calls know of the destination. */
struct sink {
	enum mxfp_format format;
	uint8_t *data;
	size_t stride; /* elements */
	struct mxfp_rounding rounding;
	uint64_t first_index;
};

static uint8_t *sink_at(const struct sink *sink, size_t row, size_t col)
{
	return sink->data + (row * sink->stride + col) * mxfp_format_get_info(sink->format)->storage_bytes;
}

/* Whether kernels can read and write numbers there as they are. */
static bool is_binary32(enum mxfp_format format, const void *at)
{
	return format == MXFP_FORMAT_F32 && (uintptr_t)at % _Alignof(float) == 0;
}

static void to_f32(const struct mxfp_kernels *kernels, float *to, enum mxfp_format format, const void *from, size_t n)
{
	struct mxfp_counts counts = {0};
	const struct mxfp_convert_job job = {
		.dst_format = MXFP_FORMAT_F32, .src_format = format, .dst = to, .src = from, .n = n, .counts = &counts,
	};

	kernels->convert[MXFP_FORMAT_F32][format](&job);
}

/* Stores n sums, which begin with element `index` of the call. */
static void store_sums(const struct mxfp_kernels *kernels, const struct sink *sink, void *to, const float *sums, size_t n,
                       size_t index)
{
	struct mxfp_counts counts = {0};
	const struct mxfp_convert_job job = {
		.dst_format = sink->format,
		.src_format = MXFP_FORMAT_F32,
		.dst = to,
		.src = sums,
		.n = n,
		.first_index = sink->first_index + index,
		.rounding = sink->rounding,
		.counts = &counts,
	};

	kernels->convert[sink->format][MXFP_FORMAT_F32](&job);
}

/* Checks the options, whose struct is the caller's, and the destination's format. Sets *options to them, or to *copy. */
static enum mxfp_status check_options(const struct mxfp_accumulate_options **options,
                                      struct mxfp_accumulate_options *copy, enum mxfp_format dst_format,
                                      struct mxfp_runner *runner)
{
	const struct mxfp_accumulate_options *o = MXFP_SIZED(*options, copy, exec);

	if (o == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(runner, o->exec);
	if (status != MXFP_OK)
		return status;
	if (dst_format != MXFP_FORMAT_F32 && dst_format != MXFP_FORMAT_BF16)
		return MXFP_ERR_FORMAT;
	if (o->round != MXFP_ROUND_RNE && (o->round != MXFP_ROUND_SR || dst_format != MXFP_FORMAT_BF16))
		return MXFP_ERR_OPTION;
	*options = o;
	return MXFP_OK;
}

static struct sink make_sink(void *dst, enum mxfp_format format, size_t stride, const struct mxfp_accumulate_options *o)
{
	return (struct sink){
		.format = format,
		.data = dst,
		.stride = stride,
		.rounding = {.mode = o->round, .overflow = MXFP_OVERFLOW_OVF, .seed = o->seed, .stream = o->stream},
		.first_index = o->first_index,
	};
}

struct accumulation {
	struct mxfp_matrix src; /* strides are not 0 */
	struct sink dst;
};

/* Returns n elements of src in binary32, in `buffer` or where they are. */
static const float *decode(const struct mxfp_kernels *kernels, const struct mxfp_matrix *src, size_t row, size_t col,
                           size_t n, float *buffer)
{
	const uint8_t *data = src->data;

	if (!mxfp_is_block(src->format)) {
		const void *at = data + (row * src->stride + col) * mxfp_format_get_info(src->format)->storage_bytes;

		if (is_binary32(src->format, at))
			return at;
		to_f32(kernels, buffer, src->format, at, n);
		return buffer;
	}
	const struct mxfp_dequantize_job job = {
		.format = src->format,
		.dst_format = MXFP_FORMAT_F32,
		.rows = 1,
		.cols = n,
		.codes = data + mxfp_codes_offset(src->format, src->stride, row, col),
		.scales = (const uint8_t *)src->scales + mxfp_scales_offset(src->format, src->scales_stride, row, col),
		.codes_stride = src->stride,
		.scales_stride = src->scales_stride,
		.tensor_scale = mxfp_f32_bits(src->tensor_scale),
		.tensor_scale_divides = src->tensor_scale_divides,
		.dst = buffer,
		.dst_stride = n,
	};
	kernels->dequantize[src->format](&job);
	return buffer;
}

static void accumulate_strip(const struct mxfp_kernels *kernels, const struct accumulation *a, size_t row, size_t col,
                             size_t n)
{
	float decoded[STRIP], sums[STRIP];
	void *at = sink_at(&a->dst, row, col);
	bool direct = is_binary32(a->dst.format, at);
	float *held = direct ? at : sums;

	if (!direct)
		to_f32(kernels, sums, a->dst.format, at, n);
	/* The last step of a product without scales and bias: given + sum, and canonical NaN. */
	const struct mxfp_gemm_finish_job job = {
		.n = n, .sum = decode(kernels, &a->src, row, col, n, decoded), .given = held, .result = held,
	};
	kernels->gemm_finish(&job);
	if (!direct)
		store_sums(kernels, &a->dst, at, sums, n, row * a->src.cols + col);
}

static void accumulate_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                             struct mxfp_counts *counts)
{
	const struct accumulation *a = context;
	const struct mxfp_tile tile = mxfp_tile(a->src.rows, a->src.cols, piece);

	(void)counts;
	for (size_t row = 0; row < tile.rows; row++)
		for (size_t col = 0, n; col < tile.cols; col += n) {
			n = mxfp_least(tile.cols - col, STRIP);
			accumulate_strip(kernels, a, tile.row + row, tile.col + col, n);
		}
}

/* Checks a->src, whose strides it makes not 0, and a->dst beside it. */
static enum mxfp_status check_accumulation(struct accumulation *a)
{
	struct mxfp_matrix *src = &a->src;
	const bool block = mxfp_is_block(src->format);
	struct mxfp_sizes size = {0};
	struct mxfp_region numbers, from[2] = {{0}};
	size_t stride, elements;

	if (src->transposed || (!block && !mxfp_is_element(src->format)))
		return MXFP_ERR_FORMAT;
	if (src->sparsity.n != 0 || src->sparsity.m != 0)
		return MXFP_ERR_OPTION;
	const size_t dst_width = mxfp_format_get_info(a->dst.format)->storage_bytes;
	const size_t width = mxfp_format_get_info(src->format)->storage_bytes;
	enum mxfp_status status = block ? mxfp_blocks_size(src->format, src->rows, src->cols, &size) : MXFP_OK;
	if (status == MXFP_OK && !block && !mxfp_multiply(src->cols, width, &size.codes_row_bytes))
		status = MXFP_ERR_SIZE;
	if (status != MXFP_OK)
		return status;
	if (src->stride == 0)
		src->stride = block ? size.codes_row_bytes : src->cols;
	if (src->scales_stride == 0)
		src->scales_stride = size.scales_row_bytes;
	if (a->dst.stride == 0)
		a->dst.stride = src->cols;
	if (!mxfp_multiply(src->stride, mxfp_stride_unit(src->format), &stride) ||
	    !mxfp_region(&from[0], src->data, src->rows, size.codes_row_bytes, stride) ||
	    (block && !mxfp_region(&from[1], src->scales, src->rows, size.scales_row_bytes, src->scales_stride)) ||
	    a->dst.stride < src->cols || !mxfp_multiply(a->dst.stride, dst_width, &stride) ||
	    !mxfp_region(&numbers, a->dst.data, src->rows, src->cols * dst_width, stride) ||
	    !mxfp_multiply(src->rows, src->cols, &elements) || a->dst.first_index > UINT64_MAX - elements)
		return MXFP_ERR_SIZE;
	if (elements == 0)
		return MXFP_OK;
	if (a->dst.data == NULL || src->data == NULL || (block && src->scales == NULL))
		return MXFP_ERR_NULL;
	return mxfp_overlap_any(&numbers, from, 2) ? MXFP_ERR_OVERLAP : MXFP_OK;
}

enum mxfp_status mxfp_accumulate(const struct mxfp_matrix *src, void *dst, enum mxfp_format dst_format, size_t dst_stride,
                                 const struct mxfp_accumulate_options *options)
{
	struct mxfp_accumulate_options options_copy;
	struct mxfp_matrix src_copy;
	struct mxfp_runner runner;

	if (src == NULL)
		return MXFP_ERR_NULL;
	src = mxfp_sized_matrix(src, &src_copy);
	if (src == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = check_options(&options, &options_copy, dst_format, &runner);
	if (status != MXFP_OK)
		return status;
	struct accumulation a = {.src = *src, .dst = make_sink(dst, dst_format, dst_stride, options)};
	status = check_accumulation(&a);
	if (status == MXFP_OK)
		mxfp_run_pieces(&runner, mxfp_tile_count(src->rows, src->cols), accumulate_piece, &a, NULL);
	return status;
}

struct reduction {
	struct mxfp_reduce_job job; /* of all n numbers, without dst */
	struct sink dst;
};

static void reduce_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                         struct mxfp_counts *counts)
{
	const struct reduction *r = context;
	const struct mxfp_tile tile = mxfp_tile(1, r->job.n, piece);
	const bool direct = is_binary32(r->dst.format, r->dst.data);
	struct mxfp_reduce_job job = r->job;
	float sums[STRIP];

	(void)counts;
	for (size_t done = 0; done < tile.cols; done += job.n) {
		void *at = sink_at(&r->dst, 0, tile.col + done);

		job.first = tile.col + done;
		job.n = direct ? tile.cols : mxfp_least(tile.cols - done, STRIP);
		job.dst = direct ? at : sums;
		kernels->reduce(&job);
		if (!direct)
			store_sums(kernels, &r->dst, at, sums, job.n, job.first);
	}
}

static enum mxfp_status check_reduction(const struct reduction *r)
{
	const struct mxfp_reduce_job *job = &r->job;
	struct mxfp_region dst, src, pointers;

	if (job->src_format != MXFP_FORMAT_F32 && job->src_format != MXFP_FORMAT_BF16)
		return MXFP_ERR_FORMAT;
	const size_t dst_width = mxfp_format_get_info(r->dst.format)->storage_bytes;
	const size_t src_width = mxfp_format_get_info(job->src_format)->storage_bytes;
	if (job->n_src == 0 || !mxfp_region(&dst, r->dst.data, job->n, dst_width, dst_width) ||
	    !mxfp_region(&src, NULL, job->n, src_width, src_width) ||
	    !mxfp_region(&pointers, job->src, job->n_src, sizeof *job->src, sizeof *job->src) ||
	    r->dst.first_index > UINT64_MAX - job->n)
		return MXFP_ERR_SIZE;
	if (job->n == 0)
		return MXFP_OK;
	if (r->dst.data == NULL || job->src == NULL)
		return MXFP_ERR_NULL;
	for (size_t i = 0; i < job->n_src; i++)
		if (job->src[i] == NULL)
			return MXFP_ERR_NULL;
	for (size_t i = 0; i < job->n_src; i++) {
		src.at = job->src[i];
		if (!mxfp_same_region(&dst, &src) && mxfp_overlap(&dst, &src))
			return MXFP_ERR_OVERLAP;
	}
	return mxfp_overlap(&dst, &pointers) ? MXFP_ERR_OVERLAP : MXFP_OK;
}

enum mxfp_status mxfp_reduce(void *dst, enum mxfp_format dst_format, const void *const *src, enum mxfp_format src_format,
                             size_t n_src, size_t n, const struct mxfp_accumulate_options *options)
{
	struct mxfp_accumulate_options copy;
	struct mxfp_runner runner;

	enum mxfp_status status = check_options(&options, &copy, dst_format, &runner);
	if (status != MXFP_OK)
		return status;
	const struct reduction r = {
		.job = {.src_format = src_format, .n_src = n_src, .src = src, .n = n},
		.dst = make_sink(dst, dst_format, n, options),
	};
	status = check_reduction(&r);
	if (status == MXFP_OK)
		mxfp_run_pieces(&runner, mxfp_tile_count(1, n), reduce_piece, &r, NULL);
	return status;
}
