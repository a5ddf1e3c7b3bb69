/* SPDX-License-Identifier: MIT */
/* Products and packing: groups, packed weights, workspaces, structs of other versions, defaults. */
#include "mxfp/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "mxfp/isa.h"
#include "equal/guarded.h"
#include "suite.h"

/* A product of A, 3 rows of 70 elements in MXFP8, and W, 5 rows in MXFP4. */
enum {
	M = 3,
	N = 5,
	K = 70,
	K_STORED = 96,
	HEADER_BYTES = 128,
	WORKSPACE_BYTES = 1 << 22,
	PACKED_BYTES = 1 << 16
};

/* A call that is right, for cases to spoil. */
struct call {
	struct mxfp_product product; /* whose c, a and w, unless NULL, become those below */
	struct mxfp_result c;
	struct mxfp_matrix a, w;
	struct mxfp_gemm_options options;
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec *exec;
	uint8_t *workspace;
	size_t workspace_bytes;
};

static struct {
	uint8_t a[M * K_STORED], a_scales[M * 3], w[N * K_STORED / 2], w_scales[N * 3], numbers[M * K * 4];
	float c[M * N + 8], bias[N];
	uint8_t packed[PACKED_BYTES];
} memory;

static uint8_t *workspace;

static const struct mxfp_gemm_options of_e4m3 = {.size = sizeof of_e4m3, .a_format = MXFP_FORMAT_MXFP8_E4M3};

static void fill(void)
{
	uint8_t *bytes = (uint8_t *)&memory;

	for (size_t i = 0; i < sizeof memory; i++)
		bytes[i] = (uint8_t)(i * 7 % 0x70);
	memset(workspace, 0x5A, WORKSPACE_BYTES);
}

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

static struct call right(void)
{
	static const struct mxfp_result any_result;
	static const struct mxfp_matrix any;
	const struct mxfp_blocks a = mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, M, K, memory.a, memory.a_scales);
	const struct mxfp_blocks w = mxfp_blocks_at(MXFP_FORMAT_MXFP4, N, K, memory.w, memory.w_scales);
	struct call call = {
		.product = {.size = sizeof call.product, .c = &any_result, .a = &any, .w = &any, .bias = memory.bias},
		.c = mxfp_to_numbers(MXFP_FORMAT_F32, memory.c),
		.a = mxfp_blocks_matrix(&a),
		.w = mxfp_blocks_matrix(&w),
		.options = {.size = sizeof call.options},
		.quantize = {.size = sizeof call.quantize},
		.exec = &one_thread,
		.workspace = workspace,
		.workspace_bytes = WORKSPACE_BYTES,
	};

	return call;
}

/* The same from numbers that the call quantizes. */
static struct call right_of_numbers(void)
{
	struct call call = right();

	call.a = mxfp_numbers(MXFP_FORMAT_F32, M, K, memory.numbers);
	call.options.a_format = MXFP_FORMAT_MXFP8_E4M3;
	return call;
}

/* The product of a call that stays where it is. */
static const struct mxfp_product *product_of(struct call *call)
{
	if (call->product.c != NULL)
		call->product.c = &call->c;
	if (call->product.a != NULL)
		call->product.a = &call->a;
	if (call->product.w != NULL)
		call->product.w = &call->w;
	return &call->product;
}

/* Runs a call that is refused. */
static void refused(const char *what, enum mxfp_status want, struct call call)
{
	static uint8_t before[sizeof memory], space_before[WORKSPACE_BYTES];

	if (call.options.a_quantize != NULL)
		call.options.a_quantize = &call.quantize;
	memcpy(before, &memory, sizeof memory);
	memcpy(space_before, workspace, sizeof space_before);
	enum mxfp_status status = mxfp_gemm(product_of(&call), &call.options, call.workspace, call.workspace_bytes, call.exec);
	ck_assert_msg(status == want, "%s: status %d instead of %d", what, (int)status, (int)want);
	ck_assert_msg(memcmp(before, &memory, sizeof memory) == 0, "%s: memory was written", what);
	ck_assert_msg(memcmp(space_before, workspace, sizeof space_before) == 0, "%s: the workspace was written", what);
	suite_compared(1);
}

