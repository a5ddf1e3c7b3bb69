/* SPDX-License-Identifier: MIT */
/*
 * Accumulators of machines, against what machines answered and what others published: the outputs of an H200 in the folder that
 * MXFP_SILICON names (tiles.json and tiles.bin; skipped without), and examples worked out by hand from the cited texts.
 */
#include "f32.h"
#include "mma.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp.h"
#include "oracle/inputs.h"
#include "suite.h"

enum { ROWS = 64, COLS = 8, ROW_BYTES = 32, OUTPUTS = ROWS * COLS, C_BYTES = 4 * OUTPUTS };
enum { A_BYTES = ROWS * ROW_BYTES, W_BYTES = COLS * ROW_BYTES };

static bool is_nan(uint32_t x)
{
	return (x & ~MXFP_F32_SIGN) > MXFP_F32_INF;
}

/* The files of the folder, or NULL, which is said. */
static uint8_t *read_silicon(json_t **facts)
{
	const char *folder = getenv("MXFP_SILICON");
	char path[4096];
	json_error_t error;

	if (folder == NULL) {
		puts("skipped: MXFP_SILICON names no folder with tiles.json and tiles.bin");
		return NULL;
	}
	ck_assert_int_lt(snprintf(path, sizeof path, "%s/tiles.json", folder), (int)sizeof path);
	*facts = json_load_file(path, 0, &error);
	ck_assert_msg(*facts != NULL, "%s: %s", path, error.text);
	snprintf(path, sizeof path, "%s/tiles.bin", folder);
	FILE *file = fopen(path, "rb");
	ck_assert_msg(file != NULL, "%s", path);
	ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
	const size_t bytes = (size_t)ftell(file);
	rewind(file);
	uint8_t *data = malloc(bytes);
	ck_assert_ptr_nonnull(data);
	ck_assert_uint_eq(fread(data, 1, bytes, file), bytes);
	fclose(file);
	return data;
}

/* What the products of an instruction's name are, "wgmma.m64n8k32.e4m3.e5m2", on a chip that sums as `acc`, or is an H200. */
struct instruction {
	enum mxfp_acc acc;
	enum mxfp_format a, w;
};

static struct instruction instruction_of(const char *name, const char *acc)
{
	struct instruction i;
	char text[64], *dot[3] = {NULL};

	ck_assert_uint_lt(strlen(name), sizeof text);
	strcpy(text, name);
	dot[0] = strchr(text, '.');
	dot[1] = strchr(dot[0] + 1, '.');
	dot[2] = strchr(dot[1] + 1, '.');
	if (dot[2] != NULL)
		*dot[2] = '\0';
	assert_status(mxfp_format_from_name(&i.a, dot[1] + 1), MXFP_OK);
	i.w = i.a;
	if (dot[2] != NULL)
		assert_status(mxfp_format_from_name(&i.w, dot[2] + 1), MXFP_OK);
	int value = strncmp(name, "mma.m16n8k32", 12) == 0 ? MXFP_ACC_HOPPER_MMA : MXFP_ACC_HOPPER;
	if (acc != NULL)
		assert_status(mxfp_option_from_name(&value, MXFP_OPTION_ACC, acc), MXFP_OK);
	i.acc = (enum mxfp_acc)value;
	return i;
}

/* The tile by the reference: NaN has the machine's bits too. */
static void sum_tile(uint32_t got[ROWS][COLS], const struct instruction *i, const struct mxfp_matrix *a,
                     const struct mxfp_matrix *w)
{
	const struct mxfp_mma *mma = mxfp_mma_find(i->acc, i->a, i->w);
	const int fraction = mxfp_mma_fraction(i->a) + mxfp_mma_fraction(i->w);
	struct mxfp_mma_operand of_a[MXFP_MMA_MOST], of_w[MXFP_MMA_MOST];

	ck_assert_ptr_nonnull(mma);
	for (size_t k = 0; k < a->cols; k += mma->k)
		for (size_t row = 0; row < ROWS; row++) {
			mxfp_mma_load(of_a, mma, a, row, k, mma->k);
			for (size_t col = 0; col < COLS; col++) {
				mxfp_mma_load(of_w, mma, w, col, k, mma->k);
				got[row][col] = mxfp_mma_sum(mma, of_a, of_w, fraction, got[row][col]);
			}
		}
}

/* The same by mxfp_gemm(), whose NaN is 7FC00000. */
static void multiply_tile(uint32_t got[ROWS][COLS], const struct instruction *i, const struct mxfp_matrix *a,
                          const struct mxfp_matrix *w)
{
	static uint8_t workspace[1 << 16];
	const struct mxfp_result c = {.size = sizeof c, .data = got, .format = MXFP_FORMAT_F32};
	const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = a, .w = w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = i->acc, .accumulate = true};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};

	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, &exec), MXFP_OK);
}

