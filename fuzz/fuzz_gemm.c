/* SPDX-License-Identifier: MIT */
/*
 * mxfp_gemm() and mxfp_pack() with any formats, options and sizes.
 *
 * Properties: a valid call succeeds, gives the same bytes on every available tier for plain and for packed W, and
 * writes nothing outside C; corrupted packed data is refused, or causes no access outside it; calls with arbitrary
 * sizes return a status.
 *
 * Input: formats of A and W, acc, pass_k, flags (1 C in bf16, 2 C given, 4 psum bf16, 8 psum sr, 16 bias, 32 A is f32
 * and quantized, 64 A transposed unless it is in a block format, 128 gaps), rows, columns, K, 8 bytes of seed, the
 * number of changes to the packed data, each a 2-byte position and a value, six arbitrary 8-byte sizes, and then bytes
 * that are repeated to fill A, W, their scales, C and bias.
 */
#include "config.h"

#include "format.h"
#include "fuzz.h"
#include "mxfp/gemm.h"
#include "mxfp/isa.h"

enum {
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
	struct mxfp_product product; /* without a, w and c */
	struct mxfp_matrix a, w;
	struct mxfp_gemm_options options;
	enum mxfp_format c_format;
	uint8_t flags;
	size_t n_changes;
	struct change change[MAX_CHANGES];
	uint64_t wild[N_WILD];
	struct fuzz_bytes rest;
};

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* Allocates n bytes and fills them with the rest of the input, repeated, starting at byte `from` of it. */
static uint8_t *filled(const struct input *in, size_t n, size_t from)
{
	uint8_t *bytes = malloc(n != 0 ? n : 1);

	fuzz_check(bytes != NULL, "memory");
	for (size_t i = 0; i < n; i++)
		bytes[i] = in->rest.size != 0 ? in->rest.data[(from + i) % in->rest.size] : 0;
	return bytes;
}

/* Allocates the data of a matrix, which ends with its last row. */
static void fill_matrix(const struct input *in, struct mxfp_matrix *m, size_t from)
{
	size_t gap = (in->flags & GAPS) != 0 ? GAP : 0, rows = m->transposed ? m->cols : m->rows;
	size_t cols = m->transposed ? m->rows : m->cols;
	struct mxfp_sizes size;

	if (!is_block(m->format)) {
		m->stride = cols + gap;
		m->data = filled(in, rows * m->stride * mxfp_format_get_info(m->format)->storage_bytes, from);
		return;
	}
	fuzz_check(mxfp_blocks_size(&size, m->format, rows, cols) == MXFP_OK, "a small matrix has a size");
	m->stride = size.codes_row_bytes + gap;
	m->scales_stride = size.scales_row_bytes + gap;
	m->data = filled(in, rows * m->stride, from);
	m->scales = filled(in, rows * m->scales_stride, from + 1000);
}

static enum mxfp_format operand_format(uint8_t byte)
{
	static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16, MXFP_FORMAT_TF32};
	const unsigned blocks = MXFP_FORMAT_NVFP4 + 1 - MXFP_FORMAT_MXFP8_E4M3;

	byte %= blocks + 4;
	return byte < blocks ? (enum mxfp_format)(MXFP_FORMAT_MXFP8_E4M3 + byte) : numbers[byte - blocks];
}

static void take(struct input *in, const uint8_t *data, size_t size)
{
	static const unsigned passes[] = {0, 512, 256, 128};
	struct fuzz_bytes *bytes = &in->rest;
	struct mxfp_matrix *a = &in->a, *w = &in->w;

	*bytes = (struct fuzz_bytes){data, size};
	a->format = operand_format(fuzz_byte(bytes));
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
	in->c_format = (in->flags & C_BF16) != 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	in->options.accumulate = (in->flags & C_GIVEN) != 0;
	in->options.psum = (in->flags & PSUM_BF16) != 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	in->options.psum_round = (in->flags & PSUM_SR) != 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE;
	in->options.stream = in->options.seed * 3;
	if (is_block(a->format)) {
		in->options.a_format = a->format;
		if ((in->flags & QUANTIZED) != 0)
			a->format = MXFP_FORMAT_F32;
	}
	a->transposed = (in->flags & TRANSPOSED) != 0 && !is_block(a->format);
	a->tensor_scale = w->tensor_scale = 1.5F;
	fill_matrix(in, a, 0);
	fill_matrix(in, w, 333);
}

