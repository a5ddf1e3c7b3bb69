/* SPDX-License-Identifier: MIT */
/*
 * Products in tiles: the emulation of the instructions against sums by hand and by their definition; on it, where the machine has
 * avx512, the kernel of tier amx against that of avx512; and the instructions against it, where the machine has them.
 */
#define EMULATED_TILES

#include "config.h"

#include <math.h>

#include "cpu.h"
#include "equal/tile_product.h"
#include "mxfp.h"
#include "oracle/inputs.h"
#include "suite.h"

/* a is 2 x 8, b is 8 x 2, whose four elements of a column lie beside each other. */
TEST(a_product_by_hand)
{
	struct tile_product p = {
		.rows = 2, .cols = 2, .fours = 2,
		.a = {{1, 2, 3, 4, -128, 0, 0, 127}, {-1, -1, -1, -1, 5, 6, 7, 8}},
		.b = {{10, 20, 30, 40, 255, 255, 255, 255}, {1, 2, 3, 255, 255, 0, 0, 0}},
		.sum = {{7, -7, 99}, {INT32_MAX, 0, 99}},
	};

	tile_multiply(&p);
	ck_assert_int_eq(p.sum[0][0], 7 + (10 + 40 + 90 + 160) + (-128 + 127 * 255)); /* 32564 */
	ck_assert_int_eq(p.sum[0][1], -7 + 10 * 255 - 128 * 255);                      /* -30097 */
	ck_assert_int_eq(p.sum[1][0], INT32_MIN + 1977); /* 2^31 - 1 - 100 + 2078 wraps around */
	ck_assert_int_eq(p.sum[1][1], -4 * 255 + 5 * 255);
	ck_assert_int_eq(p.sum[0][2], 99); /* outside the tile */
	suite_compared(5);
}

#ifdef MXFP_TIER_AMX
static bool has(uint32_t features)
{
	return (features & ~mxfp_cpu_features()) == 0;
}

static bool has_tier(const char *name)
{
	for (int i = 0; mxfp_isa_name(i) != NULL; i++)
		if (strcmp(mxfp_isa_name(i), name) == 0)
			return (mxfp_isa_available() >> i & 1) != 0;
	return false;
}

TEST(instructions_are_as_they_are_defined)
{
	struct random r = {suite_seed()};

	if (!has(MXFP_CPU_AMX_TILE | MXFP_CPU_AMX_INT8) || !mxfp_cpu_permit_tiles())
		return;
	for (int i = 0; i < 2000; i++) {
		struct tile_product p = {.rows = (uint8_t)(1 + random_below(&r, 16)), .cols = (uint8_t)(1 + random_below(&r, 16)),
		                         .fours = (uint8_t)(1 + random_below(&r, 16))};
		for (size_t k = 0; k < sizeof p.a; k++) {
			(&p.a[0][0])[k] = (int8_t)random_u64(&r);
			(&p.b[0][0])[k] = (uint8_t)random_u64(&r);
		}
		for (size_t k = 0; k < 256; k++)
			(&p.sum[0][0])[k] = (int32_t)random_u64(&r);
		struct tile_product q = p;
		tile_multiply(&p);
		mxfp_tile_product_amx(&q);
		ck_assert_mem_eq(&p, &q, sizeof p);
		suite_compared((uint64_t)p.rows * p.cols);
	}
}

/* A matrix of any codes, by scales that are near to each other, or now and then are not. */
struct blocks_case {
	struct mxfp_blocks blocks;
	struct mxfp_sizes size;
};

static struct blocks_case any_blocks(struct random *r, enum mxfp_format format, size_t rows, size_t cols)
{
	struct blocks_case c = {.blocks = mxfp_blocks_at(format, rows, cols, NULL, NULL)};
	const uint32_t spread = (uint32_t[]){1, 4, 7, 40}[random_below(r, 4)], odd = random_below(r, 3) == 0 ? 50 : 0;
	const uint32_t least = random_below(r, 4) == 0 ? random_below(r, 215) : 127 - spread / 2;

	assert_status(mxfp_blocks_size(&c.size, format, rows, cols), MXFP_OK);
	uint8_t *codes = calloc(c.size.codes_bytes + 1, 1), *scales = calloc(c.size.scales_bytes + 1, 1);
	ck_assert(codes != NULL && scales != NULL);
	for (size_t i = 0; i < c.size.codes_bytes; i++)
		codes[i] = (uint8_t)random_u64(r);
	for (size_t i = 0; i < c.size.scales_bytes; i++)
		scales[i] = (uint8_t)(odd != 0 && random_below(r, odd) == 0 ? random_u64(r)
		                      : format == MXFP_FORMAT_NVFP4 ? random_below(r, 127) : least + random_below(r, spread));
	c.blocks.codes = codes;
	c.blocks.scales = scales;
	c.blocks.codes_stride = c.size.codes_row_bytes;
	c.blocks.scales_stride = c.size.scales_row_bytes;
	return c;
}

