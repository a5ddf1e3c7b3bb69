/* SPDX-License-Identifier: MIT */
/* mxfp_gemm_grouped() and mxfp_pack() with arguments that they refuse: the status, and that nothing was written. */
#include "mxfp/gemm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gemm/plan.h"
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
	struct mxfp_gemm product;
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
	struct call call = {
		.product = {
			.a = {.format = MXFP_FORMAT_MXFP8_E4M3, .rows = M, .cols = K, .data = memory.a, .scales = memory.a_scales},
			.w = {.format = MXFP_FORMAT_MXFP4, .rows = N, .cols = K, .data = memory.w, .scales = memory.w_scales},
			.c = memory.c,
			.bias = memory.bias,
		},
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

	call.product.a = (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = M, .cols = K, .data = memory.numbers};
	call.options.a_format = MXFP_FORMAT_MXFP8_E4M3;
	return call;
}

/* Runs a call that is refused. */
static void refused(const char *what, enum mxfp_status want, struct call call)
{
	static uint8_t before[sizeof memory], space_before[WORKSPACE_BYTES];

	if (call.options.a_quantize != NULL)
		call.options.a_quantize = &call.quantize;
	memcpy(before, &memory, sizeof memory);
	memcpy(space_before, workspace, sizeof space_before);
	enum mxfp_status status = mxfp_gemm(&call.product, &call.options, call.workspace, call.workspace_bytes);
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

START_TEST(null)
{
	size_t bytes;

	fill();
	REFUSED(MXFP_ERR_NULL, call.product.a.data = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.a.scales = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.w.data = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.w.scales = NULL);
	REFUSED(MXFP_ERR_NULL, call.product.c = NULL);
	REFUSED(MXFP_ERR_NULL, call.workspace = NULL);
	REFUSED_OF_NUMBERS(MXFP_ERR_NULL, call.product.a.data = NULL);
	ck_assert_int_eq((int)mxfp_gemm(NULL, NULL, workspace, WORKSPACE_BYTES), (int)MXFP_ERR_NULL);
	ck_assert_int_eq((int)mxfp_gemm_workspace_size(NULL, 1, NULL, &bytes), (int)MXFP_ERR_NULL);
	struct call plain = right();
	ck_assert_int_eq((int)mxfp_gemm_workspace_size(&plain.product, 1, NULL, NULL), (int)MXFP_ERR_NULL);
	ck_assert_int_eq((int)mxfp_pack_size(NULL, MXFP_FORMAT_F32, NULL, &bytes), (int)MXFP_ERR_NULL);
	ck_assert_int_eq((int)mxfp_pack_size(&plain.product.w, MXFP_FORMAT_F32, NULL, NULL), (int)MXFP_ERR_NULL);
	ck_assert_int_eq((int)mxfp_pack(NULL, PACKED_BYTES, &plain.product.w, MXFP_FORMAT_F32, NULL), (int)MXFP_ERR_NULL);
	ck_assert_int_eq((int)mxfp_pack(memory.packed, PACKED_BYTES, NULL, MXFP_FORMAT_F32, NULL), (int)MXFP_ERR_NULL);
	suite_compared(7);
}
END_TEST

START_TEST(formats)
{
	fill();
	REFUSED(MXFP_ERR_FORMAT, call.product.a.format = MXFP_FORMAT_E4M3);
	REFUSED(MXFP_ERR_FORMAT, call.product.a.format = MXFP_FORMAT_E8M0);
	REFUSED(MXFP_ERR_FORMAT, call.product.a.format = (enum mxfp_format)MXFP_N_FORMATS);
	REFUSED(MXFP_ERR_FORMAT, call.product.a.format = (enum mxfp_format)-1);
	REFUSED(MXFP_ERR_FORMAT, call.product.w.format = MXFP_FORMAT_UE4M3);
	REFUSED(MXFP_ERR_FORMAT, call.product.w.format = (enum mxfp_format)99);
	REFUSED(MXFP_ERR_FORMAT, call.product.a.transposed = true);
	REFUSED(MXFP_ERR_FORMAT, call.product.w.transposed = true);
	REFUSED(MXFP_ERR_FORMAT, call.options.c_format = MXFP_FORMAT_F16);
	REFUSED(MXFP_ERR_FORMAT, call.options.c_format = MXFP_FORMAT_MXFP4);
	REFUSED(MXFP_ERR_FORMAT, call.options.psum = MXFP_FORMAT_TF32);
	REFUSED(MXFP_ERR_FORMAT, call.options.a_format = (enum mxfp_format)99);
	REFUSED(MXFP_ERR_FORMAT, call.options.a_format = MXFP_FORMAT_MXFP8_E4M3);
	REFUSED_OF_NUMBERS(MXFP_ERR_FORMAT, call.product.a.format = MXFP_FORMAT_TF32);
}
END_TEST

START_TEST(options)
{
	fill();
	REFUSED(MXFP_ERR_OPTION, call.options.acc = (enum mxfp_acc)2);
	REFUSED(MXFP_ERR_OPTION, call.options.acc = (enum mxfp_acc)-1);
	REFUSED(MXFP_ERR_OPTION, call.options.pass_k = 64);
	REFUSED(MXFP_ERR_OPTION, call.options.pass_k = 1024);
	REFUSED(MXFP_ERR_OPTION, call.options.psum_round = MXFP_ROUND_RTZ);
	REFUSED(MXFP_ERR_OPTION, call.options.psum_round = (enum mxfp_round)99);
	REFUSED(MXFP_ERR_OPTION, call.product.w.sparsity = (struct mxfp_sparsity){5, 3});
	REFUSED(MXFP_ERR_OPTION, call.product.w.sparsity = (struct mxfp_sparsity){4, 0});
	REFUSED(MXFP_ERR_OPTION, call.product.a.sparsity = (struct mxfp_sparsity){4, 3});
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.rule = (enum mxfp_rule)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.round = (enum mxfp_round)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.quantize.non_finite = (enum mxfp_non_finite)99);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4, call.quantize.via_bf16 = true);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4,
	                   call.quantize.tensor_amax = &tensor_amax_nan);
	REFUSED_OF_NUMBERS(MXFP_ERR_OPTION, call.options.a_format = MXFP_FORMAT_NVFP4,
	                   call.quantize.recipe = MXFP_RECIPE_GGML, call.quantize.round = MXFP_ROUND_SR);
}
END_TEST

