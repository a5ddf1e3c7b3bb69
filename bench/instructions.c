/* SPDX-License-Identifier: MIT */
/*
 * Products whose instructions scripts/neon_instructions.sh counts: of every pair of block formats and some chains, for
 * each number of rows and two numbers of columns, whose difference is what a column takes. A line before each says
 * which product it is; counting begins with begin_count() and ends with end_count(), whose names are in qemu's log.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <mxfp.h>

enum { ROWS = 64, COLUMNS = 128, DEPTH = 512 };

static const size_t some_rows[] = {1, 4, 16, ROWS}, some_columns[] = {COLUMNS / 2, COLUMNS};

/* Beside products of block formats, which are all of those below. */
static const enum mxfp_format chains[][2] = {
	{MXFP_FORMAT_BF16, MXFP_FORMAT_BF16},
	{MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4},
	{MXFP_FORMAT_BF16, MXFP_FORMAT_NVFP4},
	{MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP8_E4M3},
};

enum { MOST_FORMATS = 64 };

/* A matrix in a format, which has codes if it was made. */
struct operand {
	struct mxfp_matrix matrix;
	uint8_t *codes, *scales;
};

static struct operand a[MOST_FORMATS], w[MOST_FORMATS];
static float numbers[(ROWS + COLUMNS) * DEPTH], result[ROWS * COLUMNS];

static volatile bool counts; /* so that the functions are not empty */

__attribute__((noinline)) void begin_count(void);
__attribute__((noinline)) void end_count(void);

void begin_count(void)
{
	counts = true;
}

void end_count(void)
{
	counts = false;
}

static void check(enum mxfp_status status, const char *what)
{
	if (status == MXFP_OK)
		return;
	fprintf(stderr, "instructions: %s: %s\n", what, mxfp_status_text(status));
	exit(1);
}

static void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);

	if (p != NULL)
		return p;
	fputs("instructions: out of memory\n", stderr);
	exit(1);
}

/* Sums of four uniform numbers: no rule has unusually easy work. */
static void make_numbers(void)
{
	uint64_t seed = 1;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		const int32_t sum = (int32_t)((seed & 0xFFFF) + (seed >> 16 & 0xFFFF) + (seed >> 32 & 0xFFFF) + (seed >> 48));

		numbers[i] = (float)(sum - 2 * 65536) / 65536;
	}
}

/* Makes an operand of the numbers from row `first` on, once. */
static const struct mxfp_matrix *operand(struct operand of[MOST_FORMATS], enum mxfp_format format, size_t first, size_t rows)
{
	struct operand *to = &of[format];
	const float *from = numbers + first * DEPTH;

	if (to->codes != NULL)
		return &to->matrix;
	to->codes = allocate(rows * DEPTH * sizeof(float));
	if (mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK) {
		to->scales = allocate(rows * DEPTH);
		struct mxfp_blocks blocks = mxfp_blocks_at(format, rows, DEPTH, to->codes, to->scales);
		const struct mxfp_result to_blocks = mxfp_to_blocks(&blocks);
		const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, rows, DEPTH, from);

		check(mxfp_quantize(&to_blocks, &matrix, NULL, NULL), "quantize");
		to->matrix = mxfp_blocks_matrix(&blocks);
	} else {
		check(mxfp_convert_array(to->codes, format, from, MXFP_FORMAT_F32, rows * DEPTH, NULL, NULL), "convert");
		to->matrix = mxfp_numbers(format, rows, DEPTH, to->codes);
	}
	return &to->matrix;
}

static void multiply(const struct mxfp_product *product, const struct mxfp_gemm_options *options, const struct mxfp_exec *exec)
{
	size_t bytes;

	check(mxfp_gemm_workspace_size(&bytes, product, 1, options, exec), "workspace");
	void *workspace = allocate(bytes);
	printf("product %s %s %zu %zu %d\n", mxfp_format_get_info(product->a->format)->name,
	       mxfp_format_get_info(product->w->format)->name, product->a->rows, product->n, DEPTH);
	fflush(stdout);
	begin_count();
	check(mxfp_gemm(product, options, workspace, bytes, exec), "gemm");
	end_count();
	free(workspace);
}

static void multiply_pair(enum mxfp_format a_format, enum mxfp_format w_format)
{
	const bool block = mxfp_format_get_info(a_format)->kind == MXFP_KIND_BLOCK;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_gemm_options options = {.size = sizeof options, .a_format = block ? a_format : (enum mxfp_format)0};
	struct mxfp_matrix of_a = *operand(a, a_format, 0, ROWS), of_w = *operand(w, w_format, ROWS, COLUMNS);

	for (size_t i = 0; i < sizeof some_columns / sizeof *some_columns; i++) {
		const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, result);
		struct mxfp_product product = {.size = sizeof product, .c = &c, .a = &of_a, .w = &of_w, .n = some_columns[i]};

		of_w.rows = some_columns[i];
		check(mxfp_pack_size(&product.w_packed_bytes, &of_w, &options, &exec), "pack");
		void *packed = allocate(product.w_packed_bytes);
		check(mxfp_pack(packed, product.w_packed_bytes, &of_w, &options, &exec), "pack");
		product.w_packed = packed;
		for (size_t j = 0; j < sizeof some_rows / sizeof *some_rows; j++) {
			of_a.rows = some_rows[j];
			multiply(&product, &options, &exec);
		}
		free(packed);
	}
}

int main(void)
{
	const struct mxfp_format_info *of_a, *of_w;

	make_numbers();
	for (int i = 0; (of_a = mxfp_format_get_info((enum mxfp_format)i)) != NULL; i++)
		for (int j = 0; (of_w = mxfp_format_get_info((enum mxfp_format)j)) != NULL; j++)
			if (of_a->kind == MXFP_KIND_BLOCK && of_w->kind == MXFP_KIND_BLOCK)
				multiply_pair((enum mxfp_format)i, (enum mxfp_format)j);
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
		multiply_pair(chains[i][0], chains[i][1]);
	return 0;
}
