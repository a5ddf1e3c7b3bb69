/* SPDX-License-Identifier: MIT */
/*
 * W4A8 products of the layers of real weight files: MXFP4 weights, activations quantized to MXFP8 in the call. Every
 * bit is the reference's, and no result is farther from MPFR's exact product of the quantized operands than
 * doc/numerics.md, section 5, allows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/inputs.h"
#include "io/file.h"
#include "oracle/matrix.h"
#include "oracle/oracle_gemm.h"
#include "ref.h"
#include "unit/scratch.h"
#include "suite.h"

enum {
	ROWS = 6,        /* of activations */
	PRECISION = 640, /* every product of a row and their sum are exact */
	PASS = 512,
	BLOCK = 32
};

static const char *const shared[] = {
	"weights/silero_vad_16k.safetensors",
	"weights/stories260K/stories260K.hf.f32.safetensors",
};

static uint32_t bits_of(const float *x)
{
	uint32_t bits;

	memcpy(&bits, x, sizeof bits);
	return bits;
}

/* A quantized matrix of n numbers a row. */
static struct mxfp_matrix quantized(enum mxfp_format format, const float *numbers, size_t rows, size_t cols,
                                    enum mxfp_rule rule)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = rule};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, numbers);
	struct mxfp_blocks blocks = mxfp_blocks_at(format, rows, cols, NULL, NULL);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	struct mxfp_sizes size;

	mxfp_blocks_size(&size, format, rows, cols);
	blocks.codes_stride = size.codes_row_bytes;
	blocks.scales_stride = size.scales_row_bytes;
	blocks.codes = matrix_allocate(size.codes_bytes);
	blocks.scales = matrix_allocate(size.scales_bytes);
	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	return mxfp_blocks_matrix(&blocks);
}

/* The bound of section 5: N u / (1 - N u) times the sum of magnitudes, and 2^-149 a block; here rounded up. */
static void set_bound(mpfr_ptr bound, mpfr_srcptr magnitudes, size_t k)
{
	size_t blocks = (k + BLOCK - 1) / BLOCK, passes = (k + PASS - 1) / PASS;
	size_t in_pass = blocks < PASS / BLOCK ? blocks : PASS / BLOCK, n = in_pass + passes - 1;
	MPFR_DECL_INIT(least, 64);

	mpfr_mul_ui(bound, magnitudes, n, MPFR_RNDU);
	mpfr_div_ui(bound, bound, (1UL << 24) - n, MPFR_RNDU);
	mpfr_set_ui_2exp(least, blocks, -149, MPFR_RNDU);
	mpfr_add(bound, bound, least, MPFR_RNDU);
}

static void compare(const struct mxfp_gemm_ref_job *job, const float *c, const char *name)
{
	MPFR_DECL_INIT(sum, PRECISION);
	MPFR_DECL_INIT(magnitudes, PRECISION);
	MPFR_DECL_INIT(bound, 64);
	MPFR_DECL_INIT(result, 24);

	for (size_t i = 0; i < job->rows * job->cols; i++) {
		if (bits_of(&c[i]) != bits_of(&job->c[i]))
			ck_abort_msg("%s: C[%zu][%zu] is %08" PRIX32 ", by the reference %08" PRIX32, name, i / job->cols,
			             i % job->cols, bits_of(&c[i]), bits_of(&job->c[i]));
		ck_assert_msg(oracle_gemm_exact(job, i / job->cols, i % job->cols, sum, magnitudes), "%s: not exact", name);
		set_bound(bound, magnitudes, job->a->cols);
		oracle_set_f32(result, bits_of(&c[i]));
		mpfr_sub(sum, sum, result, MPFR_RNDA);
		if (mpfr_cmpabs(sum, bound) > 0)
			ck_abort_msg("%s: C[%zu][%zu] is farther from the exact product than the bound", name, i / job->cols,
			             i % job->cols);
	}
	suite_compared(job->rows * job->cols);
}

/* Activations of many sizes, and a few outliers: with nearly equal ones most sums are exact. */
static float *activations(struct random *r, size_t n)
{
	float *x = matrix_allocate(n * sizeof *x);

	for (size_t i = 0; i < n; i++) {
		uint32_t bits = random_below(r, 100) == 0 ? random_f32_between(r, 3, 8) : random_f32_between(r, -16, 1);
		memcpy(&x[i], &bits, sizeof bits);
	}
	return x;
}

/* A layer: weights of n rows of k. */
static void try_layer(struct random *r, const char *name, const float *weights, size_t n, size_t k)
{
	struct mxfp_matrix w = quantized(MXFP_FORMAT_MXFP4, weights, n, k, MXFP_RULE_MSE);
	float *x = activations(r, ROWS * k);
	struct mxfp_matrix a = quantized(MXFP_FORMAT_MXFP8_E4M3, x, ROWS, k, MXFP_RULE_RCEIL);
	float *c = matrix_allocate(ROWS * n * sizeof *c), *want = calloc(ROWS * n, sizeof *want);
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, ROWS, k, x);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {.size = sizeof product, .a = &numbers, .w = &w, .c = &result};
	const struct mxfp_quantize_options rceil = {.size = sizeof rceil, .rule = MXFP_RULE_RCEIL};
	const struct mxfp_gemm_options options = {
		.size = sizeof options, .a_format = MXFP_FORMAT_MXFP8_E4M3, .a_quantize = &rceil};
	struct mxfp_gemm_ref_job job = {.a = &a, .w = &w, .rows = ROWS, .cols = n, .pass = PASS, .c = want};
	size_t bytes;

	assert_status(mxfp_gemm_workspace_size(&bytes, &product, 1, &options, NULL), MXFP_OK);
	void *workspace = malloc(bytes);
	ck_assert(workspace != NULL && want != NULL);
	assert_status(mxfp_gemm(&product, &options, workspace, bytes, NULL), MXFP_OK);
	mxfp_gemm_ref(&job);
	compare(&job, c, name);
	free(workspace);
	free(c);
	free(want);
	free(x);
	free((void *)a.data);
	free((void *)a.scales);
	free((void *)w.data);
	free((void *)w.scales);
}

/* Every matrix of a file that is a layer by its size. */
static void try_file(const char *path)
{
	struct random r = {suite_seed()};
	struct error error;
	struct file file;

	ck_assert_msg(file_open(&file, path, &error) == EXIT_OK, "%s", error.text);
	for (size_t i = 0; i < file.n_tensors; i++) {
		const struct tensor *t = &file.tensors[i];

		if (t->dtype != DTYPE_F32 || t->rank != 2 || t->shape[0] < 64 || t->shape[1] < 64)
			continue;
		float *weights = matrix_allocate((size_t)t->size);
		ck_assert_msg(file_read(&file, t, 0, weights, (size_t)t->size, &error) == EXIT_OK, "%s", error.text);
		dtype_swap(t->dtype, weights, (size_t)t->size);
		/* Not all rows: MPFR has to go through them. */
		try_layer(&r, t->name, weights, t->shape[0] < 100 ? (size_t)t->shape[0] : 100, (size_t)t->shape[1]);
		free(weights);
	}
	file_close(&file);
}

TEST(shipped_model)
{
	const char *source = getenv("srcdir");
	char path[4096];

	snprintf(path, sizeof path, "%s/examples/charlm.safetensors", source != NULL ? source : ".");
	try_file(path);
}

TEST_LOOP(shared_weights, sizeof shared / sizeof shared[0])
{
	const char *path = scratch_shared(shared[_i]);

	if (path != NULL)
		try_file(path);
	else
		printf("../shared/%s is not there: skipped\n", shared[_i]);
}
