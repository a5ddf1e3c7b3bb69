/* SPDX-License-Identifier: MIT */
/* libmxfp itself as a program for mxfp conform, with the kernels of this machine: cc -o library library.c -lmxfp
   With --probe it sums as argv[1] says, an acc, in passes of argv[2]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxfp.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "numbers are sent little-endian; on this machine their bytes would have to be reversed"
#endif

static char line[4096];
static const char *own_acc = "";
static unsigned own_pass;

static const char *word(const char *key)
{
	static char words[4][64];
	static int next;
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
	at = strstr(line, pattern);
	next = (next + 1) % 4;
	snprintf(words[next], sizeof words[next], "%.*s", at != NULL ? (int)strcspn(at + strlen(pattern), "\"") : 0,
	         at != NULL ? at + strlen(pattern) : "");
	return words[next];
}

static unsigned long long number(const char *key)
{
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":", key);
	at = strstr(line, pattern);
	return at != NULL ? strtoull(at + strlen(pattern), NULL, 10) : 0;
}

static float bits(const char *key)
{
	const unsigned word_ = (unsigned)number(key);
	float x;

	memcpy(&x, &word_, 4);
	return x;
}

static enum mxfp_format format_of(const char *key)
{
	enum mxfp_format format = MXFP_FORMAT_F32;

	return mxfp_format_from_name(&format, word(key)) == MXFP_OK ? format : MXFP_FORMAT_F32;
}

/* A choice; the default where the request has none. */
static int choice(const char *key, enum mxfp_option option)
{
	int value = 0;

	return mxfp_option_from_name(&value, option, word(key)) == MXFP_OK ? value : 0;
}

/* Each answers n items, and returns how many bytes that is; -1: not supported. Numbers are as they are sent. */
static long done(enum mxfp_status status, long bytes)
{
	return status == MXFP_OK ? bytes : -1;
}

static long convert(const void *in, void *out, long n, enum mxfp_format from, enum mxfp_format to)
{
	const struct mxfp_convert_options options = {
		.size = sizeof options, .round = (enum mxfp_round)choice("round", MXFP_OPTION_ROUND),
		.overflow = (enum mxfp_overflow)choice("overflow", MXFP_OPTION_OVERFLOW), .seed = number("seed"),
		.stream = number("stream"), .first_index = number("first"),
	};

	return done(mxfp_convert_array(out, to, in, from, (size_t)n, &options, NULL), n * (long)mxfp_format_get_info(to)->storage_bytes);
}

static long quantize(const void *in, char *out, long n, enum mxfp_format format, size_t cols)
{
	struct mxfp_sizes size;
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, (size_t)n, cols, in);
	struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = (enum mxfp_rule)choice("rule", MXFP_OPTION_RULE),
		.recipe = (enum mxfp_recipe)choice("recipe", MXFP_OPTION_RECIPE), .round = (enum mxfp_round)choice("round", MXFP_OPTION_ROUND),
	};

	if (format == MXFP_FORMAT_NVFP4)
		options.tensor_amax = mxfp_some(bits("amax_bits"));
	mxfp_blocks_size(&size, format, (size_t)n, cols);
	struct mxfp_blocks blocks = mxfp_blocks_at(format, (size_t)n, cols, out, out + size.codes_bytes);
	struct mxfp_result result = mxfp_to_blocks(&blocks);
	return done(mxfp_quantize(&result, &numbers, &options, NULL), (long)(size.codes_bytes + size.scales_bytes));
}

static long dequantize(const char *in, void *out, long n, enum mxfp_format format, size_t cols)
{
	struct mxfp_sizes size;

	mxfp_blocks_size(&size, format, (size_t)n, cols);
	struct mxfp_matrix blocks = mxfp_coded(format, (size_t)n, cols, in, in + size.codes_bytes);
	blocks.tensor_scale = bits("scale_bits");
	blocks.tensor_scale_divides = strcmp(word("tensor_scale"), "divides") == 0;
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, out);
	return done(mxfp_dequantize(&result, &blocks, NULL), n * (long)cols * 4);
}

/* Blocks of the largest magnitude and zeros. */
static long scale(const float *in, char *out, long n)
{
	float *x = calloc((size_t)n * 32, sizeof *x);
	char *blocks = malloc((size_t)n * 33);
	long bytes = -1;

	for (long i = 0; x != NULL && i < n; i++)
		x[32 * i] = in[i];
	if (x != NULL && blocks != NULL)
		bytes = quantize(x, blocks, n, format_of("format"), 32);
	if (bytes > 0)
		memcpy(out, blocks + bytes - n, (size_t)n);
	free(x);
	free(blocks);
	return bytes > 0 ? n : -1;
}

