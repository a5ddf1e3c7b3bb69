/* SPDX-License-Identifier: MIT */
/*
 * Where arrays lie (mxfp.h): which of them overlap, by a map of bytes; columns of one matrix as arrays of their own; one row in
 * place, whatever its stride; and data at odd addresses, in every function.
 */
#include <string.h>

#include "args.h"
#include "mxfp.h"
#include "suite.h"

enum { ROWS = 5, COLS = 64, THIRDS = 3, FUSED = THIRDS * COLS, BYTES = 1 << 16 };

static const enum mxfp_format f32 = MXFP_FORMAT_F32, bf16 = MXFP_FORMAT_BF16;

/* Rows in a map of 128 bytes, each marked in `map`. */
struct rows {
	size_t at, rows, row_bytes, stride;
};

static void mark(uint8_t map[128], const struct rows *r)
{
	memset(map, 0, 128);
	for (size_t row = 0; row < r->rows; row++)
		memset(map + r->at + row * r->stride, 1, r->row_bytes);
}

static bool has_gaps(const struct rows *r)
{
	return r->rows > 1 && r->row_bytes != 0 && r->stride > r->row_bytes;
}

/* Whether [first, last] of both share a byte, gaps included. */
static bool spans_meet(const struct rows *a, const struct rows *b)
{
	return a->at <= b->at + (b->rows - 1) * b->stride + b->row_bytes - 1 &&
	       b->at <= a->at + (a->rows - 1) * a->stride + a->row_bytes - 1;
}

static void compare(const struct rows *a, const uint8_t map[128], const struct rows *b, const uint8_t *memory)
{
	const bool by_gaps = has_gaps(a) && has_gaps(b) && a->stride != b->stride;
	struct mxfp_region first, second;
	uint8_t other[128];
	bool want = by_gaps && spans_meet(a, b);

	mark(other, b);
	for (size_t i = 0; !by_gaps && i < sizeof other; i++)
		want |= map[i] != 0 && other[i] != 0;
	ck_assert(mxfp_region(&first, memory + a->at, a->rows, a->row_bytes, a->stride));
	ck_assert(mxfp_region(&second, memory + b->at, b->rows, b->row_bytes, b->stride));
	ck_assert_msg(mxfp_overlap(&first, &second) == want && mxfp_overlap(&second, &first) == want,
	              "%zu rows of %zu bytes, %zu apart, at %zu; %zu of %zu, %zu apart, at %zu", a->rows, a->row_bytes, a->stride, a->at,
	              b->rows, b->row_bytes, b->stride, b->at);
}

TEST_LOOP(overlap, 4)
{
	uint8_t memory[128], map[128];
	uint64_t n = 0;

	for (size_t i = 0; i < 5 * 5 * 40; i++) {
		struct rows a = {i / 25, (size_t)_i, i % 5, i % 5 + i / 5 % 5};

		mark(map, &a);
		for (size_t j = 0; j < 4 * 5 * 5; j++, n++)
			compare(&a, map, &(struct rows){20, j / 25, j % 5, j % 5 + j / 5 % 5}, memory);
	}
	suite_compared(n);
}

TEST(regions_that_are_none)
{
	struct mxfp_region r;

	ck_assert(!mxfp_region(&r, NULL, 1, 2, 1));
	ck_assert(!mxfp_region(&r, NULL, 3, 1, SIZE_MAX / 2 + 1));
	ck_assert(!mxfp_region(&r, NULL, 2, 1, PTRDIFF_MAX));
	ck_assert(!mxfp_region(&r, NULL, 1, (size_t)PTRDIFF_MAX + 1, SIZE_MAX));
	ck_assert(mxfp_region(&r, NULL, 1, 1, SIZE_MAX) && r.bytes == 1);
	ck_assert(mxfp_region(&r, NULL, 0, 1, SIZE_MAX) && r.bytes == 0);
	ck_assert(mxfp_region(&r, NULL, 3, 0, 8) && r.bytes == 0);
	suite_compared(7);
}

