/* SPDX-License-Identifier: MIT */
/*
 * Products with so many columns that A is not packed whole. By definition they equal products of parts of K, from a pass on and
 * each added to the sum before, which are short enough to be packed whole; and an A that a call quantizes equals one that was
 * quantized before. Sums that a tensor scale multiplies in the end are the reference's, which packs these rows whole.
 */
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "oracle/operands.h"
#include "suite.h"

enum {
	M = 2,
	N = 3,
	PART = 1 << 16,
	MEMORY_BYTES = 1 << 26
};

static const struct long_case {
	const char *name;
	enum mxfp_format a, w, quantized; /* A becomes it in the call; f32: it stays as it is */
	size_t k;                         /* past what is packed whole, but for that of machines, which is past that of expanded W */
	enum mxfp_acc acc;
	bool bf16, transposed, sparse;    /* psum; A; W, 2:4 */
} cases[] = {
	{"W4A8 from f32", MXFP_FORMAT_F32, MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP8_E4M3, (1 << 21) + 40, MXFP_ACC_EXACT, false, false, false},
	{"W4A8 from bf16, transposed, psum bf16", MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP8_E4M3, (1 << 20) + 7, MXFP_ACC_EXACT, true, true, false},
	{"NVFP4 from f16", MXFP_FORMAT_F16, MXFP_FORMAT_NVFP4, MXFP_FORMAT_NVFP4, (1 << 20) + 16, MXFP_ACC_EXACT, false, false, false},
	{"MXFP6 x MXINT8", MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXINT8, MXFP_FORMAT_F32, (1 << 22) + 33, MXFP_ACC_EXACT, false, false, false},
	{"E5M2 x E4M3", MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_F32, (1 << 21) + 1, MXFP_ACC_EXACT, false, false, false},
	{"bf16 x MXFP4, psum bf16", MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4, MXFP_FORMAT_F32, (1 << 20) + 5, MXFP_ACC_EXACT, true, false, false},
	{"f32 x f16, transposed", MXFP_FORMAT_F32, MXFP_FORMAT_F16, MXFP_FORMAT_F32, (1 << 20) + 9, MXFP_ACC_CHAIN, false, true, false},
	{"W4A8 by a chain", MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4, MXFP_FORMAT_F32, (1 << 21) + 64, MXFP_ACC_CHAIN, false, false, false},
	{"sparse MXFP4", MXFP_FORMAT_F32, MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP8_E4M3, (1 << 20) + 96, MXFP_ACC_EXACT, true, false, true},
	{"Hopper, sparse f16", MXFP_FORMAT_F16, MXFP_FORMAT_F16, MXFP_FORMAT_F32, (1 << 17) + 36, MXFP_ACC_HOPPER, false, false, true},
	{"Volta, transposed f16", MXFP_FORMAT_F16, MXFP_FORMAT_F16, MXFP_FORMAT_F32, (1 << 22) + 12, MXFP_ACC_VOLTA, false, true, false},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

static uint8_t *workspace;

static enum mxfp_status multiply(float *c, const struct mxfp_matrix *a, const struct mxfp_matrix *w,
                                 const struct mxfp_gemm_options *options, const char *isa)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = isa};
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {.size = sizeof product, .a = a, .w = w, .c = &result};

	return mxfp_gemm(&product, options, workspace, MEMORY_BYTES, &exec);
}

/* Columns k0 to k0 + k - 1; k0 is a multiple of 32. */
static struct mxfp_matrix part(const struct mxfp_matrix *whole, size_t k0, size_t k)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(whole->format);
	const struct mxfp_format_info *code = info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(info->element) : info;
	const size_t bits = info->kind == MXFP_KIND_BLOCK ? code->bits : 8 * info->storage_bytes;
	const size_t kept = whole->sparsity.m != 0 ? k0 / whole->sparsity.m * whole->sparsity.n : k0;
	struct mxfp_matrix m = *whole;

	m.cols = k;
	m.data = (const uint8_t *)m.data + kept * bits / 8 * (m.transposed ? m.stride : 1);
	if (info->kind == MXFP_KIND_BLOCK)
		m.scales = (const uint8_t *)m.scales + k0 / info->block_length;
	if (m.masks != NULL)
		m.masks = (const uint8_t *)m.masks + k0 / 8;
	return m;
}

