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

/* Numbers in f32 to read, and where such go. */
static struct mxfp_matrix from_f32(size_t rows, size_t cols, const float *data, size_t stride)
{
	struct mxfp_matrix matrix = mxfp_numbers(f32, rows, cols, data);

	matrix.stride = stride;
	return matrix;
}

static struct mxfp_result to_f32(void *data, size_t stride)
{
	struct mxfp_result result = mxfp_to_numbers(f32, data);

	result.stride = stride;
	return result;
}

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

/* A call with three arrays of ROWS x COLS numbers, a stride apart: two to read, and `to`. */
typedef enum mxfp_status call(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to);

static enum mxfp_status call_convert(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	(void)b;
	return mxfp_convert(to, a, NULL, NULL);
}

static enum mxfp_status call_apply(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	(void)b;
	return mxfp_function_apply(to, MXFP_FUNCTION_RELU, a, NULL, NULL);
}

static enum mxfp_status call_add(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	return mxfp_rows_add(to, a, b, NULL, NULL);
}

static enum mxfp_status call_glu(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	return mxfp_glu(to, MXFP_FUNCTION_RELU, a, b, NULL, NULL);
}

static enum mxfp_status call_softmax(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	const struct mxfp_softmax_options o = {.size = sizeof o, .mask = b};

	return mxfp_softmax(to, a, &o, NULL);
}

/* The sums take the place of a. */
static enum mxfp_status call_norm(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	const struct mxfp_result sums = to_f32((void *)(uintptr_t)a->data, a->stride);
	const struct mxfp_norm_options o = {.size = sizeof o, .epsilon = 1, .residual = b, .residual_out = &sums};

	return mxfp_rms_norm(to, a, &o, NULL);
}

static enum mxfp_status call_rotary(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	static const float frequencies[COLS / 2] = {1, 0.5F, 0.25F};

	(void)b;
	return mxfp_rotary(to, a, frequencies, NULL, NULL);
}

static enum mxfp_status call_fake_quantize(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	(void)b;
	return mxfp_fake_quantize(to, MXFP_FORMAT_MXFP4, a, NULL, NULL);
}

static enum mxfp_status call_prune(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	static uint8_t masks[ROWS * COLS];
	const struct mxfp_sparse sparse = {.size = sizeof sparse, .sparsity = {2, 4}, .rows = ROWS, .cols = COLS, .masks = masks};

	(void)b;
	return mxfp_sparse_prune(&sparse, to, a, NULL);
}

static enum mxfp_status call_accumulate(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	(void)b;
	return mxfp_accumulate(to, a, NULL, NULL);
}

/* b is the weights' first rows, of as many outputs as C has columns. */
static enum mxfp_status call_gemm(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	const struct mxfp_product p = {.size = sizeof p, .c = to, .a = a, .w = b};

	return mxfp_gemm(&p, NULL, workspace, sizeof workspace, NULL);
}

/* Queries in a, keys and values in b, results in the gaps of both. */
static enum mxfp_status call_attention(const struct mxfp_matrix *a, const struct mxfp_matrix *b, const struct mxfp_result *to)
{
	static float memory[1 << 14];
	const struct mxfp_attention_cache cache = {
		.size = sizeof cache, .heads = 1, .head_cols = COLS, .capacity = ROWS, .memory = memory, .memory_bytes = sizeof memory,
	};
	const enum mxfp_status status = mxfp_attention_store(&cache, 0, b, b, NULL);

	return status != MXFP_OK ? status : mxfp_attention(to, a, &cache, 0, NULL, workspace, sizeof workspace, NULL);
}

static const struct {
	const char *name;
	call *call;
} calls[] = {
	{"mxfp_convert", call_convert}, {"mxfp_function_apply", call_apply}, {"mxfp_rows_add", call_add}, {"mxfp_glu", call_glu},
	{"mxfp_softmax", call_softmax}, {"mxfp_rms_norm", call_norm}, {"mxfp_rotary", call_rotary},
	{"mxfp_fake_quantize", call_fake_quantize}, {"mxfp_sparse_prune", call_prune}, {"mxfp_accumulate", call_accumulate},
	{"mxfp_gemm", call_gemm}, {"mxfp_attention", call_attention},
};

static enum mxfp_status run_call(int i, const float *a, const float *b, float *to, size_t stride)
{
	const struct mxfp_matrix first = from_f32(ROWS, COLS, a, stride), second = from_f32(ROWS, COLS, b, stride);
	const struct mxfp_result result = to_f32(to, stride);