static long tensor_scale(const float *in, float *out, long n)
{
	const struct mxfp_matrix zeros = mxfp_numbers(MXFP_FORMAT_F32, 1, 16, (const float[16]){0});

	for (long i = 0; i < n; i++) {
		char codes[8], scale_;
		struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 1, 16, codes, &scale_);
		const struct mxfp_result result = mxfp_to_blocks(&blocks);
		const struct mxfp_quantize_options options = {
			.size = sizeof options, .recipe = (enum mxfp_recipe)choice("recipe", MXFP_OPTION_RECIPE), .tensor_amax = mxfp_some(in[i]),
		};

		if (mxfp_quantize(&result, &zeros, &options, NULL) != MXFP_OK)
			return -1;
		out[i] = blocks.tensor_scale;
	}
	return 4 * n;
}

/* Row i of n of a side of products, which begins at `in`; returns the bytes of all rows. */
static long side(struct mxfp_matrix *matrix, enum mxfp_format format, size_t k, const char *in, long n, long i)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	struct mxfp_sizes row;
	const long bytes = (long)k * (long)info->storage_bytes;

	if (mxfp_blocks_size(&row, format, 1, k) != MXFP_OK) {
		*matrix = mxfp_numbers(format, 1, k, in + i * bytes);
		return n * bytes;
	}
	*matrix = mxfp_coded(format, 1, k, in + i * (long)row.codes_bytes, in + n * (long)row.codes_bytes + i * (long)row.scales_bytes);
	matrix->tensor_scale = 1;
	return n * (long)(row.codes_bytes + row.scales_bytes);
}

static long dot(const char *in, float *out, long n)
{
	struct mxfp_gemm_options options = {.size = sizeof options, .acc = (enum mxfp_acc)choice("acc", MXFP_OPTION_ACC)};
	const enum mxfp_format formats[2] = {format_of("a"), format_of("w")};
	int acc = MXFP_ACC_CHAIN;

	if (strcmp(word("acc"), "own") == 0) {
		mxfp_option_from_name(&acc, MXFP_OPTION_ACC, own_acc);
		options.acc = (enum mxfp_acc)acc;
		options.pass_k = own_pass;
	}
	const size_t k = (size_t)number("k");

	for (long i = 0; i < n; i++) {
		static _Alignas(64) char workspace[1 << 22];
		const struct mxfp_exec one = {.size = sizeof one, .threads = 1};
		struct mxfp_matrix a, w;
		const long bytes = side(&a, formats[0], k, in, n, i);
		const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, out + i);
		const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = &a, .w = &w};

		side(&w, formats[1], k, in + bytes, n, i);
		if (mxfp_gemm(&product, &options, workspace, sizeof workspace, &one) != MXFP_OK)
			return -1;
	}
	return 4 * n;
}

static long prune(const float *in, char *out, long n)
{
	struct mxfp_sparse sparse = {.size = sizeof sparse, .format = MXFP_FORMAT_F32, .rows = (size_t)n};
	struct mxfp_sparse_sizes size;

	sscanf(word("sparsity"), "%u:%u", &sparse.sparsity.n, &sparse.sparsity.m);
	sparse.cols = sparse.sparsity.m;
	if (mxfp_sparse_size(&size, sparse.format, sparse.sparsity, sparse.rows, sparse.cols) != MXFP_OK)
		return -1;
	sparse.masks = out;
	sparse.codes = out + size.masks_bytes;
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, sparse.rows, sparse.cols, in);
	if (mxfp_sparse_prune(&sparse, NULL, &numbers, NULL) != MXFP_OK)
		return -1;
	return done(mxfp_sparse_compress(&sparse, in, 0, NULL), (long)(size.masks_bytes + size.codes_bytes));
}

static long row(const float *in, float *out, long n)
{
	static const char *const reductions[] = {"sum", "mean", "square-sum", "max"};
	const size_t cols = (size_t)number("cols");
	const struct mxfp_matrix x = mxfp_numbers(MXFP_FORMAT_F32, (size_t)n, cols, in);
	const struct mxfp_result y = mxfp_to_numbers(MXFP_FORMAT_F32, out);
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 1.0 / (1 << 20)};
	const char *name = word("name");
	const long bytes = n * (long)cols * 4;

	for (int i = 0; i < 4; i++)
		if (strcmp(name, reductions[i]) == 0)
			return done(mxfp_rows_reduce(out, (enum mxfp_reduction)i, &x, NULL), 4 * n);
	return strcmp(name, "softmax") == 0 ? done(mxfp_softmax(&y, &x, NULL, NULL), bytes) :
	       strcmp(name, "log-softmax") == 0 ? done(mxfp_log_softmax(&y, &x, NULL, NULL), bytes) :
	       strcmp(name, "rms-norm") == 0 ? done(mxfp_rms_norm(&y, &x, &norm, NULL), bytes) :
	       strcmp(name, "layer-norm") == 0 ? done(mxfp_layer_norm(&y, &x, &norm, NULL), bytes) : -1;
}

