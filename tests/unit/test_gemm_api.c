/* SPDX-License-Identifier: MIT */
/* mxfp_gemm_grouped() and mxfp_pack() with arguments that they refuse: the status, and that nothing was written. */
#include "mxfp/gemm.h"

#include <inttypes.h>
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
	struct mxfp_product product; /* whose a and w, unless NULL, become those below */
	struct mxfp_matrix a, w;
	struct mxfp_gemm_options options;
	struct mxfp_quantize_options quantize;
	uint8_t *workspace;
	size_t workspace_bytes;
};

static struct {
	uint8_t a[M * K_STORED], a_scales[M * 3], w[N * K_STORED / 2], w_scales[N * 3], numbers[M * K * 4];
	float c[M * N + 8], bias[N];
	uint8_t packed[PACKED_BYTES];
} memory;

static uint8_t *workspace;

static const float tensor_amax_nan = NAN;

static const struct mxfp_gemm_options of_e4m3 = {.a_format = MXFP_FORMAT_MXFP8_E4M3};

static void fill(void)
{
	uint8_t *bytes = (uint8_t *)&memory;

	for (size_t i = 0; i < sizeof memory; i++)
		bytes[i] = (uint8_t)(i * 7 % 0x70);
	memset(workspace, 0x5A, WORKSPACE_BYTES);
}

static const struct mxfp_exec one_thread = {.threads = 1};

static struct call right(void)
{
	static const struct mxfp_matrix any;
	struct call call = {
		.product = {.size = sizeof call.product, .a = &any, .w = &any, .c = memory.c, .bias = memory.bias},
		.a = {.format = MXFP_FORMAT_MXFP8_E4M3, .rows = M, .cols = K, .data = memory.a, .scales = memory.a_scales},
		.w = {.format = MXFP_FORMAT_MXFP4, .rows = N, .cols = K, .data = memory.w, .scales = memory.w_scales},
		.options = {.exec = &one_thread},
		.workspace = workspace,
		.workspace_bytes = WORKSPACE_BYTES,
	};

	return call;
}

/* The same from numbers that the call quantizes. */
static struct call right_of_numbers(void)
{
	struct call call = right();

	call.a = (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = M, .cols = K, .data = memory.numbers};
	call.options.a_format = MXFP_FORMAT_MXFP8_E4M3;
	return call;
}

