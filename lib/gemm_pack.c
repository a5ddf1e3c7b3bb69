/* SPDX-License-Identifier: MIT */
/*
 * Panels: how large they are, W's ahead of products, and the identity that packed data begins with. Packed data: the
 * header below in the machine's byte order, then W's panels chunk by chunk; or for the reference rows of codes or
 * numbers, and then rows of scales.
 */
#include <string.h>

#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "gemm.h"
#include "sparse.h"

static const char magic[8] = "MXFPpack";

enum { PACKED_VERSION = 1, BYTE_ORDER_MARK = 0x01020304 };

/* 128 bytes, without gaps. */
struct header {
	char magic[8];
	uint32_t version, byte_order;
	uint32_t kernel; /* its id; 0: the reference */
	uint32_t a_format, w_format, acc;
	uint32_t sparse_n, sparse_m;
	uint64_t n, k, pass, chunk, payload;
	uint32_t tensor_scale, tensor_scale_divides;
	uint64_t not_n, not_k, not_w_format; /* inverted: W's own facts have nothing else to be compared with */
	uint64_t spare[2];
};

static size_t row_bytes(const struct mxfp_matrix *matrix, enum mxfp_format format, size_t *scales)
{
	const struct mxfp_format_info *info = mxfp_format_info(format);
	struct mxfp_sizes size = {0};

	*scales = 0;
	if (info->kind != MXFP_KIND_BLOCK)
		return matrix->cols * info->storage_bytes;
	(void)mxfp_blocks_size(format, 1, matrix->cols, &size);
	*scales = size.scales_row_bytes;
	return size.codes_row_bytes;
}

/* *total = panels * bytes of a panel over all chunks; false on overflow. */
static bool panels_bytes(const struct mxfp_gemm_product *p, size_t panels,
                         size_t (*panel)(const struct mxfp_gemm_shape *shape, size_t k), size_t *total)
{
	size_t chunks = p->k / p->chunk, rest = p->k % p->chunk, bytes;
	size_t last = rest != 0 ? panel(&p->shape, rest) : 0;

	return mxfp_multiply(chunks, chunks != 0 ? panel(&p->shape, p->chunk) : 0, &bytes) &&
	       bytes <= PTRDIFF_MAX - last && mxfp_multiply(bytes + last, panels, total) && *total <= PTRDIFF_MAX;
}

/* SIZE_MAX: overflow. */
static size_t operand_bytes(const struct mxfp_matrix *matrix, enum mxfp_format format, size_t rows)
{
	size_t scales, data, total;

	data = row_bytes(matrix, format, &scales);
	return data <= PTRDIFF_MAX - scales && mxfp_multiply(data + scales, rows, &total) && total <= PTRDIFF_MAX
	               ? total
	               : SIZE_MAX;
}

size_t mxfp_gemm_a_bytes(const struct mxfp_gemm_product *p, size_t rows)
{
	size_t total;

	if (p->kernel == NULL)
		return p->a.format == p->a_format && !p->a.transposed ? 0 : operand_bytes(&p->a, p->a_format, rows);
	if (!panels_bytes(p, mxfp_divide_up(rows, p->kernel->mr), p->kernel->a_panel_bytes, &total))
		return SIZE_MAX;
	return total;
}

size_t mxfp_gemm_w_bytes(const struct mxfp_gemm_product *p)
{
	size_t total;

	if (p->kernel == NULL)
		return operand_bytes(&p->w, p->w.format, p->n);
	if (!panels_bytes(p, mxfp_divide_up(p->n, p->kernel->nr), p->kernel->w_panel_bytes, &total))
		return SIZE_MAX;
	return total;
}

static size_t chunk_of(const struct mxfp_gemm_call *call, size_t pass)
{
	return call->options->psum == MXFP_FORMAT_BF16 ? pass : MXFP_GEMM_CHUNK;
}

