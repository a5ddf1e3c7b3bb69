/* SPDX-License-Identifier: MIT */
/*
 * Structured sparsity in every tier that the machine has: pruning, compressing and expanding equal the reference, and a
 * product with a sparse W equals the reference's product with that W expanded. Arrays lie between pages that cannot be
 * touched. One case a pattern: CK_RUN_CASE=sparse_4_16 runs that one; MXFP_TEST_ROUNDS repeats them.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "equal/equal.h"
#include "equal/guarded.h"
#include "oracle/matrix.h"
#include "oracle/operands.h"
#include "sparse.h"
#include "suite.h"

enum { PATTERNS = 7, SLOT_CASES = 120, PRODUCT_CASES = 120, MAX_ROWS = 4, MAX_COLS = 700, BUDGET = 200000,
       WHOLE_COLS = 300, WHOLE_K = 600 /* beyond a tile of the reference (TILE, lib/gemm/plan.c) */ };

static struct equal equal;

/* Inputs at any place in guarded memory. */
static struct guarded place(struct random *r, const void *bytes, size_t n)
{
	struct guarded g = guarded_of(n, random_below(r, 64), random_below(r, 2) == 0);

	if (bytes != NULL && n != 0)
		memcpy(g.at, bytes, n);
	return g;
}

static void check_equal(struct guarded *got, const void *want, size_t n, const char *what, const char *tier)
{
	ck_assert_msg(guarded_is_intact(got), "%s of %s wrote beside an array", what, tier);
	ck_assert_msg(n == 0 || memcmp(got->at, want, n) == 0, "%s of %s differs, MXFP_TEST_SEED=%" PRIu64, what, tier,
	              suite_seed());
	guarded_free(got);
}

/* Numbers many of which have the same magnitude. */
static void fill(struct random *r, uint8_t *bytes, size_t n)
{
	static const uint8_t few[] = {0, 0x80, 0x3F, 0xBF, 0x7F, 0xFF};

	for (size_t i = 0; i < n; i++)
		bytes[i] = random_below(r, 3) == 0 ? (uint8_t)random_u64(r) : few[random_below(r, 6)];
}

/* All slots on one matrix: of a format, with the masks that pruning gives for random numbers. */
struct slots {
	enum mxfp_format format;
	struct mxfp_sparsity sparsity;
	size_t rows, cols, stride, masks_row, masks_stride, kept_row, kept_stride, dense_row, dense_stride;
	uint8_t *src, *masks, *pruned, *dense, *kept, *expanded;
};

static void check_prune(const struct slots *s, enum mxfp_format format, const struct mxfp_kernels *table,
                        const char *tier)
{
	const size_t width = mxfp_format_get_info(format)->storage_bytes, bytes = s->rows * s->stride * width;
	struct guarded src = place(&equal.random, s->src, bytes);
	struct guarded masks = place(&equal.random, NULL, s->rows * s->masks_stride);
	struct guarded pruned = place(&equal.random, NULL, bytes);
	struct mxfp_prune_job job = {format, s->sparsity, s->rows, s->cols, s->src, s->stride * width, s->masks,
	                             s->masks_stride, s->pruned, s->stride * width};

	memcpy(s->pruned, s->src, bytes);
	memcpy(pruned.at, s->src, bytes);
	memset(s->masks, MATRIX_CANARY, s->rows * s->masks_stride);
	memset(masks.at, MATRIX_CANARY, s->rows * s->masks_stride);
	equal.reference.prune[format](&job);
	job.src = src.at;
	job.masks = masks.at;
	job.pruned = pruned.at;
	table->prune[format](&job);
	check_equal(&pruned, s->pruned, bytes, "what pruning left", tier);
	job.pruned = src.at; /* in place */
	table->prune[format](&job);
	check_equal(&src, s->pruned, bytes, "pruning in place", tier);
	check_equal(&masks, s->masks, s->rows * s->masks_stride, "masks", tier);
}

