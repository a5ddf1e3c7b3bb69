/* SPDX-License-Identifier: MIT */
/* Rows in and results out: f32 in place, bf16 and blocks by way of a strip in the cache. */
#include "result.h"

#include <string.h>

#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "sized.h"
#include "sparse.h"

enum { CORE_CACHE_BYTES = 1 << 20 };

bool mxfp_is_row_format(enum mxfp_format format)
{
	return format == MXFP_FORMAT_F32 || format == MXFP_FORMAT_BF16;
}

bool mxfp_is_f32(enum mxfp_format format)
{
	return format == MXFP_FORMAT_F32;
}

/* Checks rows x cols numbers in a format that has been checked. */
static enum mxfp_status check_rows(struct mxfp_rows *checked, const void *data, enum mxfp_format format, size_t stride,
                                   size_t rows, size_t cols)
{
	const size_t width = mxfp_format_get_info(format)->storage_bytes;
	size_t elements, stride_bytes;

	*checked = (struct mxfp_rows){
		.data = data, .format = format, .rows = rows, .cols = cols, .stride = stride != 0 ? stride : cols,
	};
	if (checked->stride < cols)
		return MXFP_ERR_STRIDE;
	if (!mxfp_multiply(rows, cols, &elements) || !mxfp_multiply(checked->stride, width, &stride_bytes) ||
	    !mxfp_region(&checked->memory, data, rows, cols * width, stride_bytes))
		return MXFP_ERR_SIZE;
	return data != NULL || elements == 0 ? MXFP_OK : MXFP_ERR_NULL;
}

enum mxfp_status mxfp_check_numbers(struct mxfp_rows *checked, const struct mxfp_matrix *matrix, mxfp_takes *takes)
{
	struct mxfp_matrix copy;