static const struct mxfp_gemm_kernel *sparse_kernel(const struct mxfp_gemm_product *p,
                                                    const struct mxfp_gemm_call *call)
{
	static const struct mxfp_sparsity kinds[MXFP_N_SPARSE_KERNELS] = {
		[MXFP_SPARSE_KERNEL_4_16] = {4, 16},
		[MXFP_SPARSE_KERNEL_4_8] = {4, 8},
	};

	for (int i = 0; i < MXFP_N_SPARSE_KERNELS; i++)
		if (kinds[i].n == p->w.sparsity.n && kinds[i].m == p->w.sparsity.m)
			return call->kernels->gemm_sparse[i][p->acc][p->a_format][p->w.format];
	return NULL;
}

void mxfp_gemm_choose(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call)
{
	bool blocks = mxfp_is_block(p->a_format) && mxfp_is_block(p->w.format);
	size_t pass = call->options->pass_k != 0 ? call->options->pass_k : MXFP_GEMM_CHUNK;

	p->acc = blocks ? call->options->acc : MXFP_ACC_CHAIN;
	p->shape = (struct mxfp_gemm_shape){p->a_format, p->w.format, {0, 0}, blocks ? pass : pass / 4};
	p->chunk = chunk_of(call, p->shape.pass);
	p->kernel = call->kernels->gemm[p->acc][p->a_format][p->w.format];
	p->expands = mxfp_is_sparse(&p->w);
	if (!p->expands)
		return;
	const struct mxfp_gemm_kernel *sparse = sparse_kernel(p, call);
	if (sparse == NULL)
		return;
	p->kernel = sparse;
	p->shape.sparsity = p->w.sparsity;
	p->expands = false;
}

static struct header header_of(const struct mxfp_gemm_product *p)
{
	struct header h = {
		.version = PACKED_VERSION,
		.byte_order = BYTE_ORDER_MARK,
		.kernel = p->kernel != NULL ? p->kernel->id : 0,
		.a_format = p->a_format,
		.w_format = p->w.format,
		.acc = p->acc,
		.sparse_n = p->w.sparsity.n,
		.sparse_m = p->w.sparsity.m,
		.n = p->w.rows,
		.k = p->w.cols,
		.pass = p->shape.pass,
		.chunk = p->chunk,
		.payload = mxfp_gemm_w_bytes(p),
		.tensor_scale = mxfp_f32_bits(p->w.tensor_scale),
		.tensor_scale_divides = p->w.tensor_scale_divides,
		.not_n = ~(uint64_t)p->w.rows,
		.not_k = ~(uint64_t)p->w.cols,
		.not_w_format = ~(uint64_t)p->w.format,
	};

	memcpy(h.magic, magic, sizeof magic);
	return h;
}

enum mxfp_status mxfp_gemm_unpack(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call,
                                  const struct mxfp_gemm *product)
{
	struct header h, wanted;

	if (product->w_packed_bytes < sizeof h)
		return MXFP_ERR_PACKED;
	memcpy(&h, product->w_packed, sizeof h);
	if (h.w_format >= MXFP_N_FORMATS || h.n > SIZE_MAX || h.k > SIZE_MAX || h.tensor_scale_divides > 1)
		return MXFP_ERR_PACKED;
	p->w = (struct mxfp_matrix){
		.format = (enum mxfp_format)h.w_format,
		.rows = (size_t)h.n,
		.cols = (size_t)h.k,
		.tensor_scale = mxfp_f32_from_bits(h.tensor_scale),
		.tensor_scale_divides = h.tensor_scale_divides,
		.sparsity = {h.sparse_n, h.sparse_m},
	};
	enum mxfp_status status = mxfp_gemm_check_matrix(&p->w);
	if (status != MXFP_OK)
		return MXFP_ERR_PACKED;
	p->n = p->w.rows;
	if (p->w.cols != p->k || (product->w.rows != 0 && product->w.rows != p->n))
		return MXFP_ERR_SIZE;
	mxfp_gemm_choose(p, call);
	wanted = header_of(p);
	if (memcmp(&h, &wanted, sizeof h) != 0 || wanted.payload > product->w_packed_bytes - sizeof h)
		return MXFP_ERR_PACKED;
	p->w_panels = (const uint8_t *)product->w_packed + sizeof h;
	if (p->kernel == NULL) {
		size_t scales, data = row_bytes(&p->w, p->w.format, &scales);

		p->w.data = p->w_panels;
		p->w.scales = p->w_panels + p->n * data;
		p->w.stride = mxfp_is_block(p->w.format) ? data : p->k;
		p->w.sparsity = (struct mxfp_sparsity){0, 0};
		p->expands = false;
	}
	return MXFP_OK;
}