static long attention(const float *in, float *out, long n)
{
	static char memory[1 << 18], workspace[1 << 19];
	const size_t cols = (size_t)number("cols"), keys = (size_t)number("keys");
	const struct mxfp_attention_cache cache = {.size = sizeof cache, .heads = 1, .head_cols = cols, .capacity = keys, .memory = memory,
	                                           .memory_bytes = sizeof memory};
	const struct mxfp_attention_options options = {.size = sizeof options, .scale = mxfp_some(0.25F)};

	for (long i = 0; i < n; i++) {
		const float *k = in + ((size_t)n + (size_t)i * keys) * cols, *v = k + (size_t)n * keys * cols;
		const struct mxfp_matrix q = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, in + (size_t)i * cols);
		const struct mxfp_matrix keys_ = mxfp_numbers(MXFP_FORMAT_F32, keys, cols, k), values = mxfp_numbers(MXFP_FORMAT_F32, keys, cols, v);
		const struct mxfp_result y = mxfp_to_numbers(MXFP_FORMAT_F32, out + (size_t)i * cols);

		if (mxfp_attention_store(&cache, 0, &keys_, &values, NULL) != MXFP_OK ||
		    mxfp_attention(&y, &q, &cache, keys - 1, &options, workspace, sizeof workspace, NULL) != MXFP_OK)
			return -1;
	}
	return n * (long)cols * 4;
}

static long apply(const float *in, float *out, long n)
{
	const struct mxfp_matrix x = mxfp_numbers(MXFP_FORMAT_F32, 1, (size_t)n, in);
	const struct mxfp_result y = mxfp_to_numbers(MXFP_FORMAT_F32, out);

	return done(mxfp_function_apply(&y, (enum mxfp_function)choice("name", MXFP_OPTION_FUNCTION), &x, NULL, NULL), 4 * n);
}

static long answer(const void *in, void *out, long n)
{
	const char *op = word("op");

	return strcmp(op, "cast") == 0 ? convert(in, out, n, MXFP_FORMAT_F32, format_of("to")) :
	       strcmp(op, "decode") == 0 ? convert(in, out, n, format_of("from"), MXFP_FORMAT_F32) :
	       strcmp(op, "scale") == 0 ? scale(in, out, n) :
	       strcmp(op, "mx") == 0 ? quantize(in, out, n, format_of("format"), 32) :
	       strcmp(op, "mx-decode") == 0 ? dequantize(in, out, n, format_of("format"), 32) :
	       strcmp(op, "nvfp4-tensor") == 0 ? tensor_scale(in, out, n) :
	       strcmp(op, "nvfp4") == 0 ? quantize(in, out, n, MXFP_FORMAT_NVFP4, 16) :
	       strcmp(op, "nvfp4-decode") == 0 ? dequantize(in, out, n, MXFP_FORMAT_NVFP4, 16) :
	       strcmp(op, "dot") == 0 ? dot(in, out, n) : strcmp(op, "prune") == 0 ? prune(in, out, n) :
	       strcmp(op, "function") == 0 ? apply(in, out, n) : strcmp(op, "row") == 0 ? row(in, out, n) :
	       strcmp(op, "attention") == 0 ? attention(in, out, n) : -1;
}

int main(int argc, char **argv)
{
	own_acc = argc > 1 ? argv[1] : "chain";
	own_pass = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	while (fgets(line, sizeof line, stdin) != NULL) {
		const long n = (long)number("n"), bytes = (long)number("bytes");
		/* The largest result of an item is 129 numbers. */
		char *in = malloc((size_t)bytes + 1), *out = malloc((size_t)n * 516 + 1);

		if (in == NULL || out == NULL || fread(in, 1, (size_t)bytes, stdin) != (size_t)bytes)
			return 1;
		if (strcmp(word("op"), "hello") == 0) {
			printf("{\"version\":1,\"name\":\"libmxfp %s\",\"batch\":65536}\n", mxfp_version());
		} else {
			const long n_out = answer(in, out, n);

			if (n_out < 0) {
				puts("{\"unsupported\":true}");
			} else {
				printf("{\"bytes\":%ld}\n", n_out);
				fwrite(out, 1, (size_t)n_out, stdout);
			}
		}
		fflush(stdout);
		free(in);
		free(out);
	}
	return 0;
}