START_TEST(sizes)
{
	struct call plain = right();
	size_t bytes;

	fill();
	REFUSED(MXFP_ERR_SIZE, call.product.w.cols = K - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.a.cols = K + 1);
	REFUSED(MXFP_ERR_SIZE, call.product.a.stride = K_STORED - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.a.scales_stride = 2);
	REFUSED(MXFP_ERR_SIZE, call.product.w.stride = K_STORED / 2 - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.w.scales_stride = 2);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = N - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.product.c_stride = SIZE_MAX / 4);
	REFUSED(MXFP_ERR_SIZE, call.product.a.rows = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.product.a.rows = SIZE_MAX / 16);
	REFUSED(MXFP_ERR_SIZE, call.product.w.rows = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.product.a.stride = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.product.w.scales_stride = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.product.a.cols = call.product.w.cols = SIZE_MAX);
	REFUSED(MXFP_ERR_SIZE, call.product.a.cols = call.product.w.cols = SIZE_MAX - 64);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.product.a.stride = K - 1);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.product.a.transposed = true; call.product.a.stride = M - 1);
	REFUSED_OF_NUMBERS(MXFP_ERR_SIZE, call.product.a.stride = SIZE_MAX / 2);
	REFUSED(MXFP_ERR_SIZE, call.workspace_bytes = 0);
	ck_assert_int_eq((int)mxfp_gemm_workspace_size(&plain.product, 1, &plain.options, &bytes), (int)MXFP_OK);
	REFUSED(MXFP_ERR_SIZE, call.workspace_bytes = bytes - 1);
	ck_assert_int_eq((int)mxfp_pack_size(&plain.product.w, MXFP_FORMAT_MXFP8_E4M3, NULL, &bytes), (int)MXFP_OK);
	ck_assert_int_eq((int)mxfp_pack(memory.packed, bytes - 1, &plain.product.w, MXFP_FORMAT_MXFP8_E4M3, NULL),
	                 (int)MXFP_ERR_SIZE);
	plain.product.w.rows = SIZE_MAX / 8;
	ck_assert_int_eq((int)mxfp_pack_size(&plain.product.w, MXFP_FORMAT_MXFP8_E4M3, NULL, &bytes), (int)MXFP_ERR_SIZE);
	suite_compared(2);
}
END_TEST

