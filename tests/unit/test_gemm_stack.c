/* SPDX-License-Identifier: MIT */
/*
 * Every kind of product, of each W as it is and packed, on every tier, on a thread with a stack of 128 KiB, which is
 * what a thread of musl has by default. One that takes more ends this program.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "oracle/operands.h"
#include "suite.h"

enum {
	N_FORMATS = 11,
	M = 3,
	N = 70,    /* more than one panel */
	K = 576,   /* more than one chunk, and whole groups of every pattern */
	MEMORY_BYTES = 1 << 23,
	STACK_BYTES = 128 << 10
};

/* Workspace, and packed weights. */
static uint8_t *memory[2];

/* Operands, on a tier. */
struct kind {
	const struct mxfp_matrix *a, *w;
	const char *isa;
	bool failed;
};

static void multiply(struct kind *kind, const struct mxfp_matrix *w, enum mxfp_acc acc, enum mxfp_format psum)
{
	static float c[M * N];
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = kind->isa};
	struct mxfp_gemm_options options = {.size = sizeof options, .acc = acc, .psum = psum};
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	struct mxfp_product product = {.size = sizeof product, .a = kind->a, .w = w, .c = &result};

	if (mxfp_format_get_info(kind->a->format)->kind == MXFP_KIND_BLOCK)
		options.a_format = kind->a->format;
	kind->failed |= mxfp_gemm(&product, &options, memory[0], MEMORY_BYTES, &exec) != MXFP_OK;
	kind->failed |= mxfp_pack(memory[1], MEMORY_BYTES, w, &options, &exec) != MXFP_OK;
	product.w_packed = memory[1];
	product.w_packed_bytes = MEMORY_BYTES;
	product.n = N;
	kind->failed |= mxfp_gemm(&product, &options, memory[0], MEMORY_BYTES, &exec) != MXFP_OK;
}

/* Of W's numbers the first that a pattern keeps, as the first of each group. */
static struct mxfp_matrix kept(const struct mxfp_matrix *w, struct mxfp_sparsity sparsity)
{
	static uint8_t masks[N][K / 8];
	struct mxfp_matrix sparse = *w;

	memset(masks, 0, sizeof masks);
	for (size_t i = 0; i < N * K; i++)
		masks[i / K][i % K / 8] |= (uint8_t)((i % K % sparsity.m < sparsity.n) << i % 8);
	sparse.sparsity = sparsity;
	sparse.masks = masks;
	sparse.masks_stride = K / 8;
	return sparse;
}

static void *run(void *argument)
{
	const struct mxfp_sparsity *sparsity;
	struct kind *kind = argument;

	for (int acc = MXFP_ACC_EXACT; acc <= MXFP_ACC_CHAIN; acc++) {
		multiply(kind, kind->w, (enum mxfp_acc)acc, MXFP_FORMAT_F32);
		multiply(kind, kind->w, (enum mxfp_acc)acc, MXFP_FORMAT_BF16);
		for (size_t i = 0; (sparsity = mxfp_sparsity_pattern(i)) != NULL; i++) {
			const struct mxfp_matrix sparse = kept(kind->w, *sparsity);

			multiply(kind, &sparse, (enum mxfp_acc)acc, MXFP_FORMAT_F32);
		}
	}
	return NULL;
}

/* _i: the place of A's format times N_FORMATS + that of W's. */
TEST_LOOP(products_fit_128_kib, N_FORMATS * N_FORMATS)
{
	const struct operand_range range = {.spread = 3};
	struct random r = {suite_seed()};
	enum mxfp_format a_format, w_format;
	pthread_attr_t attributes;

	ck_assert(operand_format((size_t)_i / N_FORMATS, &a_format) && operand_format((size_t)_i % N_FORMATS, &w_format));
	struct operand a = operand_of(&r, &range, a_format, M, K, 0), w = operand_of(&r, &range, w_format, N, K, 0);
	ck_assert_int_eq(pthread_attr_init(&attributes), 0);
#ifndef __SANITIZE_ADDRESS__ /* whose frames are larger than those of what is shipped */
	ck_assert_int_eq(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
#endif
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		struct kind kind = {.a = &a.matrix, .w = &w.matrix, .isa = mxfp_isa_name(tier)};
		pthread_t thread;

		/* The reference is slow, and its memory does not depend on formats. */
		if ((mxfp_isa_available() >> tier & 1) == 0 || (tier == 0 && _i != 0))
			continue;
		ck_assert_int_eq(pthread_create(&thread, &attributes, run, &kind), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_assert(!kind.failed);
		suite_compared(1);
	}
	pthread_attr_destroy(&attributes);
	operand_free(&a);
	operand_free(&w);
}

int main(void)
{
	for (size_t i = 0; i < 2; i++)
		if ((memory[i] = malloc(MEMORY_BYTES)) == NULL)
			return EXIT_FAILURE;
	int status = suite_run(NULL);
	free(memory[0]);
	free(memory[1]);
	return status;
}
