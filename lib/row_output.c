/* SPDX-License-Identifier: MIT */
/* Rows in and out of functions and row operations: f32 in place, bf16 and blocks by way of a strip in the cache. */
#include "row_output.h"

#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "sized.h"

enum { CORE_CACHE_BYTES = 1 << 20 };

static bool is_row_format(enum mxfp_format format)
{
	return format == MXFP_FORMAT_F32 || format == MXFP_FORMAT_BF16;
}

enum mxfp_status mxfp_check_rows(struct mxfp_rows *checked, const void *data, enum mxfp_format format, size_t stride,
                                 size_t rows, size_t cols)
{
	size_t elements, stride_bytes;

	if (!is_row_format(format))
		return MXFP_ERR_FORMAT;
	if (rows != 0 && cols != 0 && data == NULL)
		return MXFP_ERR_NULL;
	const size_t width = mxfp_format_get_info(format)->storage_bytes;
	*checked = (struct mxfp_rows){.data = data, .format = format, .stride = stride != 0 ? stride : cols};
	if (checked->stride < cols || !mxfp_multiply(rows, cols, &elements) ||
	    !mxfp_multiply(checked->stride, width, &stride_bytes) ||
	    !mxfp_region(&checked->memory, data, rows, cols * width, stride_bytes))
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}

/* Whether the recipe has no tensor scale, so that blocks can be made before the whole tensor is known. */
static bool is_one_level(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML;
}

enum mxfp_status mxfp_check_sink_blocks(struct mxfp_row_sink *sink, struct mxfp_blocks *given,
                                        const struct mxfp_quantize_options *quantize, size_t rows, size_t cols)
{
	struct mxfp_quantize_options options_copy;
	struct mxfp_blocks blocks_copy;
	struct mxfp_spans span;
	const struct mxfp_quantize_options *o = mxfp_sized_quantize_options(quantize, &options_copy);
	const struct mxfp_blocks *blocks = MXFP_SIZED(given, &blocks_copy, tensor_scale_divides);

	if (o == NULL || blocks == NULL)
		return MXFP_ERR_OPTION;
	const struct mxfp_matrix b = mxfp_blocks_matrix(blocks);
	enum mxfp_status status = mxfp_check_codes(&b, &span);
	if (status == MXFP_OK && (b.rows != rows || b.cols != cols))
		status = MXFP_ERR_SIZE;
	if (status == MXFP_OK)
		status = mxfp_check_quantize_options(b.format, rows, cols, o);
	if (status == MXFP_OK)
		status = mxfp_check_counts(o->counts);
	if (status != MXFP_OK)
		return status;
	const bool tensor_scale = mxfp_format_get_info(b.format)->tensor_scale;
	if (o->non_finite == MXFP_NON_FINITE_ERROR || o->first_non_finite != NULL || o->block_rows > 1 ||
	    (tensor_scale && o->tensor_amax == NULL && !is_one_level(o->recipe)))
		return MXFP_ERR_OPTION;
	sink->blocks = given;
	sink->codes = span.codes;
	sink->scales = span.scales;
	sink->counts = o->counts;
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
	mxfp_set_quantize_job(&sink->job, o);
	if (o->tensor_amax != NULL)
		sink->job.tensor_amax = mxfp_load_f32(o->tensor_amax) & ~MXFP_F32_SIGN;
	return MXFP_OK;
}

enum mxfp_status mxfp_check_row_output(struct mxfp_row_sink *sink, const struct mxfp_row_output *output, size_t rows,
                                       size_t cols)
{
	struct mxfp_row_output copy;
	const struct mxfp_row_output *o = MXFP_SIZED(output, &copy, quantize);

	if (output == NULL)
		return MXFP_ERR_NULL;
	if (o == NULL)
		return MXFP_ERR_OPTION;
	*sink = (struct mxfp_row_sink){0};
	if (o->data == NULL && o->blocks == NULL && rows != 0 && cols != 0)
		return MXFP_ERR_NULL;
	if (o->data != NULL) {
		enum mxfp_status status = mxfp_check_rows(&sink->data, o->data, o->format, o->stride, rows, cols);

		if (status != MXFP_OK)
			return status;
	}
	if (o->blocks == NULL)
		return MXFP_OK;
	const struct mxfp_quantize_job *job = &sink->job;
	enum mxfp_status status = mxfp_check_sink_blocks(sink, o->blocks, o->quantize, rows, cols);
	if (status == MXFP_OK && rows != 0 && cols != 0 && (job->codes == NULL || job->scales == NULL))
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK && (mxfp_overlap(&sink->codes, &sink->scales) || mxfp_overlap(&sink->data.memory, &sink->codes) ||
	                          mxfp_overlap(&sink->data.memory, &sink->scales)))
		status = MXFP_ERR_OVERLAP;
	return status;
}

bool mxfp_sink_overlaps(const struct mxfp_row_sink *sink, const struct mxfp_rows *rows)
{
	const bool in_place = sink->data.format == rows->format && mxfp_same_region(&sink->data.memory, &rows->memory);

	return (!in_place && mxfp_overlap(&sink->data.memory, &rows->memory)) || mxfp_overlap(&sink->codes, &rows->memory) ||
	       mxfp_overlap(&sink->scales, &rows->memory);
}

void mxfp_sink_start(const struct mxfp_row_sink *sink)
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

float *mxfp_result_strip(const struct mxfp_row_sink *sink, size_t row, size_t col, float *buffer)
{
	if (sink->data.data == NULL || sink->data.format != MXFP_FORMAT_F32)
		return buffer;
	return (float *)(void *)address(&sink->data, row, col);
}

void mxfp_store_strip(const struct mxfp_kernels *kernels, const struct mxfp_row_sink *sink, size_t row, size_t col,
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
