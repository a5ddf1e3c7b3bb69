/* SPDX-License-Identifier: MIT */
/* The definition of products, ref/gemm.c, against MPFR; and that and every tier against products worked by hand. */
#include "ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "oracle/operands.h"
#include "oracle/oracle_gemm.h"
#include "suite.h"

enum { N_FORMATS = 11, MAX_SIDE = 4 };

static struct oracle bf16;

static bool is_nan(uint32_t x)
{
	return (x & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000);
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* All of a product, whose operands and choices `job` has, from what c holds. */
static void compare(struct mxfp_gemm_ref_job job, const uint32_t *c)
{
	uint32_t got[MAX_SIDE * MAX_SIDE];
	float sum[MAX_SIDE * MAX_SIDE];
	size_t n = job.w->rows;

	memcpy(sum, c, sizeof sum);
	job.rows = job.a->rows;
	job.cols = job.index_stride = n;
	job.c = sum;
	mxfp_gemm_ref(&job);
	memcpy(got, sum, sizeof got);
	for (size_t i = 0; i < job.rows * n; i++) {
		uint32_t want = oracle_gemm_sum(&job, &bf16, i / n, i % n, c[i]);

		if (got[i] != want && !(is_nan(got[i]) && is_nan(want)))
			ck_abort_msg("%s x %s, %zu x %zu x %zu, acc %s, pass %zu, psum %s %s: C[%zu][%zu] from %08" PRIX32
			             " is %08" PRIX32 " instead of %08" PRIX32 "; MXFP_TEST_SEED=%" PRIu64,
			             mxfp_format_get_info(job.a->format)->name, mxfp_format_get_info(job.w->format)->name, job.rows,
			             n, job.a->cols, mxfp_option_name(MXFP_OPTION_ACC, (int)job.acc), job.pass,
			             mxfp_format_get_info(job.psum)->name, mxfp_option_name(MXFP_OPTION_ROUND, (int)job.psum_round),
			             i / n, i % n, c[i], got[i], want, suite_seed());
	}
	suite_compared(job.rows * n);
}

static int any_sum(struct random *r)
{
	static const int sums[] = {0, 0, 100, -100, 127, 118, -126, -140, -149, -160, 254, -254, -190, 180, -24, 24};

	return sums[random_below(r, sizeof sums / sizeof sums[0])];
}

/* A product of random size, operands and choices. */
static void try_pair(struct random *r, enum mxfp_format a_format, enum mxfp_format w_format, enum mxfp_acc acc)
{
	static const size_t passes[] = {512, 256, 128};
	static const size_t depths[] = {0, 1, 15, 16, 17, 31, 32, 33, 64, 95, 127, 128, 129, 160, 255, 257, 300, 513};
	bool blocks = is_block(a_format) && is_block(w_format), special = random_below(r, 3) == 0;
	size_t k = depths[random_below(r, sizeof depths / sizeof depths[0])];
	struct operand_range range[2];
	uint32_t c[MAX_SIDE * MAX_SIDE] = {0};

	operand_ranges(r, any_sum(r), range);
	range[0].special = range[1].special = special;
	struct operand a = operand_of(r, &range[0], a_format, 1 + random_below(r, MAX_SIDE - 1), k, random_below(r, 5));
	struct operand w = operand_of(r, &range[1], w_format, 1 + random_below(r, MAX_SIDE), k, random_below(r, 5));
	struct mxfp_gemm_ref_job job = {
		.a = &a.matrix,
		.w = &w.matrix,
		.acc = acc,
		.pass = passes[random_below(r, 3)] / (blocks ? 1 : 4),
		.psum = random_below(r, 3) == 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32,
		.psum_round = random_below(r, 2) == 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE,
		.seed = random_u64(r),
		.stream = random_below(r, 4) == 0 ? UINT64_MAX - random_below(r, 3) : random_u64(r), /* plus passes: wraps */
	};
	if (random_below(r, 2) == 0)
		for (size_t i = 0; i < MAX_SIDE * MAX_SIDE; i++)
			c[i] = special ? random_f32(r) : random_f32_between(r, -20, 20);
	compare(job, c);
	operand_free(&a);
	operand_free(&w);
}

/* _i: the format of A. */
TEST_LOOP(products_equal_mpfr, N_FORMATS)
{
	enum { ROUNDS = 40 };
	struct random r = {suite_seed() + (uint64_t)_i};
	enum mxfp_format a_format, w_format;

	ck_assert(operand_format((size_t)_i, &a_format));
	for (size_t i = 0; operand_format(i, &w_format); i++)
		for (int round = 0; round < (int)suite_share(ROUNDS); round++) {
			try_pair(&r, a_format, w_format, MXFP_ACC_CHAIN);
			if (is_block(a_format) && is_block(w_format))
				try_pair(&r, a_format, w_format, MXFP_ACC_EXACT);
		}
}

TEST(finish_equals_mpfr)
{
	enum { N = 2000, ROUNDS = 64 };
	struct random r = {suite_seed()};
	static uint32_t bits[5][N], got[N];
	static float number[5][N], result[N];

	for (int round = 0; round < (int)suite_share(ROUNDS); round++) {
		struct mxfp_gemm_finish_job job = {.n = N, .sum = number[0], .result = result};
		uint32_t scale[2] = {random_f32(&r), random_f32(&r)};

		for (size_t i = 0; i < sizeof bits / sizeof bits[0][0]; i++)
			bits[i / N][i % N] = random_f32(&r);
		memcpy(number, bits, sizeof number);
		memcpy(&job.multiply, &scale[0], sizeof job.multiply);
		memcpy(&job.divide, &scale[1], sizeof job.divide);
		job.multiplies = (round & 1) != 0;
		job.divides = (round & 2) != 0;
		job.given = (round & 4) != 0 ? number[1] : NULL;
		job.bias = (round & 8) != 0 ? number[2] : NULL;
		job.gate = (round & 16) != 0 ? number[3] : NULL;
		job.residual = (round & 32) != 0 ? number[4] : NULL;
		mxfp_gemm_finish_ref(&job);
		memcpy(got, result, sizeof got);
		for (size_t i = 0; i < N; i++) {
			uint32_t want = oracle_gemm_finish(&job, i);

			if (got[i] != want)
				ck_abort_msg("round %d, sum %08" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32, round, bits[0][i],
				             got[i], want);
		}
		suite_compared(N);
	}
}

/* A product of two rows, worked by hand: few elements have a code that is not 0. */
struct element {
	size_t k;
	uint32_t code;
};

enum { MAX_ELEMENTS = 32, MAX_SCALES = 64, MAX_DEPTH = 1024 };

struct row {
	enum mxfp_format format;
	struct element element[MAX_ELEMENTS];
	uint8_t scale[MAX_SCALES];            /* of the first blocks, up to a 0; the others have the first's */
	uint32_t tensor_scale;
};

struct by_hand {
	const char *what;
	struct row a, w;
	size_t depth, pass;
	enum mxfp_acc acc;
	enum mxfp_format psum;
	uint32_t c, want;
};

#define E5M2 MXFP_FORMAT_MXFP8_E5M2
#define E4M3 MXFP_FORMAT_MXFP8_E4M3
#define E2M1 MXFP_FORMAT_MXFP4
#define INT8 MXFP_FORMAT_MXINT8
#define NVFP4 MXFP_FORMAT_NVFP4
#define F32 MXFP_FORMAT_F32
#define BF16 MXFP_FORMAT_BF16

/* The first elements of a row, all with this code. */
#define TEN(k, code) \
	{(k), code}, {(k) + 1, code}, {(k) + 2, code}, {(k) + 3, code}, {(k) + 4, code}, \
	{(k) + 5, code}, {(k) + 6, code}, {(k) + 7, code}, {(k) + 8, code}, {(k) + 9, code}
#define THIRTY(code) TEN(0, code), TEN(10, code), TEN(20, code)

static const struct by_hand by_hand[] = {
	/* 1.5 * 0.5 - 2 * 6 + 448 * -1 = -459.25; scales 2^3 and 2^-2 */
	{"W4A8", {E4M3, {{0, 0x3C}, {1, 0xC0}, {31, 0x7E}}, {0x82}, 0}, {E2M1, {{0, 1}, {1, 7}, {31, 0xA}}, {0x7D}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0xC465A000},
	/* int8 80 is -2: -2 * -2 + 127/64 * 1/64 = 4 + 127/4096 */
	{"-2 of int8", {INT8, {{0, 0x80}, {1, 0x7F}}, {0x7F}, 0}, {INT8, {{0, 0x80}, {1, 1}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4080FE00},
	/* 2^30 + 2^6: a tie, 2^30 is even */
	{"tie of a block sum", {E5M2, {{0, 0x78}, {1, 0x48}}, {0x7F}, 0}, {E5M2, {{0, 0x78}, {1, 0x48}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4E800000},
	/* 2^30 + 2^6 + 2^-32: above it */
	{"a tie that is none", {E5M2, {{0, 0x78}, {1, 0x48}, {2, 1}}, {0x7F}, 0},
	 {E5M2, {{0, 0x78}, {1, 0x48}, {2, 1}}, {0x7F}, 0}, 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4E800001},
	/* 2^30 - 2^30 + 2^-32 */
	{"cancellation", {E5M2, {{0, 0x78}, {1, 0x78}, {2, 1}}, {0x7F}, 0},
	 {E5M2, {{0, 0x78}, {1, 0xF8}, {2, 1}}, {0x7F}, 0}, 32, 512, MXFP_ACC_EXACT, F32, 0, 0x2F800000},
	/* 2^-149, then 2^-150: a tie that goes to 2^-148. That 2^-150 alone would round to 0 must not matter. */
	{"one rounding of P + T", {E5M2, {{0, 0x3C}, {32, 0x3C}}, {0x01, 0x01}, 0},
	 {E5M2, {{0, 0x3C}, {32, 0x38}}, {0x68, 0x68}, 0}, 64, 512, MXFP_ACC_EXACT, F32, 0, 0x00000002},
	/* 2^-150 alone: a tie that goes to 0 */
	{"half of the least", {E5M2, {{0, 0x3C}}, {0x01}, 0}, {E5M2, {{0, 0x38}}, {0x68}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x00000000},
	/* 1.25 * 2^-150 */
	{"above half of the least", {E5M2, {{0, 0x3D}}, {0x01}, 0}, {E5M2, {{0, 0x38}}, {0x68}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x00000001},
	/* -2^-254 rounds to -0, and +0 is added */
	{"sign of zero", {E5M2, {{0, 0xBC}}, {0}, 0}, {E5M2, {{0, 0x3C}}, {0}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x00000000},
	/* 2^254 is past Inf */
	{"overflow", {E5M2, {{0, 0xBC}}, {0xFE}, 0}, {E5M2, {{0, 0x3C}}, {0xFE}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0xFF800000},
	/* 2^15 * 2^-14 * 2^127 * 2^1 */
	{"above the largest power", {E5M2, {{0, 0x78}}, {0xFE}, 0}, {E5M2, {{0, 0x04}}, {0x80}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7F800000},
	/* 2^15 * 2^-14 * 2^127 * 2^-1 */
	{"the largest power", {E5M2, {{0, 0x78}}, {0xFE}, 0}, {E5M2, {{0, 0x04}}, {0x7E}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7F000000},
	/* 2^24, 1, 1: each 1 is lost in a tie to even */
	{"one pass", {E5M2, {{0, 0x78}, {512, 0x3C}, {544, 0x3C}}, {0x7F}, 0},
	 {E5M2, {{0, 0x60}, {512, 0x3C}, {544, 0x3C}}, {0x7F}, 0}, 1024, 1024, MXFP_ACC_EXACT, F32, 0, 0x4B800000},
	/* 2^24 in the first pass, 2 in the second */
	{"two passes", {E5M2, {{0, 0x78}, {512, 0x3C}, {544, 0x3C}}, {0x7F}, 0},
	 {E5M2, {{0, 0x60}, {512, 0x3C}, {544, 0x3C}}, {0x7F}, 0}, 1024, 512, MXFP_ACC_EXACT, F32, 0, 0x4B800001},
	/* 2^9, then 1, then 1: bf16 has 8 bits, and 1 is a quarter of a unit */
	{"bf16 psum", {E5M2, {{0, 0x60}, {128, 0x3C}, {256, 0x3C}}, {0x7F}, 0},
	 {E5M2, {{0, 0x3C}, {128, 0x3C}, {256, 0x3C}}, {0x7F}, 0}, 384, 128, MXFP_ACC_EXACT, BF16, 0, 0x44000000},
	/* From a given 3: 3 + 1 * 1 */
	{"a given C", {E5M2, {{0, 0x3C}}, {0x7F}, 0}, {E5M2, {{0, 0x3C}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0x40400000, 0x40800000},
	/* 6 * 448 * 6 * 448 = 7225344 */
	{"NVFP4", {NVFP4, {{0, 7}}, {0x7E}, 0x3F800000}, {NVFP4, {{0, 7}}, {0x7E}, 0x3F800000},
	 16, 512, MXFP_ACC_EXACT, F32, 0, 0x4ADC8000},
	/* The second half of an MX block meets the second NVFP4 block: 1 * 1 * 2 + 1 * 1 * 4, times 2 */
	{"MX x NVFP4", {E4M3, {{15, 0x38}, {16, 0x38}}, {0x80}, 0},
	 {NVFP4, {{15, 2}, {16, 2}}, {0x40, 0x48}, 0x3F800000}, 32, 512, MXFP_ACC_EXACT, F32, 0, 0x41400000},
	/* Bit 7 of a ue4m3 scale means nothing */
	{"spare bit of a scale", {E4M3, {{0, 0x38}}, {0x7F}, 0}, {NVFP4, {{0, 2}}, {0xC0}, 0x3F800000},
	 16, 512, MXFP_ACC_EXACT, F32, 0, 0x40000000},
	/* The tensor scale 3 is part of the element: (2 * 3) * 1 */
	{"chain of NVFP4", {NVFP4, {{0, 4}}, {0x38}, 0x40400000}, {F32, {{0, 0x3F800000}}, {0}, 0},
	 16, 128, MXFP_ACC_CHAIN, F32, 0, 0x40C00000},
	/* -(1 + 2^-11) * 1, then (1 + 2^-12)^2 fused: 2^-24 is left */
	{"fused", {F32, {{0, 0xBF801000}, {1, 0x3F800800}}, {0}, 0}, {F32, {{0, 0x3F800000}, {1, 0x3F800800}}, {0}, 0},
	 2, 128, MXFP_ACC_CHAIN, F32, 0, 0x33800000},
	/* 1 * 2^-9 * 2^(247 - 127), and likewise by 2^(254 - 127) */
	{"chain with a great scale", {F32, {{0, 0x3F800000}}, {0}, 0}, {E4M3, {{0, 0x01}}, {0xF7}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x77000000},
	{"chain with the greatest scale", {F32, {{0, 0x3F800000}}, {0}, 0}, {E4M3, {{0, 0x01}}, {0xFE}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x7A800000},
	/* From block to block: 2^30 * 2^24, then 1 * 2^-24, which is lost; minus the first: 0 */
	{"chain across scales", {F32, {{0, 0x4E800000}, {32, 0x3F800000}, {64, 0xCE800000}}, {0}, 0},
	 {E2M1, {{0, 2}, {32, 2}, {64, 2}}, {0x97, 0x67, 0x97}, 0}, 96, 128, MXFP_ACC_CHAIN, F32, 0, 0x00000000},
	/* Twice 2^-127 + 2^-150: both ties go to even, where the sum in a larger unit would be 2^-126 + 2^-149. The first has
	   a small A, the second a small scale */
	{"chain of small numbers", {F32, {{0, 0x00800001}, {1, 0x00800001}}, {0}, 0}, {E2M1, {{0, 2}, {1, 2}}, {0x7E}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x00800000},
	{"chain of small scales", {F32, {{0, 0x2B800001}, {1, 0x2B800001}}, {0}, 0}, {E2M1, {{0, 2}, {1, 2}}, {0x28}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x00800000},
	/* 2^127 * 2^(0 - 127), and with K = 31 for kernels whose steps are longer than 1 */
	{"chain with the least scale", {F32, {{0, 0x7F000000}}, {0}, 0}, {E2M1, {{0, 2}}, {0}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x3F800000},
	{"the same with E5M2", {F32, {{0, 0x7F000000}}, {0}, 0}, {E5M2, {{0, 0x3C}}, {0}, 0},
	 31, 128, MXFP_ACC_CHAIN, F32, 0, 0x3F800000},
	{"the same with MXINT8", {F32, {{0, 0x7F000000}}, {0}, 0}, {INT8, {{0, 0x40}}, {0}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x3F800000},
	{"chain with a NaN element", {F32, {{0, 0x3F800000}}, {0}, 0}, {E4M3, {{0, 0xFF}}, {0x7F}, 0},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x7FC00000},
	{"the same with K = 31", {F32, {{0, 0x3F800000}}, {0}, 0}, {E4M3, {{0, 0x7F}}, {0x7F}, 0},
	 31, 128, MXFP_ACC_CHAIN, F32, 0, 0x7FC00000},
	/* One element, since any other, a zero, would be NaN even if the scale were Inf */
	{"chain with a NaN scale", {F32, {{0, 0x3F800000}}, {0}, 0}, {E2M1, {{0, 2}}, {0xFF}, 0},
	 1, 128, MXFP_ACC_CHAIN, F32, 0, 0x7FC00000},
	{"chain with a NaN scale of NVFP4", {F32, {{0, 0x3F800000}}, {0}, 0}, {NVFP4, {{0, 2}}, {0xFF}, 0x3F800000},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x7FC00000},
	/* 1 * 2^-9 * 3 */
	{"chain with the least scale of NVFP4", {F32, {{0, 0x3F800000}}, {0}, 0}, {NVFP4, {{0, 2}}, {1}, 0x40400000},
	 32, 128, MXFP_ACC_CHAIN, F32, 0, 0x3BC00000},
	{"a NaN scale beside zeros", {E2M1, {{0, 0}}, {0xFF}, 0}, {E2M1, {{0, 0}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
	/* 32 * 448 * 448, the greatest sum of a block: its integers are 8 times as large as sums of 32 bits hold */
	{"the greatest sum of E4M3", {E4M3, {THIRTY(0x7E), {30, 0x7E}, {31, 0x7E}}, {0x7F}, 0},
	 {E4M3, {THIRTY(0x7E), {30, 0x7E}, {31, 0x7E}}, {0x7F}, 0}, 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4AC40000},
	/* 30 * 448 * 448 + 1/2 * 1/2 = 6021120.25: a tie of halves */
	{"tie of E4M3", {E4M3, {THIRTY(0x7E), {30, 0x30}}, {0x7F}, 0}, {E4M3, {THIRTY(0x7E), {30, 0x30}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4AB7C000},
	/* with 2^-9 * 2^-9 more it is none */
	{"a tie of E4M3 that is none", {E4M3, {THIRTY(0x7E), {30, 0x30}, {31, 1}}, {0x7F}, 0},
	 {E4M3, {THIRTY(0x7E), {30, 0x30}, {31, 1}}, {0x7F}, 0}, 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4AB7C001},
	/* 6021120 + 448 * 2^-9 = 6021120.875, with the small one in either operand, and -6021120 + 0.875 */
	{"a small one of W", {E4M3, {THIRTY(0x7E), {30, 0x7E}}, {0x7F}, 0}, {E4M3, {THIRTY(0x7E), {30, 1}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4AB7C002},
	{"a small one of A", {E4M3, {THIRTY(0x7E), {30, 1}}, {0x7F}, 0}, {E4M3, {THIRTY(0x7E), {30, 0x7E}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x4AB7C002},
	{"a small one, below zero", {E4M3, {THIRTY(0xFE), {30, 1}}, {0x7F}, 0}, {E4M3, {THIRTY(0x7E), {30, 0x7E}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0xCAB7BFFE},
	/* 1 * 2^-15 * 1 * NaN */
	{"a NaN scale of W beside a small one", {E4M3, {{0, 0x38}}, {0x70}, 0}, {E2M1, {{0, 2}}, {0xFF}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
	{"the same in bytes", {E2M1, {{0, 2}}, {0x70}, 0}, {E2M1, {{0, 2}}, {0xFF}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
	{"Inf", {E5M2, {{0, 0x7C}, {1, 0x7B}}, {0x7F}, 0}, {E2M1, {{0, 0xA}, {1, 7}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0xFF800000},
	{"Inf - Inf", {E5M2, {{0, 0x7C}, {1, 0x7C}}, {0x7F}, 0}, {E2M1, {{0, 0xA}, {1, 2}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
	{"Inf * 0", {E5M2, {{0, 0x7C}}, {0x7F}, 0}, {E2M1, {{1, 2}}, {0x7F}, 0},
	 32, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
	{"Inf under a scale of 0", {E5M2, {{0, 0x7C}}, {0x7F}, 0}, {NVFP4, {{0, 2}}, {0x80}, 0x3F800000},
	 16, 512, MXFP_ACC_EXACT, F32, 0, 0x7FC00000},
};

/* The row as a matrix of one row. */
static struct mxfp_matrix matrix_of_row(const struct row *row, size_t depth, uint8_t *data, uint8_t *scales)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(row->format), *element = mxfp_format_get_info(f->element);
	struct mxfp_matrix m = {.size = sizeof m, .format = row->format, .rows = 1, .cols = depth, .data = data, .scales = scales};

	memcpy(&m.tensor_scale, &row->tensor_scale, sizeof m.tensor_scale);
	for (size_t i = 0; i < MAX_ELEMENTS; i++) {
		size_t bit = row->element[i].k * element->bits;

		if (row->element[i].code == 0)
			continue;
		if (f->kind != MXFP_KIND_BLOCK)
			memcpy(data + bit / 8, &row->element[i].code, sizeof row->element[i].code);
		else
			data[bit / 8] |= (uint8_t)(row->element[i].code << bit % 8);
	}
	for (size_t b = 0, seen = 0; b < MAX_DEPTH / 16; b++) {
		seen |= b < MAX_SCALES && row->scale[b] == 0 ? 1 : 0;
		scales[b] = row->scale[seen != 0 ? 0 : b];
	}
	return m;
}

/* The same on every tier, through the API. */
static void compare_tiers(const struct by_hand *h, const struct mxfp_matrix *a, const struct mxfp_matrix *w)
{
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = mxfp_isa_name(tier)};
		const struct mxfp_gemm_options options = {
			.size = sizeof options,
			.acc = h->acc,
			.pass_k = (unsigned)h->pass,
			.psum = h->psum,
			.accumulate = true,
			.a_format = is_block(a->format) ? a->format : MXFP_FORMAT_F32,
		};
		float c;
		const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, &c);
		const struct mxfp_product product = {.size = sizeof product, .a = a, .w = w, .c = &result};
		uint32_t got;
		size_t bytes;

		if ((mxfp_isa_available() >> tier & 1) == 0)
			continue;
		memcpy(&c, &h->c, sizeof c);
		ck_assert_int_eq(mxfp_gemm_workspace_size(&bytes, &product, 1, &options, &exec), MXFP_OK);
		void *workspace = malloc(bytes);
		ck_assert_ptr_nonnull(workspace);
		ck_assert_int_eq(mxfp_gemm_grouped(NULL, &product, 1, &options, workspace, bytes, &exec), MXFP_OK);
		free(workspace);
		memcpy(&got, &c, sizeof got);
		ck_assert_msg(got == h->want, "%s, %s: %08" PRIX32 " instead of %08" PRIX32, exec.isa, h->what, got, h->want);
		suite_compared(1);
	}
}

TEST_LOOP(products_by_hand, sizeof by_hand / sizeof by_hand[0])
{
	const struct by_hand *h = &by_hand[_i];
	static uint8_t data[2][4 * MAX_DEPTH], scales[2][MAX_DEPTH / 16];
	float sum;
	uint32_t got;

	memcpy(&sum, &h->c, sizeof sum);
	memset(data, 0, sizeof data);
	struct mxfp_matrix a = matrix_of_row(&h->a, h->depth, data[0], scales[0]);
	struct mxfp_matrix w = matrix_of_row(&h->w, h->depth, data[1], scales[1]);
	struct mxfp_gemm_ref_job job = {
		.a = &a, .w = &w, .rows = 1, .cols = 1, .acc = h->acc, .pass = h->pass, .psum = h->psum, .c = &sum};
	struct mxfp_gemm_finish_job finish = {.n = 1, .sum = &sum, .result = &sum};

	mxfp_gemm_ref(&job);
	mxfp_gemm_finish_ref(&finish);
	memcpy(&got, &sum, sizeof got);
	ck_assert_msg(got == h->want, "%s: %08" PRIX32 " instead of %08" PRIX32, h->what, got, h->want);
	suite_compared(1);
	if (h->pass <= 512) /* the API has no longer ones */
		compare_tiers(h, &a, &w);
}

int main(void)
{
	oracle_init(&bf16, MXFP_FORMAT_BF16);
	int status = suite_run(NULL);
	oracle_clear(&bf16);
	return status;
}