/* The product of a call that stays where it is. */
static const struct mxfp_product *product_of(struct call *call)
{
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
	enum mxfp_status status = mxfp_gemm(product_of(&call), &call.options, call.workspace, call.workspace_bytes);
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

TEST(null)
{
	size_t bytes;

	fill();
	REFUSED(MXFP_ERR_NULL, call.product.a = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.w = NULL);
	REFUSED(MXFP_ERR_NULL, call.a.data = NULL);
	REFUSED(MXFP_ERR_NULL, call.a.scales = NULL);
	REFUSED(MXFP_ERR_NULL, call.w.data = NULL);
	REFUSED(MXFP_ERR_NULL, call.w.scales = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.c = NULL);
	REFUSED(MXFP_ERR_NULL, call.workspace = NULL);
	REFUSED_OF_NUMBERS(MXFP_ERR_NULL, call.a.data = NULL);
	assert_status(mxfp_gemm(NULL, NULL, workspace, WORKSPACE_BYTES), MXFP_ERR_NULL);
	assert_status(mxfp_gemm_workspace_size(NULL, 1, NULL, &bytes), MXFP_ERR_NULL);
	struct call plain = right();
	assert_status(mxfp_gemm_workspace_size(product_of(&plain), 1, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_pack_size(NULL, NULL, &bytes), MXFP_ERR_NULL);
	assert_status(mxfp_pack_size(&plain.w, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_pack(NULL, PACKED_BYTES, &plain.w, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_pack(memory.packed, PACKED_BYTES, NULL, NULL), MXFP_ERR_NULL);
	suite_compared(7);
}

TEST(formats)
{
	fill();
	REFUSED(MXFP_ERR_FORMAT, call.a.format = MXFP_FORMAT_E4M3);
	REFUSED(MXFP_ERR_FORMAT, call.a.format = MXFP_FORMAT_E8M0);
	REFUSED(MXFP_ERR_FORMAT, call.a.format = (enum mxfp_format)MXFP_N_FORMATS);
	REFUSED(MXFP_ERR_FORMAT, call.a.format = (enum mxfp_format)-1);
	REFUSED(MXFP_ERR_FORMAT, call.w.format = MXFP_FORMAT_UE4M3);
	REFUSED(MXFP_ERR_FORMAT, call.w.format = (enum mxfp_format)99);
	REFUSED(MXFP_ERR_FORMAT, call.a.transposed = true);
	REFUSED(MXFP_ERR_FORMAT, call.w.transposed = true);
	REFUSED(MXFP_ERR_FORMAT, call.options.c_format = MXFP_FORMAT_F16);
	REFUSED(MXFP_ERR_FORMAT, call.options.c_format = MXFP_FORMAT_MXFP4);
	REFUSED(MXFP_ERR_FORMAT, call.options.psum = MXFP_FORMAT_TF32);
	REFUSED(MXFP_ERR_FORMAT, call.options.a_format = (enum mxfp_format)99);
	REFUSED(MXFP_ERR_FORMAT, call.options.a_format = MXFP_FORMAT_MXFP8_E5M2);
	REFUSED(MXFP_ERR_FORMAT, call.options.a_format = MXFP_FORMAT_E4M3);
	REFUSED_OF_NUMBERS(MXFP_ERR_FORMAT, call.options.a_format = MXFP_FORMAT_BF16);
	REFUSED_OF_NUMBERS(MXFP_ERR_FORMAT, call.a.format = MXFP_FORMAT_TF32);
}

TEST(options)
{
	fill();
	REFUSED(MXFP_ERR_OPTION, call.options.acc = (enum mxfp_acc)2);
	REFUSED(MXFP_ERR_OPTION, call.options.acc = (enum mxfp_acc)-1);
	REFUSED(MXFP_ERR_OPTION, call.options.pass_k = 64);
	REFUSED(MXFP_ERR_OPTION, call.options.pass_k = 1024);
	REFUSED(MXFP_ERR_OPTION, call.options.psum_round = MXFP_ROUND_RTZ);
	REFUSED(MXFP_ERR_OPTION, call.options.psum_round = (enum mxfp_round)99);
	REFUSED(MXFP_ERR_OPTION, call.w.sparsity = (struct mxfp_sparsity){5, 3});
	REFUSED(MXFP_ERR_OPTION, call.w.sparsity = (struct mxfp_sparsity){4, 0});
	REFUSED(MXFP_ERR_OPTION, call.a.sparsity = (struct mxfp_sparsity){4, 3});
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.rule = (enum mxfp_rule)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.round = (enum mxfp_round)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.non_finite = (enum mxfp_non_finite)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4, call.quantize.via_bf16 = true);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4,
	                   call.quantize.tensor_amax = &tensor_amax_nan);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4,
	                   call.quantize.recipe = MXFP_RECIPE_GGML, call.quantize.round = MXFP_ROUND_SR);
}

TEST(sizes)
{
	struct call plain = right();
	size_t bytes;

	fill();
	REFUSED(MXFP_ERR_SIZE, call.w.cols = K - 1);
	REFUSED(MXFP_ERR_SIZE, call.a.cols = K + 1);
	REFUSED(MXFP_ERR_SIZE, call.a.stride = K_STORED - 1);
	REFUSED(MXFP_ERR_SIZE, call.a.scales_stride = 2);
	REFUSED(MXFP_ERR_SIZE, call.w.stride = K_STORED / 2 - 1);
	REFUSED(MXFP_ERR_SIZE, call.w.scales_stride = 2);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = N - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = SIZE_MAX / 4);
	REFUSED(MXFP_ERR_SIZE, call.a.rows = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.a.rows = SIZE_MAX / 16);
	REFUSED(MXFP_ERR_SIZE, call.w.rows = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.a.stride = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.w.scales_stride = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.a.cols = call.w.cols = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.a.cols = call.w.cols = SIZE_MAX - 64);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.a.stride = K - 1);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.a.transposed = true; call.a.stride = M - 1);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.a.stride = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.workspace_bytes = 0);
	assert_status(mxfp_gemm_workspace_size(product_of(&plain), 1, &plain.options, &bytes), MXFP_OK);
	REFUSED(MXFP_ERR_SIZE, call.workspace_bytes = bytes - 1);
	assert_status(mxfp_pack_size(&plain.w, &of_e4m3, &bytes), MXFP_OK);
	assert_status(mxfp_pack(memory.packed, bytes - 1, &plain.w, &of_e4m3), MXFP_ERR_SIZE);
	plain.w.rows = SIZE_MAX / 8;
	assert_status(mxfp_pack_size(&plain.w, &of_e4m3, &bytes), MXFP_ERR_SIZE);
	suite_compared(2);
}

