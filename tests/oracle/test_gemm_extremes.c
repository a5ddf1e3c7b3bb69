/* SPDX-License-Identifier: MIT */
/*
 * Products whose block sums are as large as the formats allow, as small, or both at once, and whose scales differ
 * from block to block by as much as kernels fold or by more: by every tier that the machine has, against sums worked by
 * hand.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "cpu.h"
#include "kernels.h"
#include "mxfp/isa.h"
#include "mxfp/gemm.h"
#include "suite.h"

enum { K = 64, BLOCK = 32, N = 33, MOST_ROWS = 37, SCALE_ONE = 127 };

/* A row of two blocks: the code of the first element, that of the others, the second block's scale as an exponent, and by what
   the exponents of both are higher. */
struct operand {
	enum mxfp_format format;
	uint8_t first, others;
	uint8_t scale;
	int8_t raised;
};

struct by_hand {
	struct operand a, w;
	uint32_t want;
};

#define E4M3 MXFP_FORMAT_MXFP8_E4M3
#define E2M1 MXFP_FORMAT_MXFP4
#define E2M3 MXFP_FORMAT_MXFP6_E2M3
#define E3M2 MXFP_FORMAT_MXFP6_E3M2
#define INT8 MXFP_FORMAT_MXINT8

static const struct by_hand by_hand[] = {
	/* 64 * 448 * 448 = 49 * 2^18 */
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E4M3, 0x7E, 0x7E, 0, 0}, 0x4B440000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E4M3, 0xFE, 0xFE, 0, 0}, 0xCB440000},
	/* 64 * 2^-18 */
	{{E4M3, 0x01, 0x01, 0, 0}, {E4M3, 0x01, 0x01, 0, 0}, 0x39800000},
	/* A block is 2 * 2 + 31 * (15 * 2^-9)^2 = 1055551 * 2^-18 */
	{{E4M3, 0x40, 0x0F, 0, 0}, {E4M3, 0x40, 0x0F, 0, 0}, 0x4100D9F8},
	/* 32 * 448 * 6 = 86016, times 1 + 2^4, 1 + 2^5, 1 + 2^7, 1 + 2^8 */
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M1, 0x7, 0x7, 4, 0}, 0x49B28000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M1, 0x7, 0x7, 5, 0}, 0x4A2D4000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M1, 0x7, 0x7, 7, 0}, 0x4B295000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M1, 0x7, 0x7, 8, 0}, 0x4BA8A800},
	/* 86016 * (1 + 2^3) * 2^(124 - 60); 2^128 would be the scale's code for NaN */
	{{E4M3, 0x7E, 0x7E, 0, -60}, {E2M1, 0x7, 0x7, 3, 124}, 0x693D0000},
	{{E4M3, 0x7E, 0x7E, 0, -60}, {E2M1, 0x7, 0x7, 4, 124}, 0x7FC00000},
	/* 32 * 448 * 7.5 = 107520, times 1 + 2^5, 1 + 2^6 */
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M3, 0x1F, 0x1F, 5, 0}, 0x4A589000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E2M3, 0x1F, 0x1F, 6, 0}, 0x4AD54800},
	/* 32 * 448 * -2 = -28672, times 1 + 2^4, 1 + 2^5 */
	{{E4M3, 0x7E, 0x7E, 0, 0}, {INT8, 0x80, 0x80, 4, 0}, 0xC8EE0000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {INT8, 0x80, 0x80, 5, 0}, 0xC9670000},
	/* A block is 448 * 6 + 31 * 2^-9 * 0.5 = 2752512 * 2^-10 + 31 * 2^-10, twice */
	{{E4M3, 0x7E, 0x01, 0, 0}, {E2M1, 0x7, 0x1, 0, 0}, 0x45A8007C},
	/* 64 * 7.5 * 7.5 = 3600, 64 * -2 * 7.5 = -960, 64 * -2 * -2 = 256 */
	{{E2M3, 0x1F, 0x1F, 0, 0}, {E2M3, 0x1F, 0x1F, 0, 0}, 0x45610000},
	{{E2M3, 0x1F, 0x1F, 0, 0}, {E2M3, 0x3F, 0x3F, 0, 0}, 0xC5610000},
	{{INT8, 0x80, 0x80, 0, 0}, {E2M3, 0x1F, 0x1F, 0, 0}, 0xC4700000},
	{{E2M3, 0x1F, 0x1F, 0, 0}, {INT8, 0x80, 0x80, 0, 0}, 0xC4700000},
	{{INT8, 0x80, 0x80, 0, 0}, {INT8, 0x80, 0x80, 0, 0}, 0x43800000},
	/* 64 * 28 * 28 = 50176, 64 * 448 * 28 = 802816 */
	{{E3M2, 0x1F, 0x1F, 0, 0}, {E3M2, 0x1F, 0x1F, 0, 0}, 0x47440000},
	{{E4M3, 0x7E, 0x7E, 0, 0}, {E3M2, 0x1F, 0x1F, 0, 0}, 0x49440000},
	/* A block is 28 * 28 + 31 * 2^-8, twice: 401470 * 2^-8 */
	{{E3M2, 0x1F, 0x01, 0, 0}, {E3M2, 0x1F, 0x01, 0, 0}, 0x44C407C0},
};