static void compare_tile(const char *what, const struct instruction *i, const uint8_t *at_a, const uint8_t *at_w, const uint8_t *at_c,
                         const uint8_t *at_d)
{
	const size_t k = ROW_BYTES / mxfp_format_get_info(i->a)->storage_bytes;
	const struct mxfp_matrix a = {.size = sizeof a, .format = i->a, .rows = ROWS, .cols = k, .data = at_a};
	const struct mxfp_matrix w = {.size = sizeof w, .format = i->w, .rows = COLS, .cols = k, .data = at_w};
	const struct mxfp_matrix checked_a = {.format = i->a, .rows = ROWS, .cols = k, .data = at_a, .stride = k};
	const struct mxfp_matrix checked_w = {.format = i->w, .rows = COLS, .cols = k, .data = at_w, .stride = k};
	uint32_t c[ROWS][COLS], d[ROWS][COLS], sum[ROWS][COLS], product[ROWS][COLS];

	memcpy(c, at_c, sizeof c);
	memcpy(d, at_d, sizeof d);
	memcpy(sum, c, sizeof c);
	memcpy(product, c, sizeof c);
	sum_tile(sum, i, &checked_a, &checked_w);
	multiply_tile(product, i, &a, &w);
	for (size_t row = 0; row < ROWS; row++)
		for (size_t col = 0; col < COLS; col++) {
			ck_assert_msg(sum[row][col] == d[row][col], "%s: row %zu, column %zu: %08x, but silicon %08x", what, row, col,
			              sum[row][col], d[row][col]);
			ck_assert_msg(product[row][col] == (is_nan(d[row][col]) ? MXFP_F32_NAN : d[row][col]),
			              "%s: row %zu, column %zu: mxfp_gemm() %08x, but silicon %08x", what, row, col, product[row][col],
			              d[row][col]);
		}
	suite_compared(OUTPUTS);
}

/* Every output: 11 instructions, 5 kinds of data. */
TEST(silicon)
{
	json_t *facts, *record;
	uint8_t *data = read_silicon(&facts);
	size_t index;

	if (data == NULL)
		return;
	json_array_foreach(json_object_get(facts, "records"), index, record) {
		const char *name = json_string_value(json_object_get(record, "instruction"));
		const struct instruction i = instruction_of(name, json_string_value(json_object_get(record, "acc")));
		const size_t tiles = (size_t)json_integer_value(json_object_get(record, "tiles"));
		const uint8_t *a = data + json_integer_value(json_object_get(record, "offset"));
		const uint8_t *w = a + tiles * A_BYTES, *c = w + tiles * W_BYTES, *d = c + tiles * C_BYTES;

		for (size_t tile = 0; tile < tiles; tile++)
			compare_tile(name, &i, a + tile * A_BYTES, w + tile * W_BYTES, c + tile * C_BYTES, d + tile * C_BYTES);
	}
	json_decref(facts);
	free(data);
}

/* Products of one number of C, which starts as `c`: `n` neighbours with these codes each; the rest of A is zeros. */
struct run {
	unsigned n;
	uint32_t a, w;
};

struct by_hand {
	const char *what;
	enum mxfp_acc acc;
	enum mxfp_format format;
	struct run run[3];
	uint8_t scale[4];  /* of A's first and second half, then of W's, where 0 is 1 */
	uint32_t c, want;
};

#define F16 MXFP_FORMAT_F16
#define BF16 MXFP_FORMAT_BF16
#define E4M3 MXFP_FORMAT_E4M3
#define E5M2 MXFP_FORMAT_E5M2
#define E5M2FNUZ MXFP_FORMAT_E5M2FNUZ