START_TEST(overlaps)
{
	struct call plain = right();

	fill();
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.a);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.a_scales + 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = memory.w + sizeof memory.w - 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.bias = memory.c + M * N - 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.a.data = (uint8_t *)memory.c - sizeof memory.a + 1);
	REFUSED(MXFP_ERR_OVERLAP, call.product.c = workspace + 64);
	REFUSED(MXFP_ERR_OVERLAP, call.product.w.data = workspace);
	REFUSED(MXFP_ERR_OVERLAP, call.product.bias = (const float *)workspace);
	/* The last product writes what the first reads, and two products write the same. */
	struct mxfp_gemm group[3] = {plain.product, plain.product, plain.product};
	group[1].c = NULL;
	group[1].a.rows = 0;
	group[2].c = memory.a;
	ck_assert_int_eq((int)mxfp_gemm_grouped(group, 3, &plain.options, workspace, WORKSPACE_BYTES),
	                 (int)MXFP_ERR_OVERLAP);
	group[2].c = memory.c + 1;
	ck_assert_int_eq((int)mxfp_gemm_grouped(group, 3, &plain.options, workspace, WORKSPACE_BYTES),
	                 (int)MXFP_ERR_OVERLAP);
	ck_assert_int_eq((int)mxfp_pack(memory.w, PACKED_BYTES, &plain.product.w, MXFP_FORMAT_MXFP8_E4M3, NULL),
	                 (int)MXFP_ERR_OVERLAP);
	suite_compared(3);
}
END_TEST

/* Packs W for an A of a_format. */
static size_t pack(const struct mxfp_kernels *kernels, enum mxfp_format a_format,
                   const struct mxfp_gemm_options *pack_options)
{
	struct call plain = right();
	size_t bytes;

	ck_assert_int_eq((int)mxfp_pack_size_with(kernels, &plain.product.w, a_format, pack_options, &bytes), (int)MXFP_OK);
	ck_assert_uint_le(bytes, PACKED_BYTES);
	ck_assert_int_eq((int)mxfp_pack_with(kernels, memory.packed, bytes, &plain.product.w, a_format, pack_options),
	                 (int)MXFP_OK);
	return bytes;
}

START_TEST(packed)
{
	static const struct mxfp_gemm_options other[] = {{.acc = MXFP_ACC_CHAIN}, {.pass_k = 128}};
	const struct mxfp_kernels *kernels = mxfp_kernels_get();
	struct mxfp_kernels reference;
	size_t bytes;

	fill();
	mxfp_kernels_init(&reference, 1);
	bytes = pack(kernels, MXFP_FORMAT_MXFP8_E4M3, NULL);
	REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed);
	REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = HEADER_BYTES - 1);
	REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes - 1);
	REFUSED(MXFP_ERR_SIZE, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes;
	        call.product.a.cols = K - 1);
	for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
		bytes = pack(kernels, MXFP_FORMAT_MXFP8_E4M3, &other[i]);
		REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes);
	}
	bytes = pack(kernels, MXFP_FORMAT_MXFP8_E5M2, NULL);
	REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes);
	if (kernels->gemm[MXFP_GEMM_INT16] != NULL) {
		bytes = pack(&reference, MXFP_FORMAT_MXFP8_E4M3, NULL);
		REFUSED(MXFP_ERR_PACKED, call.product.w_packed = memory.packed; call.product.w_packed_bytes = bytes);
	}
}
END_TEST

