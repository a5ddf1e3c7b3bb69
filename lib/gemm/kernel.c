/* SPDX-License-Identifier: MIT */
/* Chooses the kernel for a pair of formats, and computes the size of its panels of A and W. */
#include <limits.h>

#include "mma.h"
#include "plan.h"

/* The properties of an operand that decide which kernels can take it. */
struct operand {
	unsigned bits;       /* of an element as a two's complement integer in units of the smallest difference */
	bool power_of_two;   /* all scales are powers of two: they commute with rounding, and a zero stays a zero */
};

static struct operand operand_of(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format), *element = info;
	struct operand o = {.power_of_two = true};

	if (info->kind == MXFP_KIND_BLOCK) {
		element = mxfp_format_get_info(info->element);
		o.power_of_two = !info->tensor_scale && mxfp_format_get_info(info->scale)->kind == MXFP_KIND_EXPONENT;
	}
	if (element->kind == MXFP_KIND_FIXED)
		o.bits = element->bits;
	else /* the sign, the significand of the largest value, and its exponent above that of subnormals */
		o.bits = 1 + element->significand_bits + (element->max_code >> element->significand_bits);
	return o;
}

/* The operands that a kernel takes. */
struct range {
	unsigned least, most; /* bits */
	bool power_of_two;    /* whether scales must be powers of two */
};

#define UP_TO(bits) {0, bits, false}
#define MX_UP_TO(bits) {0, bits, true}
#define MX_E4M3 {19, 19, true}
#define FP8 {19, 33, true}
#define BLOCKS UP_TO(33) /* numbers outside blocks have more */
#define ANY {0, UINT_MAX, false}

/*
 * The best family comes first. A row also holds with A and W exchanged, unless it is as_stated. In `bits` as defined
 * above, e2m1 has 5, e2m3 7, int8 8, e3m2 10, e4m3 19 and e5m2 33. Sums of products of elements of up to 10 bits fit
 * 24 bits, an NVFP4 scale included; sums of e4m3 times up to 8 bits need 31 and must be rounded before a power of two
 * scales them; times e2m1 and an NVFP4 scale's significand, 30. The sparse chain needs zeros of W that decode to +0, which a
 * tensor scale does not ensure.
 */
static const struct {
	enum mxfp_gemm_family family;
	enum mxfp_acc acc;
	bool sparse; /* W: 4 of 8 or of 16 */
	bool as_stated; /* not with A and W exchanged */
	struct range a, w;
} choices[] = {
	{MXFP_GEMM_SPARSE_FP4,   MXFP_ACC_EXACT, true,  true,  MX_UP_TO(19), MX_UP_TO(5)},
	{MXFP_GEMM_SPARSE_CHAIN, MXFP_ACC_CHAIN, true,  true,  ANY,         {0, UINT_MAX, true}},
	{MXFP_GEMM_INT8,         MXFP_ACC_EXACT, false, false, UP_TO(8),    UP_TO(8)},
	{MXFP_GEMM_E4M3,         MXFP_ACC_EXACT, false, false, MX_E4M3,     MX_UP_TO(8)},
	{MXFP_GEMM_E4M3,         MXFP_ACC_EXACT, false, false, MX_E4M3,     MX_E4M3},
	{MXFP_GEMM_FP4_BYTES,    MXFP_ACC_EXACT, false, true,  MX_UP_TO(8), MX_UP_TO(5)},
	{MXFP_GEMM_FP4,          MXFP_ACC_EXACT, false, true,  MX_UP_TO(19), MX_UP_TO(5)},
	{MXFP_GEMM_INT16_CODES,  MXFP_ACC_EXACT, false, true,  UP_TO(10),   UP_TO(10)},
	{MXFP_GEMM_INT16_CODES,  MXFP_ACC_EXACT, false, true,  MX_E4M3,     MX_UP_TO(8)},
	{MXFP_GEMM_INT16_CODES,  MXFP_ACC_EXACT, false, true,  MX_E4M3,     UP_TO(5)},
	{MXFP_GEMM_MXFP8,        MXFP_ACC_EXACT, false, false, MX_E4M3,     MX_E4M3},
	{MXFP_GEMM_FP8,          MXFP_ACC_EXACT, false, false, FP8,         UP_TO(33)},
	{MXFP_GEMM_CHAIN_BLOCKS, MXFP_ACC_CHAIN, false, true,  ANY,         BLOCKS},
	{MXFP_GEMM_CHAIN,        MXFP_ACC_CHAIN, false, false, ANY,         ANY},
};

