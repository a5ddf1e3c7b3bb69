/* SPDX-License-Identifier: MIT */
/* mxfp_rows_reduce() and mxfp_rows_argmax(). */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "tile.h"

struct reduce {
	enum mxfp_reduction reduction;
	float *dst;
	size_t *index; /* argmax: instead of dst */
	struct mxfp_rows src;
};

static uint32_t sum_of(const struct mxfp_kernels *kernels, const struct reduce *whole, size_t row)
{
	const enum mxfp_sum sum =
		whole->reduction == MXFP_REDUCTION_SQUARE_SUM ? MXFP_SUM_SQUARES : MXFP_SUM_NUMBERS;
	uint64_t total = mxfp_row_total(kernels, sum, &whole->src, row, whole->src.cols, 0);

	if (whole->reduction == MXFP_REDUCTION_MEAN)
		total = mxfp_f64_div(total, mxfp_f64_from_u64(whole->src.cols));
	return mxfp_f64_to_f32(total);
}

static struct mxfp_row_max_job most_of(const struct mxfp_kernels *kernels, const struct reduce *whole, size_t row)
{
	struct mxfp_row_max_job job = {
		.max = MXFP_F32_INF | MXFP_F32_SIGN,
		.index = UINT64_MAX,
		.wants_index = whole->index != NULL,
	};
	float buffer[MXFP_STRIP];

	for (size_t col = 0; col < whole->src.cols; col += job.n) {
		job.n = mxfp_strip_length(whole->src.cols, col);
		job.first_index = col;
		job.x = mxfp_load_strip(kernels, &whole->src, row, col, job.n, buffer);
		kernels->row_max(&job);
	}
	return job;
}

static void reduce_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                         struct mxfp_counts *counts)
{
	const struct reduce *whole = context;
	const struct mxfp_tile tile = mxfp_row_tile(whole->src.rows, whole->src.cols, piece);

	(void)counts;
	for (size_t row = tile.row; row < tile.row + tile.rows; row++) {
		if (whole->index != NULL) {
			const size_t index = (size_t)most_of(kernels, whole, row).index;

			memcpy((void *)(whole->index + row), &index, sizeof index);
		} else if (whole->reduction == MXFP_REDUCTION_MAX) {
			mxfp_fill(whole->dst + row, 1, most_of(kernels, whole, row).max);
		} else {
			mxfp_fill(whole->dst + row, 1, sum_of(kernels, whole, row));
		}
	}
}

/* Checks the source and dst, an array of elements of dst_width bytes, and runs. */
static enum mxfp_status run(struct reduce *whole, const void *dst, size_t dst_width, bool takes_none,
                            const struct mxfp_matrix *src, const struct mxfp_exec *exec)
{
	const struct mxfp_rows *from = &whole->src;
	struct mxfp_runner runner;
	size_t dst_bytes;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&whole->src, src, mxfp_is_row_format);
	if (status != MXFP_OK)
		return status;
	if (dst == NULL && from->rows != 0)
		return MXFP_ERR_NULL;
	if ((from->cols == 0 && !takes_none) || !mxfp_multiply(from->rows, dst_width, &dst_bytes) || dst_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	const struct mxfp_region results = mxfp_bytes(dst, dst_bytes);
	if (mxfp_overlap(&results, &from->memory))
		return MXFP_ERR_OVERLAP;
	mxfp_run_pieces(&runner, mxfp_row_tile_count(from->rows, from->cols != 0 ? from->cols : 1), reduce_piece, whole, NULL);
	return MXFP_OK;
}

enum mxfp_status mxfp_rows_reduce(float *dst, enum mxfp_reduction reduction, const struct mxfp_matrix *src,
                                  const struct mxfp_exec *exec)
{
	struct reduce whole = {.reduction = reduction, .dst = dst};
	const bool takes_none = reduction == MXFP_REDUCTION_SUM || reduction == MXFP_REDUCTION_SQUARE_SUM;

	if ((unsigned)reduction > MXFP_REDUCTION_MAX)
		return MXFP_ERR_OPTION;
	return run(&whole, dst, sizeof *dst, takes_none, src, exec);
}

enum mxfp_status mxfp_rows_argmax(size_t *dst, const struct mxfp_matrix *src, const struct mxfp_exec *exec)
{
	struct reduce whole = {.index = dst};

	return run(&whole, dst, sizeof *dst, false, src, exec);
}