static void check_codes(const struct slots *s, const struct mxfp_kernels *table, const char *tier)
{
	struct guarded masks = place(&equal.random, s->masks, s->rows * s->masks_stride);
	struct guarded dense = place(&equal.random, s->dense, s->rows * s->dense_stride);
	struct guarded kept = place(&equal.random, NULL, s->rows * s->kept_stride);
	struct guarded expanded = place(&equal.random, NULL, s->rows * s->dense_stride);
	struct mxfp_sparse_job compress = {s->format, s->sparsity, s->rows, s->cols, s->dense, s->dense_stride, s->masks,
	                                   s->masks_stride, s->kept, s->kept_stride};
	struct mxfp_sparse_job expand = {s->format, s->sparsity, s->rows, s->cols, s->kept, s->kept_stride, s->masks,
	                                 s->masks_stride, s->expanded, s->dense_stride};

	memset(s->kept, MATRIX_CANARY, s->rows * s->kept_stride);
	memset(kept.at, MATRIX_CANARY, s->rows * s->kept_stride);
	memset(s->expanded, MATRIX_CANARY, s->rows * s->dense_stride);
	memset(expanded.at, MATRIX_CANARY, s->rows * s->dense_stride);
	equal.reference.compress[s->format](&compress);
	equal.reference.expand[s->format](&expand);
	compress.src = dense.at;
	expand.masks = compress.masks = masks.at;
	expand.src = compress.dst = kept.at;
	expand.dst = expanded.at;
	table->compress[s->format](&compress);
	ck_assert_mem_eq(kept.at, s->kept, s->rows * s->kept_stride);
	table->expand[s->format](&expand);
	check_equal(&expanded, s->expanded, s->rows * s->dense_stride, "expanding", tier);
	check_equal(&kept, s->kept, s->rows * s->kept_stride, "compressing", tier);
	check_equal(&dense, s->dense, s->rows * s->dense_stride, "the input of compressing", tier);
	check_equal(&masks, s->masks, s->rows * s->masks_stride, "the masks of compressing", tier);
}

static void slots_once(struct mxfp_sparsity sparsity)
{
	static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	struct random *r = &equal.random;
	struct slots s = {.format = (enum mxfp_format)random_below(r, MXFP_N_FORMATS), .sparsity = sparsity};
	const enum mxfp_format number = numbers[random_below(r, 3)];
	struct mxfp_sparse_sizes sizes;

	s.rows = 1 + random_below(r, MAX_ROWS);
	s.cols = 1 + random_below(r, random_below(r, 2) == 0 ? 80 : MAX_COLS);
	s.stride = s.cols + random_below(r, 3);
	ck_assert_int_eq(mxfp_sparse_size(&sizes, s.format, sparsity, s.rows, s.cols), MXFP_OK);
	ck_assert(mxfp_dense_row_bytes(s.format, s.cols, &s.dense_row));
	s.masks_stride = sizes.masks_row_bytes + random_below(r, 3);
	s.kept_stride = sizes.codes_row_bytes + random_below(r, 3);
	s.dense_stride = s.dense_row + random_below(r, 3);
	s.src = matrix_allocate(s.rows * s.stride * 4);
	s.pruned = matrix_allocate(s.rows * s.stride * 4);
	s.masks = matrix_allocate(s.rows * s.masks_stride);
	s.dense = matrix_allocate(s.rows * s.dense_stride);
	s.kept = matrix_allocate(s.rows * s.kept_stride);
	s.expanded = matrix_allocate(s.rows * s.dense_stride);
	fill(r, s.src, s.rows * s.stride * 4);
	fill(r, s.dense, s.rows * s.dense_stride);
	for (size_t i = 0; i < equal.n_tiers; i++) {
		check_prune(&s, number, &equal.tier[i].table, equal.tier[i].name);
		check_codes(&s, &equal.tier[i].table, equal.tier[i].name);
		suite_compared(3 * s.rows * s.cols);
	}
	free(s.src);
	free(s.pruned);
	free(s.masks);
	free(s.dense);
	free(s.kept);
	free(s.expanded);
}

/* A product whose W is there twice: sparse, and expanded. */
struct product {
	struct operand a, w;
	struct mxfp_matrix sparse;
	uint8_t *kept, *masks;
	size_t m, n, k;
	bool whole; /* at least a tile, and a thread that has it alone, so that it fills the workspace */
	struct mxfp_gemm_options options;
	char text[300];
};

