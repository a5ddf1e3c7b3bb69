/* SPDX-License-Identifier: MIT */
/* mxfp_amax(), and the scan of a source before it is quantized. The results are a maximum and a minimum, so the order
   of the pieces does not matter. */
#include "scan.h"

#include <stdatomic.h>

#include "args.h"
#include "bits.h"

/* The smallest magnitude bits that rounding to bf16 makes Inf: the tie above its largest finite value. */
enum { BF16_OVERFLOW = 0x7F7F8000 };

struct scan {
	const struct mxfp_quantize_job *job;
	_Atomic uint32_t *amax;
	_Atomic uint64_t *first_non_finite;
};

struct mxfp_scan_job mxfp_scan_tile(const struct mxfp_kernels *kernels, const struct mxfp_quantize_job *job,
                                    const struct mxfp_tile *tile)
{
	size_t width = mxfp_format_get_info(job->src_format)->storage_bytes;
	struct mxfp_scan_job s = {
		.src_format = job->src_format,
		.n = tile->cols,
		.non_finite_from = job->via_bf16 ? BF16_OVERFLOW : MXFP_F32_INF,
		.first_non_finite = UINT64_MAX,
	};

	for (size_t r = tile->row; r < tile->row + tile->rows; r++) {
		s.src = (const uint8_t *)job->src + (r * job->src_stride + tile->col) * width;
		s.first_index = job->first_index + r * job->cols + tile->col;
		kernels->scan[job->src_format](&s);
	}
	return s;
}

void mxfp_lower(_Atomic uint64_t *least, uint64_t index)
{
	uint64_t first = *least;

	while (index < first && !atomic_compare_exchange_weak(least, &first, index))
		;
}

static void scan_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                       struct mxfp_counts *counts)
{
	const struct scan *scan = context;
	const struct mxfp_tile tile = mxfp_tile(scan->job->rows, scan->job->cols, piece);
	const struct mxfp_scan_job s = mxfp_scan_tile(kernels, scan->job, &tile);

	(void)counts;
	uint32_t amax = *scan->amax;
	while (s.amax > amax && !atomic_compare_exchange_weak(scan->amax, &amax, s.amax))
		;
	mxfp_lower(scan->first_non_finite, s.first_non_finite);
}

void mxfp_scan(const struct mxfp_quantize_job *job, const struct mxfp_runner *runner, uint32_t *amax,
               uint64_t *first_non_finite)
{
	_Atomic uint32_t largest = 0;
	_Atomic uint64_t first = UINT64_MAX;
	const struct scan scan = {job, &largest, &first};

	mxfp_run_pieces(runner, mxfp_tile_count(job->rows, job->cols), scan_piece, &scan, NULL);
	*amax = largest;
	*first_non_finite = first;
}

enum mxfp_status mxfp_scan_first(struct mxfp_sink *sink, const struct mxfp_quantize_options *o,
                                 const struct mxfp_runner *runner, bool *scanned)
{
	const bool error = o->non_finite == MXFP_NON_FINITE_ERROR;
	struct mxfp_quantize_job *job = &sink->job;
	uint64_t first = UINT64_MAX;
	uint32_t amax;

	*scanned = error || (mxfp_format_get_info(job->format)->tensor_scale && !o->tensor_amax.given);
	if (*scanned)
		mxfp_scan(job, runner, &amax, &first);
	if (first != UINT64_MAX && sink->first_non_finite != NULL)
		*sink->first_non_finite = first;
	if (first != UINT64_MAX && error)
		return MXFP_ERR_NON_FINITE;
	if (*scanned && !o->tensor_amax.given)
		job->tensor_amax = amax;
	return MXFP_OK;
}

enum mxfp_status mxfp_amax(float *amax, const struct mxfp_matrix *src, const struct mxfp_exec *exec)
{
	struct mxfp_runner runner;
	struct mxfp_rows rows;
	uint64_t first_non_finite;
	uint32_t largest;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&rows, src, mxfp_is_source);
	if (status == MXFP_OK && amax == NULL)
		status = MXFP_ERR_NULL;
	if (status != MXFP_OK)
		return status;
	const struct mxfp_quantize_job job = {
		.src_format = rows.format, .rows = rows.rows, .cols = rows.cols, .src = rows.data, .src_stride = rows.stride,
	};
	mxfp_scan(&job, &runner, &largest, &first_non_finite);
	/* Compared as integers, because a comparison of floats takes subnormals for 0 if the caller has set DAZ. */
	if (largest > (mxfp_load_f32(amax) & ~MXFP_F32_SIGN))
		memcpy((void *)amax, &largest, sizeof largest);
	return MXFP_OK;
}
