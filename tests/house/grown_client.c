/* SPDX-License-Identifier: MIT */
/*
 * Calls with every extensible struct, for test_grown.sh. Each struct ends at a guard page, so a library that reads or
 * writes beyond the struct that its caller compiled crashes. A struct whose size is not set is refused. Compiled with NEWER and
 * headers in which each struct has a member `added`, it also expects the library to refuse members that it does not know.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <mxfp.h>
#include <mxfp/engine.h>

static int line_failed;

#define EXPECT(condition) \
	do { \
		if (!(condition) && line_failed == 0) \
			line_failed = __LINE__; \
	} while (0)

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

/* The bytes of the struct in its first version, and the call with the struct's new member set. */
#ifdef NEWER
#define FIRST_BYTES(struct_) ((size_t)((const char *)&(struct_).added - (const char *)&(struct_)))
#define EXPECT_UNKNOWN(object, call) \
	do { \
		(object)->added = 1; \
		EXPECT((call) == MXFP_ERR_VERSION); \
		(object)->added = 0; \
	} while (0)
#else
#define FIRST_BYTES(struct_) sizeof(struct_)
#define EXPECT_UNKNOWN(object, call) ((void)0)
#endif

/* The call, which succeeds, is refused where the struct has no size, one that is less than any version's, or a member that the
   library does not know. */
#define CHECK(object, call) \
	do { \
		(object)->size = 0; \
		EXPECT((call) == MXFP_ERR_VERSION); \
		(object)->size = FIRST_BYTES(*(object)) - 1; \
		EXPECT((call) == MXFP_ERR_VERSION); \
		(object)->size = sizeof *(object); \
		EXPECT_UNKNOWN(object, call); \
		EXPECT((call) == MXFP_OK); \
	} while (0)

static float numbers[32] = {6.0F, -0.5F, 1.0F, 1000.0F};
static unsigned char codes[32], scales[2], masks[16];
static float decoded[32];

static struct mxfp_exec *new_exec(void)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = "ref"};

	return PLACE(exec);
}

static struct mxfp_matrix *new_numbers(size_t cols, const float *data)
{
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, data);

	return PLACE(matrix);
}

static struct mxfp_blocks *new_blocks(enum mxfp_format format, size_t cols)
{
	const struct mxfp_blocks blocks = mxfp_blocks_at(format, 1, cols, codes, scales);

	return PLACE(blocks);
}

static struct mxfp_result *new_result(enum mxfp_format format, void *data)
{
	const struct mxfp_result result = mxfp_to_numbers(format, data);

	return PLACE(result);
}

static void convert(void)
{
	const struct mxfp_counts zero = {.size = sizeof zero};
	struct mxfp_counts *counts = PLACE(zero);
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_convert_options o = {.size = sizeof o};
	struct mxfp_convert_options *options = PLACE(o);
	struct mxfp_matrix *matrix = new_numbers(4, numbers);
	struct mxfp_result *result = new_result(MXFP_FORMAT_E4M3, codes);

	result->counts = counts;
	EXPECT(mxfp_convert(result, matrix, options, exec) == MXFP_OK);
	EXPECT(codes[0] == 0x4C && codes[1] == 0xB0 && codes[2] == 0x38 && codes[3] == 0x7E);
	EXPECT(counts->saturated == 1 && counts->nan == 0 && counts->size == sizeof zero);
	CHECK(result, mxfp_convert(result, matrix, options, exec));
	CHECK(matrix, mxfp_convert(result, matrix, options, exec));
	CHECK(options, mxfp_convert(result, matrix, options, exec));
	CHECK(counts, mxfp_convert(result, matrix, options, exec));
	CHECK(exec, mxfp_convert(result, matrix, options, exec));
}

/* 6 = 1.5 * 2^2 and emax 2 give scale 2^0, byte 127; 6 is code 7 and -0.5 code 9. With NVFP4 the tensor scale comes
   back: amax 6 of te is fl32(6 / 2688). */