/* Makes W's codes those of a sparse matrix. */
static void make_sparse(struct product *p, struct random *r, struct mxfp_sparsity sparsity)
{
	struct mxfp_matrix *w = &p->w.matrix;
	struct mxfp_sparse s = {.size = sizeof s, .sparsity = sparsity, .rows = p->n, .cols = p->k};
	uint8_t *numbers = matrix_allocate(2 * p->n * p->k);
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_BF16, p->n, p->k, numbers);
	struct mxfp_sparse_sizes sizes;

	ck_assert_int_eq(mxfp_sparse_size(&sizes, w->format, sparsity, p->n, p->k), MXFP_OK);
	s.codes = p->kept = matrix_allocate(sizes.codes_bytes);
	s.masks = p->masks = matrix_allocate(sizes.masks_bytes);
	for (size_t i = 0; i < 2 * p->n * p->k; i++)
		numbers[i] = (uint8_t)random_u64(r);
	ck_assert_int_eq(mxfp_sparse_prune(&s, NULL, &src, NULL), MXFP_OK);
	free(numbers);
	s.format = w->format;
	ck_assert_int_eq(mxfp_sparse_compress(&s, w->data, w->stride, NULL), MXFP_OK);
	ck_assert_int_eq(mxfp_sparse_expand((void *)(uintptr_t)w->data, w->stride, &s, NULL), MXFP_OK);
	p->sparse = *w;
	p->sparse.data = p->kept;
	p->sparse.stride = 0;
	p->sparse.sparsity = sparsity;
	p->sparse.masks = p->masks;
}

static void make_product(struct product *p, struct random *r, struct mxfp_sparsity sparsity, bool whole)
{
	static const int sums[] = {0, 0, 0, 100, -100, -126, -140, -149, -160, 254, -254};
	static const size_t rows[] = {64, 65, 130};
	static const unsigned passes[] = {0, 512, 256, 128};
	enum mxfp_format a_format = MXFP_FORMAT_F32, w_format = MXFP_FORMAT_F32;
	struct operand_range range[2];

	memset(p, 0, sizeof *p);
	p->options.size = sizeof p->options;
	operand_format(random_below(r, 11), &a_format);
	operand_format(random_below(r, 11), &w_format);
	p->options.acc = (enum mxfp_acc)random_below(r, 2);
	if (random_below(r, 2) == 0) { /* a pair with an exact kernel */
		static const enum mxfp_format integers[] = {MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXINT8, MXFP_FORMAT_MXFP6_E2M3,
		                                            MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E4M3};
		a_format = integers[random_below(r, 6)];
		w_format = MXFP_FORMAT_MXFP4;
		p->options.acc = MXFP_ACC_EXACT;
	}
	p->m = random_below(r, 4) == 0 ? 1 : random_below(r, 6) == 0 ? rows[random_below(r, 3)] : 1 + random_below(r, 40);
	p->n = 1 + random_below(r, 140);
	p->k = random_below(r, 3) == 0 ? random_below(r, 40) : random_below(r, 1100);
	p->whole = whole;
	if (whole) {
		p->m = 1;
		p->n = WHOLE_COLS;
		p->k = WHOLE_K;
	}
	while (p->m * p->n * p->k > BUDGET) {
		p->n = p->n / 2 + 1;
		p->k = p->m * p->n * p->k > BUDGET ? p->k / 2 : p->k;
	}
	operand_ranges(r, sums[random_below(r, 11)], range);
	range[0].special = random_below(r, 4) == 0;
	range[1].special = random_below(r, 4) == 0;
	p->a = operand_of(r, &range[0], a_format, p->m, p->k, random_below(r, 9));
	p->w = operand_of(r, &range[1], w_format, p->n, p->k, random_below(r, 9));
	make_sparse(p, r, sparsity);
	p->options.pass_k = passes[random_below(r, 4)];
	p->options.accumulate = random_below(r, 2) == 0;
	p->options.psum = random_below(r, 4) == 0 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	snprintf(p->text, sizeof p->text,
	         "%s x %s %u:%u, %zu x %zu x %zu, acc %d, pass %u, psum %d, MXFP_TEST_SEED=%" PRIu64,
	         mxfp_format_get_info(a_format)->name, mxfp_format_get_info(w_format)->name, sparsity.n, sparsity.m, p->m, p->n,
	         p->k, (int)p->options.acc, p->options.pass_k, (int)p->options.psum, suite_seed());
}

