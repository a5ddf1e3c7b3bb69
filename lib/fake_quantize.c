/* SPDX-License-Identifier: MIT */
/*
 * Strips of the matrix go through the kernels of mxfp_quantize() and mxfp_dequantize(), with their blocks in a small buffer
 * between, or where the caller wants them. A strip has been read before it is written, so it may be written in place.
 */
#include "fake_quantize.h"

#include <stdatomic.h>

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "scan.h"

/* Blocks of a strip: its codes and scales leave room for the rest of a frame. Calls of kernels for NVFP4 make tables
   first, so strips are as long as that allows. */
enum { CODES_BYTES = 4096, LEAST_BLOCK_BYTES = 8, SCALES_BYTES = CODES_BYTES / LEAST_BLOCK_BYTES };

enum { LEAST_BLOCK = 16, LIMITS = MXFP_STRIP / LEAST_BLOCK, SCALE_CODES = 256 };

struct fake {
	struct mxfp_quantize_job quantize;     /* of the whole matrix; its codes are NULL if blocks are not wanted */
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
	_Alignas(64) uint8_t own_codes[CODES_BYTES], own_scales[SCALES_BYTES];
	const struct mxfp_quantize_job *whole = &f->quantize;
	const struct mxfp_format_info *info = mxfp_format_get_info(f->quantize.format);
	const size_t blocks = mxfp_divide_up(s->cols, info->block_length);
	const uint64_t counted_before = counts->nan + counts->inf;
	struct mxfp_quantize_job q = *whole;
	struct mxfp_dequantize_job d = f->dequantize;

	if (whole->codes != NULL) {
		q.codes += mxfp_codes_offset(q.format, q.codes_stride, s->row, s->col);
		q.scales += mxfp_scales_offset(q.format, q.scales_stride, s->row, s->col);
	} else {
		q.codes = own_codes;
		q.scales = own_scales;
		q.codes_stride = mxfp_codes_offset(q.format, 0, 0, blocks * info->block_length);
		q.scales_stride = blocks;
	}
	d.rows = s->rows;
	d.cols = s->cols;
	d.codes = q.codes;
	d.scales = q.scales;
	d.codes_stride = q.codes_stride;
	d.scales_stride = q.scales_stride;
	q.counts = counts;
	mxfp_quantize_tile(kernels, whole, s, &q);
	if (f->first_non_finite != NULL && (q.via_bf16 || counts->nan + counts->inf != counted_before))
		mxfp_lower(f->first_non_finite, mxfp_scan_tile(kernels, &f->quantize, s).first_non_finite);
	if (f->clamped != NULL)
		for (size_t row = 0; row < s->rows; row++)
			mark_clamped(kernels, f, s->row + row, s->col, s->cols, q.scales + row * q.scales_stride);
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

void mxfp_fake_run(const struct mxfp_sink *sink, const struct mxfp_runner *runner, bool scanned)
{
	const struct mxfp_quantize_job *q = &sink->job;
	const bool in_place = sink->data.data == q->src;
	_Atomic uint32_t limits[SCALE_CODES] = {0};
	_Atomic uint64_t first_non_finite = UINT64_MAX;
	struct fake f = {
		.quantize = *q,
		.dequantize = {
			.format = q->format,
			.dst_format = sink->data.format,
			.dst = (void *)(uintptr_t)sink->data.data,
			.dst_stride = sink->data.stride,
			.past_caches = !in_place && sink->data.memory.bytes >= MXFP_PAST_CACHES_BYTES,
		},
		.clamped = sink->clamped,
		.clamped_stride = sink->clamped_stride,
		.limits = limits,
	};

	if (mxfp_format_get_info(q->format)->tensor_scale) {
		f.tensor = mxfp_nvfp4_tensor_ref(q->recipe, q->tensor_amax);
		f.dequantize.tensor_scale = f.tensor.scale;
		f.dequantize.tensor_scale_divides = f.tensor.divides;
	}
	if (sink->first_non_finite != NULL && !scanned)
		f.first_non_finite = &first_non_finite;
	mxfp_run_pieces(runner, mxfp_quantize_piece_count(q), fake_piece, &f, sink->counts);
	if (first_non_finite != UINT64_MAX)
		*sink->first_non_finite = first_non_finite;
}