static void quantize(enum mxfp_format format)
{
	const struct mxfp_quantize_options o = {.size = sizeof o};
	struct mxfp_quantize_options *options = PLACE(o);
	struct mxfp_exec *exec = new_exec();
	struct mxfp_matrix *source = new_numbers(32, numbers);
	struct mxfp_blocks *blocks = new_blocks(format, 32);
	struct mxfp_result *result = new_result(MXFP_FORMAT_F32, NULL), *back = new_result(MXFP_FORMAT_F32, decoded);
	float amax = 0;

	numbers[3] = 0;
	result->blocks = blocks;
	EXPECT(mxfp_quantize(result, source, options, exec) == MXFP_OK);
	EXPECT(codes[0] == 0x97 && codes[1] == 0x02);
	if (format == MXFP_FORMAT_NVFP4)
		EXPECT(blocks->tensor_scale > 0.00223F && blocks->tensor_scale < 0.00224F);
	else
		EXPECT(scales[0] == 127);
	CHECK(result, mxfp_quantize(result, source, options, exec));
	CHECK(source, mxfp_quantize(result, source, options, exec));
	CHECK(options, mxfp_quantize(result, source, options, exec));
	CHECK(blocks, mxfp_quantize(result, source, options, exec));
	CHECK(exec, mxfp_quantize(result, source, options, exec));

	EXPECT(mxfp_amax(&amax, source, exec) == MXFP_OK && amax == 6);
	CHECK(source, mxfp_amax(&amax, source, exec));
	CHECK(exec, mxfp_amax(&amax, source, exec));

	const struct mxfp_matrix m = mxfp_blocks_matrix(blocks);
	struct mxfp_matrix *matrix = PLACE(m);
	EXPECT(mxfp_dequantize(back, matrix, exec) == MXFP_OK);
	EXPECT(decoded[0] > 5.99F && decoded[0] < 6.01F && decoded[1] < -0.49F && decoded[4] == 0);
	CHECK(back, mxfp_dequantize(back, matrix, exec));
	CHECK(matrix, mxfp_dequantize(back, matrix, exec));
	CHECK(exec, mxfp_dequantize(back, matrix, exec));
}

/* 6, 0, 1 and 0 are exact at scales 2^0 and 2^1; rule mse takes the larger, at which 6 is 3 * 2: code 5. */
static void apply(void)
{
	struct mxfp_blocks *blocks = new_blocks(MXFP_FORMAT_MXFP4, 4);
	const struct mxfp_quantize_options q = {.size = sizeof q};
	struct mxfp_quantize_options *quantize = PLACE(q);
	const struct mxfp_function_options o = {.size = sizeof o, .quantize = quantize};
	struct mxfp_function_options *options = PLACE(o);
	struct mxfp_matrix *in = new_numbers(4, numbers);
	struct mxfp_result *out = new_result(MXFP_FORMAT_F32, decoded);

	out->blocks = blocks;
	EXPECT(mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL) == MXFP_OK);
	EXPECT(decoded[0] == 6 && decoded[1] == 0 && decoded[2] == 1 && codes[0] == 0x05 && scales[0] == 128);
	CHECK(out, mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL));
	CHECK(in, mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL));
	CHECK(options, mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL));
	CHECK(blocks, mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL));
	CHECK(quantize, mxfp_function_apply(out, MXFP_FUNCTION_RELU, in, options, NULL));
}