/* Computes the product on a tier, C from what it holds. */
static void multiply(const struct product *p, const char *isa, const struct mxfp_matrix *w,
                     bool packed, float *c)
{
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	struct mxfp_product product = {.size = sizeof product, .a = &p->a.matrix, .w = w, .c = &result};
	const struct mxfp_exec exec = {
		.size = sizeof exec, .threads = p->whole ? 1 : 1 + random_below(&equal.random, 3), .isa = isa};
	struct mxfp_gemm_options options = p->options;
	struct guarded panels = {0};
	size_t bytes;

	options.a_format = mxfp_format_get_info(p->a.matrix.format)->kind == MXFP_KIND_BLOCK ? p->a.matrix.format : MXFP_FORMAT_F32;
	if (packed) {
		ck_assert_int_eq(mxfp_pack_size(&bytes, w, &options, &exec), MXFP_OK);
		panels = place(&equal.random, NULL, bytes);
		ck_assert_int_eq(mxfp_pack(panels.at, bytes, w, &options, &exec), MXFP_OK);
		product.w = NULL;
		product.n = w->rows;
		product.w_packed = panels.at;
		product.w_packed_bytes = bytes;
	}
	ck_assert_int_eq(mxfp_gemm_workspace_size(&bytes, &product, 1, &options, &exec), MXFP_OK);
	struct guarded workspace = place(&equal.random, NULL, bytes);
	ck_assert_int_eq(mxfp_gemm(&product, &options, workspace.at, bytes, &exec), MXFP_OK);
	ck_assert_msg(guarded_is_intact(&workspace), "%s: wrote beside the workspace", p->text);
	guarded_free(&workspace);
	if (packed)
		guarded_free(&panels);
}

static void product_once(struct mxfp_sparsity sparsity, bool whole)
{
	struct random *r = &equal.random;
	struct product p;

	make_product(&p, r, sparsity, whole);
	const size_t bytes = p.m * p.n * sizeof(float);
	float *given = matrix_allocate(bytes), *want = matrix_allocate(bytes), *got = matrix_allocate(bytes);
	for (size_t i = 0; i < p.m * p.n; i++) {
		uint32_t x = random_below(r, 2) == 0 ? UINT32_C(0x80000000) : random_f32_between(r, -20, 20);
		memcpy(&given[i], &x, sizeof x);
	}
	memcpy(want, given, bytes);
	multiply(&p, "ref", &p.w.matrix, false, want);
	for (size_t i = 0; i < 2 * equal.n_tiers; i++) {
		const struct equal_tier *tier = &equal.tier[i / 2];

		memcpy(got, given, bytes);
		multiply(&p, tier->name, &p.sparse, i % 2 != 0, got);
		ck_assert_msg(memcmp(got, want, bytes) == 0, "%s, %s: %s", tier->name, i % 2 != 0 ? "packed" : "not packed",
		              p.text);
		suite_compared(p.m * p.n);
	}
	if (whole) {
		memcpy(got, given, bytes);
		multiply(&p, "ref", &p.sparse, false, got);
		ck_assert_msg(memcmp(got, want, bytes) == 0, "ref: %s", p.text);
	}
	operand_free(&p.a);
	operand_free(&p.w);
	free(p.kept);
	free(p.masks);
	free(given);
	free(want);
	free(got);
}

TEST_LOOP(slots_equal_the_reference, PATTERNS)
{
	for (unsigned i = 0; i < SLOT_CASES * equal.rounds; i++)
		slots_once(*mxfp_sparsity_pattern((size_t)_i));
}

/* Most cases go to the patterns that have kernels. */
TEST_LOOP(products_equal_those_of_the_expanded_matrix, PATTERNS)
{
	const struct mxfp_sparsity sparsity = *mxfp_sparsity_pattern((size_t)_i);
	const bool kernels = sparsity.n == 4 && sparsity.m != 12;

	for (unsigned i = 0; i < suite_share(PRODUCT_CASES * equal.rounds / (kernels ? 1 : 10)); i++)
		product_once(sparsity, false);
	product_once(sparsity, true);
}

static const char *case_name(int i)
{
	static char name[PATTERNS][32];
	const struct mxfp_sparsity *p = mxfp_sparsity_pattern((size_t)i);

	snprintf(name[i], sizeof name[i], "sparse_%u_%u", p->n, p->m);
	return name[i];
}

int main(void)
{
	return equal_main(&equal, case_name);
}