TEST(overlaps)
{
	struct call plain = right();

	fill();
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.a);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.a_scales + 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.w + sizeof memory.w - 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.bias = memory.c + M * N - 1);
	REFUSED(MXFP_ERR_OVERLAP, call.a.data = (uint8_t *)memory.c - sizeof memory.a + 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = workspace + 64);
	REFUSED(MXFP_ERR_OVERLAP, call.w.data = workspace);
	REFUSED(MXFP_ERR_OVERLAP, call.product.bias = (const float *)workspace);
	/* The last product writes what the first reads, and two products write the same. */
	const struct mxfp_matrix empty = {.format = MXFP_FORMAT_MXFP8_E4M3, .cols = K};
	struct mxfp_product group[3] = {*product_of(&plain), plain.product, plain.product};
	group[1].c = NULL;
	group[1].a = &empty;
	group[2].c = memory.a;
	assert_status(mxfp_gemm_grouped(group, 3, &plain.options, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
	group[2].c = memory.c + 1;
	assert_status(mxfp_gemm_grouped(group, 3, &plain.options, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
	assert_status(mxfp_pack(memory.w, PACKED_BYTES, &plain.w, &of_e4m3), MXFP_ERR_OVERLAP);
	suite_compared(3);
}

/* Packs W. */
static size_t pack(const struct mxfp_gemm_options *o)
{
	struct call plain = right();
	size_t bytes;

	assert_status(mxfp_pack_size(&plain.w, o, &bytes), MXFP_OK);
	ck_assert_uint_le(bytes, PACKED_BYTES);
	assert_status(mxfp_pack(memory.packed, bytes, &plain.w, o), MXFP_OK);
	return bytes;
}

#define REFUSED_PACKED(status, ...) \
	REFUSED(status, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes; call.product.n = N; \
	        __VA_ARGS__)

/* On every tier, W that is packed for the chain takes hardly more than its format, for all options. */
TEST_LOOP(packed_chain_keeps_to_the_format, MXFP_N_FORMATS)
{
	static const enum mxfp_format a_formats[] = {MXFP_FORMAT_F32, MXFP_FORMAT_MXFP8_E4M3};
	const struct mxfp_matrix w = {
		.format = (enum mxfp_format)_i, .rows = 512, .cols = 4096, .data = memory.w, .scales = memory.w, .tensor_scale = 1};
	struct mxfp_sizes size;
	size_t bytes;

	if (mxfp_format_get_info(w.format)->kind != MXFP_KIND_BLOCK)
		return;
	assert_status(mxfp_blocks_size(w.format, w.rows, w.cols, &size), MXFP_OK);
	for (int isa = 0; isa <= mxfp_isa_active(); isa++) {
		const struct mxfp_exec exec = {.isa = mxfp_isa_name(isa)};

		for (size_t i = 0; i < 6 * 2; i++) {
			const struct mxfp_gemm_options chain = {
				.acc = MXFP_ACC_CHAIN, .a_format = a_formats[i % 2], .pass_k = 128U << i / 2 % 3,
				.psum = i < 6 ? MXFP_FORMAT_F32 : MXFP_FORMAT_BF16, .exec = &exec};

			assert_status(mxfp_pack_size(&w, &chain, &bytes), MXFP_OK);
			ck_assert_uint_le(10 * bytes, 11 * (size.codes_bytes + size.scales_bytes));
			suite_compared(1);
		}
	}
}

TEST(packed)
{
	static const struct mxfp_exec reference = {.isa = "ref"};
	static const struct mxfp_gemm_options other[] = {
		{.a_format = MXFP_FORMAT_MXFP8_E4M3, .acc = MXFP_ACC_CHAIN},
		{.a_format = MXFP_FORMAT_MXFP8_E4M3, .pass_k = 128},
		{.a_format = MXFP_FORMAT_MXFP8_E5M2},
		{.a_format = MXFP_FORMAT_F32},
		{.a_format = MXFP_FORMAT_MXFP8_E4M3, .exec = &reference},
	};
	size_t bytes;

	fill();
	bytes = pack(&of_e4m3);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.w_packed_bytes = 0);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.w_packed_bytes = HEADER_BYTES - 1);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.w_packed_bytes = bytes - 1);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.n = 0);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.n = N - 1);
	REFUSED_PACKED(MXFP_ERR_PACKED, call.product.n = SIZE_MAX);
	REFUSED_PACKED(MXFP_ERR_SIZE, call.a.cols = K - 1);
	for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
		if (other[i].exec != NULL && mxfp_isa_active() == 0)
			continue;
		bytes = pack(&other[i]);
		REFUSED_PACKED(MXFP_ERR_PACKED, (void)call);
	}
	/* The same W serves every format of numbers. */
	bytes = pack(NULL);
	for (int format = MXFP_FORMAT_F32; format <= MXFP_FORMAT_TF32; format++) {
		struct call plain = right();

		plain.a = (struct mxfp_matrix){
			.format = (enum mxfp_format)format, .rows = M, .cols = K, .data = memory.numbers};
		plain.product.w = NULL;
		plain.product.w_packed = memory.packed;
		plain.product.w_packed_bytes = bytes;
		plain.product.n = N;
		assert_status(mxfp_gemm(product_of(&plain), NULL, workspace, WORKSPACE_BYTES), MXFP_OK);
		suite_compared(1);
	}
}

