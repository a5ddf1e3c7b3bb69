/* SPDX-License-Identifier: MIT */
/*
 * Calls with every extensible struct, for test_grown.sh. Each struct ends at a guard page, so a library that reads or
 * writes beyond the struct that its caller compiled crashes. Compiled with NEWER and headers in which each struct has a
 * member `added`, it also expects the library to refuse members that it does not know.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <mxfp.h>

static int line_failed;

#define EXPECT(condition) \
	do { \
		if (!(condition) && line_failed == 0) \
			line_failed = __LINE__; \
	} while (0)

/* What the structs' sizes are set to: 0, or sizeof. */
static size_t sized;
#define SIZE_OF(type) (sized * sizeof(type))

/* A copy of n bytes up to the end of a page. */
static void *place(const void *bytes, size_t n)
{
	const size_t page = 4096;
	char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + page, page, PROT_NONE) != 0)
		abort();
	return memcpy(at + page - n, bytes, n);
}

#define PLACE(object) place(&(object), sizeof(object))

#ifdef NEWER
/* The call with the struct's new member set. */
#define REFUSED(object, call) \
	do { \
		(object)->size = sizeof *(object); \
		(object)->added = 1; \
		EXPECT((call) == MXFP_ERR_OPTION); \
		(object)->added = 0; \
		EXPECT((call) == MXFP_OK); \
		(object)->size = SIZE_OF(*(object)); \
	} while (0)
#else
#define REFUSED(object, call) EXPECT((call) == MXFP_OK)
#endif

static float numbers[32] = {6.0F, -0.5F, 1.0F, 1000.0F};
static unsigned char codes[32], scales[2], masks[16];
static float decoded[32];

static struct mxfp_exec *new_exec(void)
{
	const struct mxfp_exec exec = {.size = SIZE_OF(exec), .threads = 1, .isa = "ref"};

	return PLACE(exec);
}

static void convert(void)
{
	const struct mxfp_counts zero = {.size = SIZE_OF(zero)};
	struct mxfp_counts *counts = PLACE(zero);
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_convert_options o = {.size = SIZE_OF(o), .counts = counts, .exec = exec};
	struct mxfp_convert_options *options = PLACE(o);

	EXPECT(mxfp_convert(codes, MXFP_FORMAT_E4M3, numbers, MXFP_FORMAT_F32, 4, options) == MXFP_OK);
	EXPECT(codes[0] == 0x4C && codes[1] == 0xB0 && codes[2] == 0x38 && codes[3] == 0x7E);
	EXPECT(counts->saturated == 1 && counts->nan == 0 && counts->size == SIZE_OF(zero));
	REFUSED(options, mxfp_convert(codes, MXFP_FORMAT_E4M3, numbers, MXFP_FORMAT_F32, 4, options));
	REFUSED(counts, mxfp_convert(codes, MXFP_FORMAT_E4M3, numbers, MXFP_FORMAT_F32, 4, options));
	REFUSED(exec, mxfp_convert(codes, MXFP_FORMAT_E4M3, numbers, MXFP_FORMAT_F32, 4, options));
	options->size = 8;
	EXPECT(mxfp_convert(codes, MXFP_FORMAT_E4M3, numbers, MXFP_FORMAT_F32, 4, options) == MXFP_ERR_OPTION);
}

/* 6 = 1.5 * 2^2 and emax 2 give scale 2^0, byte 127; 6 is code 7 and -0.5 code 9. With NVFP4 the tensor scale comes
   back: amax 6 of te is fl32(6 / 2688). */
static void quantize(enum mxfp_format format)
{
	const struct mxfp_blocks b = {
		.size = SIZE_OF(b), .format = format, .rows = 1, .cols = 32, .codes = codes, .scales = scales,
	};
	const struct mxfp_quantize_options o = {.size = SIZE_OF(o), .exec = new_exec()};
	struct mxfp_blocks *blocks = PLACE(b);
	struct mxfp_quantize_options *options = PLACE(o);
	struct mxfp_exec *exec = new_exec();

	numbers[3] = 0;
	EXPECT(mxfp_quantize(blocks, numbers, MXFP_FORMAT_F32, 0, options) == MXFP_OK);
	EXPECT(codes[0] == 0x97 && codes[1] == 0x02);
	if (format == MXFP_FORMAT_NVFP4)
		EXPECT(blocks->tensor_scale > 0.00223F && blocks->tensor_scale < 0.00224F);
	else
		EXPECT(scales[0] == 127);
	REFUSED(options, mxfp_quantize(blocks, numbers, MXFP_FORMAT_F32, 0, options));
	REFUSED(blocks, mxfp_quantize(blocks, numbers, MXFP_FORMAT_F32, 0, options));

	const struct mxfp_matrix m = mxfp_blocks_matrix(blocks);
	struct mxfp_matrix *matrix = PLACE(m);
	matrix->size = SIZE_OF(m);
	EXPECT(mxfp_dequantize(matrix, decoded, MXFP_FORMAT_F32, 0, exec) == MXFP_OK);
	EXPECT(decoded[0] > 5.99F && decoded[0] < 6.01F && decoded[1] < -0.49F && decoded[4] == 0);
	REFUSED(matrix, mxfp_dequantize(matrix, decoded, MXFP_FORMAT_F32, 0, exec));
	REFUSED(exec, mxfp_dequantize(matrix, decoded, MXFP_FORMAT_F32, 0, exec));
}

