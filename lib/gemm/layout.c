/* SPDX-License-Identifier: MIT */
/* Cuts plans into units and batches, and computes the workspace they need. */
#include "blocks.h"
#include "run.h"
#include "sparse.h"

enum { BATCH_BYTES = 64 << 20 }; /* of packed A: a batch takes no more units beyond this, but always takes one */

struct mxfp_gemm_unit mxfp_gemm_unit(const struct mxfp_gemm_plan *p, size_t row)
{
	size_t rows = mxfp_least(p->m - row, p->unit_rows);

	return (struct mxfp_gemm_unit){
		.plan = p,
		.row = row,
		.rows = rows,
		.a_bytes = p->span < p->k ? 0 : mxfp_gemm_a_bytes(p, rows, p->k),
	};
}

bool mxfp_gemm_batch_takes(size_t units, size_t a_bytes, const struct mxfp_gemm_unit *unit)
{
	return units == 0 || (a_bytes <= BATCH_BYTES && unit->a_bytes <= BATCH_BYTES - a_bytes);
}

static size_t align(size_t bytes)
{
	return bytes > PTRDIFF_MAX - MXFP_GEMM_ALIGN ? SIZE_MAX : mxfp_divide_up(bytes, MXFP_GEMM_ALIGN) * MXFP_GEMM_ALIGN;
}

static void raise(size_t *most, size_t bytes)
{
	bytes = align(bytes);
	if (bytes > *most)
		*most = bytes;
}

/* Makes room for the rows of A that a worker packs at once, as numbers and as codes, and for those that a tile packs. */
static void raise_a(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_plan *p)
{
	size_t rows = p->kernel != NULL ? p->kernel->mr : 1;
	struct mxfp_sizes size;

	if (p->a.transposed)
		raise(&layout->numbers, rows * p->span * mxfp_format_get_info(p->a.format)->storage_bytes);
	if (p->a_format != p->a.format) {
		(void)mxfp_blocks_size(&size, p->a_format, rows, p->span);
		raise(&layout->codes, size.codes_bytes + size.scales_bytes);
	}
	if (p->span < p->k)
		raise(&layout->span, mxfp_gemm_a_bytes(p, p->tile_rows, p->span));
}

static void raise_worker(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call,
                         const struct mxfp_gemm_plan *p)
{
	size_t tile = p->tile_rows * p->tile_cols * sizeof(float), row;

	raise(&layout->tile, tile);
	if (call->options->epilogue != NULL)
		raise(&layout->values, tile);
	if (p->kernel != NULL)
		raise(&layout->scratch, p->kernel->scratch_bytes);
	if (p->kernel != NULL && p->w_panels == NULL) {
		raise(&layout->w, p->tile_cols / p->kernel->nr *
		                          p->kernel->w_panel_bytes(&p->shape, mxfp_least(p->chunk, p->k)));
		if (p->expands)
			raise(&layout->dense, mxfp_gemm_expanded_bytes(p));
	}
	if (p->kernel == NULL && p->expands) {
		(void)mxfp_dense_row_bytes(p->w.format, p->span, &row);
		raise(&layout->dense, row * p->tile_cols);
	}
	raise_a(layout, p);
}

enum mxfp_status mxfp_gemm_layout_add(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call,
                                      const struct mxfp_gemm_plan *p)
{
	if (p->m == 0 || p->n == 0)
		return MXFP_OK;
	raise_worker(layout, call, p);
	for (size_t row = 0; row < p->m; row += p->unit_rows) {
		const struct mxfp_gemm_unit unit = mxfp_gemm_unit(p, row);

		if (unit.a_bytes > PTRDIFF_MAX - BATCH_BYTES)
			return MXFP_ERR_SIZE;
		if (!mxfp_gemm_batch_takes(layout->batch_units, layout->batch_a, &unit))
			layout->batch_units = layout->batch_a = 0;
		layout->batch_units++;
		layout->batch_a += align(unit.a_bytes);
		raise(&layout->units, layout->batch_units * sizeof unit);
		raise(&layout->a, layout->batch_a);
	}
	return MXFP_OK;
}

/* Adds n sizes to *total; false on overflow. */
static bool add(size_t *total, const size_t *sizes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (sizes[i] > PTRDIFF_MAX - *total)
			return false;
		*total += sizes[i];
	}
	return true;
}

enum mxfp_status mxfp_gemm_layout_end(struct mxfp_gemm_layout *l, size_t products)
{
	if (l->units == 0)
		return MXFP_OK;
	l->plans = align(products * sizeof(struct mxfp_gemm_plan));
	/* The caller's workspace may be unaligned: room to align it comes first. */
	return add(&l->shared, (size_t[]){MXFP_GEMM_ALIGN, l->plans, l->units, l->a}, 4) &&
	               add(&l->worker, (size_t[]){l->tile, l->values, l->span, l->w, l->dense, l->numbers, l->codes, l->scratch}, 8) &&
	               l->worker <= PTRDIFF_MAX - l->shared
	               ? MXFP_OK
	               : MXFP_ERR_SIZE;
}