static const struct by_hand sums[] = {
	/* PeerJ Computer Science 7:e330: what is past the last bit is cut, of a V100 at once, of T4 and A100 one bit later, which
	   IEEE_HPEC2025_block_FMA_tests calls extra alignment bits: none, one, and two of an H100. 0C00 is 2^-12, 0800 2^-13. */
	{"1 + 4 * 2^-24", MXFP_ACC_VOLTA, F16, {{4, 0x0C00, 0x0C00}}, {0}, 0x3F800000, 0x3F800000},
	{"1 + 4 * 2^-24", MXFP_ACC_TURING, F16, {{4, 0x0C00, 0x0C00}}, {0}, 0x3F800000, 0x3F800002},
	{"1 + 4 * 2^-24", MXFP_ACC_AMPERE, F16, {{4, 0x0C00, 0x0C00}}, {0}, 0x3F800000, 0x3F800002},
	{"1 + 8 * 2^-25", MXFP_ACC_AMPERE, F16, {{8, 0x0C00, 0x0800}}, {0}, 0x3F800000, 0x3F800000},
	{"1 + 8 * 2^-25", MXFP_ACC_HOPPER, F16, {{8, 0x0C00, 0x0800}}, {0}, 0x3F800000, 0x3F800002},
	{"1 + 8 * 2^-26", MXFP_ACC_HOPPER, F16, {{8, 0x0800, 0x0800}}, {0}, 0x3F800000, 0x3F800000},
	/* The same: sums are rounded toward zero. */
	{"-1 - 2^-24", MXFP_ACC_AMPERE, F16, {{1, 0x8C00, 0x0C00}}, {0}, 0xBF800000, 0xBF800000},
	{"1 - 2^-24", MXFP_ACC_AMPERE, F16, {{1, 0x8C00, 0x0C00}}, {0}, 0x3F800000, 0x3F7FFFFF},
	{"1 - 2^-25", MXFP_ACC_AMPERE, F16, {{1, 0x8C00, 0x0800}}, {0}, 0x3F800000, 0x3F800000},
	/* arXiv 2412.19437, 3.3.2: FP8 on an H800 is summed with about 14 bits. 04 is 2^-7 in e4m3, 08 2^-6. */
	{"1 + 32 * 2^-14", MXFP_ACC_HOPPER, E4M3, {{32, 0x04, 0x04}}, {0}, 0x3F800000, 0x3F800000},
	{"1 + 32 * 2^-13", MXFP_ACC_HOPPER, E4M3, {{32, 0x04, 0x08}}, {0}, 0x3F800000, 0x3F808000},
	{"1 + 32 * 2^-14", MXFP_ACC_HOPPER_MMA, E4M3, {{32, 0x04, 0x04}}, {0}, 0x3F800000, 0x3F804000},
	{"1 + 32 * 2^-14", MXFP_ACC_BLACKWELL, E4M3, {{32, 0x04, 0x04}}, {0}, 0x3F800000, 0x3F804000},
	/* MMA-Sim: mxf4 is aligned by scales, at 35 fraction bits. 2 and A are 1 and -1 in e2m1, 1 is 1/2: in the second half
	   2^-34 * 1/4 and 3/4. */
	{"1 - 1 + 2^-36", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 2}, {1, 0xA, 2}, {1, 1, 1}}, {127, 93}, 0, 0},
	{"1 - 1 + 3 * 2^-36", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 2}, {1, 0xA, 2}, {3, 1, 1}}, {127, 93}, 0, 0x2E000000},
	/* MMA-Sim: 16 zeros count for no exponent, products that cancel do; without others the exponent is -139, so that 2^-172 counts. */
	{"0 * 2^40, C is 1 + 2^-23", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 0}, {1, 0, 2}}, {167, 167}, 0x3F800001, 0x3F800001},
	{"(1 - 1) * 2^40, C is 1 + 2^-23", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 2}, {1, 0xA, 2}}, {167, 167}, 0x3F800001, 0},
	{"2^-149 - 2^-172", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 2}, {0, 0, 0}, {1, 9, 1}}, {0, 0, 105, 84}, 0, 0},
	{"2^-149 - 2^-176", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{1, 2, 2}, {0, 0, 0}, {1, 9, 1}}, {0, 0, 105, 80}, 0, 1},
	/* Codes of NaN and Inf under the least scale; a scale of NaN, of zeros alone. */
	{"NaN * 2^-127", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP8_E4M3, {{1, 0x7F, 0x38}}, {0}, 0x3F800000, 0x7FC00000},
	{"NaN * 2^-127 * 0", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP8_E4M3, {{1, 0xFF, 0}}, {0}, 0x3F800000, 0x7FC00000},
	{"-Inf * 2^-127", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP8_E5M2, {{1, 0xFC, 0x3C}}, {0}, 0x3F800000, 0xFF800000},
	{"Inf * 2^-127 * 0", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP8_E5M2, {{1, 0x7C, 0}}, {0}, 0x3F800000, 0x7FC00000},
	{"0 * NaN", MXFP_ACC_BLACKWELL, MXFP_FORMAT_MXFP4, {{0, 0, 0}}, {127, 255}, 0x3F800000, 0x7FC00000},
	/* MMA-Sim: CDNA3 rounds C down at 24 fraction bits, the products' sum at 32, both together at 31, before it rounds to nearest;
	   CDNA2 flushes products. */
	{"1 - 2^-25", MXFP_ACC_CDNA3, BF16, {{1, 0x3F80, 0x3F80}}, {0}, 0xB3000000, 0x3F7FFFFF},
	{"f16", MXFP_ACC_CDNA3, F16, {{1, 0x3DCE, 0x3E91}, {1, 0x1413, 0x1821}}, {0}, 0x437F3EFA, 0x4380D06A},
	{"1 - 3 * 2^-25 + 2^-32", MXFP_ACC_CDNA3, BF16, {{1, 0xBFC0, 0x3380}, {1, 0x3F80, 0x2F80}}, {0}, 0x3F800000, 0x3F7FFFFF},
	{"2 + 2^-23 + 2^-31", MXFP_ACC_CDNA3, BF16, {{1, 0x3F80, 0x3480}, {1, 0x3F80, 0x3000}}, {0}, 0x3FFFFFFF, 0x40000000},
	{"-2 - 2^-23 + 2^-31", MXFP_ACC_CDNA3, BF16, {{1, 0xBF80, 0x3480}, {1, 0x3F80, 0x3000}}, {0}, 0xBFFFFFFF, 0xC0000000},
	{"-2^-160", MXFP_ACC_CDNA3, BF16, {{1, 0x9780, 0x1780}}, {0}, 0, 0x80000000},
	{"-2^-160 + 2^-160", MXFP_ACC_CDNA3, BF16, {{1, 0x9780, 0x1780}, {1, 0x1780, 0x1780}}, {0}, 0x80000000, 0},
	{"products of -0, C is -0", MXFP_ACC_CDNA3, BF16, {{8, 0x8000, 0x3F80}}, {0}, 0x80000000, 0},
	{"-2 - 3 * 2^-23 + 2^-31", MXFP_ACC_CDNA3, BF16, {{1, 0xBF80, 0x3500}, {1, 0x3F80, 0x3000}}, {0}, 0xBFFFFFFF, 0xC0000002},
	{"1 - 3 * 2^-25 + 2^-32", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x12, 0x90}, {1, 0x02, 0x02}}, {0}, 0x3F800000, 0x3F7FFFFF},
	{"2^-130", MXFP_ACC_CDNA3, BF16, {{1, 0x1F00, 0x1F00}}, {0}, 0, 0x00080000},
	{"2^-130", MXFP_ACC_CDNA2, BF16, {{1, 0x1F00, 0x1F00}}, {0}, 0, 0},
	{"products of -2^-130, C is -0", MXFP_ACC_CDNA2, BF16, {{4, 0x9F00, 0x1F00}}, {0}, 0x80000000, 0},
	{"2^-126 - 2^-126 - 2^-133", MXFP_ACC_CDNA2, BF16, {{1, 0xBF81, 0x0080}}, {0}, 0x00800000, 0x80000000},
	{"2^-126 - 2^-126 - 2^-133, then -0", MXFP_ACC_CDNA2, BF16, {{1, 0xBF81, 0x0080}, {3, 0, 0}, {4, 0, 0xBF80}}, {0}, 0x00800000, 0},
	{"2^127 * 4 - Inf", MXFP_ACC_CDNA2, BF16, {{2, 0x7F00, 0x3F80}, {1, 0xFF80, 0x3F80}}, {0}, 0, 0x7FC00000},
	{"2^127 * 2 - 2^127 * 2", MXFP_ACC_CDNA2, BF16, {{2, 0x7F00, 0x3F80}, {2, 0xFF00, 0x3F80}}, {0}, 0, 0x7FC00000},
	{"2^127 - 2^127 twice", MXFP_ACC_CDNA2, BF16, {{1, 0x7F00, 0x3F80}, {1, 0xFF00, 0x3F80}, {1, 0x7F00, 0x3F80}}, {0}, 0, 0x7F000000},
	/* MMA-Sim, of whose own code these are too: CDNA3 cuts even and odd products of FP8 apart, at 24 fraction bits, then rounds both
	   sums down beside the larger, and so C, unless it is below the last bit by more than 1. In e5m2fnuz 40 is 1, 10 2^-12, 0C 2^-13. */
	{"1 - 2^-26", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x40, 0x40}, {1, 0x8C, 0x0C}}, {0}, 0, 0x3F7FFFFF},
	{"1 + 0 - 2^-26", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x40, 0x40}, {1, 0, 0}, {1, 0x8C, 0x0C}}, {0}, 0, 0x3F800000},
	{"1 + 7 * 2^-25", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x40, 0x40}, {7, 0x10, 0x0C}}, {0}, 0, 0x3F800001},
	{"1, C is -2^-25", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x40, 0x40}}, {0}, 0xB3000000, 0x3F7FFFFF},
	{"1, C is -2^-26", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x40, 0x40}}, {0}, 0xB2800000, 0x3F800000},
	{"C is -2^-149", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0, 0x40}}, {0}, 0x80000001, 0x80000001},
	{"80 is NaN", MXFP_ACC_CDNA3, E5M2FNUZ, {{1, 0x80, 0x40}}, {0}, 0, 0x7FC00000},
	/* Arm: one rounding, ties to even; with the products in pairs or cut it would be 64. 04 is 2^-14 in e5m2, 01 2^-16. */
	{"64 + 2^-18", MXFP_ACC_FMMLA, E5M2, {{1, 0x2C, 0x04}}, {0}, 0x42800000, 0x42800000},
	{"64 + 2^-18 + 2^-32", MXFP_ACC_FMMLA, E5M2, {{1, 0x2C, 0x04}, {1, 1, 1}}, {0}, 0x42800000, 0x42800001},
	{"2^56 + 2^32 + 2^-32", MXFP_ACC_FMMLA, E5M2, {{4, 0x78, 0x78}, {1, 1, 1}}, {0}, 0x5B800000, 0x5B800001},
	{"2^-149 with products of 0", MXFP_ACC_FMMLA, E5M2, {{1, 0x2C, 0}}, {0}, 1, 1},
	{"products of -0, C is -0", MXFP_ACC_FMMLA, E5M2, {{8, 0x80, 0x3C}}, {0}, 0x80000000, 0},
	{"1 - 1, C is -0", MXFP_ACC_FMMLA, E5M2, {{1, 0x3C, 0x3C}, {1, 0xBC, 0x3C}}, {0}, 0x80000000, 0},
	{"-57344^2 * 8 + FLT_MAX", MXFP_ACC_FMMLA, E5M2, {{8, 0xFB, 0x7B}}, {0}, 0x7F7FFFFF, 0x7F7FFFFF},
	/* SDM: VDPBF16PS adds the odd product, then the even one; TDPBF16PS the sum of both chains. 4B80 is 2^24. */
	{"2^24 + 1 + 1", MXFP_ACC_VDPBF16PS, BF16, {{2, 0x3F80, 0x3F80}}, {0}, 0x4B800000, 0x4B800000},
	{"FLT_MAX + 2^127 - 2^127", MXFP_ACC_VDPBF16PS, BF16, {{1, 0xFF00, 0x3F80}, {1, 0x7F00, 0x3F80}}, {0}, 0x7F7FFFFF, 0x7F800000},
	{"FLT_MAX - 2^127 + 2^127", MXFP_ACC_VDPBF16PS, BF16, {{1, 0x7F00, 0x3F80}, {1, 0xFF00, 0x3F80}}, {0}, 0x7F7FFFFF, 0x7F7FFFFF},
	{"FLT_MAX + 2^127 - Inf", MXFP_ACC_VDPBF16PS, BF16, {{1, 0xFF80, 0x3F80}, {1, 0x7F00, 0x3F80}}, {0}, 0x7F7FFFFF, 0x7FC00000},
	{"products of -0, C is -0", MXFP_ACC_VDPBF16PS, BF16, {{2, 0x8000, 0x3F80}}, {0}, 0x80000000, 0x80000000},
	{"products of 0, C is -0", MXFP_ACC_VDPBF16PS, BF16, {{2, 0, 0x3F80}}, {0}, 0x80000000, 0},
	{"1 + 2^24 and 1", MXFP_ACC_VDPBF16PS, BF16, {{1, 0x4B80, 0x3F80}, {1, 0x3F80, 0x3F80}}, {0}, 0x3F800000, 0x4B800001},
	{"2^24 + 1 + 1", MXFP_ACC_TDPBF16PS, BF16, {{2, 0x3F80, 0x3F80}}, {0}, 0x4B800000, 0x4B800001},
	/* ACE: four products, then C, each sum rounded once to nearest; subnormal C and results are zeros. 28 is 1/4 in e4m3, 30 1/2, 38 1,
	   7E 448, 01 2^-9; 3C is 1 in e5m2, 1C 2^-8, 01 2^-16, 81 minus that, 7B 57344. Codes of NaN and Inf are 480 and 65536. */
	{"2^24 + 4 * 1/2", MXFP_ACC_ACE, E4M3, {{4, 0x30, 0x38}}, {0}, 0x4B800000, 0x4B800001},
	{"2^24 + 8 * 1/4", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E4M3, {{8, 0x28, 0x38}}, {127}, 0x4B800000, 0x4B800000},
	{"448^2 + 2^-18 - 448^2", MXFP_ACC_ACE, E4M3, {{1, 0x7E, 0x7E}, {1, 1, 1}}, {0}, 0xC8440000, 0},
	{"2^-149 with products of 0", MXFP_ACC_ACE, E5M2, {{1, 0x2C, 0}}, {0}, 1, 0},
	{"-2^-149 with products of -0", MXFP_ACC_ACE, E5M2, {{4, 0x80, 0x3C}}, {0}, 0x80000001, 0},
	{"-0 with products of -0", MXFP_ACC_ACE, E5M2, {{4, 0x80, 0x3C}}, {0}, 0x80000000, 0},
	{"-0 with -2^-134, eight times", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E4M3, {{32, 0x81, 0x38}}, {0}, 0x80000000, 0x80000000},
	{"480 * 2^-3", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E4M3, {{1, 0x7F, 0x38}}, {124}, 0, 0x42700000},
	{"7F is 480", MXFP_ACC_ACE, E4M3, {{1, 0xFF, 0x38}}, {0}, 0, 0xC3F00000},
	{"7C is 65536", MXFP_ACC_ACE, E5M2, {{1, 0x7C, 0x3C}}, {0}, 0, 0x47800000},
	{"1 * 2^-127", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E4M3, {{1, 0xB8, 0x38}}, {0}, 0, 0},
	{"(1 - 2^-32) * 2^-126", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E5M2, {{1, 0x3C, 0x3C}, {1, 0x81, 0x01}}, {1}, 0, 0x00800000},
	{"(1 - 2^-24) * 2^-126", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E5M2, {{1, 0x3C, 0x3C}, {1, 0x9C, 0x01}}, {1}, 0, 0},
	{"57344^2 * 2^127 - Inf", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E5M2, {{1, 0x7B, 0x7B}}, {254}, 0xFF800000, 0x7FC00000},
	{"a scale of NaN", MXFP_ACC_ACE, MXFP_FORMAT_MXFP8_E4M3, {{0, 0, 0}}, {255}, 0, 0x7FC00000},
	{"4 * 2^-12", MXFP_ACC_ACE, MXFP_FORMAT_MXINT8, {{4, 1, 1}}, {127}, 0, 0x3A800000},
	{"-2 * 127/64", MXFP_ACC_ACE, MXFP_FORMAT_MXINT8, {{1, 0x80, 0x7F}}, {127}, 0, 0xC07E0000},
	/* A Xeon: 2^-126 - 2^-150 is flushed, 2^-126 - 2^-151 is rounded first. */
	{"2^-126 - 2^-150", MXFP_ACC_VDPBF16PS, BF16, {{1, 0x9A00, 0x1A00}}, {0}, 0x00800000, 0},
	{"2^-126 - 2^-151", MXFP_ACC_VDPBF16PS, BF16, {{1, 0x9A00, 0x1980}}, {0}, 0x00800000, 0x00800000},
};