/* Numbers from -4 to 4, eighths, which bf16 has too. */
static float number(size_t i)
{
	return (float)(i * 37 % 65) / 8 - 4;
}

static float fused[ROWS * FUSED], apart[THIRDS][ROWS * COLS];
static uint8_t workspace[1 << 22];

static float *third(int i)
{
	return fused + i * COLS;
}

static void fill(void)
{
	for (size_t i = 0; i < ROWS * FUSED; i++) {
		fused[i] = number(i);
		apart[i % FUSED / COLS][i / FUSED * COLS + i % COLS] = fused[i];
	}
}

/* The three arrays hold what the columns of the one have. */
static void check(enum mxfp_status first, enum mxfp_status second, const char *name)
{
	ck_assert_msg(first == MXFP_OK && second == MXFP_OK, "%s: %s, %s", name, mxfp_status_text(first), mxfp_status_text(second));
	for (size_t i = 0; i < ROWS * FUSED; i++)
		ck_assert_msg(memcmp(&fused[i], &apart[i % FUSED / COLS][i / FUSED * COLS + i % COLS], sizeof fused[i]) == 0,
		              "%s: row %zu, column %zu", name, i / FUSED, i % FUSED);
	suite_compared(ROWS * FUSED);
}

/* A call with three arrays of ROWS x COLS numbers: two to read, `to`, and their stride. */
typedef enum mxfp_status call(const float *a, const float *b, float *to, size_t stride);

static enum mxfp_status call_apply(const float *a, const float *b, float *to, size_t stride)
{
	(void)b;
	return mxfp_apply(MXFP_FUNCTION_RELU, &(struct mxfp_row_output){.data = to, .stride = stride}, a, f32, stride, ROWS, COLS, NULL);
}

static enum mxfp_status call_add(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_row_input first = {.data = a, .stride = stride}, second = {.data = b, .stride = stride};

	return mxfp_add(&(struct mxfp_row_output){.data = to, .stride = stride}, &first, &second, ROWS, COLS, NULL);
}

static enum mxfp_status call_gate(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_row_input first = {.data = a, .stride = stride}, second = {.data = b, .stride = stride};

	return mxfp_gate(MXFP_FUNCTION_RELU, &(struct mxfp_row_output){.data = to, .stride = stride}, &first, &second, ROWS, COLS, NULL);
}

static enum mxfp_status call_softmax(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_row_input first = {.data = a, .stride = stride}, second = {.data = b, .stride = stride};

	return mxfp_softmax(&(struct mxfp_row_output){.data = to, .stride = stride}, &first, ROWS, COLS,
	                    &(struct mxfp_softmax_options){.mask = &second});
}

/* The sums take the place of a. */
static enum mxfp_status call_norm(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_row_input first = {.data = a, .stride = stride}, second = {.data = b, .stride = stride};
	const struct mxfp_row_output sums = {.data = (void *)(uintptr_t)a, .stride = stride};
	const struct mxfp_norm_options o = {.epsilon = 1, .residual = &second, .residual_out = &sums};

	return mxfp_rms_norm(&(struct mxfp_row_output){.data = to, .stride = stride}, &first, ROWS, COLS, &o);
}

static enum mxfp_status call_rotate(const float *a, const float *b, float *to, size_t stride)
{
	static const float frequencies[COLS / 2] = {1, 0.5F, 0.25F};
	const struct mxfp_row_input first = {.data = a, .stride = stride};

	(void)b;
	return mxfp_rotate(&(struct mxfp_row_output){.data = to, .stride = stride}, &first, frequencies, ROWS, COLS, NULL);
}

static enum mxfp_status call_fake_quantize(const float *a, const float *b, float *to, size_t stride)
{
	(void)b;
	return mxfp_fake_quantize(MXFP_FORMAT_MXFP4, &(struct mxfp_fake_output){.data = to, .stride = stride}, a, f32, stride, ROWS, COLS,
	                          NULL);
}

