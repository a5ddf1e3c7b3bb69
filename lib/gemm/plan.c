/* SPDX-License-Identifier: MIT */
/* A product is checked and resolved into a plan. */
#include "plan.h"

#include "blocks.h"

enum {
	TILE = 256,      /* rows and columns of a tile of C, about: it and its chunks of A and W fit 2 MiB of cache */
	FLAT_COLS = MXFP_GEMM_MOST_COLS, /* where A is one panel: W is what is read, and longer at a stretch */
	UNIT_ROWS = 1024 /* of A that are packed at once, about */
};

enum mxfp_status mxfp_gemm_check_options(struct mxfp_gemm_call *call)
{
	static const struct mxfp_gemm_options defaults;
	static const struct mxfp_quantize_options quantize = {.rule = MXFP_RULE_RCEIL};

	if (call->options == NULL)
		call->options = &defaults;
	const struct mxfp_gemm_options *o = call->options;
	call->quantize = o->a_quantize != NULL ? o->a_quantize : &quantize;
	if ((o->c_format != MXFP_FORMAT_F32 && o->c_format != MXFP_FORMAT_BF16) ||
	    (o->psum != MXFP_FORMAT_F32 && o->psum != MXFP_FORMAT_BF16) || mxfp_format_info(o->a_format) == NULL)
		return MXFP_ERR_FORMAT;
	if (!mxfp_option_valid(MXFP_OPTION_ACC, (int)o->acc) ||
	    (o->psum_round != MXFP_ROUND_RNE && o->psum_round != MXFP_ROUND_SR) ||
	    (o->pass_k != 0 && o->pass_k != 128 && o->pass_k != 256 && o->pass_k != 512))
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&call->runner, o->exec);
	if (status == MXFP_OK && call->kernels == NULL)
		call->kernels = call->runner.kernels;
	return status;
}

static struct mxfp_quantize_job quantize_job(const struct mxfp_gemm_plan *p, const struct mxfp_quantize_options *o)
{
	return (struct mxfp_quantize_job){
		.format = p->a_format,
		.src_format = p->a.format,
		.rows = p->a.transposed ? p->k : p->m,
		.cols = p->a.transposed ? p->m : p->k,
		.src = p->a.data,
		.src_stride = p->a.stride,
		.first_index = o->first_index,
		.rounding = {o->round, MXFP_OVERFLOW_SAT, o->no_negative_zero, o->seed, o->stream},
		.rule = o->rule,
		.recipe = o->recipe,
		.saturate_inf = o->non_finite == MXFP_NON_FINITE_SATURATE,
		.via_bf16 = o->via_bf16,
	};
}

/* A, and the format it has in the product. */
static enum mxfp_status plan_a(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	enum mxfp_status status = mxfp_is_sparse(&p->a) ? MXFP_ERR_OPTION : mxfp_gemm_check_matrix(&p->a);

	p->m = p->a.rows;
	p->k = p->a.cols;
	p->a_format = p->a.format;
	if (status != MXFP_OK || !mxfp_is_block(call->options->a_format))
		return status;
	if (!mxfp_is_source(p->a.format))
		return MXFP_ERR_FORMAT;
	p->a_format = call->options->a_format;
	p->quantize = quantize_job(p, call->quantize);
	return mxfp_check_quantize_options(p->a_format, p->m, p->k, call->quantize);
}

static size_t whole_panels(size_t about, size_t panel)
{
	return about < panel ? panel : about / panel * panel;
}

/* How C is cut. The reference has rows of A for panels. */
static void cut(struct mxfp_gemm_plan *p)
{
	size_t mr = p->kernel != NULL ? p->kernel->mr : 1, nr = p->kernel != NULL ? p->kernel->nr : 1;

	p->tile_rows = p->kernel != NULL ? whole_panels(TILE, mr) : 1;
	p->tile_cols = whole_panels(p->kernel != NULL && p->m <= mr ? FLAT_COLS : TILE, nr);
	p->unit_rows = whole_panels(UNIT_ROWS, p->tile_rows);
}

enum mxfp_status mxfp_gemm_plan(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call, size_t i)
{
	const struct mxfp_gemm *product = &call->products[i];
	size_t elements, bytes;

	*p = (struct mxfp_gemm_plan){.index = i, .a = product->a, .w = product->w, .c = product->c,
	                             .c_stride = product->c_stride, .bias = product->bias};
	enum mxfp_status status = plan_a(p, call);
	if (status != MXFP_OK)
		return status;
	if (product->w_packed != NULL)
		status = mxfp_gemm_read_packed(p, call, product);
	else
		status = product->w.transposed ? MXFP_ERR_FORMAT : mxfp_gemm_check_matrix(&p->w);
	if (status != MXFP_OK)
		return status;
	p->n = p->w.rows;
	if (p->c_stride == 0)
		p->c_stride = p->n;
	if (p->w.cols != p->k || p->c_stride < p->n || !mxfp_multiply(p->m, p->n, &elements) ||
	    !mxfp_multiply(p->m, p->c_stride, &elements) || !mxfp_multiply(elements, sizeof(float), &bytes) ||
	    bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	if (product->w_packed == NULL)
		mxfp_gemm_choose(p, call);
	cut(p);
	return MXFP_OK;
}

enum mxfp_status mxfp_gemm_plan_weights(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        const struct mxfp_matrix *w, enum mxfp_format a_format)
{
	if (w == NULL)
		return MXFP_ERR_NULL;
	*p = (struct mxfp_gemm_plan){.w = *w, .n = w->rows, .k = w->cols, .a_format = a_format};
	struct mxfp_matrix a = {.format = a_format, .rows = 1, .cols = w->cols};
	enum mxfp_status status = w->transposed ? MXFP_ERR_FORMAT : mxfp_gemm_check_matrix(&a);
	if (status == MXFP_OK)
		status = mxfp_gemm_check_matrix(&p->w);
	if (status != MXFP_OK)
		return status;
	mxfp_gemm_choose(p, call);
	return mxfp_gemm_w_bytes(p) > PTRDIFF_MAX - MXFP_GEMM_HEADER_BYTES ? MXFP_ERR_SIZE : MXFP_OK;
}