/* Multiplies on a tier. Returns C's memory, which the caller frees. */
static uint8_t *multiply(const struct input *in, const char *isa, const struct mxfp_product *product,
                         enum mxfp_status *status)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = isa};
	size_t width = mxfp_format_get_info(in->c_format)->storage_bytes, bytes = 0;
	size_t c_bytes = in->a.rows * in->w.rows * width;
	uint8_t *c = filled(in, c_bytes + GUARD, 7), *bias = filled(in, in->w.rows * sizeof(float), 99);
	const struct mxfp_result result = mxfp_to_numbers(in->c_format, c);
	struct mxfp_product p = *product;

	memset(c + c_bytes, UNTOUCHED, GUARD);
	p.a = &in->a;
	p.w = &in->w;
	p.n = in->w.rows;
	p.c = &result;
	p.bias = (in->flags & BIAS) != 0 ? (float *)bias : NULL;
	*status = mxfp_gemm_workspace_size(&bytes, &p, 1, &in->options, &exec);
	uint8_t *workspace = malloc(bytes != 0 ? bytes : 1);
	fuzz_check(workspace != NULL, "memory");
	if (*status == MXFP_OK)
		*status = mxfp_gemm(&p, &in->options, workspace, bytes, &exec);
	for (size_t i = 0; i < GUARD; i++)
		fuzz_check(c[c_bytes + i] == UNTOUCHED, "nothing is written behind C");
	free(workspace);
	free(bias);
	return c;
}

/* Packs W into memory of exactly its packed size. */
static uint8_t *packed_w(const struct input *in, const char *isa, size_t *bytes)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = isa};

	fuzz_check(mxfp_pack_size(bytes, &in->w, &in->options, &exec) == MXFP_OK, "W has a packed size");
	uint8_t *packed = malloc(*bytes);
	fuzz_check(packed != NULL, "memory");
	fuzz_check(mxfp_pack(packed, *bytes, &in->w, &in->options, &exec) == MXFP_OK, "W is packed");
	return packed;
}

static void check_tier(const struct input *in, const char *isa, const uint8_t *want)
{
	size_t c_bytes = in->a.rows * in->w.rows * mxfp_format_get_info(in->c_format)->storage_bytes;
	struct mxfp_product product = in->product;
	enum mxfp_status status;

	uint8_t *c = multiply(in, isa, &product, &status);
	fuzz_check(status == MXFP_OK, "a right call succeeds");
	fuzz_check(memcmp(c, want, c_bytes) == 0, "tiers give the same");
	free(c);
	uint8_t *packed = packed_w(in, isa, &product.w_packed_bytes);
	product.w_packed = packed;
	c = multiply(in, isa, &product, &status);
	fuzz_check(status == MXFP_OK, "a call with packed W succeeds");
	fuzz_check(memcmp(c, want, c_bytes) == 0, "packed W gives the same");
	free(c);
	for (size_t i = 0; i < in->n_changes; i++)
		packed[in->change[i].at % product.w_packed_bytes] ^= in->change[i].value;
	c = multiply(in, isa, &product, &status);
	fuzz_check(status == MXFP_OK || status == MXFP_ERR_PACKED || status == MXFP_ERR_SHAPE, "changed data have a status");
	free(c);
	free(packed);
}

static void check_wild(const struct input *in)
{
	struct mxfp_matrix a = in->a, w = in->w;
	const struct mxfp_result c = {.size = sizeof c, .data = &a, .stride = (size_t)in->wild[5]};
	const struct mxfp_product p = {.size = sizeof p, .c = &c, .a = &a, .w = &w};
	size_t bytes = 0;

	a.rows = (size_t)in->wild[0];
	a.cols = w.cols = (size_t)in->wild[1];
	w.rows = (size_t)in->wild[2];
	a.stride = (size_t)in->wild[3];
	w.stride = (size_t)in->wild[4];
	/* So many rows may be valid, but the slabs of A are counted one by one, which would take too long. */
	if (a.rows > 1 << 20 && a.rows <= PTRDIFF_MAX)
		a.rows >>= 43;
	(void)mxfp_gemm_workspace_size(&bytes, &p, 1, &in->options, NULL);
	(void)mxfp_pack_size(&bytes, &w, &in->options, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {
		.product = {.size = sizeof in.product},
		.a = {.size = sizeof in.a},
		.w = {.size = sizeof in.w},
		.options = {.size = sizeof in.options},
	};
	enum mxfp_status status;

	take(&in, data, size);
	uint8_t *want = multiply(&in, "ref", &in.product, &status);
	fuzz_check(status == MXFP_OK, "the reference succeeds");
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++)
		if (mxfp_isa_available() >> tier & 1)
			check_tier(&in, mxfp_isa_name(tier), want);
	check_wild(&in);
	free(want);
	free((void *)in.a.data);
	free((void *)in.a.scales);
	free((void *)in.w.data);
	free((void *)in.w.scales);
	return 0;
}