/* Of each four numbers the first two are kept: the codes of as many columns, of which W's rows have more. */
static struct mxfp_matrix halved(const struct mxfp_matrix *w, uint8_t *masks)
{
	struct mxfp_matrix sparse = *w;

	memset(masks, 0x33, N * ((w->cols + 7) / 8));
	for (size_t i = 0; w->cols % 8 != 0 && i < N; i++)
		masks[(i + 1) * ((w->cols + 7) / 8) - 1] &= (uint8_t)((1 << w->cols % 8) - 1);
	sparse.sparsity = (struct mxfp_sparsity){2, 4};
	sparse.masks = masks;
	sparse.masks_stride = (w->cols + 7) / 8;
	return sparse;
}

/* A as numbers to quantize, in the call or before it: stochastically, which numbers each element of A. */
static const struct mxfp_quantize_options stochastic = {
	.size = sizeof stochastic,
	.round = MXFP_ROUND_SR,
	.seed = 5,
	.first_index = 77,
	.tensor_amax = {true, 448 * 6}, /* a tensor scale of 1, which is applied after the last pass */
};

static struct mxfp_matrix quantized(const struct mxfp_matrix *a, enum mxfp_format format, struct mxfp_sizes *size, uint8_t **memory)
{
	struct mxfp_matrix rows = *a;

	assert_status(mxfp_blocks_size(size, format, a->rows, a->cols), MXFP_OK);
	*memory = malloc(size->codes_bytes + size->scales_bytes);
	uint8_t *numbers = malloc(a->rows * a->cols * 4);
	ck_assert(*memory != NULL && numbers != NULL);
	const size_t width = mxfp_format_get_info(a->format)->storage_bytes;
	for (size_t i = 0; i < a->rows * a->cols; i++) {
		const size_t row = i / a->cols, col = i % a->cols, at = a->transposed ? col * a->stride + row : row * a->stride + col;

		memcpy(numbers + i * width, (const uint8_t *)a->data + at * width, width);
	}
	rows.data = numbers;
	rows.stride = 0;
	rows.transposed = false;
	struct mxfp_blocks blocks = mxfp_blocks_at(format, a->rows, a->cols, *memory, *memory + size->codes_bytes);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	assert_status(mxfp_quantize(&result, &rows, &stochastic, NULL), MXFP_OK);
	free(numbers);
	struct mxfp_matrix m = mxfp_blocks_matrix(&blocks);
	m.stride = size->codes_row_bytes;
	m.scales_stride = size->scales_row_bytes;
	return m;
}

