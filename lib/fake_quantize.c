/* SPDX-License-Identifier: MIT */
/*
 * mxfp_fake_quantize(): strips of the matrix go through the kernels of mxfp_quantize() and mxfp_dequantize(), with their
 * blocks in a small buffer between. A strip has been read before it is written, so it may be written in place.
 */
#include <stdatomic.h>

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "row_output.h"
#include "scan.h"
#include "sized.h"

/* Blocks of a strip: its codes and scales leave room for the rest of a frame. Calls of kernels for NVFP4 make tables
   first, so strips are as long as that allows. */
enum { CODES_BYTES = 4096, LEAST_BLOCK_BYTES = 8, SCALES_BYTES = CODES_BYTES / LEAST_BLOCK_BYTES };

enum { LEAST_BLOCK = 16, LIMITS = MXFP_STRIP / LEAST_BLOCK, SCALE_CODES = 256 };

struct fake {
	struct mxfp_quantize_job quantize;     /* of the whole matrix, without blocks */
	struct mxfp_dequantize_job dequantize; /* likewise; dst is NULL if numbers are not wanted */
	uint8_t *clamped;
	size_t clamped_stride;
	struct mxfp_nvfp4_tensor tensor;
	_Atomic uint32_t *limits;         /* by scale byte, plus 1; 0 where it is not known yet */
	_Atomic uint64_t *first_non_finite; /* NULL: not wanted, or known */
};

static size_t width_of(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->storage_bytes;
}

/* A limit is computed once a call, or by a few threads at once, which find the same. */
static uint32_t limit(const struct fake *f, uint8_t scale)
{
	const struct mxfp_quantize_job *q = &f->quantize;
	uint32_t known = atomic_load_explicit(&f->limits[scale], memory_order_relaxed);

	if (known == 0) {
		known = 1 + (mxfp_format_get_info(q->format)->tensor_scale
		                     ? mxfp_nvfp4_limit_ref(q->recipe, &f->tensor, scale)
		                     : mxfp_mx_limit_ref(q->format, q->via_bf16, scale));
		atomic_store_explicit(&f->limits[scale], known, memory_order_relaxed);
	}
	return known - 1;
}

static MXFP_OWN_FRAME void mark_clamped(const struct mxfp_kernels *kernels, const struct fake *f, size_t row, size_t col,
                                        size_t n, const uint8_t *scales)
{
	const size_t block = mxfp_format_get_info(f->quantize.format)->block_length;
	const struct mxfp_rows src = {
		.data = f->quantize.src, .format = f->quantize.src_format, .stride = f->quantize.src_stride,
	};
	float buffer[MXFP_STRIP];
	uint32_t limits[LIMITS];

	for (size_t done = 0, part; done < n; done += part) {
		part = mxfp_least(n - done, MXFP_STRIP);
		for (size_t b = 0; b * block < part; b++)
			limits[b] = limit(f, scales[done / block + b]);
		const struct mxfp_clamp_job job = {
			.x = mxfp_load_strip(kernels, &src, row, col + done, part, buffer),
			.n = part,
			.block_length = block,
			.limits = limits,
			.clamped = f->clamped + row * f->clamped_stride + col + done,
		};

		kernels->clamp(&job);
	}
}

static void fake_strip(const struct mxfp_kernels *kernels, const struct fake *f, const struct mxfp_tile *s,
                       bool last, struct mxfp_counts *counts)
{
	_Alignas(64) uint8_t codes[CODES_BYTES], scales[SCALES_BYTES];
	const struct mxfp_format_info *info = mxfp_format_get_info(f->quantize.format);
	const size_t blocks = mxfp_divide_up(s->cols, info->block_length);
	const uint64_t counted_before = counts->nan + counts->inf;
	struct mxfp_quantize_job q = f->quantize;
	struct mxfp_dequantize_job d = f->dequantize;

	d.rows = s->rows;
	d.cols = s->cols;
	q.codes = codes;
	q.scales = scales;
	d.codes = codes;
	d.scales = scales;
	q.codes_stride = d.codes_stride = mxfp_codes_offset(q.format, 0, 0, blocks * info->block_length);
	q.scales_stride = d.scales_stride = blocks;
	q.counts = counts;
	mxfp_quantize_tile(kernels, &f->quantize, s, &q);
	if (f->first_non_finite != NULL && (q.via_bf16 || counts->nan + counts->inf != counted_before))
		mxfp_lower(f->first_non_finite, mxfp_scan_tile(kernels, &f->quantize, s).first_non_finite);
	if (f->clamped != NULL)
		for (size_t row = 0; row < s->rows; row++)
			mark_clamped(kernels, f, s->row + row, s->col, s->cols, scales + row * blocks);
	if (d.dst == NULL)
		return;
	d.dst = (uint8_t *)d.dst + (s->row * d.dst_stride + s->col) * width_of(d.dst_format);
	d.continued = !last;
	kernels->dequantize[d.format](&d);
}

static void fake_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct fake *f = context;
	const struct mxfp_format_info *info = mxfp_format_get_info(f->quantize.format);
	const struct mxfp_tile tile = mxfp_quantize_piece(&f->quantize, piece);
	const size_t most = CODES_BYTES / mxfp_codes_offset(f->quantize.format, 0, 0, info->block_length);
	const size_t side = f->quantize.squares ? info->block_length : 1; /* rows that share a strip at least */
	const size_t most_cols = mxfp_least(tile.cols, most / side * info->block_length);
	const size_t most_rows = most / mxfp_divide_up(most_cols, info->block_length) / side * side;
	struct mxfp_tile s;

	for (size_t row = 0; row < tile.rows; row += s.rows)
		for (size_t col = 0; col < tile.cols; col += s.cols) {
			s.row = tile.row + row;
			s.col = tile.col + col;
			s.cols = mxfp_least(tile.cols - col, most_cols);
			s.rows = mxfp_least(tile.rows - row, most_rows);
			fake_strip(kernels, f, &s, row + s.rows == tile.rows && col + s.cols == tile.cols, counts);
		}
}