/* Kept codes and masks of this many elements are whole bytes, and blocks are whole. */
static size_t expand_step(struct mxfp_sparsity sparsity)
{
	return 32 % sparsity.m == 0 ? 32 : 96;
}

struct mxfp_matrix mxfp_gemm_expand(const struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                    struct mxfp_gemm_slice *slice, uint8_t *data)
{
	const struct mxfp_format_info *info = mxfp_format_info(w->format);
	bool blocks = info->kind == MXFP_KIND_BLOCK;
	size_t step = expand_step(w->sparsity), first = slice->k0 / step * step, stride, unit;
	size_t end = mxfp_least(w->cols, mxfp_divide_up(slice->k0 + slice->k, step) * step);
	size_t bits = blocks ? mxfp_format_info(info->element)->bits : 8 * info->storage_bytes;
	struct mxfp_matrix dense = *w;

	(void)mxfp_dense_row_bytes(w->format, end - first, &stride);
	unit = blocks ? 1 : info->storage_bytes;
	const struct mxfp_expand_job job = {
		.format = w->format,
		.sparsity = w->sparsity,
		.rows = slice->rows,
		.cols = end - first,
		.kept = (const uint8_t *)w->data + slice->row * w->stride * unit +
		        first / w->sparsity.m * w->sparsity.n * bits / 8,
		.kept_stride = w->stride * unit,
		.masks = (const uint8_t *)w->masks + slice->row * w->masks_stride + first / 8,
		.masks_stride = w->masks_stride,
		.dense = data,
		.dense_stride = stride,
	};
	call->kernels->expand[w->format](&job);
	dense.rows = slice->rows;
	dense.cols = end - first;
	dense.data = data;
	dense.stride = stride / unit;
	dense.sparsity = (struct mxfp_sparsity){0, 0};
	if (blocks)
		dense.scales = (const uint8_t *)w->scales + slice->row * w->scales_stride + first / info->block_length;
	slice->row = 0;
	slice->k0 -= first;
	return dense;
}

/* One panel of a sparse W for a kernel that takes dense ones. */
static void pack_expanded(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p,
                          struct mxfp_gemm_pack_job *job)
{
	uint8_t data[MXFP_GEMM_MOST_ROWS * (MXFP_GEMM_CHUNK + 2 * MXFP_GEMM_EXPAND_MORE) * sizeof(float)];
	struct mxfp_gemm_slice slice = {job->row, job->rows, job->k0, job->k};
	struct mxfp_matrix dense = mxfp_gemm_expand(call, &p->w, &slice, data);

	job->matrix = &dense;
	job->row = slice.row;
	job->k0 = slice.k0;
	p->kernel->pack_w(job);
}

void mxfp_gemm_pack_w(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p, size_t first, size_t count,
                      size_t k0, uint8_t *panels)
{
	size_t nr = p->kernel->nr, k = mxfp_least(p->chunk, p->k - k0);

	for (size_t i = 0; i < count; i++) {
		struct mxfp_gemm_pack_job job = {
			.shape = &p->shape,
			.matrix = &p->w,
			.row = (first + i) * nr,
			.k0 = k0,
			.k = k,
			.panel = panels + i * p->kernel->w_panel_bytes(&p->shape, k),
		};

		job.rows = mxfp_least(nr, p->n - job.row);
		if (p->expands)
			pack_expanded(call, p, &job);
		else
			p->kernel->pack_w(&job);
	}
}

/* What packing tasks share. A task is one panel in all chunks; for the reference, one row. */
struct packing {
	const struct mxfp_gemm_call *call;
	const struct mxfp_gemm_product *product;
	uint8_t *panels;
};