	if (matrix == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_matrix *m = MXFP_SIZED(matrix, &copy);
	if (m == NULL)
		return MXFP_ERR_VERSION;
	if (!takes(m->format) || m->transposed || mxfp_is_sparse(m))
		return MXFP_ERR_FORMAT;
	return check_rows(checked, m->data, m->format, m->stride, m->rows, m->cols);
}

enum mxfp_status mxfp_check_input(struct mxfp_rows *checked, const struct mxfp_matrix *matrix, mxfp_takes *takes, size_t rows,
                                  size_t cols)
{
	const enum mxfp_status status = mxfp_check_numbers(checked, matrix, takes);

	return status == MXFP_OK && (checked->rows != rows || checked->cols != cols) ? MXFP_ERR_SHAPE : status;
}

enum mxfp_status mxfp_check_result(struct mxfp_sink *sink, const struct mxfp_result *result, mxfp_takes *takes, int parts,
                                   size_t rows, size_t cols)
{
	struct mxfp_result copy;
	size_t elements;

	if (result == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_result *r = MXFP_SIZED(result, &copy);
	if (r == NULL)
		return MXFP_ERR_VERSION;
	*sink = (struct mxfp_sink){
		.clamped = r->clamped, .blocks = r->blocks, .counts = r->counts, .first_non_finite = r->first_non_finite,
	};
	if ((r->blocks != NULL && (parts & MXFP_TAKES_BLOCKS) == 0) || (r->clamped != NULL && (parts & MXFP_TAKES_CLAMPED) == 0) ||
	    (r->counts != NULL && (parts & MXFP_TAKES_COUNTS) == 0) ||
	    (r->first_non_finite != NULL && (parts & MXFP_TAKES_NON_FINITE) == 0))
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_check_counts(r->counts);
	if (status != MXFP_OK)
		return status;
	if (r->data == NULL && r->blocks == NULL && r->clamped == NULL && rows != 0 && cols != 0 &&
	    (parts & MXFP_TAKES_NOTHING) == 0)
		return MXFP_ERR_NULL;
	if (r->data != NULL) {
		if (!takes(r->format))
			return MXFP_ERR_FORMAT;
		status = check_rows(&sink->data, r->data, r->format, r->stride, rows, cols);
		if (status != MXFP_OK)
			return status;
	}
	if (r->clamped == NULL)
		return MXFP_OK;
	sink->clamped_stride = r->clamped_stride != 0 ? r->clamped_stride : cols;
	if (sink->clamped_stride < cols)
		return MXFP_ERR_STRIDE;
	return mxfp_multiply(rows, cols, &elements) && mxfp_region(&sink->marks, r->clamped, rows, cols, sink->clamped_stride)
	               ? MXFP_OK
	               : MXFP_ERR_SIZE;
}

/* Whether the recipe has no tensor scale, so that blocks can be made before the whole tensor is known. */
static bool is_one_level(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML;
}

bool mxfp_is_one_pass(enum mxfp_format format, const struct mxfp_quantize_options *options)
{
	return options->non_finite != MXFP_NON_FINITE_ERROR && options->block_rows <= 1 &&
	       (!mxfp_format_get_info(format)->tensor_scale || options->tensor_amax.given || is_one_level(options->recipe));
}

enum mxfp_status mxfp_check_result_blocks(struct mxfp_sink *sink, const struct mxfp_quantize_options *options, size_t rows,
                                          size_t cols)
{
	struct mxfp_blocks copy;
	struct mxfp_spans span;

	if (sink->blocks == NULL)
		return MXFP_OK;
	const struct mxfp_blocks *blocks = MXFP_SIZED(sink->blocks, &copy);
	if (blocks == NULL)
		return MXFP_ERR_VERSION;
	const struct mxfp_matrix b = mxfp_blocks_matrix(blocks);
	enum mxfp_status status = mxfp_check_codes(&b, &span);
	if (status == MXFP_OK && (b.rows != rows || b.cols != cols))
		status = MXFP_ERR_SHAPE;
	if (status == MXFP_OK)
		status = mxfp_check_quantize_options(b.format, rows, cols, options);
	if (status != MXFP_OK)
		return status;
	sink->codes = span.codes;
	sink->scales = span.scales;
	sink->job = (struct mxfp_quantize_job){
		.format = b.format,
		.src_format = MXFP_FORMAT_F32,
		.rows = rows,
		.cols = cols,
		.codes = blocks->codes,
		.scales = blocks->scales,
		.codes_stride = span.codes_stride,
		.scales_stride = span.scales_stride,
	};
	mxfp_set_quantize_job(&sink->job, options);
	return MXFP_OK;
}

enum mxfp_status mxfp_check_sink_memory(const struct mxfp_sink *sink, size_t rows, size_t cols)
{
	const struct mxfp_quantize_job *job = &sink->job;

	if (sink->blocks != NULL && rows != 0 && cols != 0 && (job->codes == NULL || job->scales == NULL))
		return MXFP_ERR_NULL;
	return mxfp_overlap(&sink->codes, &sink->scales) || mxfp_overlap(&sink->data.memory, &sink->codes) ||
	                       mxfp_overlap(&sink->data.memory, &sink->scales) || mxfp_overlap(&sink->marks, &sink->codes) ||
	                       mxfp_overlap(&sink->marks, &sink->scales) || mxfp_overlap(&sink->marks, &sink->data.memory)
	               ? MXFP_ERR_OVERLAP
	               : MXFP_OK;
}

enum mxfp_status mxfp_check_sink(struct mxfp_sink *sink, const struct mxfp_result *result,
                                 const struct mxfp_quantize_options *options, size_t rows, size_t cols)
{
	struct mxfp_quantize_options copy;
	const struct mxfp_quantize_options *o = MXFP_SIZED(options, &copy);

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status =
		mxfp_check_result(sink, result, mxfp_is_row_format, MXFP_TAKES_BLOCKS | MXFP_TAKES_COUNTS, rows, cols);
	if (status == MXFP_OK)
		status = mxfp_check_result_blocks(sink, o, rows, cols);
	if (status == MXFP_OK && sink->blocks != NULL && !mxfp_is_one_pass(sink->job.format, o))
		status = MXFP_ERR_OPTION;
	return status == MXFP_OK ? mxfp_check_sink_memory(sink, rows, cols) : status;
}

bool mxfp_sink_touches(const struct mxfp_sink *sink, const struct mxfp_region *memory)
{
	return mxfp_overlap(&sink->data.memory, memory) || mxfp_overlap(&sink->marks, memory) ||
	       mxfp_overlap(&sink->codes, memory) || mxfp_overlap(&sink->scales, memory);
}

bool mxfp_sink_overlaps(const struct mxfp_sink *sink, const struct mxfp_rows *rows)
{
	const bool in_place = sink->data.format == rows->format && mxfp_same_region(&sink->data.memory, &rows->memory);

	return (!in_place && mxfp_overlap(&sink->data.memory, &rows->memory)) || mxfp_overlap(&sink->marks, &rows->memory) ||
	       mxfp_overlap(&sink->codes, &rows->memory) || mxfp_overlap(&sink->scales, &rows->memory);
}

void mxfp_sink_start(const struct mxfp_sink *sink)
{
	if (sink->blocks == NULL || !mxfp_format_get_info(sink->job.format)->tensor_scale)
		return;
	const struct mxfp_nvfp4_tensor tensor = mxfp_nvfp4_tensor_ref(sink->job.recipe, sink->job.tensor_amax);

	sink->blocks->tensor_scale = mxfp_f32_from_bits(tensor.scale);
	sink->blocks->tensor_scale_divides = tensor.divides;
}

/* The address of number (row, col). */
static uint8_t *address(const struct mxfp_rows *rows, size_t row, size_t col)
{
	return (uint8_t *)(uintptr_t)rows->data + (row * rows->stride + col) * mxfp_format_get_info(rows->format)->storage_bytes;
}

static void convert(const struct mxfp_kernels *kernels, enum mxfp_format to, void *dst, enum mxfp_format from,
                    const void *src, size_t n)
{
	struct mxfp_counts counts = {0};
	const struct mxfp_convert_job job = {
		.dst_format = to, .src_format = from, .dst = dst, .src = src, .n = n, .counts = &counts,
	};

	kernels->convert[to][from](&job);
}

const float *mxfp_load_strip(const struct mxfp_kernels *kernels, const struct mxfp_rows *rows, size_t row, size_t col,
                             size_t n, float *buffer)
{
	const void *at = address(rows, row, col);

	if (rows->format == MXFP_FORMAT_F32)
		return at;
	convert(kernels, MXFP_FORMAT_F32, buffer, rows->format, at, n);
	return buffer;
}

const void *mxfp_next_strip(const struct mxfp_rows *rows, size_t row, size_t col, size_t n)
{
	return row + 1 < n && rows->memory.bytes > CORE_CACHE_BYTES ? address(rows, row + 1, col) : NULL;
}

float *mxfp_result_strip(const struct mxfp_sink *sink, size_t row, size_t col, float *buffer)
{
	if (sink->data.data == NULL || sink->data.format != MXFP_FORMAT_F32)
		return buffer;
	return (float *)(void *)address(&sink->data, row, col);
}

void mxfp_store_strip(const struct mxfp_kernels *kernels, const struct mxfp_sink *sink, size_t row, size_t col,
                      size_t n, const float *values, struct mxfp_counts *counts)
{
	if (sink->data.data != NULL && sink->data.format != MXFP_FORMAT_F32)
		convert(kernels, sink->data.format, address(&sink->data, row, col), MXFP_FORMAT_F32, values, n);
	if (sink->blocks == NULL)
		return;
	struct mxfp_quantize_job job = sink->job;
	job.rows = 1;
	job.cols = n;
	job.src = values;
	job.src_stride = n;
	job.codes += mxfp_codes_offset(job.format, job.codes_stride, row, col);
	job.scales += mxfp_scales_offset(job.format, job.scales_stride, row, col);
	job.first_index += row * sink->job.cols + col;
	job.counts = counts;
	kernels->quantize[job.format](&job);
}

void mxfp_fill(float *at, size_t n, uint32_t bits)
{
	for (size_t i = 0; i < n; i++)
		memcpy(at + i, &bits, sizeof bits);
}

uint64_t mxfp_row_total(const struct mxfp_kernels *kernels, enum mxfp_sum sum, const struct mxfp_rows *rows, size_t row,
                        size_t cols, uint64_t mean)
{
	uint64_t lanes[MXFP_SUM_LANES] = {0}, total = 0;
	float buffer[MXFP_STRIP];

	for (size_t col = 0, n; col < cols; col += n) {
		n = mxfp_strip_length(cols, col);
		const struct mxfp_row_sum_job job = {
			.sum = sum,
			.x = mxfp_load_strip(kernels, rows, row, col, n, buffer),
			.n = n,
			.mean = mean,
			.lanes = lanes,
			.total = col + n == cols ? &total : NULL,
		};

		kernels->row_sum(&job);
	}
	return total;
}
