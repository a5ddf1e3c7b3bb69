/* SPDX-License-Identifier: MIT */
/*
 * Calls of mxfp_gemm() and mxfp_pack() with any formats, options and sizes.
 *
 * Properties: a right call succeeds, gives the same bytes on every tier that the machine has, from W as it is and from
 * packed W, and writes nothing beside C; packed data that was changed anywhere is refused or leads to no access outside
 * of it; sizes of any kind give a status.
 *
 * Input: formats of A and W, acc, pass_k, flags (1 C in bf16, 2 C given, 4 psum bf16, 8 psum sr, 16 bias, 32 A is f32
 * and quantized, 64 A transposed, if it holds numbers, 128 gaps), rows, columns, K, 8 bytes of seed, number of bytes of
 * the packed data to change, each as 2 bytes of place and one of value, 6 times 8 bytes of wild sizes, and then the
 * bytes of A, W, their scales, C and bias, repeated.
 */
#include "config.h"

#include "fuzz.h"
#include "gemm/plan.h"
#include "mxfp/isa.h"

enum {
	N_ELEMENT_FORMATS = MXFP_FORMAT_E3M4 + 1,
	MAX_ROWS = 20,
	MAX_COLS = 70,
	MAX_DEPTH = 255,
	GAP = 3,
	GUARD = 64,
	MAX_CHANGES = 8,
	N_WILD = 6,
	UNTOUCHED = 0xA5
};

enum flag {
	C_BF16 = 1,
	C_GIVEN = 2,
	PSUM_BF16 = 4,
	PSUM_SR = 8,
	BIAS = 16,
	QUANTIZED = 32,
	TRANSPOSED = 64,
	GAPS = 128
};

struct change {
	uint16_t at;
	uint8_t value;
};

struct input {
	struct mxfp_gemm product;
	struct mxfp_gemm_options options;
	enum mxfp_format a_format; /* within the product */
	uint8_t flags;
	size_t n_changes;
	struct change change[MAX_CHANGES];
	uint64_t wild[N_WILD];
	struct fuzz_bytes rest;
};

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_info(format)->kind == MXFP_KIND_BLOCK;
}

static const struct mxfp_exec one_thread = {.threads = 1};

/* Memory of n bytes that repeats the rest of the input, from another place for every array. */
static uint8_t *filled(const struct input *in, size_t n, size_t from)
{
	uint8_t *bytes = malloc(n != 0 ? n : 1);

	fuzz_check(bytes != NULL, "memory");
	for (size_t i = 0; i < n; i++)
		bytes[i] = in->rest.size != 0 ? in->rest.data[(from + i) % in->rest.size] : 0;
	return bytes;
}

/* Gives a matrix memory that ends with its last row. */
static void fill_matrix(const struct input *in, struct mxfp_matrix *m, size_t from)
{
	size_t gap = (in->flags & GAPS) != 0 ? GAP : 0, rows = m->transposed ? m->cols : m->rows;
	size_t cols = m->transposed ? m->rows : m->cols;
	struct mxfp_sizes size;

	if (!is_block(m->format)) {
		m->stride = cols + gap;
		m->data = filled(in, rows * m->stride * mxfp_format_info(m->format)->storage_bytes, from);
		return;
	}
	fuzz_check(mxfp_blocks_size(m->format, rows, cols, &size) == MXFP_OK, "a small matrix has a size");
	m->stride = size.codes_row_bytes + gap;
	m->scales_stride = size.scales_row_bytes + gap;
	m->data = filled(in, rows * m->stride, from);
	m->scales = filled(in, rows * m->scales_stride, from + 1000);
}

static enum mxfp_format operand_format(uint8_t byte)
{
	static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16, MXFP_FORMAT_TF32};
	unsigned blocks = MXFP_N_FORMATS - N_ELEMENT_FORMATS;

	byte %= blocks + 4;
	return byte < blocks ? (enum mxfp_format)(N_ELEMENT_FORMATS + byte) : numbers[byte - blocks];
}

static void take(struct input *in, const uint8_t *data, size_t size)
{
	static const unsigned passes[] = {0, 512, 256, 128};
	struct fuzz_bytes *bytes = &in->rest;
	struct mxfp_matrix *a = &in->product.a, *w = &in->product.w;

	*bytes = (struct fuzz_bytes){data, size};
	in->a_format = a->format = operand_format(fuzz_byte(bytes));
	w->format = operand_format(fuzz_byte(bytes));
	in->options.acc = fuzz_byte(bytes) % (MXFP_ACC_CHAIN + 1);
	in->options.pass_k = passes[fuzz_byte(bytes) % 4];
	in->flags = fuzz_byte(bytes);
	a->rows = fuzz_byte(bytes) % (MAX_ROWS + 1);
	w->rows = fuzz_byte(bytes) % (MAX_COLS + 1);
	a->cols = w->cols = fuzz_byte(bytes) % (MAX_DEPTH + 1);
	fuzz_take(bytes, &in->options.seed, sizeof in->options.seed);
	in->n_changes = fuzz_byte(bytes) % (MAX_CHANGES + 1);
	for (size_t i = 0; i < in->n_changes; i++) {
		fuzz_take(bytes, &in->change[i].at, sizeof in->change[i].at);
		in->change[i].value = fuzz_byte(bytes);
	}
	fuzz_take(bytes, in->wild, sizeof in->wild);
	in->options.c_format = (in->flags & C_BF16) != 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	in->options.accumulate = (in->flags & C_GIVEN) != 0;
	in->options.psum = (in->flags & PSUM_BF16) != 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	in->options.psum_round = (in->flags & PSUM_SR) != 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE;
	in->options.stream = in->options.seed * 3;
	in->options.exec = &one_thread;
	if ((in->flags & QUANTIZED) != 0 && is_block(a->format)) {
		in->options.a_format = a->format;
		a->format = MXFP_FORMAT_F32;
	}
	a->transposed = (in->flags & TRANSPOSED) != 0 && !is_block(a->format);
	a->tensor_scale = w->tensor_scale = 1.5F;
	fill_matrix(in, a, 0);
	fill_matrix(in, w, 333);
}

