/* SPDX-License-Identifier: MIT */
/* The operands of the products that are timed: numbers of a source, quantized by rule rceil, W packed. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "gemm_bench.h"

enum {
	ALIGNMENT = 4096,
	OUTLIER_EVERY = 64, /* columns */
	OUTLIER_AT = 5,
	ROWS_MIN = 64       /* rows of A of an expert, at least */
};

static const float outlier = 64;

static const struct mxfp_quantize_options rceil = {.size = sizeof rceil, .rule = MXFP_RULE_RCEIL};

/* Allocates zeroed memory that bench_gemm_data_free() frees. Returns NULL if it fails, and after any failure. */
static void *allocate(struct bench_gemm_data *data, size_t bytes)
{
	const size_t whole = (bytes / ALIGNMENT + 1) * ALIGNMENT;
	void *memory = data->failed ? NULL : aligned_alloc(ALIGNMENT, whole);

	if (memory == NULL) {
		data->failed = true;
		return NULL;
	}
	memset(memory, 0, whole);
	data->owned[data->n_owned++] = memory;
	return memory;
}

/* Records a failure of the library in preparing the operands. */
static void expect_ok(struct bench_gemm_data *data, enum mxfp_status status)
{
	data->failed = data->failed || status != MXFP_OK;
}

/* Converts or quantizes rows of numbers to a format. */
static struct mxfp_matrix encode(struct bench_gemm_data *data, enum mxfp_format format, const float *from, size_t rows,
                                 size_t cols)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	struct mxfp_matrix matrix = mxfp_numbers(format, rows, cols, from);
	struct mxfp_sizes size;

	if (format == MXFP_FORMAT_F32)
		return matrix;
	if (info->kind != MXFP_KIND_BLOCK) {
		void *numbers = allocate(data, rows * cols * info->storage_bytes);
		if (numbers != NULL)
			expect_ok(data, mxfp_convert_array(numbers, format, from, MXFP_FORMAT_F32, rows * cols, NULL, NULL));
		matrix.data = numbers;
		return matrix;
	}
	struct mxfp_blocks blocks = {.size = sizeof blocks, .format = format, .rows = rows, .cols = cols};
	expect_ok(data, mxfp_blocks_size(&size, format, rows, cols));
	blocks.codes = allocate(data, size.codes_bytes);
	blocks.scales = allocate(data, size.scales_bytes);
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, from);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	if (!data->failed)
		expect_ok(data, mxfp_quantize(&result, &numbers, &rceil, NULL));
	return mxfp_blocks_matrix(&blocks);
}

/* W in the case's format, pruned and compressed if `sparse`. */
static struct mxfp_matrix encode_w(struct bench_gemm_data *data, bool sparse)
{
	const struct bench_gemm_shape *s = data->shape;
	struct mxfp_sparse kept = {.size = sizeof kept, .format = MXFP_FORMAT_F32, .sparsity = data->c->sparsity, .rows = s->n, .cols = s->k};
	struct mxfp_sparse_sizes size;

	if (!sparse)
		return encode(data, data->c->w, data->w, s->n, s->k);
	expect_ok(data, mxfp_sparse_size(&size, data->c->w, kept.sparsity, s->n, s->k));
	kept.masks = allocate(data, size.masks_bytes);
	kept.codes = allocate(data, size.codes_bytes);
	float *pruned = allocate(data, s->n * s->k * sizeof(float));
	if (data->failed)
		return (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix)};
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, pruned);
	const struct mxfp_matrix w = mxfp_numbers(MXFP_FORMAT_F32, s->n, s->k, data->w);
	expect_ok(data, mxfp_sparse_prune(&kept, &to, &w, NULL));
	struct mxfp_matrix matrix = encode(data, data->c->w, pruned, s->n, s->k);
	kept.format = data->c->w;
	if (!data->failed)
		expect_ok(data, mxfp_sparse_compress(&kept, matrix.data, 0, NULL));
	matrix.data = kept.codes;
	matrix.sparsity = kept.sparsity;
	matrix.masks = kept.masks;
	return matrix;
}

