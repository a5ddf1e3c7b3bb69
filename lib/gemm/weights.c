/* SPDX-License-Identifier: MIT */
/*
 * mxfp_pack(): packs W ahead of products. The expanded rows of a sparse W may not fit a thread's stack, so they lie
 * after the panels, in rooms for a few workers, which are zeroed at the end.
 */
#include <stdatomic.h>
#include <string.h>

#include "run.h"

enum { MOST_ROOMS = 8 };

struct packing {
	const struct mxfp_gemm_call *call;
	const struct mxfp_gemm_plan *plan;
	uint8_t *panels, *rooms;
	size_t room_bytes, n_panels;
	atomic_size_t *next, *next_room;
};

/* Packs a row for the reference. */
static void pack_row(const struct packing *packing, size_t row)
{
	const struct mxfp_matrix *w = &packing->plan->w;
	const struct mxfp_gemm_row bytes = mxfp_gemm_row(w->format, w->cols);
	uint8_t *scales = packing->panels + w->rows * bytes.data + row * bytes.scales;

	if (bytes.data == 0)
		return;
	if (mxfp_is_sparse(w)) {
		struct mxfp_gemm_slice slice = {row, 1, 0, w->cols};

		(void)mxfp_gemm_expand(packing->call, w, &slice, packing->panels + row * bytes.data);
	} else if (w->transposed) {
		mxfp_gemm_gather(w, row, 1, packing->panels + row * bytes.data);
	} else {
		memcpy(packing->panels + row * bytes.data,
		       (const uint8_t *)w->data + row * w->stride * mxfp_stride_unit(w->format), bytes.data);
	}
	if (bytes.scales != 0)
		memcpy(scales, (const uint8_t *)w->scales + row * w->scales_stride, bytes.scales);
}

/* Packs a panel in all chunks. */
static void pack_panel(const struct packing *packing, size_t panel, uint8_t *room)
{
	const struct mxfp_gemm_plan *p = packing->plan;
	uint8_t *chunk = packing->panels;

	for (size_t k0 = 0; k0 < p->k; k0 += p->chunk) {
		size_t bytes = p->kernel->w_panel_bytes(&p->shape, mxfp_least(p->chunk, p->k - k0));

		mxfp_gemm_pack_w(packing->call, p, panel, 1, k0, room, chunk + panel * bytes);
		chunk += packing->n_panels * bytes;
	}
}

static void pack_worker(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct packing *packing = context;
	uint8_t *room = packing->rooms + atomic_fetch_add(packing->next_room, 1) * packing->room_bytes;
	size_t i;

	(void)kernels;
	(void)piece;
	(void)counts;
	while ((i = atomic_fetch_add(packing->next, 1)) < packing->n_panels)
		if (packing->plan->kernel == NULL)
			pack_row(packing, i);
		else
			pack_panel(packing, i, room);
}

static size_t count_panels(const struct mxfp_gemm_plan *p)
{
	return p->kernel != NULL ? mxfp_divide_up(p->n, p->kernel->nr) : p->n;
}

static size_t room_bytes(const struct mxfp_gemm_plan *p)
{
	return mxfp_divide_up(mxfp_gemm_expanded_bytes(p), MXFP_GEMM_ALIGN) * MXFP_GEMM_ALIGN;
}

static size_t count_rooms(const struct mxfp_gemm_plan *p)
{
	return p->kernel != NULL && p->expands ? mxfp_least(count_panels(p), MOST_ROOMS) : 0;
}

/* Bytes of all rooms and of the gap that aligns the first. A room is at most 64 rows of a chunk: no overflow. */
static size_t rooms_bytes(const struct mxfp_gemm_plan *p)
{
	return count_rooms(p) != 0 ? count_rooms(p) * room_bytes(p) + MXFP_GEMM_ALIGN : 0;
}

/* Checks W, chooses its kernel, and computes the size of the packed weights. */
static enum mxfp_status plan_packing(struct mxfp_gemm_plan *p, struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                     const struct mxfp_exec *exec, size_t *bytes)
{
	enum mxfp_status status = mxfp_gemm_check_options(call, exec);

	if (status == MXFP_OK)
		status = mxfp_gemm_plan_weights(p, call, w);
	if (status != MXFP_OK)
		return status;
	*bytes = MXFP_GEMM_HEADER_BYTES + mxfp_gemm_w_bytes(p);
	if (rooms_bytes(p) > PTRDIFF_MAX - *bytes)
		return MXFP_ERR_SIZE;
	*bytes += rooms_bytes(p);
	return MXFP_OK;
}

enum mxfp_status mxfp_pack_size(size_t *bytes, const struct mxfp_matrix *w, const struct mxfp_gemm_options *options,
                                const struct mxfp_exec *exec)
{
	struct mxfp_gemm_call call = {.options = options};
	struct mxfp_gemm_plan p;
	size_t total;
	enum mxfp_status status = plan_packing(&p, &call, w, exec, &total);

	if (status == MXFP_OK && bytes == NULL)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK)
		*bytes = total;
	return status;
}

enum mxfp_status mxfp_pack(void *packed, size_t bytes, const struct mxfp_matrix *w,
                           const struct mxfp_gemm_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_gemm_call call = {.options = options};
	atomic_size_t next = 0, next_room = 0;
	struct mxfp_gemm_plan p;
	size_t total;
	enum mxfp_status status = plan_packing(&p, &call, w, exec, &total);

	if (status != MXFP_OK)
		return status;
	if (packed == NULL)
		return MXFP_ERR_NULL;
	if (bytes < total)
		return MXFP_ERR_WORKSPACE;
	status = mxfp_gemm_check_weights(&p.w, mxfp_bytes(packed, total));
	if (status != MXFP_OK)
		return status;
	mxfp_gemm_write_header(packed, &p);
	struct packing packing = {
		.call = &call,
		.plan = &p,
		.panels = (uint8_t *)packed + MXFP_GEMM_HEADER_BYTES,
		.room_bytes = count_rooms(&p) != 0 ? room_bytes(&p) : 0,
		.n_panels = count_panels(&p),
		.next = &next,
		.next_room = &next_room,
	};
	uint8_t *end = packing.panels + mxfp_gemm_w_bytes(&p);
	packing.rooms = end + (MXFP_GEMM_ALIGN - (uintptr_t)end % MXFP_GEMM_ALIGN);
	size_t workers = mxfp_least(mxfp_runner_width(&call.runner), packing.n_panels);
	if (packing.room_bytes != 0)
		workers = mxfp_least(workers, count_rooms(&p));
	mxfp_run_pieces(&call.runner, workers, pack_worker, &packing, NULL);
	memset(end, 0, rooms_bytes(&p));
	return MXFP_OK;
}