	return calls[i].call(&first, &second, &result);
}

/* Results go to the last third, then to the first; a column to the left of it they would meet the numbers that are read. */
TEST_LOOP(columns_of_one_matrix, sizeof calls / sizeof calls[0])
{
	const char *name = calls[_i].name;

	fill();
	check(run_call(_i, third(0), third(1), third(2), FUSED), run_call(_i, apart[0], apart[1], apart[2], COLS), name);
	fill();
	check(run_call(_i, third(2), third(1), third(0), FUSED), run_call(_i, apart[2], apart[1], apart[0], COLS), name);
	fill();
	assert_status(run_call(_i, third(0), third(0), third(1) - 1, FUSED), MXFP_ERR_OVERLAP);
	check(MXFP_OK, MXFP_OK, name);
}

/* Two products of a group, whose results lie side by side, and blocks whose scales stand behind the codes of their row. */
TEST(products_side_by_side)
{
	enum { N = 8, ROW_BYTES = COLS + 2 };
	static float c[ROWS * 2 * N], want[2][ROWS * N];
	static uint8_t rows[ROWS * ROW_BYTES], codes[ROWS * COLS], scales[ROWS * 2];
	const struct mxfp_matrix a = from_f32(ROWS, COLS, apart[0], 0), w = from_f32(N, COLS, fused, 0);
	const struct mxfp_result left = to_f32(c, 2 * (size_t)N), right = to_f32(c + N, 2 * (size_t)N), whole = to_f32(want, 0);
	const struct mxfp_product group[2] = {{.size = sizeof *group, .c = &left, .a = &a, .w = &w},
	                                      {.size = sizeof *group, .c = &right, .a = &a, .w = &w}};
	const struct mxfp_product one = {.size = sizeof one, .c = &whole, .a = &a, .w = &w};
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, ROWS, COLS, rows, rows + COLS);
	const struct mxfp_result blocks = mxfp_to_blocks(&b);

	fill();
	assert_status(mxfp_gemm(&one, NULL, workspace, sizeof workspace, NULL), MXFP_OK);
	assert_status(mxfp_gemm_grouped(NULL, group, 2, NULL, workspace, sizeof workspace, NULL), MXFP_OK);
	for (size_t row = 0; row < ROWS; row++)
		for (size_t side = 0; side < 2; side++)
			ck_assert_mem_eq(c + (2 * row + side) * N, want[0] + row * N, N * sizeof *c);
	b.codes_stride = b.scales_stride = ROW_BYTES;
	assert_status(mxfp_quantize(&blocks, &a, NULL, NULL), MXFP_OK);
	b = mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, ROWS, COLS, codes, scales);
	assert_status(mxfp_quantize(&blocks, &a, NULL, NULL), MXFP_OK);
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
	const struct mxfp_matrix x = from_f32(1, COLS, fused, COLS), other = from_f32(1, COLS, apart[1], 0);
	const struct mxfp_matrix a = from_f32(1, COLS, apart[0], 0), w = from_f32(3, COLS, apart[1], 0);
	const struct mxfp_matrix residual = from_f32(1, 3, fused, 7);
	const struct mxfp_result to = to_f32(fused, COLS + 1), c = to_f32(fused, 0);
	const struct mxfp_sparse sparse = {.size = sizeof sparse, .sparsity = {2, 4}, .rows = 1, .cols = COLS, .masks = masks};
	const struct mxfp_attention_cache cache = {
		.size = sizeof cache,
		.heads = 1,
		.head_cols = COLS,
		.capacity = 1,
		.memory = memory + 1,
		.memory_bytes = sizeof memory - 4,
	};
	const struct mxfp_product p = {.size = sizeof p, .c = &c, .a = &a, .w = &w, .residual = &residual};
	size_t bytes;

	fill();
	assert_status(mxfp_function_apply(&to, MXFP_FUNCTION_RELU, &x, NULL, NULL), MXFP_OK);
	assert_status(mxfp_rows_add(&to, &x, &other, NULL, NULL), MXFP_OK);
	assert_status(mxfp_glu(&to, MXFP_FUNCTION_RELU, &x, &other, NULL, NULL), MXFP_OK);
	assert_status(mxfp_softmax(&to, &x, NULL, NULL), MXFP_OK);
	assert_status(mxfp_layer_norm(&to, &x, NULL, NULL), MXFP_OK);
	assert_status(mxfp_rotary(&to, &x, frequencies, NULL, NULL), MXFP_OK);
	assert_status(mxfp_fake_quantize(&to, MXFP_FORMAT_MXFP4, &x, NULL, NULL), MXFP_OK);
	assert_status(mxfp_sparse_prune(&sparse, &to, &x, NULL), MXFP_OK);
	assert_status(mxfp_attention_cache_size(&bytes, &cache), MXFP_OK);
	ck_assert_uint_le(bytes, cache.memory_bytes);
	assert_status(mxfp_attention_store(&cache, 0, &a, &other, NULL), MXFP_OK);
	assert_status(mxfp_attention(&to, &x, &cache, 0, NULL, workspace, sizeof workspace, NULL), MXFP_OK);
	assert_status(mxfp_gemm(&p, NULL, workspace, sizeof workspace, NULL), MXFP_OK);
	suite_compared(11);
}