enum { N_BY_HAND = sizeof sums / sizeof sums[0], DEPTH = 64 };

/* Sets element i of a row of codes. */
static void set_code(uint8_t *row, enum mxfp_format format, unsigned i, uint32_t code)
{
	const uint16_t half = (uint16_t)code;

	if (format == MXFP_FORMAT_MXFP4)
		row[i / 2] |= (uint8_t)(code << i % 2 * 4);
	else if (mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK || mxfp_format_get_info(format)->storage_bytes == 1)
		row[i] = (uint8_t)code;
	else
		memcpy(row + i * sizeof half, &half, sizeof half);
}

TEST_LOOP(sums_by_hand, N_BY_HAND)
{
	const struct by_hand *h = &sums[_i];
	const bool blocks = mxfp_format_get_info(h->format)->kind == MXFP_KIND_BLOCK;
	uint8_t codes[2][2 * DEPTH] = {{0}};
	const uint8_t w_scale[2] = {h->scale[2] != 0 ? h->scale[2] : 127, h->scale[3] != 0 ? h->scale[3] : 127};
	const struct mxfp_mma *mma = mxfp_mma_find(h->acc, h->format, h->format);
	size_t k = blocks && mma->k < 32 ? 32 : mma->k;
	unsigned at = 0;
	uint32_t c = h->c;

	for (unsigned r = 0; r < 3; at = blocks && r == 1 ? 32 : at, r++)
		for (unsigned i = 0; i < h->run[r].n; i++, at++) {
			set_code(codes[0], h->format, at, h->run[r].a);
			set_code(codes[1], h->format, at, h->run[r].w);
		}
	k = at > k ? at : k;
	const struct mxfp_matrix a = {.size = sizeof a, .format = h->format, .rows = 1, .cols = k, .data = codes[0],
	                              .scales = blocks ? h->scale : NULL};
	const struct mxfp_matrix w = {.size = sizeof w, .format = h->format, .rows = 1, .cols = k, .data = codes[1],
	                              .scales = blocks ? w_scale : NULL};
	const struct mxfp_result result = {.size = sizeof result, .data = &c, .format = MXFP_FORMAT_F32};
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = h->acc, .accumulate = true};
	static uint8_t workspace[1 << 16];
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};

	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, &exec), MXFP_OK);
	ck_assert_msg(c == h->want, "%s, %s: %08x instead of %08x", mxfp_option_name(MXFP_OPTION_ACC, (int)h->acc), h->what, c,
	              h->want);
	suite_compared(1);
}

