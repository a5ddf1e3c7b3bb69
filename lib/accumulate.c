/* SPDX-License-Identifier: MIT */
/*
 * mxfp_accumulate() and mxfp_sum_arrays(): check the arguments and run kernel slots over strips, which are decoded to and
 * rounded from binary32 in a small buffer where the caller's memory does not hold binary32 already.
 */
#include "mxfp/accumulate.h"

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "result.h"
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

/* Checks how sums become numbers in a format. */
static enum mxfp_status check_options(const struct mxfp_accumulate_options *o, enum mxfp_format format)
{
	if (!mxfp_is_row_format(format))
		return MXFP_ERR_FORMAT;
	return o->round == MXFP_ROUND_RNE || (o->round == MXFP_ROUND_SR && format == MXFP_FORMAT_BF16) ? MXFP_OK : MXFP_ERR_OPTION;
}

static struct sink make_sink(void *data, enum mxfp_format format, size_t stride, const struct mxfp_accumulate_options *o)
{
	return (struct sink){
		.format = format,
		.data = data,
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

/* Checks src, in any format, and copies it with its strides. Fills in the bytes that it spans. */
static enum mxfp_status check_src(struct mxfp_matrix *checked, struct mxfp_spans *span, const struct mxfp_matrix *src)
{
	struct mxfp_matrix copy;
	struct mxfp_rows rows;

	if (src == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_matrix *m = MXFP_SIZED(src, &copy);
	if (m == NULL)
		return MXFP_ERR_VERSION;
	if (mxfp_is_block(m->format))
		return mxfp_check_source_blocks(checked, span, m);
	const enum mxfp_status status = mxfp_check_numbers(&rows, m, mxfp_is_element);
	if (status != MXFP_OK)
		return status;
	*checked = *m;
	checked->stride = rows.stride;
	*span = (struct mxfp_spans){.codes = rows.memory};
	return MXFP_OK;
}

enum mxfp_status mxfp_accumulate(const struct mxfp_result *sum, const struct mxfp_matrix *src,
                                 const struct mxfp_accumulate_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_accumulate_options copy;
	const struct mxfp_accumulate_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct accumulation a;
	struct mxfp_spans span;
	struct mxfp_sink sink;

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = check_src(&a.src, &span, src);
	if (status == MXFP_OK)
		status = mxfp_check_result(&sink, sum, mxfp_is_row_format, 0, a.src.rows, a.src.cols);
	if (status != MXFP_OK || sink.data.data == NULL)
		return status;
	status = check_options(o, sink.data.format);
	if (status == MXFP_OK && o->first_index > UINT64_MAX - (uint64_t)a.src.rows * a.src.cols)
		status = MXFP_ERR_SIZE;
	if (status == MXFP_OK &&
	    (mxfp_sink_touches(&sink, &span.codes) || mxfp_sink_touches(&sink, &span.scales)))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	a.dst = make_sink((void *)(uintptr_t)sink.data.data, sink.data.format, sink.data.stride, o);
	mxfp_run_pieces(&runner, mxfp_tile_count(a.src.rows, a.src.cols), accumulate_piece, &a, NULL);
	return MXFP_OK;
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

	if (!mxfp_is_row_format(job->src_format))
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

enum mxfp_status mxfp_sum_arrays(void *sum, enum mxfp_format sum_format, const void *const *terms, size_t n_terms,
                                 enum mxfp_format term_format, size_t n, const struct mxfp_accumulate_options *options,
                                 const struct mxfp_exec *exec)
{
	struct mxfp_accumulate_options copy;
	const struct mxfp_accumulate_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = check_options(o, sum_format);
	if (status != MXFP_OK)
		return status;
	const struct reduction r = {
		.job = {.src_format = term_format, .n_src = n_terms, .src = terms, .n = n},
		.dst = make_sink(sum, sum_format, n, o),
	};
	status = check_reduction(&r);
	if (status == MXFP_OK)
		mxfp_run_pieces(&runner, mxfp_tile_count(1, n), reduce_piece, &r, NULL);
	return status;
}
