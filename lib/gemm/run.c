/* SPDX-License-Identifier: MIT */
/*
 * Runs checked plans: batches of units, each in two parallel steps. Workers take tasks from a shared counter, so
 * results do not depend on which worker does what; each worker has its own area of the workspace.
 */
#include <stdatomic.h>

#include "bits.h"
#include "run.h"
#include "scan.h"

enum {
	LEAST_TILE = 1 << 18, /* multiplications in a tile that is narrower than planned: some microseconds */
	LEAST_PACK = 1 << 13  /* elements of A that a worker is called for, likewise */
};

/* A batch of units, and what its workers share. */
struct batch {
	const struct mxfp_gemm_call *call;
	const struct mxfp_gemm_layout *layout;
	struct mxfp_gemm_unit *units;
	size_t n_units;
	enum mxfp_gemm_step step;
	size_t a_elements; /* to pack */
	size_t n_tasks[MXFP_GEMM_STEPS];
	uint8_t *areas;
	atomic_size_t *next, *next_area;
};

static struct mxfp_gemm_area area(const struct batch *batch)
{
	const struct mxfp_gemm_layout *l = batch->layout;
	uint8_t *at = batch->areas + atomic_fetch_add(batch->next_area, 1) * l->worker;
	struct mxfp_gemm_area a = {.tile = (float *)at, .values = (float *)(at + l->tile)};

	a.a = at + l->tile + l->values;
	a.w = a.a + l->span;
	a.dense = a.w + l->w;
	a.numbers = a.dense + l->dense;
	a.codes = a.numbers + l->numbers;
	a.scratch = a.codes + l->codes;
	return a;
}

/* Most counts are zero, and others may add at the same time. */
static void add(uint64_t *sum, uint64_t count)
{
	if (count != 0)
		__atomic_fetch_add(sum, count, __ATOMIC_RELAXED);
}

/* Adds what a worker counted to the caller's counts, if there are any. */
static void flush(struct mxfp_counts *to, struct mxfp_counts *counted)
{
	if (to != NULL) {
		add(&to->saturated, counted->saturated);
		add(&to->overflowed, counted->overflowed);
		add(&to->flushed, counted->flushed);
		add(&to->nan, counted->nan);
		add(&to->inf, counted->inf);
	}
	*counted = (struct mxfp_counts){0};
}

static void worker(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct batch *batch = context;
	const struct mxfp_gemm_unit *unit = batch->units;
	const enum mxfp_gemm_step step = batch->step;
	struct mxfp_gemm_area scratch = area(batch);
	size_t i;

	(void)kernels;
	(void)piece;
	scratch.counts = counts;
	while ((i = atomic_fetch_add(batch->next, 1)) < batch->n_tasks[step]) {
		for (; i >= unit->first[step] + unit->n[step]; unit++)
			flush(unit->plan->c.counts, counts);
		(step == MXFP_GEMM_PACK ? mxfp_gemm_pack_a : mxfp_gemm_tile)(batch->call, unit, i - unit->first[step],
		                                                             &scratch);
	}
	flush(unit->plan->c.counts, counts);
}

static void run_step(struct batch *batch, enum mxfp_gemm_step step)
{
	size_t workers = mxfp_least(batch->n_tasks[step], batch->call->workers);

	if (step == MXFP_GEMM_PACK)
		workers = mxfp_least(workers, mxfp_divide_up(batch->a_elements, LEAST_PACK));
	batch->step = step;
	atomic_store(batch->next, 0);
	atomic_store(batch->next_area, 0);
	mxfp_run_pieces(&batch->call->runner, workers, worker, batch, NULL);
}

/* Finds the tensor scale of an A that is quantized to a format that has one: from all of A, not from a unit. */
static void find_tensor_scale(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	const struct mxfp_quantize_options *o = call->quantize;
	uint64_t first_non_finite;

	if (p->a_format == p->a.format || !mxfp_format_get_info(p->a_format)->tensor_scale)
		return;
	if (!o->tensor_amax.given)
		mxfp_scan(&p->quantize, &call->runner, &p->quantize.tensor_amax, &first_non_finite);
	const struct mxfp_nvfp4_tensor tensor = mxfp_nvfp4_tensor_ref(o->recipe, p->quantize.tensor_amax);
	p->a.tensor_scale = mxfp_f32_from_bits(tensor.scale);
	p->a.tensor_scale_divides = tensor.divides;
}