/* Packs W once and makes as many copies as ring_bytes hold, at least one. */
static struct bench_ring pack(struct bench_gemm_data *data, const struct mxfp_matrix *w, size_t ring_bytes)
{
	struct bench_ring ring = {.n = 1};

	struct mxfp_gemm_options options = data->options;

	options.a_format = mxfp_format_get_info(data->c->a)->kind == MXFP_KIND_BLOCK ? data->c->a : MXFP_FORMAT_F32;
	expect_ok(data, mxfp_pack_size(&ring.bytes, w, &options, &data->exec));
	ring.step = (ring.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (ring_bytes > ring.step)
		ring.n = ring_bytes / ring.step;
	ring.memory = allocate(data, ring.n * ring.step);
	if (data->failed)
		return ring;
	expect_ok(data, mxfp_pack(ring.memory, ring.bytes, w, &options, &data->exec));
	for (size_t i = 1; i < ring.n; i++)
		memcpy(ring.memory + i * ring.step, ring.memory, ring.bytes);
	return ring;
}

/* The rows of expert i if the ones before have `given` together: ROWS_MIN plus a share proportional to 1 / (i + 1). */
static size_t expert_rows(const struct bench_gemm_shape *s, size_t i, size_t given)
{
	double all = 0;

	if (i + 1 == s->experts)
		return s->m - given;
	for (size_t j = 0; j < s->experts; j++)
		all += 1 / (double)(j + 1);
	return ROWS_MIN + (size_t)((double)(s->m - ROWS_MIN * s->experts) / (double)(i + 1) / all);
}

/* Each expert has its own packed W, although with the same numbers. */
static void make_experts(struct bench_gemm_data *data, const struct mxfp_matrix *w)
{
	const struct bench_gemm_shape *s = data->shape;
	size_t given = 0;

	data->weights = pack(data, w, 0);
	data->weights.n = s->experts;
	for (size_t i = 0; i < s->experts; i++) {
		const struct bench_ring own = i == 0 ? data->weights : pack(data, w, 0);
		const size_t rows = expert_rows(s, i, given);

		data->a_of[i] = encode(data, data->c->a, data->a + given * s->k, rows, s->k);
		data->c_of[i] = mxfp_to_numbers(MXFP_FORMAT_F32, data->c_values + given * s->n);
		data->products[i] = (struct mxfp_product){
			.size = sizeof data->products[i],
			.c = &data->c_of[i],
			.a = &data->a_of[i],
			.w_packed = own.memory,
			.w_packed_bytes = own.bytes,
			.n = s->n,
		};
		given += rows;
	}
}

/* Gives the product its epilogue. */
static void make_epilogue(struct bench_gemm_data *data)
{
	const struct bench_gemm_shape *s = data->shape;
	struct mxfp_product *product = &data->products[0];
	struct mxfp_sizes size = {0};

	if (data->c->epilogue == BENCH_GEMM_SILU_GATE) {
		data->options.activation = MXFP_FUNCTION_SILU;
		data->gate = (struct mxfp_matrix){
			.size = sizeof(struct mxfp_matrix), .rows = s->m, .cols = s->n, .data = allocate(data, s->m * s->n * sizeof(float))};
		product->gate = &data->gate;
	} else if (data->c->epilogue == BENCH_GEMM_QUANTIZED) {
		data->c_blocks = (struct mxfp_blocks){.size = sizeof(struct mxfp_blocks), .format = MXFP_FORMAT_MXFP8_E4M3, .rows = s->m, .cols = s->n};
		expect_ok(data, mxfp_blocks_size(&size, data->c_blocks.format, s->m, s->n));
		data->c_blocks.codes = allocate(data, size.codes_bytes);
		data->c_blocks.scales = allocate(data, size.scales_bytes);
		data->options.c_quantize = &rceil;
		data->c_of[0] = mxfp_to_blocks(&data->c_blocks);
	}
}

static void make_products(struct bench_gemm_data *data, size_t ring_bytes)
{
	const struct bench_gemm_shape *s = data->shape;
	const bool sparse = data->c->sparsity.m != 0, quantizes = data->options.a_format != MXFP_FORMAT_F32;
	const struct mxfp_matrix w = encode_w(data, sparse), dense = sparse ? encode_w(data, false) : w;

	data->a_of[0] = encode(data, quantizes ? MXFP_FORMAT_F32 : data->c->a, data->a, s->m, s->k);
	data->dense.size = sizeof data->dense;
	data->dense.a = &data->a_of[0];
	data->dense.n = s->n;
	data->dense_c = mxfp_to_numbers(MXFP_FORMAT_F32, data->c_values);
	data->dense.c = &data->dense_c;
	if (sparse || s->experts != 1)
		data->dense_weights = pack(data, &dense, ring_bytes);
	data->n_products = s->experts;
	if (s->experts != 1) {
		make_experts(data, &w);
		return;
	}
	data->products[0] = data->dense;
	data->c_of[0] = data->dense_c;
	data->products[0].c = &data->c_of[0];
	data->weights = pack(data, &w, ring_bytes);
	data->products[0].w_packed = data->weights.memory;
	data->products[0].w_packed_bytes = data->weights.bytes;
	if (data->c->epilogue != BENCH_GEMM_PLAIN) {
		data->dense_weights = data->weights;
		make_epilogue(data);
	}
}

static void make_workspace(struct bench_gemm_data *data)
{
	size_t bytes = 0;

	expect_ok(data, mxfp_gemm_workspace_size(&data->workspace_bytes, data->products, data->n_products, &data->options, &data->exec));
	if (data->dense_weights.n != 0) {
		data->dense.w_packed = data->dense_weights.memory;
		data->dense.w_packed_bytes = data->dense_weights.bytes;
		expect_ok(data, mxfp_gemm_workspace_size(&bytes, &data->dense, 1, &data->options, &data->exec));
	}
	if (bytes > data->workspace_bytes)
		data->workspace_bytes = bytes;
	data->workspace = allocate(data, data->workspace_bytes);
}

static void fill(float *to, size_t n, const struct bench_gemm_source *source)
{
	for (size_t i = 0; i < n; i += source->n)
		memcpy(to + i, source->numbers, (n - i < source->n ? n - i : source->n) * sizeof *to);
}

/* K of every shape is a multiple of OUTLIER_EVERY. */
static void enlarge(float *numbers, size_t n)
{
	for (size_t i = OUTLIER_AT; i < n; i += OUTLIER_EVERY)
		numbers[i] *= outlier;
}

static void fill_operands(struct bench_gemm_data *data)
{
	const struct bench_gemm_shape *s = data->shape;

	fill(data->a, s->m * s->k, data->source);
	fill(data->w, s->n * s->k, data->source);
	if (data->c->outliers || data->source->outliers)
		enlarge(data->a, s->m * s->k);
	if (data->source->outliers)
		enlarge(data->w, s->n * s->k);
}

bool bench_gemm_data_make(struct bench_gemm_data *data, size_t ring_bytes, unsigned threads)
{
	const struct bench_gemm_shape *s = data->shape;
	const bool quantizes = s->m == 1 && mxfp_format_get_info(data->c->a)->kind == MXFP_KIND_BLOCK;

	data->exec = (struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = threads, .isa = data->isa};
	data->options = (struct mxfp_gemm_options){
		.size = sizeof data->options,
		.acc = data->c->acc, .a_format = quantizes ? data->c->a : MXFP_FORMAT_F32, .a_quantize = &rceil,
	};
	data->a = allocate(data, s->m * s->k * sizeof(float));
	data->w = allocate(data, s->n * s->k * sizeof(float));
	data->c_values = allocate(data, s->m * s->n * sizeof(float));
	if (!data->failed) {
		fill_operands(data);
		make_products(data, s->place == BENCH_GEMM_DRAM ? ring_bytes : 0);
	}
	if (!data->failed)
		make_workspace(data);
	if (data->failed)
		bench_gemm_data_free(data);
	return !data->failed;
}

void bench_gemm_data_free(struct bench_gemm_data *data)
{
	while (data->n_owned != 0)
		free(data->owned[--data->n_owned]);
}
