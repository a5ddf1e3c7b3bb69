/* SPDX-License-Identifier: MIT */
/* mxfp_row_reduce() and mxfp_row_argmax(). */
#include "args.h"
#include "bits.h"
#include "exec.h"
#include "rows.h"
#include "tile.h"

struct reduce {
	enum mxfp_reduction reduction;
	float *dst;
	size_t *index; /* argmax: instead of dst */
	struct mxfp_rows src;
	size_t rows, cols;
};

static uint32_t sum_of(const struct mxfp_kernels *kernels, const struct reduce *whole, size_t row)
{
	const enum mxfp_sum sum =
		whole->reduction == MXFP_REDUCTION_SQUARE_SUM ? MXFP_SUM_SQUARES : MXFP_SUM_NUMBERS;
	uint64_t total = mxfp_row_total(kernels, sum, &whole->src, row, whole->cols, 0);

	if (whole->reduction == MXFP_REDUCTION_MEAN)
		total = mxfp_f64_div(total, mxfp_f64_from_u64(whole->cols));
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

	for (size_t col = 0; col < whole->cols; col += job.n) {
		job.n = mxfp_strip_length(whole->cols, col);
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
	const struct mxfp_tile tile = mxfp_row_tile(whole->rows, whole->cols, piece);

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

/* Checks the source and dst, an array of `rows` elements of dst_width bytes, and runs. */
static enum mxfp_status run(struct reduce *whole, const void *dst, size_t dst_width, const struct mxfp_row_input *src,
                            const struct mxfp_exec *exec)
{
	struct mxfp_runner runner;
	size_t dst_bytes;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_row_input(&whole->src, src, whole->rows, whole->cols);
	if (status != MXFP_OK)
		return status;
	if (dst == NULL && whole->rows != 0)
		return MXFP_ERR_NULL;
	if (!mxfp_multiply(whole->rows, dst_width, &dst_bytes) || dst_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	const struct mxfp_region results = mxfp_bytes(dst, dst_bytes);
	if (mxfp_overlap(&results, &whole->src.memory))
		return MXFP_ERR_OVERLAP;
	mxfp_run_pieces(&runner, mxfp_row_tile_count(whole->rows, whole->cols != 0 ? whole->cols : 1), reduce_piece, whole, NULL);
	return MXFP_OK;
}

enum mxfp_status mxfp_row_reduce(enum mxfp_reduction reduction, float *dst, const struct mxfp_row_input *src,
                                 size_t rows, size_t cols, const struct mxfp_exec *exec)
{
	struct reduce whole = {.reduction = reduction, .dst = dst, .rows = rows, .cols = cols};

	if ((unsigned)reduction > MXFP_REDUCTION_MAX)
		return MXFP_ERR_OPTION;
	if (cols == 0 && (reduction == MXFP_REDUCTION_MEAN || reduction == MXFP_REDUCTION_MAX))
		return MXFP_ERR_SIZE;
	return run(&whole, dst, sizeof *dst, src, exec);
}

enum mxfp_status mxfp_row_argmax(size_t *dst, const struct mxfp_row_input *src, size_t rows, size_t cols,
                                 const struct mxfp_exec *exec)
{
	struct reduce whole = {.index = dst, .rows = rows, .cols = cols};

	return cols == 0 ? MXFP_ERR_SIZE : run(&whole, dst, sizeof *dst, src, exec);
}