/* A psum of bf16 is rounded after a pass, and without pass_k all of K is one: 1 + 2^-8 + 2^-9 would be 1 if it were rounded between. */
TEST(psum_of_one_pass)
{
	enum { K = 384, PART = 128 };
	uint16_t codes[2][K] = {{0x3F80}, {0x3F80}};
	float c = 0;
	const struct mxfp_matrix a = mxfp_numbers(BF16, 1, K, codes[0]), w = mxfp_numbers(BF16, 1, K, codes[1]);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, &c);
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w};
	struct mxfp_gemm_options options = {.size = sizeof options, .acc = MXFP_ACC_HOPPER, .psum = BF16};
	static uint8_t workspace[1 << 16];

	codes[0][PART] = codes[0][2 * PART] = 0x3F80;
	codes[1][PART] = 0x3B80;
	codes[1][2 * PART] = 0x3B00;
	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, NULL), MXFP_OK);
	ck_assert(c == 1 + 1.0F / 128);
	options.pass_k = PART;
	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, NULL), MXFP_OK);
	ck_assert(c == 1);
	suite_compared(2);
}

/* NVFP4, of whose zeros the scales 448 and 448 have no exponent: beside 2^16 2^-20 is cut. MMA-Sim. */
TEST(zeros_of_nvfp4)
{
	enum { K = 128, BLOCKS = K / 16 };
	uint8_t codes[2][K / 2] = {{1}, {1}}, scales[2][BLOCKS] = {{1, 0x7E, 0x7E, 0x7E, 0x7E}, {1, 0x7E, 0x7E, 0x7E, 0x7E}};
	float c;
	struct mxfp_matrix a = mxfp_coded(MXFP_FORMAT_NVFP4, 1, K, codes[0], scales[0]);
	struct mxfp_matrix w = mxfp_coded(MXFP_FORMAT_NVFP4, 1, K, codes[1], scales[1]);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, &c);
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = MXFP_ACC_BLACKWELL};
	static uint8_t workspace[1 << 16];

	a.tensor_scale = w.tensor_scale = 1;
	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, NULL), MXFP_OK);
	ck_assert(c == 1.0F / (1 << 20));
	codes[0][32] = codes[1][32] = 0x22; /* 1 + 1 of the second instruction */
	codes[0][33] = 0xAA; /* - 1 - 1 */
	codes[1][33] = 0x22;
	assert_status(mxfp_gemm(&product, &options, workspace, sizeof workspace, NULL), MXFP_OK);
	ck_assert(c == 0);
	suite_compared(2);
}