/* Makes a region of rows x cols numbers; false on overflow or if the stride is shorter than a row. */
static bool region_of(struct mxfp_region *region, const void *at, size_t rows, size_t cols, size_t stride, size_t width)
{
	size_t stride_bytes;

	return stride >= cols && mxfp_multiply(stride, width, &stride_bytes) &&
	       mxfp_region(region, at, rows, cols * width, stride_bytes);
}

/* Checks what *f says of memory, whose strides are not 0, and sets how results are stored. */
static enum mxfp_status check_memory(struct fake *f, const struct mxfp_quantize_options *o)
{
	const struct mxfp_quantize_job *q = &f->quantize;
	struct mxfp_dequantize_job *d = &f->dequantize;
	struct mxfp_region src, dst = {0}, clamped = {0};
	size_t elements;

	if (!mxfp_is_block(q->format) || !mxfp_is_source(q->src_format) ||
	    (d->dst != NULL && !mxfp_is_source(d->dst_format)))
		return MXFP_ERR_FORMAT;
	if (!mxfp_multiply(q->rows, q->cols, &elements) ||
	    !region_of(&src, q->src, q->rows, q->cols, q->src_stride, width_of(q->src_format)) ||
	    (d->dst != NULL && !region_of(&dst, d->dst, q->rows, q->cols, d->dst_stride, width_of(d->dst_format))) ||
	    (f->clamped != NULL && !region_of(&clamped, f->clamped, q->rows, q->cols, f->clamped_stride, 1)))
		return MXFP_ERR_SIZE;
	enum mxfp_status status = mxfp_check_quantize_options(q->format, q->rows, q->cols, o);
	if (status != MXFP_OK || elements == 0)
		return status;
	if (q->src == NULL || (d->dst == NULL && f->clamped == NULL))
		return MXFP_ERR_NULL;
	const bool in_place = d->dst_format == q->src_format && mxfp_same_region(&dst, &src);
	if ((!in_place && mxfp_overlap(&dst, &src)) || mxfp_overlap(&clamped, &src) || mxfp_overlap(&clamped, &dst))
		return MXFP_ERR_OVERLAP;
	d->past_caches = !in_place && dst.bytes >= MXFP_PAST_CACHES_BYTES;
	return MXFP_OK;
}

/* Sets what a tensor has besides its blocks. */
static void set_tensor(struct fake *f)
{
	if (!mxfp_format_get_info(f->quantize.format)->tensor_scale)
		return;
	f->tensor = mxfp_nvfp4_tensor_ref(f->quantize.recipe, f->quantize.tensor_amax);
	f->dequantize.tensor_scale = f->tensor.scale;
	f->dequantize.tensor_scale_divides = f->tensor.divides;
}

enum mxfp_status mxfp_fake_quantize(enum mxfp_format format, const struct mxfp_fake_output *output, const void *src,
                                    enum mxfp_format src_format, size_t src_stride, size_t rows, size_t cols,
                                    const struct mxfp_quantize_options *options)
{
	struct mxfp_quantize_options options_copy;
	struct mxfp_fake_output output_copy;
	const struct mxfp_quantize_options *o = mxfp_sized_quantize_options(options, &options_copy);
	const struct mxfp_fake_output *out = MXFP_SIZED(output, &output_copy, clamped_stride);
	_Atomic uint32_t limits[SCALE_CODES] = {0};
	_Atomic uint64_t first_non_finite = UINT64_MAX;
	struct mxfp_runner runner;
	bool scanned;

	if (output == NULL)
		return MXFP_ERR_NULL;
	if (o == NULL || out == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&runner, o->exec);
	if (status == MXFP_OK)
		status = mxfp_check_counts(o->counts);
	if (status != MXFP_OK)
		return status;
	struct fake f = {
		.quantize = {
			.format = format,
			.src_format = src_format,
			.rows = rows,
			.cols = cols,
			.src = src,
			.src_stride = src_stride != 0 ? src_stride : cols,
		},
		.dequantize = {
			.format = format,
			.dst_format = out->format,
			.dst = out->data,
			.dst_stride = out->stride != 0 ? out->stride : cols,
		},
		.clamped = out->clamped,
		.clamped_stride = out->clamped_stride != 0 ? out->clamped_stride : cols,
		.limits = limits,
	};
	status = check_memory(&f, o);
	if (status != MXFP_OK)
		return status;
	mxfp_set_quantize_job(&f.quantize, o);
	status = mxfp_scan_first(&f.quantize, o, &runner, &scanned);
	if (status != MXFP_OK)
		return status;
	set_tensor(&f);
	if (o->first_non_finite != NULL && !scanned)
		f.first_non_finite = &first_non_finite;
	mxfp_run_pieces(&runner, mxfp_quantize_piece_count(&f.quantize), fake_piece, &f, o->counts);
	if (first_non_finite != UINT64_MAX)
		*o->first_non_finite = first_non_finite;
	return MXFP_OK;
}
