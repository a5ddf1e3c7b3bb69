/* SPDX-License-Identifier: MIT */
/* How a call is cut, and what memory that takes. Nothing here depends on the number of threads but the number of the
   workers' areas. */
#include "args.h"
#include "blocks.h"
#include "gemm.h"
#include "sparse.h"

enum {
	TILE = 256,            /* rows and columns of a tile of C, about: it and its chunks of A and W fit 2 MiB of cache */
	FLAT_COLS = 1024,      /* of a tile where A is one panel: W is what is read, and longer at a stretch */
	UNIT_ROWS = 1024,      /* of A that are packed at once, about */
	BATCH_BYTES = 64 << 20 /* of packed A from which on a batch is full */
};

static size_t whole_panels(size_t about, size_t panel)
{
	return about < panel ? panel : about / panel * panel;
}

size_t mxfp_gemm_tile_rows(const struct mxfp_gemm_product *p)
{
	return p->kernel != NULL ? whole_panels(TILE, p->kernel->mr) : 1;
}

size_t mxfp_gemm_tile_cols(const struct mxfp_gemm_product *p)
{
	if (p->kernel == NULL)
		return TILE;
	return whole_panels(p->m <= p->kernel->mr ? FLAT_COLS : TILE, p->kernel->nr);
}

bool mxfp_gemm_next_unit(struct mxfp_gemm_unit *unit, const struct mxfp_gemm_call *call, size_t *product, size_t *row)
{
	for (; *product < call->n; ++*product, *row = 0) {
		struct mxfp_gemm_product *p = &unit->product;

		(void)mxfp_gemm_resolve(p, call, *product); /* it was checked before */
		if (*row >= p->m || p->n == 0)
			continue;
		unit->row = *row;
		unit->rows = mxfp_least(p->m - *row, whole_panels(UNIT_ROWS, mxfp_gemm_tile_rows(p)));
		unit->a_bytes = mxfp_gemm_a_bytes(p, unit->rows);
		*row += unit->rows;
		return true;
	}
	return false;
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

/* The rows of A that a worker packs at once, as numbers and as codes. */
static bool raise_a(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_product *p)
{
	size_t rows = p->kernel != NULL ? p->kernel->mr : 1, row, bytes;
	struct mxfp_sizes size;

	if (p->a.transposed) {
		if (!mxfp_multiply(p->k, mxfp_format_info(p->a.format)->storage_bytes, &row) ||
		    !mxfp_multiply(row, rows, &bytes))
			return false;
		raise(&layout->numbers, bytes);
	}
	if (p->a_format != p->a.format) {
		if (mxfp_blocks_size(p->a_format, rows, p->k, &size) != MXFP_OK)
			return false;
		raise(&layout->codes, size.codes_bytes + size.scales_bytes);
	}
	return true;
}

static bool raise_worker(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call,
                         const struct mxfp_gemm_product *p)
{
	size_t tile = mxfp_gemm_tile_rows(p) * mxfp_gemm_tile_cols(p) * sizeof(float), row, bytes;

	raise(&layout->tile, tile);
	if (call->options->epilogue != NULL)
		raise(&layout->values, tile);
	if (p->kernel != NULL)
		raise(&layout->scratch, p->kernel->scratch_bytes);
	if (p->kernel != NULL && p->w_panels == NULL)
		raise(&layout->w, mxfp_gemm_tile_cols(p) / p->kernel->nr *
		                          p->kernel->w_panel_bytes(&p->shape, mxfp_least(p->chunk, p->k)));
	if (p->kernel == NULL && p->expands) {
		if (!mxfp_dense_row_bytes(p->w.format, p->k, &row) || !mxfp_multiply(row, mxfp_gemm_tile_cols(p), &bytes))
			return false;
		raise(&layout->dense, bytes);
	}
	return raise_a(layout, p);
}

static bool add(size_t *total, size_t bytes)
{
	if (bytes > PTRDIFF_MAX - *total)
		return false;
	*total += bytes;
	return true;
}

/* The largest batch, and the largest areas of a worker. */
static bool measure(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call)
{
	size_t product = 0, row = 0, units = 0, a_bytes = 0;
	struct mxfp_gemm_unit unit;

	while (mxfp_gemm_next_unit(&unit, call, &product, &row)) {
		if (unit.a_bytes > PTRDIFF_MAX - BATCH_BYTES || !raise_worker(layout, call, &unit.product))
			return false;
		if (!mxfp_gemm_batch_takes(units, a_bytes, &unit))
			units = a_bytes = 0;
		units++;
		a_bytes += align(unit.a_bytes);
		raise(&layout->units, units * sizeof unit);
		raise(&layout->a, a_bytes);
	}
	return true;
}

enum mxfp_status mxfp_gemm_layout(struct mxfp_gemm_layout *layout, const struct mxfp_gemm_call *call)
{
	size_t workers;

	*layout = (struct mxfp_gemm_layout){0};
	if (!measure(layout, call) || !add(&layout->worker, layout->tile) || !add(&layout->worker, layout->values) ||
	    !add(&layout->worker, layout->w) || !add(&layout->worker, layout->dense) ||
	    !add(&layout->worker, layout->numbers) || !add(&layout->worker, layout->codes) ||
	    !add(&layout->worker, layout->scratch) ||
	    !mxfp_multiply(layout->worker, call->workers, &workers) || !add(&layout->total, layout->units) ||
	    !add(&layout->total, layout->a) || !add(&layout->total, workers))
		return MXFP_ERR_SIZE;
	if (layout->total != 0 && !add(&layout->total, MXFP_GEMM_ALIGN)) /* the workspace need not be aligned */
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}