/* Each operation on a row of 6, -0.5, 1, 0, whose largest number is 6 and whose sum is 6.5. */
static void operate_on_rows(void)
{
	struct mxfp_matrix *in = new_numbers(4, numbers), *other = new_numbers(4, numbers);
	float sums[4];
	struct mxfp_result *out = new_result(MXFP_FORMAT_F32, decoded), *residual_out = new_result(MXFP_FORMAT_F32, sums);
	const struct mxfp_softmax_options s = {.size = sizeof s, .mask = other};
	struct mxfp_softmax_options *softmax = PLACE(s);
	const struct mxfp_norm_options n = {.size = sizeof n, .weight = other, .residual = in, .residual_out = residual_out};
	struct mxfp_norm_options *norm = PLACE(n);
	const struct mxfp_add_options a = {.size = sizeof a};
	struct mxfp_add_options *add = PLACE(a);
	const struct mxfp_glu_options g = {.size = sizeof g};
	struct mxfp_glu_options *glu = PLACE(g);
	const struct mxfp_rotary_options t = {.size = sizeof t};
	struct mxfp_rotary_options *rotary = PLACE(t);
	const struct mxfp_frequency_options f = {.size = sizeof f, .base = 10000};
	struct mxfp_frequency_options *frequency = PLACE(f);
	float frequencies[2], sum;
	size_t first;

	EXPECT(mxfp_rows_reduce(&sum, MXFP_REDUCTION_SUM, in, NULL) == MXFP_OK && sum == 6.5F);
	CHECK(in, mxfp_rows_reduce(&sum, MXFP_REDUCTION_SUM, in, NULL));
	EXPECT(mxfp_rows_argmax(&first, in, NULL) == MXFP_OK && first == 0);
	CHECK(in, mxfp_rows_argmax(&first, in, NULL));
	EXPECT(mxfp_softmax(out, in, softmax, NULL) == MXFP_OK && decoded[0] > 0.99F && decoded[0] < 1);
	CHECK(softmax, mxfp_softmax(out, in, softmax, NULL));
	CHECK(out, mxfp_softmax(out, in, softmax, NULL));
	CHECK(other, mxfp_softmax(out, in, softmax, NULL));
	EXPECT(mxfp_rms_norm(out, in, norm, NULL) == MXFP_OK && decoded[0] > 11 && decoded[3] == 0 && sums[0] == 12);
	CHECK(norm, mxfp_rms_norm(out, in, norm, NULL));
	CHECK(other, mxfp_rms_norm(out, in, norm, NULL));
	CHECK(residual_out, mxfp_rms_norm(out, in, norm, NULL));
	EXPECT(mxfp_rows_add(out, in, other, add, NULL) == MXFP_OK && decoded[0] == 12);
	CHECK(add, mxfp_rows_add(out, in, other, add, NULL));
	CHECK(other, mxfp_rows_add(out, in, other, add, NULL));
	EXPECT(mxfp_glu(out, MXFP_FUNCTION_RELU, in, other, glu, NULL) == MXFP_OK && decoded[0] == 36 && decoded[2] == 1);
	CHECK(glu, mxfp_glu(out, MXFP_FUNCTION_RELU, in, other, glu, NULL));
	CHECK(other, mxfp_glu(out, MXFP_FUNCTION_RELU, in, other, glu, NULL));
	EXPECT(mxfp_rotary_frequencies(frequencies, NULL, 4, frequency) == MXFP_OK && frequencies[0] == 1);
	CHECK(frequency, mxfp_rotary_frequencies(frequencies, NULL, 4, frequency));
	EXPECT(mxfp_rotary(out, in, frequencies, rotary, NULL) == MXFP_OK && decoded[0] == 6);
	CHECK(rotary, mxfp_rotary(out, in, frequencies, rotary, NULL));
}

/* 6 + 6 twice: 12, then 12 + 6. */
static void accumulate(void)
{
	static const float six[2] = {6, 6};
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_accumulate_options o = {.size = sizeof o};
	struct mxfp_accumulate_options *options = PLACE(o);
	struct mxfp_matrix *matrix = new_numbers(2, six);
	struct mxfp_result *sum = new_result(MXFP_FORMAT_F32, decoded);
	const void *const terms[2] = {six, decoded};

	decoded[0] = 6;
	EXPECT(mxfp_accumulate(sum, matrix, options, exec) == MXFP_OK);
	EXPECT(decoded[0] == 12);
	EXPECT(mxfp_sum_arrays(decoded, MXFP_FORMAT_F32, terms, 2, MXFP_FORMAT_F32, 2, options, exec) == MXFP_OK);
	EXPECT(decoded[0] == 18);
	CHECK(options, mxfp_accumulate(sum, matrix, options, exec));
	CHECK(sum, mxfp_accumulate(sum, matrix, options, exec));
	CHECK(matrix, mxfp_accumulate(sum, matrix, options, exec));
	CHECK(exec, mxfp_accumulate(sum, matrix, options, exec));
	CHECK(options, mxfp_sum_arrays(decoded, MXFP_FORMAT_F32, terms, 2, MXFP_FORMAT_F32, 2, options, exec));
	CHECK(exec, mxfp_sum_arrays(decoded, MXFP_FORMAT_F32, terms, 2, MXFP_FORMAT_F32, 2, options, exec));
}

/* 6.5 at scale 1 becomes 6. */
static void fake_quantize(void)
{
	static const float x[2] = {6.5F, 3};
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_FLOOR};
	struct mxfp_quantize_options *options = PLACE(o);
	struct mxfp_matrix *source = new_numbers(2, x);
	struct mxfp_result *result = new_result(MXFP_FORMAT_F32, decoded);

	EXPECT(mxfp_fake_quantize(result, MXFP_FORMAT_MXFP4, source, options, exec) == MXFP_OK);
	EXPECT(decoded[0] == 6);
	CHECK(result, mxfp_fake_quantize(result, MXFP_FORMAT_MXFP4, source, options, exec));
	CHECK(source, mxfp_fake_quantize(result, MXFP_FORMAT_MXFP4, source, options, exec));
	CHECK(options, mxfp_fake_quantize(result, MXFP_FORMAT_MXFP4, source, options, exec));
	CHECK(exec, mxfp_fake_quantize(result, MXFP_FORMAT_MXFP4, source, options, exec));
}