/* 6, 0, 1 and 0 are exact at scales 2^0 and 2^1; rule mse takes the larger, at which 6 is 3 * 2: code 5. */
static void apply(void)
{
	const struct mxfp_blocks b = {
		.size = SIZE_OF(b), .format = MXFP_FORMAT_MXFP4, .rows = 1, .cols = 4, .codes = codes, .scales = scales,
	};
	const struct mxfp_quantize_options q = {.size = SIZE_OF(q)};
	struct mxfp_blocks *blocks = PLACE(b);
	struct mxfp_quantize_options *quantize = PLACE(q);
	const struct mxfp_row_output r = {.size = SIZE_OF(r), .data = decoded, .blocks = blocks, .quantize = quantize};
	struct mxfp_row_output *output = PLACE(r);
	const struct mxfp_apply_options o = {.size = SIZE_OF(o), .exec = new_exec()};
	struct mxfp_apply_options *options = PLACE(o);

	EXPECT(mxfp_apply(MXFP_FUNCTION_RELU, output, numbers, MXFP_FORMAT_F32, 0, 1, 4, options) == MXFP_OK);
	EXPECT(decoded[0] == 6 && decoded[1] == 0 && decoded[2] == 1 && codes[0] == 0x05 && scales[0] == 128);
	REFUSED(options, mxfp_apply(MXFP_FUNCTION_RELU, output, numbers, MXFP_FORMAT_F32, 0, 1, 4, options));
	REFUSED(output, mxfp_apply(MXFP_FUNCTION_RELU, output, numbers, MXFP_FORMAT_F32, 0, 1, 4, options));
	REFUSED(blocks, mxfp_apply(MXFP_FUNCTION_RELU, output, numbers, MXFP_FORMAT_F32, 0, 1, 4, options));
	REFUSED(quantize, mxfp_apply(MXFP_FUNCTION_RELU, output, numbers, MXFP_FORMAT_F32, 0, 1, 4, options));
}

/* Each operation on a row of 6, -0.5, 1, 0, whose largest number is 6 and whose sum is 6.5. */
static void operate_on_rows(void)
{
	const struct mxfp_row_input i = {.size = SIZE_OF(i), .data = numbers};
	struct mxfp_row_input *in = PLACE(i);
	const struct mxfp_row_output r = {.size = SIZE_OF(r), .data = decoded};
	struct mxfp_row_output *out = PLACE(r);
	const struct mxfp_softmax_options s = {.size = SIZE_OF(s), .exec = new_exec()};
	struct mxfp_softmax_options *softmax = PLACE(s);
	const struct mxfp_norm_options n = {.size = SIZE_OF(n), .weight = in, .exec = new_exec()};
	struct mxfp_norm_options *norm = PLACE(n);
	const struct mxfp_gate_options g = {.size = SIZE_OF(g), .exec = new_exec()};
	struct mxfp_gate_options *gate = PLACE(g);
	const struct mxfp_rotate_options t = {.size = SIZE_OF(t), .exec = new_exec()};
	struct mxfp_rotate_options *rotate = PLACE(t);
	const struct mxfp_rotary_options f = {.size = SIZE_OF(f), .base = 10000};
	struct mxfp_rotary_options *rotary = PLACE(f);
	float frequencies[2], sum;

	EXPECT(mxfp_row_reduce(MXFP_REDUCTION_SUM, &sum, in, 1, 4, NULL) == MXFP_OK && sum == 6.5F);
	REFUSED(in, mxfp_row_reduce(MXFP_REDUCTION_SUM, &sum, in, 1, 4, NULL));
	EXPECT(mxfp_softmax(out, in, 1, 4, softmax) == MXFP_OK && decoded[0] > 0.98F && decoded[0] < 1);
	REFUSED(softmax, mxfp_softmax(out, in, 1, 4, softmax));
	REFUSED(out, mxfp_softmax(out, in, 1, 4, softmax));
	EXPECT(mxfp_rms_norm(out, in, 1, 4, norm) == MXFP_OK && decoded[0] > 11 && decoded[3] == 0);
	REFUSED(norm, mxfp_rms_norm(out, in, 1, 4, norm));
	EXPECT(mxfp_gate(MXFP_FUNCTION_RELU, out, in, in, 1, 4, gate) == MXFP_OK && decoded[0] == 36 && decoded[2] == 1);
	REFUSED(gate, mxfp_gate(MXFP_FUNCTION_RELU, out, in, in, 1, 4, gate));
	EXPECT(mxfp_rotary_frequencies(frequencies, NULL, 4, rotary) == MXFP_OK && frequencies[0] == 1);
	REFUSED(rotary, mxfp_rotary_frequencies(frequencies, NULL, 4, rotary));
	EXPECT(mxfp_rotate(out, in, frequencies, 1, 4, rotate) == MXFP_OK && decoded[0] == 6);
	REFUSED(rotate, mxfp_rotate(out, in, frequencies, 1, 4, rotate));
}