/* What mxfp_gemm() makes of a machine's instructions: the order of K, what is behind its end, passes, packed weights, threads. */
enum { A_ROWS = 3, W_ROWS = 70, MOST_K = 320, MOST_BYTES = 4 * MOST_K * W_ROWS };

static uint8_t operand_bytes[2][MOST_BYTES], scale_bytes[2][MOST_K / 16 * W_ROWS];

static struct mxfp_matrix random_matrix(struct random *r, int which, enum mxfp_format format, size_t rows, size_t k)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const bool blocks = info->kind == MXFP_KIND_BLOCK;
	const unsigned bits = blocks ? mxfp_format_get_info(info->element)->bits : 0;
	struct mxfp_matrix m = {.size = sizeof m, .format = format, .rows = rows, .cols = k, .data = operand_bytes[which]};

	for (size_t i = 0; i < MOST_BYTES; i++) /* few are NaN or Inf */
		operand_bytes[which][i] = (uint8_t)(random_u64(r) & (random_below(r, 8) != 0 ? 0xBF : 0xFF));
	for (size_t i = 0; i < sizeof scale_bytes[which]; i++)
		scale_bytes[which][i] = (uint8_t)(format == MXFP_FORMAT_NVFP4 ? random_below(r, 0x7F) : 117 + random_below(r, 20));
	m.stride = blocks ? k * bits / 8 : k;
	if (blocks) {
		m.scales = scale_bytes[which];
		m.scales_stride = k / info->block_length;
		m.tensor_scale = 1;
	}
	return m;
}