/* One product: C's memory, for the caller to free. */
static uint8_t *multiply(const struct input *in, const struct mxfp_kernels *kernels, const struct mxfp_gemm *product,
                         enum mxfp_status *status)
{
	size_t width = mxfp_format_info(in->options.c_format)->storage_bytes, bytes = 0;
	size_t c_bytes = in->product.a.rows * in->product.w.rows * width;
	uint8_t *c = filled(in, c_bytes + GUARD, 7), *bias = filled(in, in->product.w.rows * sizeof(float), 99);
	struct mxfp_gemm p = *product;

	memset(c + c_bytes, UNTOUCHED, GUARD);
	p.c = c;
	p.bias = (in->flags & BIAS) != 0 ? (float *)bias : NULL;
	*status = mxfp_gemm_workspace_size_with(kernels, &p, 1, &in->options, &bytes);
	uint8_t *workspace = malloc(bytes != 0 ? bytes : 1);
	fuzz_check(workspace != NULL, "memory");
	if (*status == MXFP_OK)
		*status = mxfp_gemm_grouped_with(kernels, &p, 1, &in->options, workspace, bytes);
	for (size_t i = 0; i < GUARD; i++)
		fuzz_check(c[c_bytes + i] == UNTOUCHED, "nothing is written behind C");
	free(workspace);
	free(bias);
	return c;
}

/* W packed, in exactly its size. */
static uint8_t *packed_w(const struct input *in, const struct mxfp_kernels *kernels, size_t *bytes)
{
	const struct mxfp_matrix *w = &in->product.w;

	fuzz_check(mxfp_pack_size_with(kernels, w, in->a_format, &in->options, bytes) == MXFP_OK, "W has a packed size");
	uint8_t *packed = malloc(*bytes);
	fuzz_check(packed != NULL, "memory");
	fuzz_check(mxfp_pack_with(kernels, packed, *bytes, w, in->a_format, &in->options) == MXFP_OK, "W is packed");
	return packed;
}

static void check_tier(const struct input *in, const struct mxfp_kernels *kernels, const uint8_t *want)
{
	size_t c_bytes = in->product.a.rows * in->product.w.rows * mxfp_format_info(in->options.c_format)->storage_bytes;
	struct mxfp_gemm product = in->product;
	enum mxfp_status status;

	uint8_t *c = multiply(in, kernels, &product, &status);
	fuzz_check(status == MXFP_OK, "a right call succeeds");
	fuzz_check(memcmp(c, want, c_bytes) == 0, "tiers give the same");
	free(c);
	uint8_t *packed = packed_w(in, kernels, &product.w_packed_bytes);
	product.w_packed = packed;
	c = multiply(in, kernels, &product, &status);
	fuzz_check(status == MXFP_OK, "a call with packed W succeeds");
	fuzz_check(memcmp(c, want, c_bytes) == 0, "packed W gives the same");
	free(c);
	for (size_t i = 0; i < in->n_changes; i++)
		packed[in->change[i].at % product.w_packed_bytes] ^= in->change[i].value;
	c = multiply(in, kernels, &product, &status);
	fuzz_check(status == MXFP_OK || status == MXFP_ERR_PACKED || status == MXFP_ERR_SIZE, "changed data have a status");
	free(c);
	free(packed);
}

static void check_wild(const struct input *in)
{
	struct mxfp_gemm p = in->product;
	size_t bytes = 0;

	p.a.rows = (size_t)in->wild[0];
	p.a.cols = p.w.cols = (size_t)in->wild[1];
	p.w.rows = (size_t)in->wild[2];
	p.a.stride = (size_t)in->wild[3];
	p.w.stride = (size_t)in->wild[4];
	p.c_stride = (size_t)in->wild[5];
	/* Such a call may be right, but the slabs of A are counted one by one. */
	if (p.a.rows > 1 << 20 && p.a.rows <= PTRDIFF_MAX)
		p.a.rows >>= 43;
	(void)mxfp_gemm_workspace_size(&p, 1, &in->options, &bytes);
	(void)mxfp_pack_size(&p.w, in->a_format, &in->options, &bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.flags = 0};
	struct mxfp_kernels kernels;
	enum mxfp_status status;

	take(&in, data, size);
	mxfp_kernels_init(&kernels, 1);
	uint8_t *want = multiply(&in, &kernels, &in.product, &status);
	fuzz_check(status == MXFP_OK, "the reference succeeds");
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		if (!(mxfp_isa_available() >> tier & 1))
			continue;
		mxfp_kernels_init(&kernels, UINT32_C(1) << tier);
		check_tier(&in, &kernels, want);
	}
	check_wild(&in);
	free(want);
	free((void *)in.product.a.data);
	free((void *)in.product.a.scales);
	free((void *)in.product.w.data);
	free((void *)in.product.w.scales);
	return 0;
}