static void free_blocks(struct blocks_case *c)
{
	free(c->blocks.codes);
	free(c->blocks.scales);
}

static void *aligned(size_t bytes)
{
	void *memory = aligned_alloc(MXFP_GEMM_ALIGN, (bytes / MXFP_GEMM_ALIGN + 1) * MXFP_GEMM_ALIGN);

	ck_assert_ptr_nonnull(memory);
	memset(memory, 0, bytes);
	return memory;
}

/* Multiplies packed panels, from zeros; the result is malloc'ed. */
static float *multiply(const struct mxfp_gemm_kernel *kernel, const struct mxfp_gemm_multiply_job *packed, size_t floats)
{
	struct mxfp_gemm_multiply_job job = *packed;

	job.c = aligned(floats * sizeof *job.c);
	job.scratch = aligned(kernel->scratch_bytes);
	memset(job.scratch, 0x5A, kernel->scratch_bytes);
	kernel->multiply(&job);
	free(job.scratch);
	return job.c;
}

/* Whether the kernels give the same numbers for one random case. */
static void compare(struct random *r, const struct mxfp_gemm_kernel *kernel, const struct mxfp_gemm_kernel *want,
                    enum mxfp_format a_format, enum mxfp_format w_format)
{
	const size_t rows = 1 + random_below(r, 70), n = 1 + random_below(r, (uint32_t)kernel->nr), k = 1 + random_below(r, 512);
	const struct mxfp_gemm_shape shape = {a_format, w_format, {0}, (size_t[]){512, 256, 128}[random_below(r, 3)]};
	const size_t panels = (rows + kernel->mr - 1) / kernel->mr, a_bytes = kernel->a_panel_bytes(&shape, k);
	const size_t floats = panels * kernel->mr * kernel->nr, w_bytes = kernel->w_panel_bytes(&shape, k);
	struct blocks_case a = any_blocks(r, a_format, rows, k), w = any_blocks(r, w_format, n, k);
	const struct mxfp_matrix a_matrix = mxfp_blocks_matrix(&a.blocks), w_matrix = mxfp_blocks_matrix(&w.blocks);
	uint8_t *a_panels = aligned(panels * a_bytes), *w_panel = aligned(w_bytes);

	for (size_t i = 0; i < panels; i++) {
		const size_t row = i * kernel->mr, left = rows - row;

		kernel->pack_a(&(struct mxfp_gemm_pack_job){.shape = &shape, .matrix = &a_matrix, .row = row, .k = k,
		                                            .rows = left < kernel->mr ? left : kernel->mr,
		                                            .panel = a_panels + i * a_bytes});
	}
	kernel->pack_w(&(struct mxfp_gemm_pack_job){.shape = &shape, .matrix = &w_matrix, .rows = n, .k = k, .panel = w_panel});
	const struct mxfp_gemm_multiply_job job = {.shape = &shape, .a = a_panels, .rows = rows, .panels = 1, .w_bytes = w_bytes,
	                                           .w = w_panel, .k = k};
	float *got = multiply(kernel, &job, floats), *expected = multiply(want, &job, floats);
	for (size_t i = 0; i < rows * kernel->nr; i++)
		if (i % kernel->nr < n && !(isnan(got[i]) && isnan(expected[i])))
			ck_assert_msg(memcmp(&got[i], &expected[i], sizeof *got) == 0, "%zu x %zu x %zu, pass %zu: [%zu][%zu] is %a, must be %a",
			              rows, n, k, shape.pass, i / kernel->nr, i % kernel->nr, (double)got[i], (double)expected[i]);
	suite_compared(rows * n);
	free(got);
	free(expected);
	free(a_panels);
	free(w_panel);
	free_blocks(&a);
	free_blocks(&w);
}

static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP4, MXFP_FORMAT_NVFP4, MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXINT8};
enum { N = sizeof formats / sizeof formats[0], CASES = 60 };

TEST_LOOP(the_kernel_equals_that_of_avx512, N * N)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	if (!has_tier("avx512"))
		return;
	const struct mxfp_kernels *avx512 = mxfp_kernels_up_to("avx512");
	for (int i = 0; i < (int)suite_share(CASES); i++)
		compare(&r, &mxfp_gemm_int8_emulated, avx512->gemm[MXFP_GEMM_INT8], formats[_i / N], formats[_i % N]);
}
#endif