/* C by single instructions. */
static uint32_t sum_row(const struct mxfp_mma *mma, const struct mxfp_matrix *a, const struct mxfp_matrix *w, size_t row, size_t col,
                        size_t pass, uint32_t c)
{
	struct mxfp_mma_operand of_a[MXFP_MMA_MOST], of_w[MXFP_MMA_MOST];
	const int fraction = mxfp_mma_fraction(a->format) + mxfp_mma_fraction(w->format);
	uint32_t p = pass != 0 ? 0 : c;

	for (size_t k = 0; k < a->cols; k += mma->k) {
		if (pass != 0 && k != 0 && k % pass == 0) {
			c = mxfp_f32_add(c, p);
			p = 0;
		}
		mxfp_mma_load(of_a, mma, a, row, k, mma->k);
		mxfp_mma_load(of_w, mma, w, col, k, mma->k);
		p = mxfp_mma_sum(mma, of_a, of_w, fraction, p);
	}
	return pass != 0 ? mxfp_f32_add(c, p) : p;
}

static void compare_product(const struct mxfp_product *product, const struct mxfp_gemm_options *options, unsigned threads,
                            const uint32_t want[A_ROWS][W_ROWS])
{
	static uint8_t workspace[1 << 20];
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
	uint32_t got[A_ROWS][W_ROWS];

	assert_status(mxfp_gemm(product, options, workspace, sizeof workspace, &exec), MXFP_OK);
	memcpy(got, product->c->data, sizeof got);
	for (size_t i = 0; i < A_ROWS * W_ROWS; i++) {
		const uint32_t x = want[i / W_ROWS][i % W_ROWS];

		ck_assert_msg(got[i / W_ROWS][i % W_ROWS] == (is_nan(x) ? MXFP_F32_NAN : x), "%s, %s by %s, %u threads, pass %u: C[%zu][%zu] "
		              "%08x instead of %08x", mxfp_option_name(MXFP_OPTION_ACC, (int)options->acc),
		              mxfp_format_get_info(product->a->format)->name, mxfp_format_get_info(product->w->format)->name, threads,
		              options->pass_k, i / W_ROWS, i % W_ROWS, got[i / W_ROWS][i % W_ROWS], x);
	}
	suite_compared(A_ROWS * W_ROWS);
}