static enum mxfp_status call_prune(const float *a, const float *b, float *to, size_t stride)
{
	static uint8_t masks[ROWS * COLS];
	const struct mxfp_sparse sparse = {.sparsity = {2, 4}, .rows = ROWS, .cols = COLS, .masks = masks};

	(void)b;
	return mxfp_sparse_prune(&sparse, to, stride, a, stride, NULL);
}

static enum mxfp_status call_accumulate(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_matrix src = {.rows = ROWS, .cols = COLS, .data = a, .stride = stride};

	(void)b;
	return mxfp_accumulate(&src, to, f32, stride, NULL);
}

/* b is the weights' first rows, of as many outputs as C has columns. */
static enum mxfp_status call_gemm(const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_matrix left = {.rows = ROWS, .cols = COLS, .data = a, .stride = stride};
	const struct mxfp_matrix right = {.rows = ROWS, .cols = COLS, .data = b, .stride = stride};
	const struct mxfp_product p = {.a = &left, .w = &right, .c = to, .c_stride = stride};

	return mxfp_gemm(&p, NULL, workspace, sizeof workspace);
}

/* Queries in a, keys and values in b, results in the gaps of both. */
static enum mxfp_status call_attention(const float *a, const float *b, float *to, size_t stride)
{
	static float memory[1 << 14];
	const struct mxfp_attention_cache cache = {
		.heads = 1, .head_cols = COLS, .capacity = ROWS, .memory = memory, .memory_bytes = sizeof memory,
	};
	const enum mxfp_status status = mxfp_attention_store(&cache, 0, ROWS, b, b, stride, NULL);

	return status != MXFP_OK ? status
	                         : mxfp_attention(to, stride, a, stride, 1, &cache, 0, ROWS, NULL, workspace, sizeof workspace);
}

static const struct {
	const char *name;
	call *call;
} calls[] = {
	{"mxfp_apply", call_apply}, {"mxfp_add", call_add}, {"mxfp_gate", call_gate}, {"mxfp_softmax", call_softmax},
	{"mxfp_rms_norm", call_norm}, {"mxfp_rotate", call_rotate}, {"mxfp_fake_quantize", call_fake_quantize},
	{"mxfp_sparse_prune", call_prune}, {"mxfp_accumulate", call_accumulate}, {"mxfp_gemm", call_gemm},
	{"mxfp_attention", call_attention},
};

/* Results go to the last third, then to the first; a column to the left of it they would meet the numbers that are read. */
TEST_LOOP(columns_of_one_matrix, sizeof calls / sizeof calls[0])
{
	call *const f = calls[_i].call;

	fill();
	check(f(third(0), third(1), third(2), FUSED), f(apart[0], apart[1], apart[2], COLS), calls[_i].name);
	fill();
	check(f(third(2), third(1), third(0), FUSED), f(apart[2], apart[1], apart[0], COLS), calls[_i].name);
	fill();
	assert_status(f(third(0), third(0), third(1) - 1, FUSED), MXFP_ERR_OVERLAP);
	check(MXFP_OK, MXFP_OK, calls[_i].name);
}