/* What a call reads and writes, at even or at odd addresses; the arrays have BYTES bytes each. */
struct places {
	enum mxfp_format format;
	struct mxfp_matrix x, y; /* ROWS x COLS numbers of that format */
	const float *numbers; /* COLS single ones, from 1 on */
	struct mxfp_result to, more; /* numbers of that format */
	void *space;
};

/* NVFP4 without a pass over the whole tensor before. */
static const struct mxfp_quantize_options one_pass = {.size = sizeof one_pass, .tensor_amax = {true, 1}};

static enum mxfp_status odd_convert(const struct places *p)
{
	enum mxfp_status status = mxfp_convert_array(p->to.data, MXFP_FORMAT_TF32, p->x.data, p->format, ROWS * COLS, NULL, NULL);

	if (status == MXFP_OK)
		status = mxfp_convert_array(p->more.data, MXFP_FORMAT_F16, p->to.data, MXFP_FORMAT_TF32, ROWS * COLS, NULL, NULL);
	if (status != MXFP_OK)
		return status;
	return mxfp_convert_array(p->to.data, p->format, p->more.data, MXFP_FORMAT_F16, ROWS * COLS, NULL, NULL);
}

static enum mxfp_status odd_quantize(const struct places *p)
{
	uint8_t *const codes = p->more.data;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_NVFP4, ROWS, COLS, codes, codes + ROWS * COLS);
	const struct mxfp_result blocks = mxfp_to_blocks(&b);
	enum mxfp_status status = mxfp_quantize(&blocks, &p->x, &one_pass, NULL);

	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix m = mxfp_blocks_matrix(&b);
	status = mxfp_dequantize(&p->to, &m, NULL);
	return status == MXFP_OK ? mxfp_accumulate(&p->to, &m, NULL, NULL) : status;
}

static enum mxfp_status odd_squares(const struct places *p)
{
	uint8_t *const codes = p->space;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP6_E2M3, ROWS, COLS, codes, codes + ROWS * COLS);
	struct mxfp_blocks t = mxfp_blocks_at(MXFP_FORMAT_MXFP6_E2M3, COLS, ROWS, p->to.data, p->more.data);
	const struct mxfp_result blocks = mxfp_to_blocks(&b);
	const struct mxfp_quantize_options o = {.size = sizeof o, .block_rows = 32};
	const enum mxfp_status status = mxfp_quantize(&blocks, &p->x, &o, NULL);

	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix m = mxfp_blocks_matrix(&b);
	return mxfp_blocks_transpose(&t, &m, NULL);
}

static enum mxfp_status odd_fake_quantize(const struct places *p)
{
	struct mxfp_result result = p->to;

	result.clamped = p->more.data;
	return mxfp_fake_quantize(&result, MXFP_FORMAT_NVFP4, &p->x, &one_pass, NULL);
}

static enum mxfp_status odd_amax(const struct places *p)
{
	memcpy(p->to.data, &(float){0}, sizeof(float));
	return mxfp_amax(p->to.data, &p->x, NULL);
}

static enum mxfp_status odd_sparse(const struct places *p)
{
	const struct mxfp_sparse s = {
		.size = sizeof s,
		.format = p->format,
		.sparsity = {4, 16},
		.rows = ROWS,
		.cols = COLS,
		.masks = p->more.data,
		.codes = p->space,
	};
	enum mxfp_status status = mxfp_sparse_prune(&s, &p->to, &p->x, NULL);

	if (status == MXFP_OK)
		status = mxfp_sparse_compress(&s, p->to.data, 0, NULL);
	return status == MXFP_OK ? mxfp_sparse_expand(p->to.data, 0, &s, NULL) : status;
}