/* Spoils a right call by statements on `call`. */
#define REFUSED(status, ...) \
	do { \
		struct call call = right(); \
		__VA_ARGS__; \
		refused(#__VA_ARGS__, status, call); \
	} while (0)

#define REFUSED_OF_NUMBERS(status, ...) \
	do { \
		struct call call = right_of_numbers(); \
		call.options.a_quantize = &call.quantize; \
		__VA_ARGS__; \
		refused(#__VA_ARGS__, status, call); \
	} while (0)

/* The last product writes what the first reads, and two products write the same. */
TEST(overlaps_in_a_group)
{
	struct call plain = right();

	fill();
	const struct mxfp_matrix empty = mxfp_numbers(MXFP_FORMAT_MXFP8_E4M3, 0, K, NULL);
	struct mxfp_result last = plain.c;
	struct mxfp_product group[3] = {*product_of(&plain), plain.product, plain.product};
	group[1].c = NULL;
	group[1].a = &empty;
	group[2].c = &last;
	last.data = memory.a;
	assert_status(mxfp_gemm_grouped(NULL, group, 3, &plain.options, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_OVERLAP);
	last.data = memory.c + 1;
	assert_status(mxfp_gemm_grouped(NULL, group, 3, &plain.options, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_OVERLAP);
	suite_compared(2);
}

/* Packs W. */
static size_t pack(const struct mxfp_gemm_options *o, const struct mxfp_exec *exec)
{
	struct call plain = right();
	size_t bytes;

	assert_status(mxfp_pack_size(&bytes, &plain.w, o, exec), MXFP_OK);
	ck_assert_uint_le(bytes, PACKED_BYTES);
	assert_status(mxfp_pack(memory.packed, bytes, &plain.w, o, exec), MXFP_OK);
	return bytes;
}

/* On every tier, W that is packed for the chain takes hardly more than its format, for all options. */
TEST_LOOP(packed_chain_keeps_to_the_format, MXFP_N_FORMATS)
{
	static const enum mxfp_format a_formats[] = {MXFP_FORMAT_F32, MXFP_FORMAT_MXFP8_E4M3};
	struct mxfp_matrix w = mxfp_numbers((enum mxfp_format)_i, 512, 4096, memory.w);
	struct mxfp_sizes size;
	size_t bytes;

	if (mxfp_format_get_info(w.format)->kind != MXFP_KIND_BLOCK)
		return;
	w.scales = memory.w;
	w.tensor_scale = 1;
	assert_status(mxfp_blocks_size(&size, w.format, w.rows, w.cols), MXFP_OK);
	for (int isa = 0; isa <= mxfp_isa_active(); isa++) {
		const struct mxfp_exec exec = {.size = sizeof exec, .isa = mxfp_isa_name(isa)};

		for (size_t i = 0; i < 6 * 2; i++) {
			const struct mxfp_gemm_options chain = {
				.size = sizeof chain, .acc = MXFP_ACC_CHAIN, .a_format = a_formats[i % 2], .pass_k = 128U << i / 2 % 3,
				.psum = i < 6 ? MXFP_FORMAT_F32 : MXFP_FORMAT_BF16};

			assert_status(mxfp_pack_size(&bytes, &w, &chain, &exec), MXFP_OK);
			ck_assert_uint_le(10 * bytes, 11 * (size.codes_bytes + size.scales_bytes));
			suite_compared(1);
		}
	}
}

TEST(packed_on_another_tier)
{
	static const struct mxfp_exec reference = {.size = sizeof reference, .isa = "ref"};

	fill();
	if (mxfp_isa_active() == 0)
		return;
	const size_t bytes = pack(&of_e4m3, &reference);
	REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes; call.product.n = N);
}

TEST(packed_for_every_format_of_numbers)
{
	fill();
	const size_t bytes = pack(NULL, NULL);
	for (int format = MXFP_FORMAT_F32; format <= MXFP_FORMAT_TF32; format++) {
		struct call plain = right();

		plain.a = mxfp_numbers((enum mxfp_format)format, M, K, memory.numbers);
		plain.product.w = NULL;
		plain.product.w_packed = memory.packed;
		plain.product.w_packed_bytes = bytes;
		plain.product.n = N;
		assert_status(mxfp_gemm(product_of(&plain), NULL, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
		suite_compared(1);
	}
}

/* No change of the header's bytes goes unseen, but for a tensor scale where the format has none. */
TEST(hostile_headers)
{
	enum { TENSOR_SCALE = 80, SPARE = 88 };

	fill();
	size_t bytes = pack(&of_e4m3, NULL);
	for (size_t bit = 0; bit < 8 * HEADER_BYTES; bit++) {
		struct call plain = right();

		if (bit / 8 >= TENSOR_SCALE && bit / 8 < SPARE)
			continue;
		plain.product.w_packed = memory.packed;
		plain.product.w_packed_bytes = bytes;
		plain.product.n = N;
		memory.packed[bit / 8] ^= (uint8_t)(1U << bit % 8);
		enum mxfp_status status =
			mxfp_gemm(product_of(&plain), &plain.options, plain.workspace, plain.workspace_bytes, &one_thread);
		ck_assert_msg(status == MXFP_ERR_PACKED || status == MXFP_ERR_SHAPE, "bit %zu: status %d", bit, (int)status);
		memory.packed[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	suite_compared(8 * HEADER_BYTES);
}

TEST(non_finite)
{
	static const float inf = INFINITY;
	uint64_t first = 77;

	fill();
	memset(memory.numbers, 0, sizeof memory.numbers);
	memcpy(memory.numbers + (K + 3) * sizeof inf, &inf, sizeof inf);
	REFUSED_OF_NUMBERS(MXFP_ERR_NON_FINITE, call.quantize.non_finite = MXFP_NON_FINITE_ERROR;
	                   call.quantize.first_index = 1000; call.c.first_non_finite = &first);
	ck_assert_uint_eq(first, 1000 + K + 3);
	/* The same transposed, A[2][1] and A[1][3]: stored first comes the one that is later in the order of the rows. */
	memset(memory.numbers, 0, sizeof memory.numbers);
	memcpy(memory.numbers + (1 * M + 2) * sizeof inf, &inf, sizeof inf);
	memcpy(memory.numbers + (3 * M + 1) * sizeof inf, &inf, sizeof inf);
	REFUSED_OF_NUMBERS(MXFP_ERR_NON_FINITE, call.quantize.non_finite = MXFP_NON_FINITE_ERROR; call.a.transposed = true;
	                   call.quantize.first_index = 1000; call.c.first_non_finite = &first);
	ck_assert_uint_eq(first, 1000 + K + 3);
}

/* Which of three products it was. */
TEST(failed_product)
{
	static float c[3][M * N];
	struct call plain = right();
	struct mxfp_matrix wrong = plain.w;
	struct mxfp_result results[3];
	size_t failed = 77, bytes;

	fill();
	struct mxfp_product group[3] = {*product_of(&plain), plain.product, plain.product};
	for (size_t i = 0; i < 3; i++) {
		results[i] = mxfp_to_numbers(MXFP_FORMAT_F32, c[i]);
		group[i].c = &results[i];
	}
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_OK);
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, 64, &one_thread), MXFP_ERR_WORKSPACE);
	ck_assert_uint_eq(failed, 77);
	group[1].w = &wrong;
	wrong.cols = K + 1;
	assert_status(mxfp_gemm_workspace_size(&bytes, group, 3, NULL, &one_thread), MXFP_ERR_SHAPE);
	assert_status(mxfp_gemm_grouped(NULL, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_SHAPE);
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_SHAPE);
	ck_assert_uint_eq(failed, 1);
	group[1].w = group[0].w;
	group[2].bias = &c[2][M * N - 1];
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_OVERLAP);
	ck_assert_uint_eq(failed, 2);
	/* Product 0 writes what product 2 reads. */
	group[2].bias = c[0];
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_OVERLAP);
	ck_assert_uint_eq(failed, 0);
	group[2].bias = NULL;
	group[2].a = NULL;
	assert_status(mxfp_gemm_grouped(&failed, group, 3, NULL, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_NULL);
	ck_assert_uint_eq(failed, 2);
	suite_compared(8);
}

static bool are_all(const uint8_t *bytes, uint8_t value, size_t n)
{
	return n == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* Workspaces between that of one thread and that of all: as many threads compute as have room. */
TEST(workspace_of_fewer_threads)
{
	enum { ROWS = 600, THREADS = 5 };
	static float x[ROWS * K], c[2][ROWS * N];
	const struct mxfp_exec many = {.size = sizeof many, .threads = THREADS};
	struct call plain = right();
	size_t least, most;

	fill();
	for (size_t i = 0; i < ROWS * K; i++)
		x[i] = (float)(i % 97);
	plain.a = mxfp_numbers(MXFP_FORMAT_F32, ROWS, K, x);
	plain.c.data = c[0];
	assert_status(mxfp_gemm(product_of(&plain), &of_e4m3, workspace, WORKSPACE_BYTES, &one_thread), MXFP_OK);
	assert_status(mxfp_gemm_workspace_size(&least, &plain.product, 1, &of_e4m3, &one_thread), MXFP_OK);
	assert_status(mxfp_gemm_workspace_size(&most, &plain.product, 1, &of_e4m3, &many), MXFP_OK);
	ck_assert_uint_lt(least, most);
	ck_assert_uint_le(most, WORKSPACE_BYTES);
	ck_assert_uint_eq((most - least) % (THREADS - 1), 0);
	plain.c.data = c[1];
	for (size_t bytes = least; bytes <= most; bytes += (most - least) / 7) {
		memset(c[1], 0xA5, sizeof c[1]);
		memset(workspace, 0x5A, WORKSPACE_BYTES);
		assert_status(mxfp_gemm(&plain.product, &of_e4m3, workspace, bytes, &many), MXFP_OK);
		ck_assert_mem_eq(c[0], c[1], sizeof c[0]);
		ck_assert(are_all(workspace + bytes, 0x5A, WORKSPACE_BYTES - bytes));
		suite_compared(ROWS * N);
	}
	assert_status(mxfp_gemm(&plain.product, &of_e4m3, workspace, least - 1, &many), MXFP_ERR_WORKSPACE);
}

/* NULL and a size alone: A is quantized by rule mse. 7 beside 0.5: at scale 2, which rceil takes, they become 8 and 0, and at scale
   1, where the error is less, 6 and 0.5. */
TEST(defaults_are_zero)
{
	static const struct mxfp_quantize_options zero = {.size = sizeof zero}, rceil = {.size = sizeof rceil, .rule = MXFP_RULE_RCEIL};
	const struct mxfp_quantize_options *const quantize[] = {NULL, &zero, &rceil};
	static const float x[32] = {7, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F}, ones[32] = {1, 1, 1, 1, 1, 1};
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, 1, 32, x), w = mxfp_numbers(MXFP_FORMAT_F32, 1, 32, ones);
	float c[3];

	for (size_t i = 0; i < 3; i++) {
		const struct mxfp_gemm_options o = {.size = sizeof o, .a_format = MXFP_FORMAT_MXFP4, .a_quantize = quantize[i]};
		const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, &c[i]);
		const struct mxfp_product p = {.size = sizeof p, .c = &to, .a = &a, .w = &w};

		assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
	}
	ck_assert(c[0] == 8.5F);
	ck_assert(c[1] == 8.5F);
	ck_assert(c[2] == 8);
	suite_compared(3);
}

/* doc/numerics.md, section 5: a product does not ask which recipe made an NVFP4. With g = 1 the given C, 1 + 2^-10, is still
   added last, and a bf16 psum does not round it. */
TEST(nvfp4_without_tensor_scale)
{
	static const uint8_t codes[16] = {2}, scales[1] = {0x38};
	static const float six[16] = {6}, given = 0x1.004p0F;
	static const uint8_t one[1] = {127};
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, 16, six);
	struct mxfp_matrix nvfp4 = mxfp_numbers(MXFP_FORMAT_NVFP4, 1, 16, codes), mxfp4 = mxfp_numbers(MXFP_FORMAT_MXFP4, 1, 16, codes);
	static const enum mxfp_recipe recipes[] = {MXFP_RECIPE_TORCHAO_1, MXFP_RECIPE_GGML};
	float c = given;
	struct mxfp_gemm_options o = {.size = sizeof o, .accumulate = true, .psum = MXFP_FORMAT_BF16};
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, &c);
	struct mxfp_product p = {.size = sizeof p, .c = &to, .a = &nvfp4, .w = &nvfp4};

	nvfp4.scales = scales;
	nvfp4.tensor_scale = 1;
	mxfp4.scales = one;
	assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
	ck_assert(c == 1 + given);
	/* Without a tensor scale in the formats the sum starts from C and is rounded. */
	p.a = p.w = &mxfp4;
	c = given;
	assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
	ck_assert(c == 2);
	p.a = &numbers;
	p.w = &nvfp4;
	o.a_format = MXFP_FORMAT_NVFP4;
	for (size_t i = 0; i < 2; i++) {
		const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .recipe = recipes[i]};

		o.a_quantize = &quantize;
		c = given;
		assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
		ck_assert(c == 6 + given);
	}
	suite_compared(4);
}

