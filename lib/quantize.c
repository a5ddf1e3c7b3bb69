/* SPDX-License-Identifier: MIT */
/* mxfp_quantize() and mxfp_fake_quantize(): check the arguments; for blocks alone one kernel slot runs over the pieces of the
   matrix, and fake_quantize.c does what more is wanted. */
#include "mxfp/quantize.h"

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "fake_quantize.h"
#include "result.h"
#include "scale.h"
#include "scan.h"
#include "sized.h"
#include "tile.h"

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

/* Makes blocks alone. `scanned`: the first NaN or Inf has been looked for. */
static void make_blocks(const struct mxfp_sink *sink, const struct mxfp_runner *runner, bool scanned)
{
	const struct mxfp_quantize_job *job = &sink->job;
	struct mxfp_counts own = {0}, *counts = sink->counts != NULL ? sink->counts : &own;
	const uint64_t counted_before = counts->nan + counts->inf;

	mxfp_run_pieces(runner, mxfp_quantize_piece_count(job), quantize_piece, job, counts);
	/* Kernels count every NaN and Inf of the source, but not what rounding to bf16 makes Inf. */
	if (sink->first_non_finite != NULL && !scanned && (counts->nan + counts->inf != counted_before || job->via_bf16)) {
		uint64_t first;
		uint32_t amax;

		mxfp_scan(job, runner, &amax, &first);
		if (first != UINT64_MAX)
			*sink->first_non_finite = first;
	}
}

/* Checks a sink that is quantized to `format` from src, and makes its job that of the whole matrix. */
static enum mxfp_status check(struct mxfp_sink *sink, const struct mxfp_result *result, enum mxfp_format format,
                              const struct mxfp_rows *src, const struct mxfp_quantize_options *o)
{
	const int parts = MXFP_TAKES_BLOCKS | MXFP_TAKES_CLAMPED | MXFP_TAKES_COUNTS | MXFP_TAKES_NON_FINITE;

	if (!mxfp_is_block(format))
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = mxfp_check_result(sink, result, mxfp_is_source, parts, src->rows, src->cols);
	if (status == MXFP_OK)
		status = mxfp_check_result_blocks(sink, o, src->rows, src->cols);
	if (status == MXFP_OK && sink->blocks == NULL)
		status = mxfp_check_quantize_options(format, src->rows, src->cols, o);
	if (status == MXFP_OK)
		status = mxfp_check_sink_memory(sink, src->rows, src->cols);
	if (status == MXFP_OK && mxfp_sink_overlaps(sink, src))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	if (sink->blocks == NULL) {
		sink->job = (struct mxfp_quantize_job){.format = format, .rows = src->rows, .cols = src->cols};
		mxfp_set_quantize_job(&sink->job, o);
	}
	sink->job.src = src->data;
	sink->job.src_format = src->format;
	sink->job.src_stride = src->stride;
	return MXFP_OK;
}

/* Quantizes to the parts of a result: blocks alone, or numbers and marks, with the blocks or without them. */
static enum mxfp_status quantize(const struct mxfp_result *result, enum mxfp_format format, const struct mxfp_matrix *src,
                                 const struct mxfp_quantize_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_quantize_options copy;
	const struct mxfp_quantize_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct mxfp_rows rows;
	struct mxfp_sink sink;
	bool scanned;

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&rows, src, mxfp_is_source);
	if (status == MXFP_OK)
		status = check(&sink, result, format, &rows, o);
	if (status == MXFP_OK)
		status = mxfp_scan_first(&sink, o, &runner, &scanned);
	if (status != MXFP_OK)
		return status;
	mxfp_sink_start(&sink);
	if (sink.data.data == NULL && sink.clamped == NULL)
		make_blocks(&sink, &runner, scanned);
	else
		mxfp_fake_run(&sink, &runner, scanned);
	return MXFP_OK;
}

enum mxfp_status mxfp_quantize(const struct mxfp_result *result, const struct mxfp_matrix *src,
                               const struct mxfp_quantize_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_result result_copy;
	struct mxfp_blocks blocks_copy;

	if (result == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_result *r = MXFP_SIZED(result, &result_copy);
	if (r == NULL)
		return MXFP_ERR_VERSION;
	if (r->blocks == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_blocks *blocks = MXFP_SIZED((const struct mxfp_blocks *)r->blocks, &blocks_copy);
	return blocks != NULL ? quantize(r, blocks->format, src, options, exec) : MXFP_ERR_VERSION;
}

enum mxfp_status mxfp_fake_quantize(const struct mxfp_result *result, enum mxfp_format format, const struct mxfp_matrix *src,
                                    const struct mxfp_quantize_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_result copy;

	if (result == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_result *r = MXFP_SIZED(result, &copy);
	if (r == NULL)
		return MXFP_ERR_VERSION;
	return r->blocks == NULL ? quantize(r, format, src, options, exec) : MXFP_ERR_OPTION;
}
