/* SPDX-License-Identifier: MIT */
/*
 * Accumulators of machines, against what machines answered and what others published: the outputs of an H200 in the folder that
 * MXFP_SILICON names (tiles.json and tiles.bin; skipped without), and examples worked out by hand from the cited texts.
 */
#include "mma.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/mxfp.h"
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

/* What the products of an instruction's name are: "wgmma.m64n8k32.e4m3.e5m2". */
struct instruction {
	enum mxfp_acc acc;
	enum mxfp_format a, w;
};

static struct instruction instruction_of(const char *name)
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
	i.acc = strncmp(name, "mma.m16n8k32", 12) == 0 ? MXFP_ACC_HOPPER_MMA : MXFP_ACC_HOPPER;
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
	ck_assert_uint_eq(mma->k, a->cols);
	for (size_t row = 0; row < ROWS; row++) {
		mxfp_mma_load(of_a, mma, a, row, 0, mma->k);
		for (size_t col = 0; col < COLS; col++) {
			mxfp_mma_load(of_w, mma, w, col, 0, mma->k);
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
		const struct instruction i = instruction_of(name);
		const size_t tiles = (size_t)json_integer_value(json_object_get(record, "tiles"));
		const uint8_t *a = data + json_integer_value(json_object_get(record, "offset"));
		const uint8_t *w = a + tiles * A_BYTES, *c = w + tiles * W_BYTES, *d = c + tiles * C_BYTES;

		for (size_t tile = 0; tile < tiles; tile++)
			compare_tile(name, &i, a + tile * A_BYTES, w + tile * W_BYTES, c + tile * C_BYTES, d + tile * C_BYTES);
	}
	json_decref(facts);
	free(data);
}