static enum mxfp_status odd_sum(const struct places *p)
{
	const void *const terms[] = {p->x.data, p->y.data, p->x.data};

	return mxfp_sum_arrays(p->to.data, p->format, terms, 3, p->format, ROWS * COLS, NULL, NULL);
}

static enum mxfp_status odd_apply(const struct places *p)
{
	uint8_t *const codes = p->more.data;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_NVFP4, ROWS, COLS, codes, codes + ROWS * COLS);
	const struct mxfp_function_options o = {.size = sizeof o, .quantize = &one_pass};
	struct mxfp_result result = p->to;

	result.blocks = &b;
	return mxfp_function_apply(&result, MXFP_FUNCTION_SILU, &p->x, &o, NULL);
}

static enum mxfp_status odd_rows_reduce(const struct places *p)
{
	const enum mxfp_status status = mxfp_rows_reduce(p->to.data, MXFP_REDUCTION_SUM, &p->x, NULL);

	return status == MXFP_OK ? mxfp_rows_argmax(p->more.data, &p->x, NULL) : status;
}

static enum mxfp_status odd_softmax(const struct places *p)
{
	const struct mxfp_softmax_options o = {
		.size = sizeof o, .scale = {true, 1.125F}, .mask = &p->y, .head_rows = 2, .sinks = p->numbers,
	};
	const enum mxfp_status status = mxfp_softmax(&p->to, &p->x, &o, NULL);

	return status == MXFP_OK ? mxfp_log_softmax(&p->more, &p->x, &o, NULL) : status;
}

static enum mxfp_status odd_norm(const struct places *p)
{
	const struct mxfp_matrix weight = from_f32(1, COLS, p->numbers, 0);
	const struct mxfp_norm_options o = {
		.size = sizeof o, .weight = &weight, .bias = &weight, .residual = &p->y, .residual_out = &p->more,
	};

	return mxfp_layer_norm(&p->to, &p->x, &o, NULL);
}

static enum mxfp_status odd_glu(const struct places *p)
{
	const struct mxfp_glu_options o = {.size = sizeof o, .limit = {true, 1.125F}};
	enum mxfp_status status = mxfp_glu(&p->to, MXFP_FUNCTION_SILU, &p->x, &p->y, &o, NULL);

	if (status == MXFP_OK)
		status = mxfp_glu(&p->more, MXFP_FUNCTION_SILU, &p->x, NULL, &o, NULL);
	return status == MXFP_OK ? mxfp_rows_add(&p->to, &p->x, &p->y, NULL, NULL) : status;
}

static enum mxfp_status odd_rotary(const struct places *p)
{
	const struct mxfp_rotary_options o = {
		.size = sizeof o, .head_cols = 32, .rotary_cols = 24, .positions = (const uint32_t *)p->y.data,
	};
	const struct mxfp_rotary_options interleaved = {
		.size = sizeof interleaved, .head_cols = 32, .rotary_cols = 24, .interleaved = true,
	};
	const struct mxfp_frequency_options base = {.size = sizeof base, .base = 10000};
	float *frequencies = p->space;
	enum mxfp_status status = mxfp_rotary_frequencies(frequencies, frequencies + 12, 24, &base);

	if (status == MXFP_OK)
		status = mxfp_rotary(&p->to, &p->x, frequencies, &o, NULL);
	return status == MXFP_OK ? mxfp_rotary(&p->more, &p->x, frequencies, &interleaved, NULL) : status;
}

static enum mxfp_status odd_attention(const struct places *p)
{
	const struct mxfp_attention_cache cache = {
		.size = sizeof cache, .heads = 1, .head_cols = COLS, .capacity = ROWS, .memory = p->space, .memory_bytes = BYTES / 2,
	};
	const struct mxfp_attention_options o = {.size = sizeof o, .scale = {true, 0.125F}, .sinks = p->numbers};
	const enum mxfp_status status = mxfp_attention_store(&cache, 0, &p->x, &p->y, NULL);

	return status == MXFP_OK ? mxfp_attention(&p->to, &p->x, &cache, 0, &o, (uint8_t *)p->space + BYTES / 2, BYTES / 2, NULL)
	                         : status;
}