/* A program of another version: a larger struct, whose further members must be zero. No version has smaller ones. */
TEST(structs_of_other_versions)
{
	struct newer {
		struct mxfp_product product;
		size_t member;
	} newer[2] = {{.member = 0}, {.member = 0}};
	struct newer_options {
		struct mxfp_gemm_options options;
		size_t member;
	} o = {.options = {.size = sizeof o}};
	static float c[2][M * N];
	struct mxfp_result results[2];
	struct call plain = right();

	fill();
	for (size_t i = 0; i < 2; i++) {
		results[i] = mxfp_to_numbers(MXFP_FORMAT_F32, c[i]);
		newer[i].product = *product_of(&plain);
		newer[i].product.size = sizeof newer[i];
		newer[i].product.c = &results[i];
	}
	assert_status(mxfp_gemm_grouped(NULL, &newer[0].product, 2, &o.options, workspace, WORKSPACE_BYTES, &one_thread), MXFP_OK);
	ck_assert_mem_eq(c[0], c[1], sizeof c[0]);
	newer[1].member = 1;
	assert_status(mxfp_gemm_grouped(NULL, &newer[0].product, 2, NULL, workspace, WORKSPACE_BYTES, NULL), MXFP_ERR_VERSION);
	newer[1].member = 0;
	newer[1].product.size = 0;
	assert_status(mxfp_gemm_grouped(NULL, &newer[0].product, 2, NULL, workspace, WORKSPACE_BYTES, NULL), MXFP_ERR_VERSION);
	o.member = 1;
	assert_status(mxfp_gemm(&plain.product, &o.options, workspace, WORKSPACE_BYTES, &one_thread), MXFP_ERR_VERSION);
	assert_status(mxfp_gemm(product_of(&plain), NULL, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
	ck_assert_mem_eq(memory.c, c[0], sizeof c[0]);
	REFUSED(MXFP_ERR_VERSION, call.product.size--);
	REFUSED(MXFP_ERR_VERSION, call.product.size = offsetof(struct mxfp_product, gate));
	REFUSED(MXFP_ERR_VERSION, call.product.size = sizeof(size_t));
	REFUSED(MXFP_ERR_VERSION, call.c.size--);
	REFUSED(MXFP_ERR_VERSION, call.a.size--);
	REFUSED(MXFP_ERR_VERSION, call.w.size--);
	REFUSED(MXFP_ERR_VERSION, call.options.size--);
	REFUSED(MXFP_ERR_VERSION, call.options.size = offsetof(struct mxfp_gemm_options, pass_k));
	REFUSED_OF_NUMBERS(MXFP_ERR_VERSION, call.quantize.size--);
	suite_compared(5);
}

/* What is no error: no products, no rows, no elements, NULL where nothing is read or written. */
TEST(nothing_to_do)
{
	static const uint32_t zeros[M * N];
	struct call plain = right();

	fill();
	assert_status(mxfp_gemm_grouped(NULL, NULL, 0, NULL, NULL, 0, NULL), MXFP_OK);
	const struct mxfp_matrix no_a = mxfp_numbers(MXFP_FORMAT_MXFP4, 0, 9, NULL), no_w = mxfp_numbers(MXFP_FORMAT_F32, 0, 9, NULL);
	const struct mxfp_product none = {.size = sizeof none, .a = &no_a, .w = &no_w};
	assert_status(mxfp_gemm(&none, NULL, NULL, 0, NULL), MXFP_OK);
	plain.a.cols = plain.w.cols = 0;
	plain.a.data = plain.a.scales = plain.w.data = plain.w.scales = NULL;
	plain.product.bias = NULL;
	assert_status(mxfp_gemm(product_of(&plain), NULL, workspace, WORKSPACE_BYTES, NULL), MXFP_OK);
	ck_assert_mem_eq(memory.c, zeros, sizeof zeros);
	suite_compared(3);
}

/* Packed weights may come from a file: whatever they hold, nothing outside them is read. */
TEST(changed_packed_weights_stay_in_their_memory)
{
	enum { ROWS = 3, COLS = 20, DEPTH = 96, HEADER = 128 };
	static float w[COLS * DEPTH], x[ROWS * DEPTH], y[ROWS * COLS];
	static uint8_t codes[COLS * DEPTH / 2], scales[COLS * DEPTH / 16];
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, COLS, DEPTH, codes, scales);
	const struct mxfp_result to_blocks = mxfp_to_blocks(&blocks), to_y = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, COLS, DEPTH, w);
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, ROWS, DEPTH, x);
	size_t bytes, workspace_bytes;

	for (size_t i = 0; i < COLS * DEPTH; i++)
		w[i] = (float)(i % 17) - 8;
	assert_status(mxfp_quantize(&to_blocks, &weights, NULL, NULL), MXFP_OK);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	assert_status(mxfp_pack_size(&bytes, &matrix, &of_e4m3, &one_thread), MXFP_OK);
	struct guarded guard = guarded_of(bytes, 0, true);
	assert_status(mxfp_pack(guard.at, bytes, &matrix, &of_e4m3, &one_thread), MXFP_OK);
	const struct mxfp_product p = {
		.size = sizeof p, .c = &to_y, .a = &a, .w_packed = guard.at, .w_packed_bytes = bytes, .n = COLS,
	};
	assert_status(mxfp_gemm_workspace_size(&workspace_bytes, &p, 1, &of_e4m3, &one_thread), MXFP_OK);
	void *space = malloc(workspace_bytes);
	for (size_t i = HEADER; i < bytes; i++) {
		guard.at[i] ^= 1;
		const enum mxfp_status status = mxfp_gemm(&p, &of_e4m3, space, workspace_bytes, &one_thread);
		ck_assert(status == MXFP_OK || status == MXFP_ERR_PACKED);
		guard.at[i] ^= 1;
	}
	free(space);
	guarded_free(&guard);
}

int main(void)
{
	workspace = malloc(WORKSPACE_BYTES);
	if (workspace == NULL)
		return EXIT_FAILURE;
	int status = suite_run(NULL);
	free(workspace);
	return status;
}
