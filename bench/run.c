/* SPDX-License-Identifier: MIT */
/* Runs a case over a part of the data, and its limit over the same part, in pieces like the library's. */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "bench.h"
#include "internal.h"
#include "sleef_peer.h"

enum { PIECE = 1 << 16 }; /* elements of a limit that a thread takes at once, as the library cuts a call */

/* The bytes of the codes of n elements. */
static size_t code_bytes(enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	if (info->kind != MXFP_KIND_BLOCK)
		return n * info->storage_bytes;
	return n * mxfp_format_get_info(info->element)->bits / 8;
}

size_t bench_bytes(enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return code_bytes(format, n) + (info->kind == MXFP_KIND_BLOCK ? n / info->block_length : 0);
}

/* The addresses of the codes and scales of element `start`. */
static uint8_t *at(uint8_t *codes, enum mxfp_format format, size_t start)
{
	return codes + code_bytes(format, start);
}

static uint8_t *scale_at(uint8_t *scales, enum mxfp_format format, size_t start)
{
	return scales + start / mxfp_format_get_info(format)->block_length;
}

bool bench_reads_twice(const struct bench_case *c)
{
	return (c->op == BENCH_QUANTIZE && mxfp_format_get_info(c->dst)->tensor_scale) ||
	       (c->op == BENCH_FAKE && mxfp_format_get_info(c->blocks)->tensor_scale);
}

bool bench_has_steps(const struct bench_case *c)
{
	return c->op == BENCH_FAKE || c->squares ||
	       ((c->op == BENCH_APPLY || c->op == BENCH_ROWS) && mxfp_format_get_info(c->dst)->kind == MXFP_KIND_BLOCK);
}

static struct mxfp_quantize_options quantize_options(const struct bench_work *work)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.rule = work->c->rule,
		.recipe = work->c->recipe,
		.round = work->c->round,
		.first_index = work->start,
	};
}

/* What is read, as rows of numbers. */
static struct mxfp_matrix source_of(const struct bench_work *work)
{
	return mxfp_numbers(work->c->src, work->n / BENCH_COLS, BENCH_COLS, at(work->data->src, work->c->src, work->start));
}

/* Where results go as numbers. */
static struct mxfp_result numbers_of(const struct bench_work *work, enum mxfp_format format)
{
	return mxfp_to_numbers(format, at(work->data->dst, format, work->start));
}

static struct mxfp_blocks blocks_of(const struct bench_work *work)
{
	const struct bench_case *c = work->c;

	return (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = c->dst,
		.rows = work->n / BENCH_COLS,
		.cols = BENCH_COLS,
		.codes = at(work->data->dst, c->dst, work->start),
		.scales = scale_at(work->data->dst_scales, c->dst, work->start),
	};
}

static enum mxfp_status quantize(const struct bench_work *work, bool squares, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix src = source_of(work);
	struct mxfp_quantize_options options = quantize_options(work);
	struct mxfp_blocks blocks = blocks_of(work);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);

	options.block_rows = squares ? BENCH_SQUARE : 1;
	return mxfp_quantize(&result, &src, &options, exec);
}

static enum mxfp_status dequantize(const struct bench_work *work, const struct mxfp_exec *exec)
{
	const struct bench_case *c = work->c;
	const struct mxfp_matrix matrix = {
		.size = sizeof matrix, .format = c->src,
		.rows = work->n / BENCH_COLS,
		.cols = BENCH_COLS,
		.data = at(work->data->src, c->src, work->start),
		.scales = scale_at(work->data->src_scales, c->src, work->start),
		.tensor_scale = 1,
	};

	const struct mxfp_result result = numbers_of(work, c->dst);

	return mxfp_dequantize(&result, &matrix, exec);
}

static enum mxfp_status convert(const struct bench_work *work, const struct mxfp_exec *exec)
{
	const struct bench_case *c = work->c;
	const struct mxfp_convert_options options = {.size = sizeof options, .round = c->round, .first_index = work->start};

	return mxfp_convert_array(at(work->data->dst, c->dst, work->start), c->dst, at(work->data->src, c->src, work->start), c->src, work->n, &options, exec);
}

static enum mxfp_status row_operation(const struct bench_work *work, const struct mxfp_result *result,
                                      const struct mxfp_quantize_options *quantize, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix src = source_of(work);
	const struct mxfp_matrix weight = mxfp_numbers(MXFP_FORMAT_F32, 1, BENCH_COLS, work->data->normals);
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 1e-5, .weight = &weight, .quantize = quantize};
	const struct mxfp_softmax_options softmax = {.size = sizeof softmax, .quantize = quantize};

	switch (work->c->row_op) {
	case BENCH_SOFTMAX:
		return mxfp_softmax(result, &src, &softmax, exec);
	case BENCH_RMS_NORM:
		return mxfp_rms_norm(result, &src, &norm, exec);
	default:
		return mxfp_layer_norm(result, &src, &norm, exec);
	}
}

/* A function or a row operation, with results as numbers or as blocks. */
static enum mxfp_status compute(const struct bench_work *work, bool as_blocks, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix src = source_of(work);
	const struct mxfp_quantize_options quantize = quantize_options(work);
	const struct mxfp_function_options options = {.size = sizeof options, .quantize = &quantize};
	struct mxfp_blocks blocks = blocks_of(work);
	const struct mxfp_result result = as_blocks ? mxfp_to_blocks(&blocks) : numbers_of(work, MXFP_FORMAT_F32);

	if (work->c->op == BENCH_ROWS)
		return row_operation(work, &result, &quantize, exec);
	return mxfp_function_apply(&result, work->c->function, &src, &options, exec);
}

