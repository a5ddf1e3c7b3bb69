/* SPDX-License-Identifier: MIT */
/* Runs a case over a part of the data, in pieces as the library does, and the limit over the same part. */
#include "config.h"

#include "bench.h"
#include "tile.h"

enum { F32_INF = 0x7F800000, F32_ONE = 0x3F800000 };

bench_kernel *bench_slot(const struct mxfp_kernels *table, const struct bench_case *c)
{
	switch (c->op) {
	case BENCH_CONVERT:
		return (bench_kernel *)table->convert[c->dst][c->src];
	case BENCH_QUANTIZE:
		return (bench_kernel *)table->quantize[c->dst];
	case BENCH_DEQUANTIZE:
		return (bench_kernel *)table->dequantize[c->src];
	default:
		return (bench_kernel *)table->scan[c->src];
	}
}

/* Bytes that the codes of n elements take. */
static size_t code_bytes(enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_info(format);

	if (info->kind != MXFP_KIND_BLOCK)
		return n * info->storage_bytes;
	return n * mxfp_format_info(info->element)->bits / 8;
}

size_t bench_bytes(enum mxfp_format format, size_t n)
{
	const struct mxfp_format_info *info = mxfp_format_info(format);

	return code_bytes(format, n) + (info->kind == MXFP_KIND_BLOCK ? n / info->block_length : 0);
}

/* Where the codes and scales of element `start` lie. */
static uint8_t *at(uint8_t *codes, enum mxfp_format format, size_t start)
{
	return codes + code_bytes(format, start);
}

static uint8_t *scale_at(uint8_t *scales, enum mxfp_format format, size_t start)
{
	return scales + start / mxfp_format_info(format)->block_length;
}

/* The pieces that the library cuts such work into; rows are short enough to stay whole. */
static size_t piece_count(const struct bench_work *work)
{
	return mxfp_tile_count(work->n / BENCH_COLS, BENCH_COLS);
}

static size_t piece_start(const struct bench_work *work, size_t piece)
{
	return work->start + mxfp_tile(work->n / BENCH_COLS, BENCH_COLS, piece).row * BENCH_COLS;
}

static size_t piece_length(const struct bench_work *work, size_t piece)
{
	return mxfp_tile(work->n / BENCH_COLS, BENCH_COLS, piece).rows * BENCH_COLS;
}

static void convert_piece(void *context, size_t piece)
{
	const struct bench_work *work = context;
	const struct bench_case *c = work->c;
	const size_t start = piece_start(work, piece);
	const struct mxfp_convert_job job = {
		.dst_format = c->dst,
		.src_format = c->src,
		.dst = at(work->data->dst, c->dst, start),
		.src = at(work->data->src, c->src, start),
		.n = piece_length(work, piece),
		.first_index = start,
		.rounding = {.mode = c->round},
		.counts = &(struct mxfp_counts){0},
		.past_caches = work->place == BENCH_DRAM,
	};

	work->table->convert[c->dst][c->src](&job);
}

/* A scan of a piece; NVFP4's first pass too, whose result is the same for every piece of the repeated pattern. */
static void scan_piece(void *context, size_t piece)
{
	const struct bench_work *work = context;
	const size_t start = piece_start(work, piece);
	struct mxfp_scan_job job = {
		.src_format = work->c->src,
		.src = at(work->data->src, work->c->src, start),
		.n = piece_length(work, piece),
		.first_index = start,
		.non_finite_from = F32_INF,
		.first_non_finite = UINT64_MAX,
	};

	work->table->scan[work->c->src](&job);
}