static void try_product(struct random *r, const struct mxfp_mma *mma, enum mxfp_format a_format, enum mxfp_format w_format)
{
	const bool blocks = mxfp_format_get_info(a_format)->kind == MXFP_KIND_BLOCK;
	const size_t k = blocks ? 32 * (1 + random_below(r, 10)) : 1 + random_below(r, MOST_K);
	const struct mxfp_matrix a = random_matrix(r, 0, a_format, A_ROWS, k), w = random_matrix(r, 1, w_format, W_ROWS, k);
	static uint8_t packed[MOST_BYTES + (1 << 14)];
	static float c[A_ROWS * W_ROWS];
	uint32_t want[A_ROWS][W_ROWS];
	const struct mxfp_result result = {.size = sizeof result, .data = c, .format = MXFP_FORMAT_F32};
	struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w, .n = W_ROWS};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = mma->acc, .pass_k = random_below(r, 2) * 128,
	                                          .a_format = blocks ? a_format : MXFP_FORMAT_F32};

	for (size_t i = 0; i < A_ROWS * W_ROWS; i++)
		want[i / W_ROWS][i % W_ROWS] = sum_row(mma, &a, &w, i / W_ROWS, i % W_ROWS, options.pass_k, 0);
	compare_product(&product, &options, 1, (const uint32_t (*)[W_ROWS])want);
	compare_product(&product, &options, 3, (const uint32_t (*)[W_ROWS])want);
	assert_status(mxfp_pack(packed, sizeof packed, &w, &options, NULL), MXFP_OK);
	product.w_packed = packed;
	product.w_packed_bytes = sizeof packed;
	compare_product(&product, &options, 2, (const uint32_t (*)[W_ROWS])want);
}

TEST_LOOP(products, MXFP_ACC_ACE + 1)
{
	struct random r = {suite_seed_of_turn()};
	unsigned pairs = 0;

	for (int pair = 0; pair < MXFP_N_FORMATS * MXFP_N_FORMATS; pair++) {
		const enum mxfp_format a = (enum mxfp_format)(pair / MXFP_N_FORMATS), w = (enum mxfp_format)(pair % MXFP_N_FORMATS);
		const struct mxfp_mma *mma = mxfp_mma_find((enum mxfp_acc)_i, a, w);

		if (mma == NULL)
			continue;
		try_product(&r, mma, a, w);
		pairs++;
	}
	ck_assert_int_eq(pairs > 0, _i > MXFP_ACC_CHAIN);
}