static enum mxfp_status fake_quantize(const struct bench_work *work, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix src = source_of(work);
	const struct mxfp_quantize_options options = quantize_options(work);
	const struct mxfp_result result = numbers_of(work, work->c->dst);

	return mxfp_fake_quantize(&result, work->c->blocks, &src, &options, exec);
}

/* The same by way of blocks in memory. */
static enum mxfp_status fake_quantize_steps(const struct bench_work *work, const struct mxfp_exec *exec)
{
	const struct bench_case *c = work->c;
	const struct mxfp_matrix src = source_of(work);
	const struct mxfp_quantize_options options = quantize_options(work);
	struct mxfp_blocks blocks =
		mxfp_blocks_at(c->blocks, work->n / BENCH_COLS, BENCH_COLS, at(work->data->blocks, c->blocks, work->start),
	                       scale_at(work->data->dst_scales, c->blocks, work->start));
	const struct mxfp_result as_blocks = mxfp_to_blocks(&blocks), as_numbers = numbers_of(work, c->dst);

	enum mxfp_status status = mxfp_quantize(&as_blocks, &src, &options, exec);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	return mxfp_dequantize(&as_numbers, &matrix, exec);
}

void bench_run_steps(const struct bench_work *work)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = work->threads, .isa = work->isa};
	enum mxfp_status status = MXFP_OK;

	if (work->c->op == BENCH_FAKE)
		status = fake_quantize_steps(work, &exec);
	else if (!work->c->squares)
		status = compute(work, false, &exec);
	if (status == MXFP_OK && work->c->op != BENCH_FAKE)
		status = quantize(work, false, &exec);
	assert(status == MXFP_OK);
	(void)status;
}

void bench_run_sleef(const struct bench_work *work)
{
	bench_sleef(work->isa, work->c->function, (float *)at(work->data->dst, work->c->dst, work->start),
	            (const float *)at(work->data->src, work->c->src, work->start), work->n);
}

void bench_run(const struct bench_work *work)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = work->threads, .isa = work->isa};
	const struct mxfp_matrix src = source_of(work);
	enum mxfp_status status;
	float amax = 0;

	if (work->c->op == BENCH_CONVERT)
		status = convert(work, &exec);
	else if (work->c->op == BENCH_QUANTIZE)
		status = quantize(work, work->c->squares, &exec);
	else if (work->c->op == BENCH_DEQUANTIZE)
		status = dequantize(work, &exec);
	else if (work->c->op == BENCH_APPLY || work->c->op == BENCH_ROWS)
		status = compute(work, bench_has_steps(work->c), &exec);
	else if (work->c->op == BENCH_FAKE)
		status = fake_quantize(work, &exec);
	else
		status = mxfp_amax(&amax, &src, &exec);
	assert(status == MXFP_OK);
	(void)status;
}

/* The factor between the limit's ratio of reads to writes and `ratio`, at least 1. */
static double distance(const struct limit *limit, double ratio)
{
	const double of_limit = (double)limit->in / limit->out;

	return of_limit > ratio ? of_limit / ratio : ratio / of_limit;
}

const struct limit *bench_limits_of_tier(const char *isa)
{
#define BENCH_TIER(name) \
	if (strcmp(isa, #name) == 0) \
		return limits_##name;
#include "tier.def"
	return limits_ref;
}

const struct limit *bench_limit(const struct limit *limits, const struct bench_case *c)
{
	const double ratio = (double)bench_bytes(c->src, BENCH_COLS) / (double)bench_bytes(c->dst, BENCH_COLS);
	const struct limit *best = limits + 1;

	if (c->op == BENCH_SCAN)
		return limits;
	for (const struct limit *limit = best; limit->run != NULL; limit++)
		if (distance(limit, ratio) < distance(best, ratio))
			best = limit;
	return best;
}

/* A limit over a part of the data. */
struct limit_work {
	limit_loop *run;
	const struct limit *limit;
	const uint8_t *src;
	uint8_t *dst;
	size_t n_steps, piece_steps;
};

static void limit_piece(void *context, size_t piece)
{
	const struct limit_work *work = context;
	const size_t start = piece * work->piece_steps, left = work->n_steps - start;

	work->run(work->dst + start * work->limit->out * LIMIT_LINE_BYTES,
	          work->src + start * work->limit->in * LIMIT_LINE_BYTES,
	          left < work->piece_steps ? left : work->piece_steps);
}

/* Reads and writes `bytes` bytes in all, in as many pieces as the work has. */
static void move_bytes(const struct bench_work *work, const struct limit *limit, bool past, size_t bytes)
{
	const size_t n_pieces = (work->n + PIECE - 1) / PIECE;
	const size_t n_steps = bytes / LIMIT_LINE_BYTES / (limit->in + limit->out);
	struct limit_work limit_work = {
		.run = past ? limit->run_past : limit->run,
		.limit = limit,
		.src = at(work->data->src, work->c->src, work->start),
		.dst = at(work->data->dst, work->c->dst, work->start),
		.n_steps = n_steps,
		.piece_steps = (n_steps + n_pieces - 1) / n_pieces,
	};

	const struct mxfp_exec exec = {.size = sizeof exec, .threads = work->threads};

	mxfp_parallel_for(&exec, n_pieces, limit_piece, &limit_work);
}

static void run_limit(const struct bench_work *work, bool past)
{
	const struct bench_case *c = work->c;
	const size_t read = bench_bytes(c->src, work->n), written = c->op == BENCH_SCAN ? 0 : bench_bytes(c->dst, work->n);

	if (bench_reads_twice(c))
		move_bytes(work, work->limits, past, read);
	move_bytes(work, bench_limit(work->limits, c), past, read + written);
}

void bench_run_limit(const struct bench_work *work)
{
	run_limit(work, false);
}

void bench_run_limit_past(const struct bench_work *work)
{
	run_limit(work, true);
}