/* No change of the header's bytes goes unseen, but for a tensor scale where the format has none. */
START_TEST(hostile_headers)
{
	enum { TENSOR_SCALE = 80, SPARE = 88 };

	fill();
	size_t bytes = pack(mxfp_kernels_get(), MXFP_FORMAT_MXFP8_E4M3, NULL);
	for (size_t bit = 0; bit < 8 * HEADER_BYTES; bit++) {
		struct call plain = right();

		if (bit / 8 >= TENSOR_SCALE && bit / 8 < SPARE)
			continue;
		plain.product.w_packed = memory.packed;
		plain.product.w_packed_bytes = bytes;
		memory.packed[bit / 8] ^= (uint8_t)(1U << bit % 8);
		enum mxfp_status status = mxfp_gemm(&plain.product, &plain.options, plain.workspace, plain.workspace_bytes);
		ck_assert_msg(status == MXFP_ERR_PACKED || status == MXFP_ERR_SIZE, "bit %zu: status %d", bit, (int)status);
		memory.packed[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	suite_compared(8 * HEADER_BYTES);
}
END_TEST

START_TEST(non_finite)
{
	static const float inf = INFINITY;
	uint64_t first = 77;

	fill();
	memset(memory.numbers, 0, sizeof memory.numbers);
	memcpy(memory.numbers + (K + 3) * sizeof inf, &inf, sizeof inf);
	REFUSED_OF_NUMBERS(MXFP_ERR_NON_FINITE, call.quantize.non_finite = MXFP_NON_FINITE_ERROR;
	                   call.quantize.first_index = 1000; call.quantize.first_non_finite = &first);
	ck_assert_uint_eq(first, 1000 + K + 3);
}
END_TEST

/* What is no error: no products, no rows, no elements, NULL where nothing is read or written. */
START_TEST(nothing_to_do)
{
	static const uint32_t zeros[M * N];
	struct call plain = right();

	fill();
	ck_assert_int_eq((int)mxfp_gemm_grouped(NULL, 0, NULL, NULL, 0), (int)MXFP_OK);
	struct mxfp_gemm none = {
		.a = {.format = MXFP_FORMAT_MXFP4, .cols = 9},
		.w = {.format = MXFP_FORMAT_F32, .cols = 9},
	};
	ck_assert_int_eq((int)mxfp_gemm(&none, NULL, NULL, 0), (int)MXFP_OK);
	plain.product.a.cols = plain.product.w.cols = 0;
	plain.product.a.data = plain.product.a.scales = plain.product.w.data = plain.product.w.scales = NULL;
	plain.product.bias = NULL;
	ck_assert_int_eq((int)mxfp_gemm(&plain.product, NULL, workspace, WORKSPACE_BYTES), (int)MXFP_OK);
	ck_assert_mem_eq(memory.c, zeros, sizeof zeros);
	suite_compared(3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gemm_api");
	TCase *refusals = tcase_create("gemm_refusals");

	workspace = malloc(WORKSPACE_BYTES);
	if (workspace == NULL)
		return EXIT_FAILURE;
	tcase_set_timeout(refusals, 0);
	tcase_add_test(refusals, null);
	tcase_add_test(refusals, formats);
	tcase_add_test(refusals, options);
	tcase_add_test(refusals, sizes);
	tcase_add_test(refusals, overlaps);
	tcase_add_test(refusals, packed);
	tcase_add_test(refusals, hostile_headers);
	tcase_add_test(refusals, non_finite);
	tcase_add_test(refusals, nothing_to_do);
	suite_add_tcase(suite, refusals);
	int status = suite_run(suite);
	free(workspace);
	return status;
}
