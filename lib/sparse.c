/* SPDX-License-Identifier: MIT */
/* mxfp_sparse_size(), _prune(), _compress() and _expand(): check the arguments and run one kernel slot over pieces of
   rows. */
#include "sparse.h"

#include "args.h"
#include "exec.h"
#include "result.h"
#include "sized.h"

/* About the elements of a piece, which is whole rows. */
enum { PIECE = 1 << 16 };

static const struct mxfp_sparsity patterns[] = {{4, 16}, {4, 12}, {4, 8}, {2, 8}, {2, 4}, {1, 4}, {1, 2}};

const struct mxfp_sparsity *mxfp_sparsity_pattern(size_t i)
{
	return i < sizeof patterns / sizeof patterns[0] ? &patterns[i] : NULL;
}

bool mxfp_is_sparsity(struct mxfp_sparsity sparsity)
{
	const struct mxfp_sparsity *p;

	for (size_t i = 0; (p = mxfp_sparsity_pattern(i)) != NULL; i++)
		if (p->n == sparsity.n && p->m == sparsity.m)
			return true;
	return false;
}

/* Sets *bytes to ceil(count * bits / 8); false on overflow. */
static bool bytes_of_bits(size_t count, size_t bits, size_t *bytes)
{
	if (!mxfp_multiply(mxfp_divide_up(count, 8), bits, bytes))
		return false;
	*bytes = count / 8 * bits + mxfp_divide_up(count % 8 * bits, 8);
	return true;
}

bool mxfp_dense_row_bytes(enum mxfp_format format, size_t cols, size_t *bytes)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	size_t codes;

	return mxfp_multiply(mxfp_divide_up(cols, info->block_length), info->block_length, &codes) &&
	       bytes_of_bits(codes, mxfp_code_bits(format), bytes);
}