/* Two products of a group, whose results lie side by side, and blocks whose scales stand behind the codes of their row. */
TEST(products_side_by_side)
{
	enum { N = 8, ROW_BYTES = COLS + 2 };
	static float c[ROWS * 2 * N], want[2][ROWS * N];
	static uint8_t rows[ROWS * ROW_BYTES], codes[ROWS * COLS], scales[ROWS * 2];
	const struct mxfp_matrix a = {.rows = ROWS, .cols = COLS, .data = apart[0]}, w = {.rows = N, .cols = COLS, .data = fused};
	const struct mxfp_product group[2] = {{.a = &a, .w = &w, .c = c, .c_stride = 2 * (size_t)N},
	                                      {.a = &a, .w = &w, .c = c + N, .c_stride = 2 * (size_t)N}};
	const struct mxfp_product one = {.a = &a, .w = &w, .c = want};
	struct mxfp_blocks b = {.format = MXFP_FORMAT_MXFP8_E4M3, .rows = ROWS, .cols = COLS, .codes = rows, .codes_stride = ROW_BYTES,
	                        .scales = rows + COLS, .scales_stride = ROW_BYTES};

	fill();
	assert_status(mxfp_gemm(&one, NULL, workspace, sizeof workspace), MXFP_OK);
	assert_status(mxfp_gemm_grouped(group, 2, NULL, workspace, sizeof workspace), MXFP_OK);
	for (size_t row = 0; row < ROWS; row++)
		for (size_t side = 0; side < 2; side++)
			ck_assert_mem_eq(c + (2 * row + side) * N, want[0] + row * N, N * sizeof *c);
	assert_status(mxfp_quantize(&b, apart[0], f32, 0, NULL), MXFP_OK);
	b.codes = codes;
	b.scales = scales;
	b.codes_stride = b.scales_stride = 0;
	assert_status(mxfp_quantize(&b, apart[0], f32, 0, NULL), MXFP_OK);
	for (size_t row = 0; row < ROWS; row++) {
		ck_assert_mem_eq(rows + row * ROW_BYTES, codes + row * COLS, COLS);
		ck_assert_mem_eq(rows + row * ROW_BYTES + COLS, scales + row * 2, 2);
	}
	suite_compared(2 * ROWS * N + ROWS * COLS);
}

