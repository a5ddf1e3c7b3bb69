/* SPDX-License-Identifier: MIT */
/* mxfp_quantize(): checks the arguments and runs one kernel slot over the pieces of the matrix. */
#include "mxfp/quantize.h"

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "scale.h"
#include "scan.h"
#include "sized.h"
#include "tile.h"

const struct mxfp_quantize_options *mxfp_sized_quantize_options(const struct mxfp_quantize_options *options,
                                                                struct mxfp_quantize_options *copy)
{
	return MXFP_SIZED(options, copy, exec);
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
	if (o->tensor_amax != NULL && mxfp_load_f32(o->tensor_amax) >= MXFP_F32_INF &&
	    mxfp_load_f32(o->tensor_amax) != MXFP_F32_SIGN)
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

static void quantize_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                           struct mxfp_counts *counts)
{
	const struct mxfp_quantize_job *whole = context;
	struct mxfp_tile tile = mxfp_quantize_piece(whole, piece);
	struct mxfp_quantize_job job = *whole;

	job.codes = whole->codes + mxfp_codes_offset(whole->format, whole->codes_stride, tile.row, tile.col);
	job.scales = whole->scales + mxfp_scales_offset(whole->format, whole->scales_stride, tile.row, tile.col);
	job.counts = counts;
	mxfp_quantize_tile(kernels, whole, &tile, &job);
}

enum mxfp_status mxfp_quantize(struct mxfp_blocks *dst, const void *src, enum mxfp_format src_format,
                               size_t src_stride, const struct mxfp_quantize_options *options)
{
	struct mxfp_quantize_options options_copy;
	struct mxfp_blocks blocks_copy;
	const struct mxfp_quantize_options *o = MXFP_SIZED(options, &options_copy, exec);
	const struct mxfp_blocks *blocks = MXFP_SIZED(dst, &blocks_copy, tensor_scale_divides);
	struct mxfp_runner runner;
	struct mxfp_spans span;

	if (dst == NULL)
		return MXFP_ERR_NULL;
	if (o == NULL || blocks == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&runner, o->exec);
	if (status == MXFP_OK)
		status = mxfp_check_counts(o->counts);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix b = mxfp_blocks_matrix(blocks);
	status = mxfp_check_blocks(&b, src, src_format, src_stride, &span);
	if (status == MXFP_OK)
		status = mxfp_check_quantize_options(b.format, b.rows, b.cols, o);
	if (status == MXFP_OK && mxfp_overlap(&span.codes, &span.scales))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;

	struct mxfp_quantize_job job = {
		.format = b.format,
		.src_format = src_format,
		.rows = b.rows,
		.cols = b.cols,
		.src = src,
		.src_stride = span.stride,
		.codes = blocks->codes,
		.scales = blocks->scales,
		.codes_stride = span.codes_stride,
		.scales_stride = span.scales_stride,
	};
	mxfp_set_quantize_job(&job, o);
	bool scanned;
	status = mxfp_scan_first(&job, o, &runner, &scanned);
	if (status != MXFP_OK)
		return status;
	if (mxfp_format_get_info(b.format)->tensor_scale) {
		const struct mxfp_nvfp4_tensor tensor = mxfp_nvfp4_tensor_ref(job.recipe, job.tensor_amax);

		dst->tensor_scale = mxfp_f32_from_bits(tensor.scale);
		dst->tensor_scale_divides = tensor.divides;
	}
	struct mxfp_counts own = {0}, *counts = o->counts != NULL ? o->counts : &own;
	const uint64_t counted_before = counts->nan + counts->inf;
	mxfp_run_pieces(&runner, mxfp_quantize_piece_count(&job), quantize_piece, &job, counts);
	/* Kernels count every NaN and Inf of the source, but not what rounding to bf16 makes Inf. */
	if (o->first_non_finite != NULL && !scanned &&
	    (counts->nan + counts->inf != counted_before || o->via_bf16)) {
		uint64_t first;
		uint32_t amax;

		mxfp_scan(&job, &runner, &amax, &first);
		if (first != UINT64_MAX)
			*o->first_non_finite = first;
	}
	return MXFP_OK;
}