enum mxfp_status mxfp_sparse_size(struct mxfp_sparse_sizes *sizes, enum mxfp_format format, struct mxfp_sparsity sparsity,
                                  size_t rows, size_t cols)
{
	struct mxfp_sparse_sizes s;

	if (mxfp_format_get_info(format) == NULL)
		return MXFP_ERR_FORMAT;
	if (!mxfp_is_sparsity(sparsity))
		return MXFP_ERR_OPTION;
	if (sizes == NULL)
		return MXFP_ERR_NULL;
	size_t groups = mxfp_divide_up(cols, sparsity.m);
	if (!bytes_of_bits(groups, sparsity.n * mxfp_code_bits(format), &s.codes_row_bytes) ||
	    !bytes_of_bits(groups, sparsity.m, &s.masks_row_bytes) ||
	    !mxfp_multiply(s.codes_row_bytes, rows, &s.codes_bytes) ||
	    !mxfp_multiply(s.masks_row_bytes, rows, &s.masks_bytes) || s.codes_bytes > PTRDIFF_MAX ||
	    s.masks_bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	*sizes = s;
	return MXFP_OK;
}

/* Returns the bits of group g of a row of masks: at most 16, in at most 3 bytes. Bits past the row's bytes are 0. */
static uint32_t group_bits(const uint8_t *row, size_t row_bytes, unsigned m, size_t g)
{
	size_t bit = g * m;
	uint32_t window = 0;

	for (size_t i = 0; i < 3 && bit / 8 + i < row_bytes; i++)
		window |= (uint32_t)row[bit / 8 + i] << 8 * i;
	return window >> bit % 8 & ((UINT32_C(1) << m) - 1);
}

static unsigned count_ones(uint32_t bits)
{
	unsigned n = 0;

	for (; bits != 0; bits &= bits - 1)
		n++;
	return n;
}

bool mxfp_masks_valid(struct mxfp_sparsity sparsity, size_t rows, size_t cols, const uint8_t *masks, size_t stride)
{
	const unsigned n = sparsity.n, m = sparsity.m;
	const size_t groups = mxfp_divide_up(cols, m), row_bytes = mxfp_divide_up(groups * m, 8);

	if (groups == 0)
		return true; /* masks may be NULL then, and C does not even allow 0 to be added to NULL */
	for (size_t row = 0; row < rows; row++, masks += stride) {
		uint32_t last = 0;

		for (size_t g = 0; g < groups; g++) {
			last = group_bits(masks, row_bytes, m, g);
			if (count_ones(last) != n)
				return false;
		}
		if (cols % m != 0 && last >> (cols % m > n ? cols % m : n) != 0)
			return false;
		if (groups * m % 8 != 0 && masks[row_bytes - 1] >> groups * m % 8 != 0)
			return false;
	}
	return true;
}

/* A call's arguments with strides in bytes, none of them 0, and their memory. */
struct checked {
	struct mxfp_sparse sparse;
	size_t dense_stride;
	struct mxfp_region codes, masks, dense;
};

/* What a call uses of a sparse matrix. */
enum uses { MASKS, CODES_AND_MASKS };

/* Checks *sparse and fills in c->sparse, with its strides, and the spans of codes and masks. */
static enum mxfp_status check_sparse(struct checked *c, const struct mxfp_sparse *sparse, enum uses uses)
{
	struct mxfp_sparse_sizes sizes;

	if (sparse == NULL)
		return MXFP_ERR_NULL;
	sparse = MXFP_SIZED(sparse, &c->sparse);
	if (sparse == NULL)
		return MXFP_ERR_VERSION;
	c->sparse = *sparse;
	if (uses == MASKS) {
		c->sparse.format = MXFP_FORMAT_F32;
		c->sparse.codes_stride = 0;
	}
	sparse = &c->sparse;
	enum mxfp_status status = mxfp_sparse_size(&sizes, sparse->format, sparse->sparsity, sparse->rows, sparse->cols);
	if (status != MXFP_OK)
		return status;
	if (sparse->codes_stride == 0)
		c->sparse.codes_stride = sizes.codes_row_bytes;
	else if (!mxfp_multiply(sparse->codes_stride, mxfp_stride_unit(sparse->format),
	                        &c->sparse.codes_stride))
		return MXFP_ERR_SIZE;
	if (sparse->masks_stride == 0)
		c->sparse.masks_stride = sizes.masks_row_bytes;
	status = mxfp_check_region(&c->codes, sparse->codes, sparse->rows, sizes.codes_row_bytes, c->sparse.codes_stride);
	return status == MXFP_OK ? mxfp_check_region(&c->masks, sparse->masks, sparse->rows, sizes.masks_row_bytes, c->sparse.masks_stride)
	                         : status;
}

/* Computes the stride in bytes of a dense matrix of codes, and makes its region. */
static enum mxfp_status check_dense(struct checked *c, const void *at, size_t stride)
{
	const struct mxfp_sparse *s = &c->sparse;
	size_t row_bytes;

	if (!mxfp_dense_row_bytes(s->format, s->cols, &row_bytes))
		return MXFP_ERR_SIZE;
	c->dense_stride = row_bytes;
	if (stride != 0 && !mxfp_multiply(stride, mxfp_stride_unit(s->format), &c->dense_stride))
		return MXFP_ERR_SIZE;
	return mxfp_check_region(&c->dense, at, s->rows, row_bytes, c->dense_stride);
}

static size_t rows_per_piece(size_t cols)
{
	return cols >= PIECE ? 1 : PIECE / cols;
}

static size_t piece_count(size_t rows, size_t cols)
{
	return cols == 0 ? 0 : mxfp_divide_up(rows, rows_per_piece(cols));
}

/* Sets *first to the first row of piece i; returns the number of its rows. */
static size_t piece_rows(size_t rows, size_t cols, size_t i, size_t *first)
{
	size_t most = rows_per_piece(cols);

	*first = i * most;
	return rows - *first < most ? rows - *first : most;
}

static void prune_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                        struct mxfp_counts *counts)
{
	struct mxfp_prune_job job = *(const struct mxfp_prune_job *)context;
	size_t row;

	(void)counts;
	job.rows = piece_rows(job.rows, job.cols, piece, &row);
	job.src += row * job.src_stride;
	job.masks += row * job.masks_stride;
	if (job.pruned != NULL)
		job.pruned += row * job.pruned_stride;
	kernels->prune[job.format](&job);
}

enum mxfp_status mxfp_sparse_prune(const struct mxfp_sparse *masks, const struct mxfp_result *pruned,
                                   const struct mxfp_matrix *src, const struct mxfp_exec *exec)
{
	struct mxfp_sink sink = {0};
	struct mxfp_runner runner;
	struct mxfp_rows from;
	struct checked c;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = check_sparse(&c, masks, MASKS);
	if (status == MXFP_OK)
		status = mxfp_check_input(&from, src, mxfp_is_source, c.sparse.rows, c.sparse.cols);
	if (status == MXFP_OK && pruned != NULL)
		status = mxfp_check_result(&sink, pruned, mxfp_is_source, 0, from.rows, from.cols);
	if (status == MXFP_OK && sink.data.data != NULL && sink.data.format != from.format)
		status = MXFP_ERR_FORMAT;
	if (status != MXFP_OK)
		return status;
	if (from.memory.bytes != 0 && c.sparse.masks == NULL)
		return MXFP_ERR_NULL;
	if (mxfp_overlap(&c.masks, &from.memory) || mxfp_sink_touches(&sink, &c.masks) || mxfp_sink_overlaps(&sink, &from))
		return MXFP_ERR_OVERLAP;
	const size_t width = mxfp_format_get_info(from.format)->storage_bytes;
	const struct mxfp_prune_job job = {
		.format = from.format,
		.sparsity = c.sparse.sparsity,
		.rows = from.rows,
		.cols = from.cols,
		.src = from.data,
		.src_stride = from.stride * width,
		.masks = c.sparse.masks,
		.masks_stride = c.sparse.masks_stride,
		.pruned = (void *)(uintptr_t)sink.data.data,
		.pruned_stride = sink.data.stride * width,
	};
	mxfp_run_pieces(&runner, piece_count(job.rows, job.cols), prune_piece, &job, NULL);
	return MXFP_OK;
}

