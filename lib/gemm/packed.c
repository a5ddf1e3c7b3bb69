/* SPDX-License-Identifier: MIT */
/*
 * Packed weights: the header below in the machine's byte order, which describes W and names the kernel that reads it,
 * then W's panels chunk by chunk; for the reference, rows of codes or numbers, then rows of scales.
 */
#include <string.h>

#include "bits.h"
#include "plan.h"

static const char magic[8] = "MXFPpack";

enum { VERSION = 1, BYTE_ORDER_MARK = 0x01020304 };

struct header {
	char magic[8];
	uint32_t version, byte_order;
	uint32_t kernel; /* its id; 0: the reference */
	uint32_t a_format; /* 0: numbers of any format */
	uint32_t w_format, acc;
	uint32_t sparse_n, sparse_m;
	uint64_t n, k, pass, chunk, payload;
	uint32_t tensor_scale, tensor_scale_divides;
	uint64_t not_n, not_k, not_w_format; /* inverted copies: no argument tells W's own facts, so these detect damage */
	uint64_t spare[2];
};
/* Headers are compared with memcmp(): 8 bytes of magic, 10 words of 32 bits and 10 of 64 leave no padding. */
_Static_assert(sizeof(struct header) == 8 + 10 * 4 + 10 * 8, "no padding");
_Static_assert(sizeof(struct header) == MXFP_GEMM_HEADER_BYTES, "as others have it");

static struct header header_of(const struct mxfp_gemm_plan *p)
{
	struct header h = {
		.version = VERSION,
		.byte_order = BYTE_ORDER_MARK,
		.kernel = p->kernel != NULL ? p->kernel->id : 0,
		.a_format = mxfp_is_block(p->a_format) ? p->a_format : 0,
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

void mxfp_gemm_write_header(void *packed, const struct mxfp_gemm_plan *p)
{
	const struct header h = header_of(p);

	memcpy(packed, &h, sizeof h);
}

enum mxfp_status mxfp_gemm_read_packed(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                       const struct mxfp_product *product)
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
	if (mxfp_gemm_check_matrix(&p->w) != MXFP_OK)
		return MXFP_ERR_PACKED;
	if (p->w.cols != p->k || p->w.rows != product->n)
		return MXFP_ERR_SHAPE;
	p->n = product->n;
	mxfp_gemm_choose(p, call);
	wanted = header_of(p);
	if (memcmp(&h, &wanted, sizeof h) != 0 || wanted.payload > product->w_packed_bytes - sizeof h)
		return MXFP_ERR_PACKED;
	p->w_panels = (const uint8_t *)product->w_packed + sizeof h;
	p->w_packed_bytes = product->w_packed_bytes;
	if (p->kernel == NULL) { /* the rows it reads are dense, even if W was sparse */
		const struct mxfp_gemm_row row = mxfp_gemm_row(p->w.format, p->k);

		p->w.data = p->w_panels;
		p->w.scales = p->w_panels + p->n * row.data;
		p->w.stride = row.data / mxfp_stride_unit(p->w.format);
		p->w.scales_stride = row.scales;
		p->w.sparsity = (struct mxfp_sparsity){0, 0};
		p->expands = false;
	}
	return MXFP_OK;
}