/* _i: the case, on every tier. */
TEST_LOOP(equal_to_sums_of_parts, N_CASES)
{
	const struct long_case *t = &cases[_i];
	const struct operand_range range = {.spread = 3};
	struct random r = {suite_seed_of_turn()};
	struct operand a = t->transposed ? operand_of(&r, &range, t->a, t->k, M, 0) : operand_of(&r, &range, t->a, M, t->k, 0);
	struct operand w = operand_of(&r, &range, t->w, N, t->k, 0);
	uint8_t *masks = malloc(N * (t->k / 8 + 1)), *codes = NULL;
	struct mxfp_sizes size;

	ck_assert(masks != NULL && (workspace = malloc(MEMORY_BYTES)) != NULL);
	a.matrix.transposed = t->transposed;
	a.matrix.rows = M;
	a.matrix.cols = t->k;
	w.matrix.tensor_scale = 1;
	const struct mxfp_matrix of_w = t->sparse ? halved(&w.matrix, masks) : w.matrix;
	const bool quantizes = t->quantized != MXFP_FORMAT_F32;
	const struct mxfp_matrix blocks = quantizes ? quantized(&a.matrix, t->quantized, &size, &codes) : a.matrix;

	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		struct mxfp_gemm_options options = {
			.size = sizeof options,
			.acc = t->acc,
			.psum = t->bf16 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32,
			.psum_round = t->bf16 ? MXFP_ROUND_SR : MXFP_ROUND_RNE,
			.a_format = quantizes ? t->quantized : MXFP_FORMAT_F32,
			.a_quantize = &stochastic,
		};
		const size_t pass = t->quantized != MXFP_FORMAT_F32 || (mxfp_is_block(t->a) && mxfp_is_block(t->w)) ? 512 : 128;
		float got[M * N] = {0}, want[M * N] = {0};

		/* The reference is slow, and expands a W or sums as a machine alone. */
		if ((mxfp_isa_available() >> tier & 1) == 0 || (tier == 0 && !t->sparse))
			continue;
		assert_status(multiply(got, &a.matrix, &of_w, &options, mxfp_isa_name(tier)), MXFP_OK);
		const bool whole = t->w == MXFP_FORMAT_NVFP4;
		const size_t most = whole ? t->k : PART;
		options.accumulate = !whole;
		for (size_t k0 = 0; k0 < t->k; k0 += most) {
			const size_t k = t->k - k0 < most ? t->k - k0 : most;
			const struct mxfp_matrix of_a = part(&blocks, k0, k), of_this = part(&of_w, k0, k);

			options.stream = k0 / pass;
			assert_status(multiply(want, &of_a, &of_this, &options, mxfp_isa_name(whole ? 0 : tier)), MXFP_OK);
		}
		ck_assert_msg(memcmp(got, want, sizeof got) == 0, "%s, %s: %a instead of %a", t->name, mxfp_isa_name(tier),
		              (double)got[0], (double)want[0]);
		suite_compared(M * N);
	}
	free(workspace);
	free(masks);
	free(codes);
	operand_free(&a);
	operand_free(&w);
}

/* _i: the place of A's format times that of W's. Without memory: the size asks for none. */
TEST_LOOP(workspace_does_not_grow_with_k, 11 * 11)
{
	enum mxfp_format a_format, w_format;
	size_t bytes;

	if (sizeof(size_t) < sizeof(uint64_t))
		return;
	ck_assert(operand_format((size_t)_i / 11, &a_format) && operand_format((size_t)_i % 11, &w_format));
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++)
		for (int acc = 0; acc <= MXFP_ACC_ACE; acc++)
			for (int kind = 0; kind < 8; kind++) {
				const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = mxfp_isa_name(tier)};
				struct mxfp_matrix a = mxfp_numbers(a_format, 1, (size_t)1 << 32, NULL), w = a;
				const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, NULL);
				const struct mxfp_product product = {.size = sizeof product, .a = &a, .w = &w, .c = &c};
				struct mxfp_gemm_options options = {.size = sizeof options, .acc = (enum mxfp_acc)acc, .pass_k = kind & 4 ? 128 : 0};

				w.format = w_format;
				a.transposed = kind & 1 && !mxfp_is_block(a_format);
				if (kind & 2)
					w.sparsity = (struct mxfp_sparsity){2, 4};
				if (mxfp_is_block(w_format) && (a_format == MXFP_FORMAT_F32 || mxfp_is_block(a_format)))
					options.a_format = mxfp_is_block(a_format) ? a_format : w_format;
				if ((mxfp_isa_available() >> tier & 1) == 0 ||
				    mxfp_gemm_workspace_size(&bytes, &product, 1, &options, &exec) != MXFP_OK)
					continue;
				ck_assert_msg(bytes <= 4 << 20, "%s, %s x %s: %zu bytes", exec.isa, mxfp_format_get_info(a_format)->name,
				              mxfp_format_get_info(w_format)->name, bytes);
				suite_compared(1);
			}
}