/* Of one row the stride says nothing: that of the result and of what it replaces may differ. */
TEST(one_row_in_place)
{
	static float memory[4096], frequencies[COLS / 2];
	uint8_t masks[COLS];
	const struct mxfp_row_input x = {.data = fused, .stride = COLS}, other = {.data = apart[1]};
	const struct mxfp_row_output to = {.data = fused, .stride = COLS + 1};
	const struct mxfp_fake_output fake = {.data = fused, .stride = COLS + 1};
	const struct mxfp_sparse sparse = {.sparsity = {2, 4}, .rows = 1, .cols = COLS, .masks = masks};
	const struct mxfp_attention_cache cache = {
		.heads = 1, .head_cols = COLS, .capacity = 1, .memory = memory + 1, .memory_bytes = sizeof memory - 4,
	};
	const struct mxfp_matrix a = {.rows = 1, .cols = COLS, .data = apart[0]}, w = {.rows = 3, .cols = COLS, .data = apart[1]};
	const struct mxfp_matrix residual = {.rows = 1, .cols = 3, .data = fused, .stride = 7};
	const struct mxfp_product p = {.a = &a, .w = &w, .c = fused, .residual = &residual};
	size_t bytes;

	fill();
	assert_status(mxfp_apply(MXFP_FUNCTION_RELU, &to, fused, f32, COLS, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_add(&to, &x, &other, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_gate(MXFP_FUNCTION_RELU, &to, &x, &other, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_softmax(&to, &x, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_layer_norm(&to, &x, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_rotate(&to, &x, frequencies, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_fake_quantize(MXFP_FORMAT_MXFP4, &fake, fused, f32, COLS, 1, COLS, NULL), MXFP_OK);
	assert_status(mxfp_sparse_prune(&sparse, fused, COLS + 1, fused, COLS, NULL), MXFP_OK);
	assert_status(mxfp_attention_cache_size(&cache, &bytes), MXFP_OK);
	ck_assert_uint_le(bytes, cache.memory_bytes);
	assert_status(mxfp_attention_store(&cache, 0, 1, apart[0], apart[1], 0, NULL), MXFP_OK);
	assert_status(mxfp_attention(fused, COLS + 1, fused, COLS, 1, &cache, 0, 1, NULL, workspace, sizeof workspace), MXFP_OK);
	assert_status(mxfp_gemm(&p, NULL, workspace, sizeof workspace), MXFP_OK);
	suite_compared(11);
}

/* What a call reads and writes, at even or at odd addresses; the arrays have BYTES bytes each. */
struct places {
	enum mxfp_format format;
	const void *x, *y; /* ROWS x COLS numbers of that format */
	const float *numbers; /* COLS single ones, from 1 on */
	void *to, *more, *space;
};

static enum mxfp_status odd_convert(const struct places *p)
{
	enum mxfp_status status = mxfp_convert(p->to, MXFP_FORMAT_TF32, p->x, p->format, ROWS * COLS, NULL);

	if (status == MXFP_OK)
		status = mxfp_convert(p->more, MXFP_FORMAT_F16, p->to, MXFP_FORMAT_TF32, ROWS * COLS, NULL);
	return status == MXFP_OK ? mxfp_convert(p->to, p->format, p->more, MXFP_FORMAT_F16, ROWS * COLS, NULL) : status;
}

static enum mxfp_status odd_quantize(const struct places *p)
{
	struct mxfp_blocks b = {.format = MXFP_FORMAT_NVFP4, .rows = ROWS, .cols = COLS, .codes = p->more};
	const struct mxfp_quantize_options o = {.tensor_amax = p->numbers};

	b.scales = (uint8_t *)p->more + ROWS * COLS;
	enum mxfp_status status = mxfp_quantize(&b, p->x, p->format, 0, &o);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix m = mxfp_blocks_matrix(&b);
	status = mxfp_dequantize(&m, p->to, p->format, 0, NULL);
	return status == MXFP_OK ? mxfp_accumulate(&m, p->to, p->format, 0, NULL) : status;
}

static enum mxfp_status odd_squares(const struct places *p)
{
	struct mxfp_blocks b = {.format = MXFP_FORMAT_MXFP6_E2M3, .rows = ROWS, .cols = COLS, .codes = p->space}, t = b;

	b.scales = (uint8_t *)p->space + ROWS * COLS;
	t.rows = COLS;
	t.cols = ROWS;
	t.codes = p->to;
	t.scales = p->more;
	const struct mxfp_quantize_options o = {.size = sizeof o, .block_rows = 32};
	const enum mxfp_status status = mxfp_quantize(&b, p->x, p->format, 0, &o);
	return status == MXFP_OK ? mxfp_blocks_transpose(&t, &b, NULL) : status;
}

static enum mxfp_status odd_fake_quantize(const struct places *p)
{
	const struct mxfp_fake_output output = {.data = p->to, .format = p->format, .clamped = p->more};
	const struct mxfp_quantize_options o = {.tensor_amax = p->numbers};

	return mxfp_fake_quantize(MXFP_FORMAT_NVFP4, &output, p->x, p->format, 0, ROWS, COLS, &o);
}

static enum mxfp_status odd_amax(const struct places *p)
{
	memcpy(p->to, &(float){0}, sizeof(float));
	return mxfp_amax(p->x, p->format, ROWS * COLS, p->to, NULL);
}

static enum mxfp_status odd_sparse(const struct places *p)
{
	struct mxfp_sparse s = {.format = p->format, .sparsity = {4, 16}, .rows = ROWS, .cols = COLS, .masks = p->more, .codes = p->space};
	enum mxfp_status status = mxfp_sparse_prune(&s, p->to, 0, p->x, 0, NULL);

	if (status == MXFP_OK)
		status = mxfp_sparse_compress(&s, p->to, 0, NULL);
	return status == MXFP_OK ? mxfp_sparse_expand(&s, p->to, 0, NULL) : status;
}

static enum mxfp_status odd_reduce(const struct places *p)
{
	const void *const buffers[] = {p->x, p->y, p->x};

	return mxfp_reduce(p->to, p->format, buffers, p->format, 3, ROWS * COLS, NULL);
}

static enum mxfp_status odd_apply(const struct places *p)
{
	struct mxfp_blocks b = {.format = MXFP_FORMAT_NVFP4, .rows = ROWS, .cols = COLS, .codes = p->more};
	const struct mxfp_quantize_options o = {.tensor_amax = p->numbers};
	const struct mxfp_row_output output = {.data = p->to, .format = p->format, .blocks = &b, .quantize = &o};
	const struct mxfp_apply_options apply = {.parameter = p->numbers};

	b.scales = (uint8_t *)p->more + ROWS * COLS;
	return mxfp_apply(MXFP_FUNCTION_SILU, &output, p->x, p->format, 0, ROWS, COLS, &apply);
}

static enum mxfp_status odd_row_reduce(const struct places *p)
{
	const struct mxfp_row_input x = {.data = p->x, .format = p->format};
	const enum mxfp_status status = mxfp_row_reduce(MXFP_REDUCTION_SUM, p->to, &x, ROWS, COLS, NULL);

	return status == MXFP_OK ? mxfp_row_argmax(p->more, &x, ROWS, COLS, NULL) : status;
}

static enum mxfp_status odd_softmax(const struct places *p)
{
	const struct mxfp_row_input x = {.data = p->x, .format = p->format}, y = {.data = p->y, .format = p->format};
	const struct mxfp_row_output to = {.data = p->to, .format = p->format}, more = {.data = p->more, .format = p->format};
	const struct mxfp_softmax_options o = {.scale = p->numbers + 1, .mask = &y, .head_rows = 2, .sinks = p->numbers};
	const enum mxfp_status status = mxfp_softmax(&to, &x, ROWS, COLS, &o);

	return status == MXFP_OK ? mxfp_log_softmax(&more, &x, ROWS, COLS, &o) : status;
}

static enum mxfp_status odd_norm(const struct places *p)
{
	const struct mxfp_row_input x = {.data = p->x, .format = p->format}, y = {.data = p->y, .format = p->format};
	const struct mxfp_row_input weight = {.data = p->numbers};
	const struct mxfp_row_output to = {.data = p->to, .format = p->format}, more = {.data = p->more, .format = p->format};
	const struct mxfp_norm_options o = {.weight = &weight, .bias = &weight, .residual = &y, .residual_out = &more};

	return mxfp_layer_norm(&to, &x, ROWS, COLS, &o);
}

static enum mxfp_status odd_gate(const struct places *p)
{
	const struct mxfp_row_input x = {.data = p->x, .format = p->format}, y = {.data = p->y, .format = p->format};
	const struct mxfp_row_output to = {.data = p->to, .format = p->format}, more = {.data = p->more, .format = p->format};
	const struct mxfp_gate_options o = {.parameter = p->numbers, .limit = p->numbers + 1};
	enum mxfp_status status = mxfp_gate(MXFP_FUNCTION_SILU, &to, &x, &y, ROWS, COLS, &o);

	if (status == MXFP_OK)
		status = mxfp_gate(MXFP_FUNCTION_SILU, &more, &x, NULL, ROWS, COLS / 2, &o);
	return status == MXFP_OK ? mxfp_add(&to, &x, &y, ROWS, COLS, NULL) : status;
}

static enum mxfp_status odd_rotate(const struct places *p)
{
	const struct mxfp_row_input x = {.data = p->x, .format = p->format};
	const struct mxfp_row_output to = {.data = p->to, .format = p->format}, more = {.data = p->more, .format = p->format};
	const struct mxfp_rotate_options o = {
		.head_cols = 32, .rotary_cols = 24, .positions = (const uint32_t *)p->y, .attention_factor = p->numbers,
	};
	const struct mxfp_rotary_options rotary = {.base = 10000};
	float *frequencies = p->space;
	enum mxfp_status status = mxfp_rotary_frequencies(frequencies, (float *)p->space + 12, 24, &rotary);

	if (status == MXFP_OK)
		status = mxfp_rotate(&to, &x, frequencies, ROWS, COLS, &o);
	return status == MXFP_OK ? mxfp_rotate(&more, &x, frequencies, ROWS, COLS, &(struct mxfp_rotate_options){.head_cols = 24 + 8,
	                                       .rotary_cols = 24, .interleaved = true}) : status;
}

static enum mxfp_status odd_attention(const struct places *p)
{
	const struct mxfp_attention_cache cache = {
		.heads = 1, .head_cols = COLS, .capacity = ROWS, .memory = p->space, .memory_bytes = BYTES / 2,
	};
	const struct mxfp_attention_options o = {.scale = p->numbers, .sinks = p->numbers};
	enum mxfp_status status = mxfp_attention_store(&cache, 0, ROWS, p->x, p->y, 0, NULL);

	return status == MXFP_OK ? mxfp_attention(p->to, 0, p->x, 0, 1, &cache, 0, ROWS, &o, (uint8_t *)p->space + BYTES / 2, BYTES / 2)
	                         : status;
}

/* A in numbers or quantized, W packed before or not, everything that is added, and C in numbers and in blocks. */
static enum mxfp_status odd_gemm(const struct places *p)
{
	const struct mxfp_matrix a = {.format = p->format, .rows = ROWS, .cols = COLS, .data = p->x};
	const struct mxfp_matrix beside = {.format = p->format, .rows = ROWS, .cols = ROWS, .data = p->x};
	struct mxfp_blocks b = {.format = MXFP_FORMAT_MXFP4, .rows = ROWS, .cols = COLS, .codes = p->space};
	struct mxfp_blocks c = {.format = MXFP_FORMAT_NVFP4, .rows = ROWS, .cols = ROWS, .codes = p->more};
	const struct mxfp_quantize_options o = {.tensor_amax = p->numbers};
	const struct mxfp_gemm_options options = {.c_format = p->format, .a_format = MXFP_FORMAT_MXFP8_E4M3, .c_quantize = &o,
	                                          .activation = MXFP_FUNCTION_SILU, .activation_parameter = p->numbers};
	uint8_t *const space = p->space, *const packed = space + 3 * COLS * ROWS;
	size_t bytes = 0;

	b.scales = space + 2 * COLS * ROWS;
	c.scales = (uint8_t *)p->more + 1000;
	enum mxfp_status status = mxfp_quantize(&b, p->y, p->format, 0, NULL);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix w = mxfp_blocks_matrix(&b);
	struct mxfp_product product = {.a = &a, .w = &w, .c = p->to, .bias = p->numbers, .gate = &beside, .residual = &beside, .c_blocks = &c};
	status = mxfp_gemm(&product, &options, workspace + 1, sizeof workspace - 1);
	if (status == MXFP_OK)
		status = mxfp_pack_size(&w, &options, &bytes);
	if (status == MXFP_OK && bytes > BYTES - 3 * COLS * ROWS)
		status = MXFP_ERR_SIZE;
	if (status == MXFP_OK)
		status = mxfp_pack(packed, bytes, &w, &options);
	product.w_packed = packed;
	product.w_packed_bytes = bytes;
	product.n = ROWS;
	return status == MXFP_OK ? mxfp_gemm(&product, &options, workspace, sizeof workspace) : status;
}

/* The chain, of which each format of numbers has its own kernels, and both operands transposed. */
static enum mxfp_status odd_chain(const struct places *p)
{
	const struct mxfp_matrix a = {.format = p->format, .rows = ROWS, .cols = COLS, .data = p->x};
	const struct mxfp_matrix w = {.format = p->format, .rows = COLS, .cols = COLS - 3, .data = p->y, .stride = COLS, .transposed = true};
	const struct mxfp_matrix left = {.format = p->format, .rows = ROWS, .cols = COLS - 3, .data = p->x, .stride = ROWS, .transposed = true};
	struct mxfp_product product = {.a = &a, .w = &a, .c = p->more};
	const struct mxfp_gemm_options o = {.c_format = p->format, .accumulate = true};
	enum mxfp_status status = mxfp_gemm(&product, NULL, workspace, sizeof workspace);

	product.a = &left;
	product.w = &w;
	product.c = p->to;
	return status == MXFP_OK ? mxfp_gemm(&product, &o, workspace, sizeof workspace) : status;
}

static const struct {
	const char *name;
	enum mxfp_status (*call)(const struct places *p);
	bool is_f32_only;
} odd[] = {
	{"convert", odd_convert, false}, {"quantize, dequantize, accumulate", odd_quantize, false}, {"blocks_transpose", odd_squares, false},
	{"fake_quantize", odd_fake_quantize, false}, {"amax", odd_amax, false}, {"sparse", odd_sparse, false}, {"reduce", odd_reduce, false},
	{"apply", odd_apply, false}, {"row_reduce, row_argmax", odd_row_reduce, false}, {"softmax", odd_softmax, false},
	{"layer_norm", odd_norm, false}, {"gate, add", odd_gate, false}, {"rotate", odd_rotate, false}, {"attention", odd_attention, true},
	{"gemm", odd_gemm, false}, {"gemm by the chain", odd_chain, false},
};

/* Runs a call with all its data so many bytes behind an address that is a multiple of 64. */
static void run_at(int i, enum mxfp_format format, size_t offset, uint8_t *to, uint8_t *more)
{
	static _Alignas(64) uint8_t x[BYTES + 64], y[BYTES + 64], numbers[BYTES + 64], results[BYTES + 64], others[BYTES + 64],
		space[BYTES + 64];
	const struct places p = {
		.format = format, .x = x + offset, .y = y + offset, .numbers = (const float *)(const void *)(numbers + offset),
		.to = results + offset, .more = others + offset, .space = space + offset,
	};

	for (size_t j = 0; j < COLS * COLS; j++) {
		const float first = number(j), second = number(j + 20), single = (float)(j % COLS) / 8 + 1;
		uint32_t words[2];

		memcpy(words, (const float[]){first, second}, sizeof words);
		for (int side = 0; side < 2; side++) {
			uint8_t *array = (side == 0 ? x : y) + offset;
			const uint16_t half = (uint16_t)(words[side] >> 16);

			if (format == f32)
				memcpy(array + 4 * j, &words[side], 4);
			else
				memcpy(array + 2 * j, &half, 2);
		}
		memcpy(numbers + offset + 4 * j, &single, 4);
	}
	memset(results, 0, sizeof results);
	memset(others, 0, sizeof others);
	memset(space, 0, sizeof space);
	const enum mxfp_status status = odd[i].call(&p);
	ck_assert_msg(status == MXFP_OK, "%s at %zu: %s", odd[i].name, offset, mxfp_status_text(status));
	memcpy(to, p.to, BYTES);
	memcpy(more, p.more, BYTES);
}

/* Results do not depend on where data lies, and no access is undefined: sanitizers see that. */
TEST_LOOP(data_needs_no_alignment, sizeof odd / sizeof odd[0])
{
	static const size_t offsets[] = {1, 2, 7};
	static uint8_t to[BYTES], more[BYTES], want_to[BYTES], want_more[BYTES];
	const enum mxfp_format formats[] = {f32, bf16};

	for (int f = 0; f < (odd[_i].is_f32_only ? 1 : 2); f++) {
		run_at(_i, formats[f], 0, want_to, want_more);
		for (size_t o = 0; o < sizeof offsets / sizeof offsets[0]; o++) {
			run_at(_i, formats[f], offsets[o], to, more);
			ck_assert_msg(memcmp(to, want_to, BYTES) == 0 && memcmp(more, want_more, BYTES) == 0, "%s of %s at %zu", odd[_i].name,
			              f == 0 ? "f32" : "bf16", offsets[o]);
			suite_compared(2 * BYTES);
		}
	}
}