static bool takes(const struct range *range, struct operand o)
{
	return o.bits >= range->least && o.bits <= range->most && (o.power_of_two || !range->power_of_two);
}

const struct mxfp_gemm_kernel *mxfp_gemm_kernel(const struct mxfp_kernels *table, enum mxfp_acc acc, enum mxfp_format a,
                                                enum mxfp_format w, struct mxfp_sparsity sparsity)
{
	const struct operand of_a = operand_of(a), of_w = operand_of(w);
	const bool sparse = sparsity.n != 0 || sparsity.m != 0;

	if (sparse && (sparsity.n != 4 || (sparsity.m != 8 && sparsity.m != 16)))
		return NULL;
	for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
		if (table->gemm[choices[i].family] == NULL || choices[i].acc != acc || choices[i].sparse != sparse)
			continue;
		if ((takes(&choices[i].a, of_a) && takes(&choices[i].w, of_w)) ||
		    (!choices[i].as_stated && takes(&choices[i].a, of_w) && takes(&choices[i].w, of_a)))
			return table->gemm[choices[i].family];
	}
	return NULL;
}

void mxfp_gemm_choose(struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	static const struct mxfp_sparsity dense;
	bool blocks = mxfp_is_block(p->a_format) && mxfp_is_block(p->w.format);
	size_t pass = call->options->pass_k != 0 ? call->options->pass_k : MXFP_GEMM_CHUNK;

	p->acc = call->options->acc;
	if (mxfp_mma_is(p->acc))
		pass = call->options->pass_k != 0 ? pass : MXFP_GEMM_NO_PASSES;
	else if (!blocks) {
		p->acc = MXFP_ACC_CHAIN;
		pass /= MXFP_GEMM_NUMBERS;
	}
	p->shape = (struct mxfp_gemm_shape){p->a_format, p->w.format, p->w.sparsity, pass};
	p->chunk = call->options->psum == MXFP_FORMAT_BF16 ? p->shape.pass : MXFP_GEMM_CHUNK;
	p->kernel = mxfp_gemm_kernel(call->kernels, p->acc, p->a_format, p->w.format, p->w.sparsity);
	p->expands = mxfp_is_sparse(&p->w) && p->kernel == NULL;
	if (p->expands) {
		p->shape.sparsity = dense;
		p->kernel = mxfp_gemm_kernel(call->kernels, p->acc, p->a_format, p->w.format, dense);
	}
}

/* Returns the bytes of `panels` panels over all chunks of k elements; SIZE_MAX: overflow. */
static size_t panels_bytes(const struct mxfp_gemm_plan *p, size_t panels, size_t k,
                           size_t (*panel)(const struct mxfp_gemm_shape *shape, size_t k))
{
	size_t chunks = k / p->chunk, rest = k % p->chunk, bytes, total;
	size_t last = rest != 0 ? panel(&p->shape, rest) : 0;

	return mxfp_multiply(chunks, chunks != 0 ? panel(&p->shape, p->chunk) : 0, &bytes) &&
	               bytes <= PTRDIFF_MAX - last && mxfp_multiply(bytes + last, panels, &total) && total <= PTRDIFF_MAX
	               ? total
	               : SIZE_MAX;
}

static size_t rows_bytes(enum mxfp_format format, size_t rows, size_t cols)
{
	const struct mxfp_gemm_row row = mxfp_gemm_row(format, cols);
	size_t total;

	return row.data <= PTRDIFF_MAX - row.scales && mxfp_multiply(row.data + row.scales, rows, &total) &&
	               total <= PTRDIFF_MAX
	               ? total
	               : SIZE_MAX;
}

size_t mxfp_gemm_a_bytes(const struct mxfp_gemm_plan *p, size_t rows, size_t k)
{
	if (p->kernel != NULL)
		return panels_bytes(p, mxfp_divide_up(rows, p->kernel->mr), k, p->kernel->a_panel_bytes);
	/* The reference reads the caller's rows if they need neither quantizing nor transposing. */
	return p->a.format == p->a_format && !p->a.transposed ? 0 : rows_bytes(p->a_format, rows, k);
}

size_t mxfp_gemm_w_bytes(const struct mxfp_gemm_plan *p)
{
	if (p->kernel != NULL)
		return panels_bytes(p, mxfp_divide_up(p->n, p->kernel->nr), p->k, p->kernel->w_panel_bytes);
	return rows_bytes(p->w.format, p->n, p->k);
}