/* 6 + 6 twice: 12, then 12 + 6. */
static void accumulate(void)
{
	static const float six[2] = {6, 6};
	const struct mxfp_matrix m = {.size = SIZE_OF(m), .rows = 1, .cols = 2, .data = six};
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_accumulate_options o = {.size = SIZE_OF(o), .exec = exec};
	struct mxfp_accumulate_options *options = PLACE(o);
	struct mxfp_matrix *matrix = PLACE(m);
	const void *const buffers[2] = {six, decoded};

	decoded[0] = 6;
	EXPECT(mxfp_accumulate(matrix, decoded, MXFP_FORMAT_F32, 0, options) == MXFP_OK);
	EXPECT(decoded[0] == 12);
	EXPECT(mxfp_reduce(decoded, MXFP_FORMAT_F32, buffers, MXFP_FORMAT_F32, 2, 2, options) == MXFP_OK);
	EXPECT(decoded[0] == 18);
	REFUSED(options, mxfp_accumulate(matrix, decoded, MXFP_FORMAT_F32, 0, options));
	REFUSED(options, mxfp_reduce(decoded, MXFP_FORMAT_F32, buffers, MXFP_FORMAT_F32, 2, 2, options));
	REFUSED(matrix, mxfp_accumulate(matrix, decoded, MXFP_FORMAT_F32, 0, options));
	REFUSED(exec, mxfp_accumulate(matrix, decoded, MXFP_FORMAT_F32, 0, options));
}

/* 6.5 at scale 1 becomes 6. */
static void fake_quantize(void)
{
	static const float x[2] = {6.5F, 3};
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_quantize_options o = {.size = SIZE_OF(o), .rule = MXFP_RULE_FLOOR, .exec = exec};
	const struct mxfp_fake_output to = {.size = SIZE_OF(to), .data = decoded};
	struct mxfp_quantize_options *options = PLACE(o);
	struct mxfp_fake_output *output = PLACE(to);

	EXPECT(mxfp_fake_quantize(MXFP_FORMAT_MXFP4, output, x, MXFP_FORMAT_F32, 0, 1, 2, options) == MXFP_OK);
	EXPECT(decoded[0] == 6);
	REFUSED(output, mxfp_fake_quantize(MXFP_FORMAT_MXFP4, output, x, MXFP_FORMAT_F32, 0, 1, 2, options));
	REFUSED(options, mxfp_fake_quantize(MXFP_FORMAT_MXFP4, output, x, MXFP_FORMAT_F32, 0, 1, 2, options));
	REFUSED(exec, mxfp_fake_quantize(MXFP_FORMAT_MXFP4, output, x, MXFP_FORMAT_F32, 0, 1, 2, options));
}

static void prune(void)
{
	const struct mxfp_sparse s = {
		.size = SIZE_OF(s), .format = MXFP_FORMAT_F32, .sparsity = {2, 4}, .rows = 1, .cols = 4, .masks = masks,
	};
	struct mxfp_sparse *sparse = PLACE(s);
	struct mxfp_exec *exec = new_exec();

	EXPECT(mxfp_sparse_prune(sparse, NULL, 0, numbers, 0, exec) == MXFP_OK);
	EXPECT(masks[0] == 5);
	REFUSED(sparse, mxfp_sparse_prune(sparse, NULL, 0, numbers, 0, exec));
	REFUSED(exec, mxfp_sparse_prune(sparse, NULL, 0, numbers, 0, exec));
}