static enum mxfp_status check_masks(const struct mxfp_sparse *s)
{
	return mxfp_masks_valid(s->sparsity, s->rows, s->cols, s->masks, s->masks_stride) ? MXFP_OK : MXFP_ERR_MASK;
}

enum mxfp_status mxfp_sparse_check(const struct mxfp_sparse *sparse)
{
	struct checked c;
	enum mxfp_status status = check_sparse(&c, sparse, CODES_AND_MASKS);

	if (status == MXFP_OK && c.masks.bytes != 0 && c.sparse.masks == NULL)
		status = MXFP_ERR_NULL;
	return status == MXFP_OK ? check_masks(&c.sparse) : status;
}

/* The checks that compressing and expanding share. */
static enum mxfp_status check_both(struct checked *c, const struct mxfp_sparse *sparse, const void *dense,
                                   size_t dense_stride)
{
	enum mxfp_status status = check_sparse(c, sparse, CODES_AND_MASKS);

	if (status == MXFP_OK)
		status = check_dense(c, dense, dense_stride);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_sparse *s = &c->sparse;
	if (c->dense.bytes != 0 && (s->codes == NULL || s->masks == NULL || dense == NULL))
		return MXFP_ERR_NULL;
	if (mxfp_overlap(&c->codes, &c->dense) || mxfp_overlap(&c->masks, &c->dense) || mxfp_overlap(&c->codes, &c->masks))
		return MXFP_ERR_OVERLAP;
	return check_masks(s);
}

/* The work of compressing or expanding, shared by its pieces. */
struct conversion {
	struct mxfp_sparse_job job;
	mxfp_sparse_kernel *kernel;
};

static void convert_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct conversion *conversion = context;
	struct mxfp_sparse_job job = conversion->job;
	size_t row;

	(void)kernels;
	(void)counts;
	job.rows = piece_rows(job.rows, job.cols, piece, &row);
	job.src += row * job.src_stride;
	job.masks += row * job.masks_stride;
	job.dst += row * job.dst_stride;
	conversion->kernel(&job);
}

/* Compresses `dense` if `expanded` is NULL; else expands to it, and `dense` is the same memory. */
static enum mxfp_status convert(const struct mxfp_sparse *sparse, const void *dense, void *expanded,
                                size_t dense_stride, const struct mxfp_exec *exec)
{
	struct mxfp_runner runner;
	struct checked c;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = check_both(&c, sparse, dense, dense_stride);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_sparse *s = &c.sparse;
	struct conversion conversion = {
		.job = {s->format, s->sparsity, s->rows, s->cols, dense, c.dense_stride, s->masks, s->masks_stride, s->codes,
		        s->codes_stride},
		.kernel = runner.kernels->compress[s->format],
	};
	if (expanded != NULL) {
		conversion.job.src = s->codes;
		conversion.job.src_stride = s->codes_stride;
		conversion.job.dst = expanded;
		conversion.job.dst_stride = c.dense_stride;
		conversion.kernel = runner.kernels->expand[s->format];
	}
	mxfp_run_pieces(&runner, piece_count(s->rows, s->cols), convert_piece, &conversion, NULL);
	return MXFP_OK;
}

enum mxfp_status mxfp_sparse_compress(const struct mxfp_sparse *sparse, const void *dense, size_t dense_stride,
                                      const struct mxfp_exec *exec)
{
	return convert(sparse, dense, NULL, dense_stride, exec);
}

enum mxfp_status mxfp_sparse_expand(void *dense, size_t dense_stride, const struct mxfp_sparse *sparse,
                                    const struct mxfp_exec *exec)
{
	return convert(sparse, dense, dense, dense_stride, exec);
}