/* Returns the columns of the tiles of a unit: fewer than planned where workers would have none, since a product of few rows
   has few tiles. Two for each worker, so that one that comes late has less to do. */
static size_t tile_cols(const struct batch *batch, const struct mxfp_gemm_unit *unit)
{
	const struct mxfp_gemm_plan *p = unit->plan;
	const size_t tiles = mxfp_divide_up(unit->rows, p->tile_rows) * mxfp_divide_up(p->n, p->tile_cols);
	const size_t wanted = mxfp_divide_up(2 * batch->call->workers, batch->call->n);
	const size_t column = unit->rows * (p->k + 1);

	if (batch->call->workers == 1 || tiles >= wanted)
		return p->tile_cols;
	const size_t cols = mxfp_gemm_tile_cols(p, p->n / wanted);
	const size_t least = mxfp_gemm_tile_cols(p, mxfp_divide_up(LEAST_TILE, column));
	return mxfp_least(p->tile_cols, cols > least ? cols : least);
}

/* Adds a unit to the batch; its packed A goes to `a`. */
static void add_unit(struct batch *batch, struct mxfp_gemm_unit unit, uint8_t *a)
{
	const struct mxfp_gemm_plan *p = unit.plan;

	unit.a = a;
	if (unit.a_bytes != 0) {
		unit.n[MXFP_GEMM_PACK] = mxfp_divide_up(unit.rows, p->kernel != NULL ? p->kernel->mr : 1);
		batch->a_elements += unit.rows * p->k;
	}
	unit.tile_cols = tile_cols(batch, &unit);
	unit.n[MXFP_GEMM_TILE] = mxfp_divide_up(unit.rows, p->tile_rows) * mxfp_divide_up(p->n, unit.tile_cols);
	for (int step = 0; step < MXFP_GEMM_STEPS; step++) {
		unit.first[step] = batch->n_tasks[step];
		batch->n_tasks[step] += unit.n[step];
	}
	batch->units[batch->n_units++] = unit;
}

static void run_batch(struct batch *batch)
{
	for (int step = 0; step < MXFP_GEMM_STEPS; step++) {
		run_step(batch, (enum mxfp_gemm_step)step);
		batch->n_tasks[step] = 0;
	}
	batch->n_units = batch->a_elements = 0;
}

void mxfp_gemm_run(const struct mxfp_gemm_call *call, const struct mxfp_gemm_layout *layout,
                   struct mxfp_gemm_plan *plans)
{
	uint8_t *units = (uint8_t *)plans + layout->plans, *a = units + layout->units;
	atomic_size_t next, next_area;
	size_t a_bytes = 0;
	struct batch batch = {
		.call = call,
		.layout = layout,
		.units = (struct mxfp_gemm_unit *)units,
		.areas = a + layout->a,
		.next = &next,
		.next_area = &next_area,
	};

	for (size_t i = 0; i < call->n; i++) {
		struct mxfp_gemm_plan *p = &plans[i];

		if (p->n != 0 && p->m != 0)
			find_tensor_scale(p, call);
		for (size_t row = 0; row < p->m && p->n != 0; row += p->unit_rows) {
			const struct mxfp_gemm_unit unit = mxfp_gemm_unit(p, row);

			if (!mxfp_gemm_batch_takes(batch.n_units, a_bytes, &unit)) {
				run_batch(&batch);
				a_bytes = 0;
			}
			add_unit(&batch, unit, a + a_bytes);
			a_bytes += mxfp_divide_up(unit.a_bytes, MXFP_GEMM_ALIGN) * MXFP_GEMM_ALIGN;
		}
	}
	run_batch(&batch);
}
