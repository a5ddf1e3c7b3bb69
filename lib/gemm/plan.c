/* SPDX-License-Identifier: MIT */
/* Checks a product and resolves it into a plan. */
#include "plan.h"
#include "product.h"

#include "bits.h"
#include "blocks.h"
#include "mma.h"
#include "sized.h"

enum {
	TILE = 256,      /* about the rows and columns of a tile of C: with its chunks of A and W it fits 2 MiB of cache */
	FLAT_COLS = MXFP_GEMM_MOST_COLS, /* columns if A is one panel: reading W dominates, and longer runs are faster */
	UNIT_ROWS = 1024, /* about the rows of A that are packed at once */
	PANEL_BYTES = 1 << 24, /* of a panel of A, and of what a worker loads for it, over all of K: beyond, K is cut into spans */
	TILE_BYTES = 1 << 26,  /* of the panels of a tile, likewise: more, since a tile packs them again for other columns */
	UNIT_BYTES = 1 << 28,  /* of the rows of A that are packed at once: beyond, they are fewer */
	SPAN = 1536      /* elements of K in a span of the reference: whole passes, steps of machines, and groups of a sparse W */
};

_Static_assert(TILE <= FLAT_COLS, "tile.c has room for a row of a tile");

enum mxfp_status mxfp_gemm_check_options(struct mxfp_gemm_call *call, const struct mxfp_exec *exec)
{
	const struct mxfp_gemm_options *o = MXFP_SIZED(call->options, &call->options_copy);
	struct mxfp_product copy;

	if (o == NULL)
		return MXFP_ERR_VERSION;
	call->options = o;
	call->quantize = MXFP_SIZED(o->a_quantize, &call->quantize_copy);
	call->c_quantize = MXFP_SIZED(o->c_quantize, &call->c_quantize_copy);
	if (call->quantize == NULL || call->c_quantize == NULL)
		return MXFP_ERR_VERSION;
	if (!mxfp_is_row_format(o->psum) || (o->a_format != MXFP_FORMAT_F32 && !mxfp_is_block(o->a_format)))
		return MXFP_ERR_FORMAT;
	if (!mxfp_option_valid(MXFP_OPTION_ACC, (int)o->acc) ||
	    (o->psum_round != MXFP_ROUND_RNE && o->psum_round != MXFP_ROUND_SR) ||
	    (o->pass_k != 0 && o->pass_k != 128 && o->pass_k != 256 && o->pass_k != 512))
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_check_function(o->activation, o->activation_parameter, &call->activation_parameter);
	if (status == MXFP_OK)
		status = mxfp_runner_init(&call->runner, exec);
	call->kernels = call->runner.kernels;
	if (status == MXFP_OK && call->n != 0 && call->products == NULL)
		return MXFP_ERR_NULL;
	if (status == MXFP_OK && call->n != 0 && mxfp_product_at(call->products, 0, &copy) == NULL)
		return MXFP_ERR_VERSION;
	return status;
}

/* Copies the caller's matrix, of whatever version. */
static enum mxfp_status take_matrix(struct mxfp_matrix *to, const struct mxfp_matrix *from)
{
	struct mxfp_matrix copy;
	const struct mxfp_matrix *known = MXFP_SIZED(from, &copy);

	if (from == NULL || known == NULL)
		return from == NULL ? MXFP_ERR_NULL : MXFP_ERR_VERSION;
	*to = *known;
	return MXFP_OK;
}

static enum mxfp_status plan_w(struct mxfp_gemm_plan *p, const struct mxfp_matrix *w)
{
	enum mxfp_status status = take_matrix(&p->w, w);

	p->n = p->w.rows;
	if (status != MXFP_OK)
		return status;
	return mxfp_gemm_check_matrix(&p->w);
}

/* Checks A, finds its format in the product, and prepares its quantization if that is needed. */
static enum mxfp_status plan_a(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	enum mxfp_status status = mxfp_is_sparse(&p->a) ? MXFP_ERR_FORMAT : mxfp_gemm_check_matrix(&p->a);

	p->m = p->a.rows;
	p->k = p->a.cols;
	p->a_format = p->a.format;
	if (status != MXFP_OK || !mxfp_is_block(call->options->a_format) || p->a.format == call->options->a_format)
		return status;
	if (!mxfp_is_source(p->a.format))
		return MXFP_ERR_FORMAT;
	p->a_format = call->options->a_format;
	p->quantize = (struct mxfp_quantize_job){
		.format = p->a_format,
		.src_format = p->a.format,
		.rows = p->a.transposed ? p->k : p->m,
		.cols = p->a.transposed ? p->m : p->k,
		.src = p->a.data,
		.src_stride = p->a.stride,
	};
	mxfp_set_quantize_job(&p->quantize, call->quantize);
	if (call->quantize->block_rows > 1)
		return MXFP_ERR_OPTION;
	return mxfp_check_quantize_options(p->a_format, p->m, p->k, call->quantize);
}

/* Checks an optional matrix of numbers like C, except for its memory. */
static enum mxfp_status plan_rows(struct mxfp_rows *rows, const struct mxfp_matrix *matrix,
                                  const struct mxfp_gemm_plan *p)
{
	if (matrix == NULL)
		return MXFP_OK;
	const enum mxfp_status status = mxfp_check_numbers(rows, matrix, mxfp_is_row_format);
	if (status != MXFP_OK && status != MXFP_ERR_NULL)
		return status;
	return rows->rows == p->m && rows->cols == p->n ? MXFP_OK : MXFP_ERR_SHAPE;
}