/* A in numbers or quantized, W packed before or not, everything that is added, and C in numbers and in blocks. */
static enum mxfp_status odd_gemm(const struct places *p)
{
	const struct mxfp_matrix beside = mxfp_numbers(p->format, ROWS, ROWS, p->x.data);
	const struct mxfp_gemm_options options = {
		.size = sizeof options,
		.a_format = MXFP_FORMAT_MXFP8_E4M3,
		.c_quantize = &one_pass,
		.activation = MXFP_FUNCTION_SILU,
	};
	uint8_t *const space = p->space, *const packed = space + 3 * COLS * ROWS, *const more = p->more.data;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP4, ROWS, COLS, space, space + 2 * COLS * ROWS);
	struct mxfp_blocks c_blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, ROWS, ROWS, more, more + 1000);
	const struct mxfp_result weights = mxfp_to_blocks(&b);
	struct mxfp_result c = p->to;
	size_t bytes = 0;

	c.blocks = &c_blocks;
	enum mxfp_status status = mxfp_quantize(&weights, &p->y, NULL, NULL);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix w = mxfp_blocks_matrix(&b);
	struct mxfp_product product = {
		.size = sizeof product,
		.c = &c,
		.a = &p->x,
		.w = &w,
		.bias = p->numbers,
		.gate = &beside,
		.residual = &beside,
	};
	status = mxfp_gemm(&product, &options, workspace + 1, sizeof workspace - 1, NULL);
	if (status == MXFP_OK)
		status = mxfp_pack_size(&bytes, &w, &options, NULL);
	if (status == MXFP_OK && bytes > BYTES - 3 * COLS * ROWS)
		status = MXFP_ERR_SIZE;
	if (status == MXFP_OK)
		status = mxfp_pack(packed, bytes, &w, &options, NULL);
	product.w_packed = packed;
	product.w_packed_bytes = bytes;
	product.n = ROWS;
	return status == MXFP_OK ? mxfp_gemm(&product, &options, workspace, sizeof workspace, NULL) : status;
}

/* The chain, of which each format of numbers has its own kernels, and both operands transposed. */
static enum mxfp_status odd_chain(const struct places *p)
{
	struct mxfp_matrix left = mxfp_numbers(p->format, ROWS, COLS - 3, p->x.data);
	struct mxfp_matrix w = mxfp_numbers(p->format, COLS, COLS - 3, p->y.data);
	const struct mxfp_result squares = to_f32(p->more.data, 0);
	const struct mxfp_product first = {.size = sizeof first, .c = &squares, .a = &p->x, .w = &p->x};
	const struct mxfp_product second = {.size = sizeof second, .c = &p->to, .a = &left, .w = &w};
	const struct mxfp_gemm_options o = {.size = sizeof o, .accumulate = true};
	const enum mxfp_status status = mxfp_gemm(&first, NULL, workspace, sizeof workspace, NULL);

	left.stride = ROWS;
	w.stride = COLS;
	left.transposed = w.transposed = true;
	return status == MXFP_OK ? mxfp_gemm(&second, &o, workspace, sizeof workspace, NULL) : status;
}

static const struct {
	const char *name;
	enum mxfp_status (*call)(const struct places *p);
	bool is_f32_only;
} odd[] = {
	{"convert", odd_convert, false}, {"quantize, dequantize, accumulate", odd_quantize, false},
	{"blocks_transpose", odd_squares, false}, {"fake_quantize", odd_fake_quantize, false}, {"amax", odd_amax, false},
	{"sparse", odd_sparse, false}, {"sum_arrays", odd_sum, false}, {"function_apply", odd_apply, false},
	{"rows_reduce, rows_argmax", odd_rows_reduce, false}, {"softmax", odd_softmax, false}, {"layer_norm", odd_norm, false},
	{"glu, rows_add", odd_glu, false}, {"rotary", odd_rotary, false}, {"attention", odd_attention, true},
	{"gemm", odd_gemm, false}, {"gemm by the chain", odd_chain, false},
};

/* Runs a call with all its data so many bytes behind an address that is a multiple of 64. */
static void run_at(int i, enum mxfp_format format, size_t offset, uint8_t *to, uint8_t *more)
{
	static _Alignas(64) uint8_t x[BYTES + 64], y[BYTES + 64], numbers[BYTES + 64], results[BYTES + 64], others[BYTES + 64],
		space[BYTES + 64];
	const struct places p = {
		.format = format,
		.x = mxfp_numbers(format, ROWS, COLS, x + offset),
		.y = mxfp_numbers(format, ROWS, COLS, y + offset),
		.numbers = (const float *)(const void *)(numbers + offset),
		.to = mxfp_to_numbers(format, results + offset),
		.more = mxfp_to_numbers(format, others + offset),
		.space = space + offset,
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
	memcpy(to, p.to.data, BYTES);
	memcpy(more, p.more.data, BYTES);
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