/* 1 x 32 by 2 x 32, of ones but for W's second row, which is 2: 32 and 64, exactly. */
static void multiply(void)
{
	float ones[3][32], c[2] = {0};
	unsigned char packed[8192], workspace[1 << 16];
	size_t bytes;

	for (int k = 0; k < 32; k++) {
		ones[0][k] = ones[1][k] = 1;
		ones[2][k] = 2;
	}
	const struct mxfp_matrix a = {.size = SIZE_OF(a), .rows = 1, .cols = 32, .data = ones[0]};
	const struct mxfp_matrix w = {.size = SIZE_OF(w), .rows = 2, .cols = 32, .data = ones[1]};
	struct mxfp_matrix *const matrix_a = PLACE(a), *const matrix_w = PLACE(w);
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_quantize_options q = {.size = SIZE_OF(q), .rule = MXFP_RULE_RCEIL};
	struct mxfp_quantize_options *quantizing = PLACE(q);
	const struct mxfp_gemm_options o = {
		.size = SIZE_OF(o), .a_format = MXFP_FORMAT_MXFP8_E4M3, .a_quantize = quantizing, .exec = exec,
	};
	struct mxfp_gemm_options *options = PLACE(o);
	const struct mxfp_product two[2] = {
		{.size = SIZE_OF(two[0]), .a = matrix_a, .w = matrix_w, .c = &c[0]},
		{.size = SIZE_OF(two[0]), .a = matrix_a, .w_packed = packed, .n = 2, .c = &c[0]},
	};
	struct mxfp_product *product = PLACE(two[0]), *products = PLACE(two);

	EXPECT(mxfp_gemm_workspace_size(product, 1, options, &bytes) == MXFP_OK && bytes <= sizeof workspace);
	EXPECT(mxfp_gemm(product, options, workspace, sizeof workspace) == MXFP_OK);
	EXPECT(c[0] == 32 && c[1] == 64);
	REFUSED(options, mxfp_gemm(product, options, workspace, sizeof workspace));
	REFUSED(product, mxfp_gemm(product, options, workspace, sizeof workspace));
	REFUSED(quantizing, mxfp_gemm(product, options, workspace, sizeof workspace));
	REFUSED(matrix_a, mxfp_gemm(product, options, workspace, sizeof workspace));
	REFUSED(matrix_w, mxfp_gemm(product, options, workspace, sizeof workspace));
	EXPECT(mxfp_pack_size(matrix_w, options, &bytes) == MXFP_OK && bytes <= sizeof packed);
	EXPECT(mxfp_pack(packed, bytes, matrix_w, options) == MXFP_OK);
	products[1].w_packed_bytes = bytes;
	c[0] = c[1] = 0;
	EXPECT(mxfp_gemm_grouped(&products[1], 1, options, workspace, sizeof workspace) == MXFP_OK);
	EXPECT(c[0] == 32 && c[1] == 64);
	/* The size is also the distance of products in an array. */
	products[0].size = products[1].size = sizeof *products;
	products[0].c = packed;
	EXPECT(mxfp_gemm_grouped(products, 2, options, workspace, sizeof workspace) == MXFP_ERR_OVERLAP);
}

static void estimate(void)
{
	uint64_t busy[8];
	struct mxfp_engine_chip *chip = place(mxfp_engine_get_chip(0), sizeof *chip);
	const struct mxfp_engine e = {
		.size = SIZE_OF(e), .chip = chip, .busy = busy, .n_busy = 8,
	};
	struct mxfp_engine *engine = PLACE(e);

	chip->size = SIZE_OF(*chip);
	EXPECT(mxfp_engine_estimate(NULL, 0, NULL, engine) == MXFP_OK);
	EXPECT(engine->arrays == 8 && engine->cycles == 0);
	REFUSED(engine, mxfp_engine_estimate(NULL, 0, NULL, engine));
	REFUSED(chip, mxfp_engine_estimate(NULL, 0, NULL, engine));
}

int main(void)
{
	for (sized = 0; sized < 2; sized++) {
		numbers[3] = 1000.0F;
		convert();
		quantize(MXFP_FORMAT_MXFP4);
		quantize(MXFP_FORMAT_NVFP4);
		apply();
		operate_on_rows();
		accumulate();
		fake_quantize();
		prune();
		multiply();
		estimate();
		if (line_failed != 0) {
			printf("%s:%d: failed with sizes of %s\n", __FILE__, line_failed, sized != 0 ? "sizeof" : "0");
			return 1;
		}
	}
	return 0;
}