/* No change of the header's bytes goes unseen, but for a tensor scale where the format has none. */
TEST(hostile_headers)
{
	enum { TENSOR_SCALE = 80, SPARE = 88 };

	fill();
	size_t bytes = pack(&of_e4m3);
	for (size_t bit = 0; bit < 8 * HEADER_BYTES; bit++) {
		struct call plain = right();

		if (bit / 8 >= TENSOR_SCALE && bit / 8 < SPARE)
			continue;
		plain.product.w_packed = memory.packed;
		plain.product.w_packed_bytes = bytes;
		plain.product.n = N;
		memory.packed[bit / 8] ^= (uint8_t)(1U << bit % 8);
		enum mxfp_status status = mxfp_gemm(product_of(&plain), &plain.options, plain.workspace, plain.workspace_bytes);
		ck_assert_msg(status == MXFP_ERR_PACKED || status == MXFP_ERR_SIZE, "bit %zu: status %d", bit, (int)status);
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
	                   call.quantize.first_index = 1000; call.quantize.first_non_finite = &first);
	ck_assert_uint_eq(first, 1000 + K + 3);
	/* The same transposed, A[2][1] and A[1][3]: stored first comes the one that is later in the order of the rows. */
	memset(memory.numbers, 0, sizeof memory.numbers);
	memcpy(memory.numbers + (1 * M + 2) * sizeof inf, &inf, sizeof inf);
	memcpy(memory.numbers + (3 * M + 1) * sizeof inf, &inf, sizeof inf);
	REFUSED_OF_NUMBERS(MXFP_ERR_NON_FINITE, call.quantize.non_finite = MXFP_NON_FINITE_ERROR; call.a.transposed = true;
	                   call.quantize.first_index = 1000; call.quantize.first_non_finite = &first);
	ck_assert_uint_eq(first, 1000 + K + 3);
}