static void pack_row(const struct packing *packing, size_t row)
{
	const struct mxfp_matrix *w = &packing->product->w;
	size_t scales, data = row_bytes(w, w->format, &scales);
	size_t width = mxfp_is_block(w->format) ? 1 : mxfp_format_info(w->format)->storage_bytes;

	if (data == 0)
		return;
	if (mxfp_is_sparse(w)) {
		struct mxfp_gemm_slice slice = {row, 1, 0, w->cols};

		(void)mxfp_gemm_expand(packing->call, w, &slice, packing->panels + row * data);
	} else {
		memcpy(packing->panels + row * data, (const uint8_t *)w->data + row * w->stride * width, data);
	}
	if (scales != 0)
		memcpy(packing->panels + w->rows * data + row * scales,
		       (const uint8_t *)w->scales + row * w->scales_stride, scales);
}

static void pack_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                       struct mxfp_counts *counts)
{
	const struct packing *packing = context;
	const struct mxfp_gemm_product *p = packing->product;

	(void)kernels;
	(void)counts;
	if (p->kernel == NULL) {
		pack_row(packing, piece);
		return;
	}
	uint8_t *chunk = packing->panels;
	for (size_t k0 = 0; k0 < p->k; k0 += p->chunk) {
		size_t bytes = p->kernel->w_panel_bytes(&p->shape, mxfp_least(p->chunk, p->k - k0));

		mxfp_gemm_pack_w(packing->call, p, piece, 1, k0, chunk + piece * bytes);
		chunk += mxfp_divide_up(p->n, p->kernel->nr) * bytes;
	}
}

/* Checks W and finds its kernel for an A of a_format. */
static enum mxfp_status resolve_w(struct mxfp_gemm_product *p, struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                  enum mxfp_format a_format)
{
	static const struct mxfp_gemm_options defaults;

	if (w == NULL)
		return MXFP_ERR_NULL;
	if (call->options == NULL)
		call->options = &defaults;
	enum mxfp_status status = mxfp_gemm_check_call(call);
	if (status != MXFP_OK)
		return status;
	*p = (struct mxfp_gemm_product){.w = *w, .n = w->rows, .k = w->cols, .a_format = a_format};
	struct mxfp_matrix a = {.format = a_format, .rows = 1, .cols = w->cols};
	status = w->transposed ? MXFP_ERR_FORMAT : mxfp_gemm_check_matrix(&a);
	if (status == MXFP_OK)
		status = mxfp_gemm_check_matrix(&p->w);
	if (status != MXFP_OK)
		return status;
	mxfp_gemm_choose(p, call);
	return mxfp_gemm_w_bytes(p) > PTRDIFF_MAX - sizeof(struct header) ? MXFP_ERR_SIZE : MXFP_OK;
}

enum mxfp_status mxfp_pack_size_with(const struct mxfp_kernels *kernels, const struct mxfp_matrix *w,
                                     enum mxfp_format a_format, const struct mxfp_gemm_options *options, size_t *bytes)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .options = options};
	struct mxfp_gemm_product p;
	enum mxfp_status status = resolve_w(&p, &call, w, a_format);

	if (status == MXFP_OK && bytes == NULL)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK)
		*bytes = sizeof(struct header) + mxfp_gemm_w_bytes(&p);
	return status;
}

enum mxfp_status mxfp_pack_with(const struct mxfp_kernels *kernels, void *packed, size_t bytes,
                                const struct mxfp_matrix *w, enum mxfp_format a_format,
                                const struct mxfp_gemm_options *options)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .options = options};
	struct mxfp_gemm_product p;
	enum mxfp_status status = resolve_w(&p, &call, w, a_format);

	if (status != MXFP_OK)
		return status;
	size_t payload = mxfp_gemm_w_bytes(&p);
	if (packed == NULL)
		return MXFP_ERR_NULL;
	if (bytes < sizeof(struct header) + payload)
		return MXFP_ERR_SIZE;
	status = mxfp_gemm_check_source(&p.w, packed, sizeof(struct header) + payload);
	if (status != MXFP_OK)
		return status;
	struct header h = header_of(&p);
	memcpy(packed, &h, sizeof h);
	struct packing packing = {&call, &p, (uint8_t *)packed + sizeof h};
	size_t pieces = p.kernel != NULL ? mxfp_divide_up(p.n, p.kernel->nr) : p.n;
	mxfp_run_pieces(&call.runner, pieces, pack_piece, &packing, NULL);
	return MXFP_OK;
}