static void fill(const struct operand *o, size_t rows, uint8_t *codes, uint8_t *scales, struct mxfp_matrix *matrix)
{
	size_t bits = mxfp_format_get_info(mxfp_format_get_info(o->format)->element)->bits, row_bytes = K * bits / 8;

	memset(codes, 0, rows * row_bytes);
	for (size_t i = 0; i < rows * K; i++) {
		unsigned code = i % BLOCK == 0 ? o->first : o->others;

		codes[i * bits / 8] |= (uint8_t)(code << i * bits % 8);
		if (i * bits % 8 + bits > 8)
			codes[i * bits / 8 + 1] |= (uint8_t)(code >> (8 - i * bits % 8));
	}
	for (size_t i = 0; i < rows * 2; i++)
		scales[i] = (uint8_t)(SCALE_ONE + o->raised + (i % 2 != 0 ? o->scale : 0));
	*matrix = mxfp_numbers(o->format, rows, K, codes);
	matrix->scales = scales;
}

/* Kernels take their loops for the one kind of processor and for the other, whichever this machine has. */
static void choose_loops(const char *isa, bool fast_shuffles)
{
	/* dispatch.c's, which is const to the library alone. */
	struct mxfp_kernels *table = (struct mxfp_kernels *)(uintptr_t)mxfp_kernels_up_to(isa);

	table->cpu = (table->cpu & ~(uint32_t)MXFP_CPU_FAST_SHUFFLES) | (fast_shuffles ? MXFP_CPU_FAST_SHUFFLES : 0);
}

static void multiply(const char *isa, const struct operand *a, const struct operand *w, size_t m,
                     uint32_t want)
{
	static uint8_t codes[2][MOST_ROWS * K], scales[2][MOST_ROWS * 2];
	static float c[MOST_ROWS * N];
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = isa};
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	struct mxfp_matrix left, right;
	const struct mxfp_product product = {.size = sizeof product, .a = &left, .w = &right, .c = &result};
	size_t bytes;

	fill(a, m, codes[0], scales[0], &left);
	fill(w, N, codes[1], scales[1], &right);
	assert_status(mxfp_gemm_workspace_size(&bytes, &product, 1, NULL, &exec), MXFP_OK);
	void *workspace = malloc(bytes);
	ck_assert_ptr_nonnull(workspace);
	assert_status(mxfp_gemm(&product, NULL, workspace, bytes, &exec), MXFP_OK);
	free(workspace);
	for (size_t i = 0; i < m * N; i++)
		ck_assert_msg(mxfp_f32_bits(c[i]) == want, "%s x %s, %zu rows: C[%zu][%zu] is %08" PRIX32 ", not %08" PRIX32,
		              mxfp_format_get_info(a->format)->name, mxfp_format_get_info(w->format)->name, m, i / N, i % N,
		              mxfp_f32_bits(c[i]), want);
	suite_compared(m * N);
}

TEST_LOOP(sums_are_right, sizeof by_hand / sizeof by_hand[0])
{
	/* For each threshold beyond which kernels expand W, some below and some above it. */
	static const size_t rows[] = {1, 2, 9, 13, 24, MOST_ROWS};
	const struct by_hand *h = &by_hand[_i];

	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		if ((mxfp_isa_available() >> tier & 1) == 0)
			continue;
		for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
			const size_t m = rows[i / 2];

			choose_loops(mxfp_isa_name(tier), i % 2 != 0);
			multiply(mxfp_isa_name(tier), &h->a, &h->w, m, h->want);
			multiply(mxfp_isa_name(tier), &h->w, &h->a, m, h->want);
		}
	}
}