static void quantize_piece(void *context, size_t piece)
{
	const struct bench_work *work = context;
	const struct bench_case *c = work->c;
	const size_t start = piece_start(work, piece);
	const struct mxfp_quantize_job job = {
		.format = c->dst,
		.src_format = c->src,
		.rows = piece_length(work, piece) / BENCH_COLS,
		.cols = BENCH_COLS,
		.src = at(work->data->src, c->src, start),
		.src_stride = BENCH_COLS,
		.codes = at(work->data->dst, c->dst, start),
		.scales = scale_at(work->data->dst_scales, c->dst, start),
		.codes_stride = code_bytes(c->dst, BENCH_COLS),
		.scales_stride = BENCH_COLS / mxfp_format_info(c->dst)->block_length,
		.first_index = start,
		.rounding = {.mode = c->round},
		.rule = c->rule,
		.recipe = c->recipe,
		.tensor_amax = work->data->amax,
		.counts = &(struct mxfp_counts){0},
	};

	work->table->quantize[c->dst](&job);
}

static void dequantize_piece(void *context, size_t piece)
{
	const struct bench_work *work = context;
	const struct bench_case *c = work->c;
	const size_t start = piece_start(work, piece);
	const struct mxfp_dequantize_job job = {
		.format = c->src,
		.dst_format = c->dst,
		.rows = piece_length(work, piece) / BENCH_COLS,
		.cols = BENCH_COLS,
		.codes = at(work->data->src, c->src, start),
		.scales = scale_at(work->data->src_scales, c->src, start),
		.codes_stride = code_bytes(c->src, BENCH_COLS),
		.scales_stride = BENCH_COLS / mxfp_format_info(c->src)->block_length,
		.tensor_scale = F32_ONE,
		.dst = at(work->data->dst, c->dst, start),
		.dst_stride = BENCH_COLS,
		.past_caches = work->place == BENCH_DRAM,
	};

	work->table->dequantize[c->src](&job);
}

bool bench_reads_twice(const struct bench_case *c)
{
	return c->op == BENCH_QUANTIZE && mxfp_format_info(c->dst)->tensor_scale;
}

void bench_run(const struct bench_work *work)
{
	static void (*const pieces[])(void *context, size_t piece) = {
		[BENCH_CONVERT] = convert_piece,
		[BENCH_QUANTIZE] = quantize_piece,
		[BENCH_DEQUANTIZE] = dequantize_piece,
		[BENCH_SCAN] = scan_piece,
	};
	const size_t n_pieces = piece_count(work);
	const struct mxfp_exec exec = {.threads = work->threads};

	if (bench_reads_twice(work->c))
		mxfp_parallel_for(&exec, n_pieces, scan_piece, (void *)work);
	mxfp_parallel_for(&exec, n_pieces, pieces[work->c->op], (void *)work);
}

/* How far the limit's ratio of reads to writes is from `ratio`, as a factor. */
static double distance(const struct limit *limit, double ratio)
{
	const double of_limit = (double)limit->in / limit->out;

	return of_limit > ratio ? of_limit / ratio : ratio / of_limit;
}

static const struct limit *const limits_of_tiers[] = {
#define MXFP_TIER(id, name, features) limits_##name,
#include "isa.def"
};

const struct limit *bench_limits_of_tier(int tier)
{
	return limits_of_tiers[tier];
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

/* A loop over part of the data. */
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

/* Moves `bytes` bytes, read ones and written ones together, in as many pieces as the work has. */
static void move_bytes(const struct bench_work *work, const struct limit *limit, bool past, size_t bytes)
{
	const size_t n_pieces = piece_count(work);
	const size_t n_steps = bytes / LIMIT_LINE_BYTES / (limit->in + limit->out);
	struct limit_work limit_work = {
		.run = past ? limit->run_past : limit->run,
		.limit = limit,
		.src = at(work->data->src, work->c->src, work->start),
		.dst = at(work->data->dst, work->c->dst, work->start),
		.n_steps = n_steps,
		.piece_steps = (n_steps + n_pieces - 1) / n_pieces,
	};

	mxfp_parallel_for(&(struct mxfp_exec){.threads = work->threads}, n_pieces, limit_piece, &limit_work);
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