/* Checks what C is written to, except for its memory. */
static enum mxfp_status plan_c(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call, const struct mxfp_result *c)
{
	const int parts = MXFP_TAKES_NOTHING | MXFP_TAKES_BLOCKS | MXFP_TAKES_COUNTS |
	                  (call->quantize->non_finite == MXFP_NON_FINITE_ERROR ? MXFP_TAKES_NON_FINITE : 0);

	if (c == NULL)
		return MXFP_OK;
	enum mxfp_status status = mxfp_check_result(&p->c, c, mxfp_is_row_format, parts, p->m, p->n);
	if (status == MXFP_OK)
		status = mxfp_check_result_blocks(&p->c, call->c_quantize, p->m, p->n);
	if (status == MXFP_OK && p->c.blocks != NULL && !mxfp_is_one_pass(p->c.job.format, call->c_quantize))
		status = MXFP_ERR_OPTION;
	return status;
}

/* Whether products of these formats can be summed as the call says. */
static bool is_pair(const struct mxfp_gemm_call *call, enum mxfp_format a, enum mxfp_format w)
{
	if (mxfp_mma_is(call->options->acc))
		return mxfp_mma_find(call->options->acc, a, w) != NULL;
	return !mxfp_gemm_is_fp8(a) && !mxfp_gemm_is_fp8(w);
}

static size_t whole_panels(size_t about, size_t panel)
{
	return about < panel ? panel : about / panel * panel;
}

size_t mxfp_gemm_tile_cols(const struct mxfp_gemm_plan *p, size_t about)
{
	size_t panel = p->kernel != NULL ? p->kernel->nr : 1, nr = panel;

	if (p->c.blocks != NULL)
		while (nr % mxfp_format_get_info(p->c.job.format)->block_length != 0)
			nr += panel;
	return whole_panels(about, nr);
}

/* Whether rows over all of K are too many bytes to load at once. */
static bool is_long(const struct mxfp_gemm_plan *p)
{
	const size_t mr = p->kernel != NULL ? p->kernel->mr : 1;
	size_t rows = p->a.transposed || p->a.format != p->a_format ? mr : 0;

	if (p->kernel == NULL && p->expands)
		rows += p->tile_cols;
	return mxfp_gemm_a_bytes(p, mxfp_least(p->m, mr), p->k) > PANEL_BYTES ||
	       mxfp_gemm_a_bytes(p, mxfp_least(p->m, p->tile_rows), p->k) > TILE_BYTES ||
	       (rows != 0 && p->k > PANEL_BYTES / sizeof(float) / rows);
}

/* Chooses the sizes of tiles and units. The reference has single rows instead of panels, machines a few. */
static void cut(struct mxfp_gemm_plan *p)
{
	size_t mr = p->kernel != NULL ? p->kernel->mr : 1;

	p->tile_rows = p->kernel != NULL ? whole_panels(TILE, mr) : mxfp_mma_is(p->acc) ? MXFP_MMA_ROWS : 1;
	p->tile_cols = mxfp_gemm_tile_cols(p, p->kernel != NULL && p->m <= mr ? FLAT_COLS : TILE);
	p->unit_rows = whole_panels(UNIT_ROWS, p->tile_rows);
	p->span = !is_long(p) ? p->k : p->kernel != NULL ? p->chunk : SPAN;
	/* A batch takes at least one unit. */
	while (p->span == p->k && p->unit_rows > p->tile_rows && mxfp_gemm_a_bytes(p, mxfp_least(p->m, p->unit_rows), p->k) > UNIT_BYTES)
		p->unit_rows = whole_panels(p->unit_rows / 2, p->tile_rows);
}

enum mxfp_status mxfp_gemm_plan(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call, size_t i)
{
	struct mxfp_product copy;
	const struct mxfp_product *product = mxfp_product_at(call->products, i, &copy);
	size_t elements, bytes;

	if (product == NULL)
		return MXFP_ERR_VERSION;
	*p = (struct mxfp_gemm_plan){.index = i, .bias = product->bias};
	enum mxfp_status status = take_matrix(&p->a, product->a);
	if (status == MXFP_OK)
		status = plan_a(p, call);
	if (status != MXFP_OK)
		return status;
	if (product->w_packed != NULL)
		status = mxfp_gemm_read_packed(p, call, product);
	else
		status = plan_w(p, product->w);
	if (status != MXFP_OK)
		return status;
	if (!is_pair(call, p->a_format, p->w.format))
		return MXFP_ERR_FORMAT;
	if (p->w.cols != p->k)
		return MXFP_ERR_SHAPE;
	if (!mxfp_multiply(p->m, p->n, &elements) || !mxfp_multiply(elements, sizeof(float), &bytes) || bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	status = plan_c(p, call, product->c);
	if (status == MXFP_OK)
		status = plan_rows(&p->gate, product->gate, p);
	if (status == MXFP_OK)
		status = plan_rows(&p->residual, product->residual, p);
	if (status != MXFP_OK)
		return status;
	if (product->w_packed == NULL)
		mxfp_gemm_choose(p, call);
	cut(p);
	return MXFP_OK;
}

enum mxfp_status mxfp_gemm_plan_weights(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        const struct mxfp_matrix *w)
{
	*p = (struct mxfp_gemm_plan){.a_format = call->options->a_format};
	enum mxfp_status status = plan_w(p, w);
	if (status != MXFP_OK)
		return status;
	/* Without a_format A may have any numbers: those of W, if a machine takes these. */
	if (!is_pair(call, mxfp_is_block(p->a_format) ? p->a_format : p->w.format, p->w.format))
		return MXFP_ERR_FORMAT;
	p->k = p->w.cols;
	mxfp_gemm_choose(p, call);
	return mxfp_gemm_w_bytes(p) > PTRDIFF_MAX - MXFP_GEMM_HEADER_BYTES ? MXFP_ERR_SIZE : MXFP_OK;
}