/* Which of three products it was. */
TEST(failed_product)
{
	static float c[3][M * N];
	struct call plain = right();
	struct mxfp_matrix wrong = plain.w;
	size_t failed = 77, bytes;
	struct mxfp_gemm_options o = {.exec = &one_thread, .failed_product = &failed};

	fill();
	struct mxfp_product group[3] = {*product_of(&plain), plain.product, plain.product};
	for (size_t i = 0; i < 3; i++)
		group[i].c = c[i];
	assert_status(mxfp_gemm_grouped(group, 3, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
	assert_status(mxfp_gemm_grouped(group, 3, &o, workspace, 64), MXFP_ERR_SIZE);
	ck_assert_uint_eq(failed, 77);
	group[1].w = &wrong;
	wrong.cols = K + 1;
	assert_status(mxfp_gemm_workspace_size(group, 3, &o, &bytes), MXFP_ERR_SIZE);
	ck_assert_uint_eq(failed, 1);
	group[1].w = group[0].w;
	group[2].bias = &c[2][M * N - 1];
	assert_status(mxfp_gemm_grouped(group, 3, &o, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
	ck_assert_uint_eq(failed, 2);
	/* Product 0 writes what product 2 reads. */
	group[2].bias = c[0];
	assert_status(mxfp_gemm_grouped(group, 3, &o, workspace, WORKSPACE_BYTES), MXFP_ERR_OVERLAP);
	ck_assert_uint_eq(failed, 0);
	group[2].bias = NULL;
	group[2].a = NULL;
	assert_status(mxfp_gemm_grouped(group, 3, &o, workspace, WORKSPACE_BYTES), MXFP_ERR_NULL);
	ck_assert_uint_eq(failed, 2);
	suite_compared(6);
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
	const struct mxfp_exec many = {.threads = THREADS};
	const struct mxfp_gemm_options one = {.a_format = MXFP_FORMAT_MXFP8_E4M3, .exec = &one_thread};
	const struct mxfp_gemm_options all = {.a_format = MXFP_FORMAT_MXFP8_E4M3, .exec = &many};
	struct call plain = right();
	size_t least, most;

	fill();
	for (size_t i = 0; i < ROWS * K; i++)
		x[i] = (float)(i % 97);
	plain.a = (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = ROWS, .cols = K, .data = x};
	plain.product.c = c[0];
	assert_status(mxfp_gemm(product_of(&plain), &one, workspace, WORKSPACE_BYTES), MXFP_OK);
	assert_status(mxfp_gemm_workspace_size(&plain.product, 1, &one, &least), MXFP_OK);
	assert_status(mxfp_gemm_workspace_size(&plain.product, 1, &all, &most), MXFP_OK);
	ck_assert_uint_lt(least, most);
	ck_assert_uint_le(most, WORKSPACE_BYTES);
	ck_assert_uint_eq((most - least) % (THREADS - 1), 0);
	plain.product.c = c[1];
	for (size_t bytes = least; bytes <= most; bytes += (most - least) / 7) {
		memset(c[1], 0xA5, sizeof c[1]);
		memset(workspace, 0x5A, WORKSPACE_BYTES);
		assert_status(mxfp_gemm(&plain.product, &all, workspace, bytes), MXFP_OK);
		ck_assert_mem_eq(c[0], c[1], sizeof c[0]);
		ck_assert(are_all(workspace + bytes, 0x5A, WORKSPACE_BYTES - bytes));
		suite_compared(ROWS * N);
	}
	assert_status(mxfp_gemm(&plain.product, &all, workspace, least - 1), MXFP_ERR_SIZE);
}

/* NULL and {0}: A is quantized by rule mse. 7 beside 0.5: at scale 2, which rceil takes, they become 8 and 0, and at scale
   1, where the error is less, 6 and 0.5. */
TEST(defaults_are_zero)
{
	static const struct mxfp_quantize_options zero, rceil = {.rule = MXFP_RULE_RCEIL};
	const struct mxfp_quantize_options *const quantize[] = {NULL, &zero, &rceil};
	static const float x[32] = {7, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F}, ones[32] = {1, 1, 1, 1, 1, 1};
	const struct mxfp_matrix a = {.cols = 32, .rows = 1, .data = x}, w = {.cols = 32, .rows = 1, .data = ones};
	float c[3];

	for (size_t i = 0; i < 3; i++) {
		const struct mxfp_gemm_options o = {.a_format = MXFP_FORMAT_MXFP4, .a_quantize = quantize[i]};
		const struct mxfp_product p = {.a = &a, .w = &w, .c = &c[i]};

		assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
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
	const struct mxfp_matrix nvfp4 = {
		.format = MXFP_FORMAT_NVFP4, .rows = 1, .cols = 16, .data = codes, .scales = scales, .tensor_scale = 1};
	const struct mxfp_matrix mxfp4 = {
		.format = MXFP_FORMAT_MXFP4, .rows = 1, .cols = 16, .data = codes, .scales = (const uint8_t[]){127}};
	const struct mxfp_matrix numbers = {.rows = 1, .cols = 16, .data = six};
	static const enum mxfp_recipe recipes[] = {MXFP_RECIPE_TORCHAO_1, MXFP_RECIPE_GGML};
	float c = given;
	struct mxfp_gemm_options o = {.accumulate = true, .psum = MXFP_FORMAT_BF16};
	struct mxfp_product p = {.a = &nvfp4, .w = &nvfp4, .c = &c};

	assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert(c == 1 + given);
	/* Without a tensor scale in the formats the sum starts from C and is rounded. */
	p.a = p.w = &mxfp4;
	c = given;
	assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert(c == 2);
	p.a = &numbers;
	p.w = &nvfp4;
	o.a_format = MXFP_FORMAT_NVFP4;
	for (size_t i = 0; i < 2; i++) {
		const struct mxfp_quantize_options quantize = {.recipe = recipes[i]};

		o.a_quantize = &quantize;
		c = given;
		assert_status(mxfp_gemm(&p, &o, workspace, WORKSPACE_BYTES), MXFP_OK);
		ck_assert(c == 6 + given);
	}
	suite_compared(4);
}

/* A program of another version: a smaller struct whose members end where the first version's do, and a larger one. */
TEST(structs_of_other_versions)
{
	struct newer {
		struct mxfp_product product;
		size_t member;
	} newer[2] = {{.member = 0}, {.member = 0}};
	struct newer_options {
		struct mxfp_gemm_options options;
		size_t member;
	} o = {.options = {.exec = &one_thread}};
	static float c[2][M * N];
	struct call plain = right();

	fill();
	for (size_t i = 0; i < 2; i++) {
		newer[i].product = *product_of(&plain);
		newer[i].product.size = sizeof newer[i];
		newer[i].product.c = c[i];
	}
	o.options.size = sizeof o;
	assert_status(mxfp_gemm_grouped(&newer[0].product, 2, &o.options, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert_mem_eq(c[0], c[1], sizeof c[0]);
	newer[1].member = 1;
	assert_status(mxfp_gemm_grouped(&newer[0].product, 2, NULL, workspace, WORKSPACE_BYTES), MXFP_ERR_OPTION);
	newer[1].member = 0;
	newer[1].product.size = 0;
	assert_status(mxfp_gemm_grouped(&newer[0].product, 2, NULL, workspace, WORKSPACE_BYTES), MXFP_ERR_OPTION);
	o.member = 1;
	assert_status(mxfp_gemm(&plain.product, &o.options, workspace, WORKSPACE_BYTES), MXFP_ERR_OPTION);
	plain.product.size = 8;
	assert_status(mxfp_gemm(&plain.product, NULL, workspace, WORKSPACE_BYTES), MXFP_ERR_OPTION);
	plain.product.size = 0;
	plain.a.size = 8;
	assert_status(mxfp_gemm(&plain.product, NULL, workspace, WORKSPACE_BYTES), MXFP_ERR_OPTION);
	suite_compared(6);
}

/* What is no error: no products, no rows, no elements, NULL where nothing is read or written. */
TEST(nothing_to_do)
{
	static const uint32_t zeros[M * N];
	struct call plain = right();

	fill();
	assert_status(mxfp_gemm_grouped(NULL, 0, NULL, NULL, 0), MXFP_OK);
	const struct mxfp_matrix no_a = {.format = MXFP_FORMAT_MXFP4, .cols = 9}, no_w = {.cols = 9};
	const struct mxfp_product none = {.a = &no_a, .w = &no_w};
	assert_status(mxfp_gemm(&none, NULL, NULL, 0), MXFP_OK);
	plain.a.cols = plain.w.cols = 0;
	plain.a.data = plain.a.scales = plain.w.data = plain.w.scales = NULL;
	plain.product.bias = NULL;
	assert_status(mxfp_gemm(product_of(&plain), NULL, workspace, WORKSPACE_BYTES), MXFP_OK);
	ck_assert_mem_eq(memory.c, zeros, sizeof zeros);
	suite_compared(3);
}

/* Packed weights may come from a file: whatever they hold, nothing outside them is read. */
TEST(changed_packed_weights_stay_in_their_memory)
{
	enum { ROWS = 3, COLS = 20, DEPTH = 96, HEADER = 128 };
	static float w[COLS * DEPTH], x[ROWS * DEPTH], y[ROWS * COLS];
	static uint8_t codes[COLS * DEPTH / 2], scales[COLS * DEPTH / 16];
	struct mxfp_blocks blocks = {.format = MXFP_FORMAT_NVFP4, .rows = COLS, .cols = DEPTH, .codes = codes, .scales = scales};
	struct mxfp_gemm_options w4a8 = {.a_format = MXFP_FORMAT_MXFP8_E4M3, .exec = &one_thread};
	const struct mxfp_matrix a = {.format = MXFP_FORMAT_F32, .rows = ROWS, .cols = DEPTH, .data = x};
	size_t bytes, workspace_bytes;

	for (size_t i = 0; i < COLS * DEPTH; i++)
		w[i] = (float)(i % 17) - 8;
	assert_status(mxfp_quantize(&blocks, w, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	assert_status(mxfp_pack_size(&matrix, &w4a8, &bytes), MXFP_OK);
	struct guarded guard = guarded_of(bytes, 0, true);
	assert_status(mxfp_pack(guard.at, bytes, &matrix, &w4a8), MXFP_OK);
	const struct mxfp_product p = {.a = &a, .w_packed = guard.at, .w_packed_bytes = bytes, .n = COLS, .c = y};
	assert_status(mxfp_gemm_workspace_size(&p, 1, &w4a8, &workspace_bytes), MXFP_OK);
	void *space = malloc(workspace_bytes);
	for (size_t i = HEADER; i < bytes; i++) {
		guard.at[i] ^= 1;
		const enum mxfp_status status = mxfp_gemm(&p, &w4a8, space, workspace_bytes);
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