/* Of a square of zeros, element (0, 1) is code 2 and becomes element (1, 0). */
static void transpose(void)
{
	static unsigned char from[512] = {0x20}, from_scales[32], to[512], to_scales[32];
	const struct mxfp_blocks f = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 32, 32, from, from_scales);
	const struct mxfp_blocks t = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 32, 32, to, to_scales);
	const struct mxfp_matrix m = mxfp_blocks_matrix(&f);
	struct mxfp_matrix *square = PLACE(m);
	struct mxfp_blocks *transposed = PLACE(t);
	struct mxfp_exec *exec = new_exec();

	EXPECT(mxfp_blocks_transpose(transposed, square, exec) == MXFP_OK);
	EXPECT(to[0] == 0 && to[16] == 0x02);
	CHECK(transposed, mxfp_blocks_transpose(transposed, square, exec));
	CHECK(square, mxfp_blocks_transpose(transposed, square, exec));
	CHECK(exec, mxfp_blocks_transpose(transposed, square, exec));
}

static void prune(void)
{
	const struct mxfp_sparse s = {.size = sizeof s, .sparsity = {2, 4}, .rows = 1, .cols = 4, .masks = masks};
	struct mxfp_sparse *sparse = PLACE(s);
	struct mxfp_exec *exec = new_exec();
	struct mxfp_matrix *source = new_numbers(4, numbers);
	struct mxfp_result *pruned = new_result(MXFP_FORMAT_F32, decoded);

	EXPECT(mxfp_sparse_prune(sparse, pruned, source, exec) == MXFP_OK);
	EXPECT(masks[0] == 5 && decoded[0] == 6 && decoded[1] == 0);
	CHECK(sparse, mxfp_sparse_prune(sparse, pruned, source, exec));
	CHECK(pruned, mxfp_sparse_prune(sparse, pruned, source, exec));
	CHECK(source, mxfp_sparse_prune(sparse, pruned, source, exec));
	CHECK(exec, mxfp_sparse_prune(sparse, pruned, source, exec));
	CHECK(sparse, mxfp_sparse_check(sparse));
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
	const struct mxfp_matrix two_rows = mxfp_numbers(MXFP_FORMAT_F32, 2, 32, ones[1]);
	struct mxfp_matrix *const a = new_numbers(32, ones[0]), *const w = PLACE(two_rows);
	struct mxfp_result *result = new_result(MXFP_FORMAT_F32, c);
	struct mxfp_exec *exec = new_exec();
	const struct mxfp_quantize_options q = {.size = sizeof q, .rule = MXFP_RULE_RCEIL};
	struct mxfp_quantize_options *quantizing = PLACE(q);
	const struct mxfp_gemm_options o = {
		.size = sizeof o, .a_format = MXFP_FORMAT_MXFP8_E4M3, .a_quantize = quantizing, .c_quantize = quantizing};
	struct mxfp_gemm_options *options = PLACE(o);
	const struct mxfp_product two[2] = {
		{.size = sizeof two[0], .c = result, .a = a, .w = w},
		{.size = sizeof two[0], .c = result, .a = a, .w_packed = packed, .n = 2},
	};
	struct mxfp_product *product = PLACE(two[0]), *products = PLACE(two);

	EXPECT(mxfp_gemm_workspace_size(&bytes, product, 1, options, exec) == MXFP_OK && bytes <= sizeof workspace);
	EXPECT(mxfp_gemm(product, options, workspace, sizeof workspace, exec) == MXFP_OK);
	EXPECT(c[0] == 32 && c[1] == 64);
	CHECK(options, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(product, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(result, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(quantizing, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(a, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(w, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	CHECK(exec, mxfp_gemm(product, options, workspace, sizeof workspace, exec));
	EXPECT(mxfp_pack_size(&bytes, w, options, exec) == MXFP_OK && bytes <= sizeof packed);
	EXPECT(mxfp_pack(packed, bytes, w, options, exec) == MXFP_OK);
	CHECK(w, mxfp_pack(packed, bytes, w, options, exec));
	CHECK(options, mxfp_pack(packed, bytes, w, options, exec));
	CHECK(exec, mxfp_pack(packed, bytes, w, options, exec));
	products[1].w_packed_bytes = bytes;
	c[0] = c[1] = 0;
	EXPECT(mxfp_gemm_grouped(NULL, &products[1], 1, options, workspace, sizeof workspace, exec) == MXFP_OK);
	EXPECT(c[0] == 32 && c[1] == 64);
	/* The size is also the distance of products in an array. */
	products[0].c = new_result(MXFP_FORMAT_F32, packed);
	EXPECT(mxfp_gemm_grouped(NULL, products, 2, options, workspace, sizeof workspace, exec) == MXFP_ERR_OVERLAP);
	products[1].size = sizeof(size_t);
	EXPECT(mxfp_gemm_grouped(NULL, products, 2, options, workspace, sizeof workspace, exec) == MXFP_ERR_VERSION);
}

/* One token attends to itself: the result is its value. */
static void attend(void)
{
	static unsigned char memory[1 << 16], workspace[1 << 16];
	const struct mxfp_attention_cache g = {
		.size = sizeof g, .heads = 1, .head_cols = 4, .capacity = 1, .memory = memory, .memory_bytes = sizeof memory};
	struct mxfp_attention_cache *cache = PLACE(g);
	const struct mxfp_attention_options o = {.size = sizeof o};
	struct mxfp_attention_options *options = PLACE(o);
	struct mxfp_matrix *token = new_numbers(4, numbers), *value = new_numbers(4, numbers);
	struct mxfp_result *result = new_result(MXFP_FORMAT_F32, decoded);
	struct mxfp_exec *exec = new_exec();
	size_t bytes;

	EXPECT(mxfp_attention_cache_size(&bytes, cache) == MXFP_OK && bytes <= sizeof memory);
	CHECK(cache, mxfp_attention_cache_size(&bytes, cache));
	EXPECT(mxfp_attention_store(cache, 0, token, value, exec) == MXFP_OK);
	CHECK(cache, mxfp_attention_store(cache, 0, token, value, exec));
	CHECK(token, mxfp_attention_store(cache, 0, token, value, exec));
	CHECK(value, mxfp_attention_store(cache, 0, token, value, exec));
	CHECK(exec, mxfp_attention_store(cache, 0, token, value, exec));
	EXPECT(mxfp_attention_workspace_size(&bytes, cache, 0, 1, 1, options, exec) == MXFP_OK && bytes <= sizeof workspace);
	CHECK(options, mxfp_attention_workspace_size(&bytes, cache, 0, 1, 1, options, exec));
	EXPECT(mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec) == MXFP_OK);
	EXPECT(decoded[0] == 6 && decoded[1] == -0.5F);
	CHECK(result, mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec));
	CHECK(token, mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec));
	CHECK(cache, mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec));
	CHECK(options, mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec));
	CHECK(exec, mxfp_attention(result, token, cache, 0, options, workspace, sizeof workspace, exec));
}

static void estimate(void)
{
	uint64_t busy[8];
	const struct mxfp_engine_chip *known = mxfp_engine_get_chip(0);
	struct mxfp_engine_chip own = {.size = 0};
	/* The library's has the members of its own version. */
	memcpy(&own, known, known->size < sizeof own ? known->size : sizeof own);
	own.size = sizeof own;
	struct mxfp_engine_chip *chip = PLACE(own);
	const struct mxfp_engine e = {.size = sizeof e, .chip = chip, .busy = busy, .n_busy = 8};
	struct mxfp_engine *engine = PLACE(e);
	const struct mxfp_gemm_options o = {.size = sizeof o};
	struct mxfp_gemm_options *options = PLACE(o);

	EXPECT(mxfp_engine_estimate(engine, NULL, NULL, 0, options) == MXFP_OK);
	EXPECT(engine->arrays == 8 && engine->cycles == 0);
	CHECK(engine, mxfp_engine_estimate(engine, NULL, NULL, 0, options));
	CHECK(chip, mxfp_engine_estimate(engine, NULL, NULL, 0, options));
	CHECK(options, mxfp_engine_estimate(engine, NULL, NULL, 0, options));
}

int main(void)
{
	convert();
	quantize(MXFP_FORMAT_MXFP4);
	quantize(MXFP_FORMAT_NVFP4);
	apply();
	operate_on_rows();
	accumulate();
	fake_quantize();
	transpose();
	prune();
	multiply();
	attend();
	estimate();
	if (line_failed != 0)
		printf("%s:%d: failed\n", __FILE__, line_failed);
	return line_failed != 0;
}
