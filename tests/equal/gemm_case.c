/* SPDX-License-Identifier: MIT */
#include "equal/gemm_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "f32.h"
#include "oracle/matrix.h"
#include "ref.h"
#include "suite.h"

static bool one_in(struct random *r, uint32_t n)
{
	return random_below(r, n) == 0;
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* Edges of vectors, panels, blocks, chunks and tiles, primes, and anything. */
static size_t any_size(struct random *r)
{
	static const size_t sizes[] = {0,  1,  1,  2,  3,   4,   5,   7,   8,   13,  15,  16,  17,  24,  31,   32,
	                               33, 47, 63, 64, 65,  96,  97,  127, 128, 129, 160, 193, 255, 256, 257,  300,
	                               31, 32, 33, 64, 384, 400, 509, 511, 512, 513, 541, 640, 767, 769, 1024, 1103};

	return one_in(r, 4) ? 1 + random_below(r, 160) : sizes[random_below(r, sizeof sizes / sizeof sizes[0])];
}

/* Sizes whose product is within the budget: the others give way. */
static void any_shape(struct random *r, struct gemm_case_product *p, const struct gemm_case_wish *wish)
{
	size_t *size[] = {&p->n, &p->k, &p->m};

	/* Kernels have loops of their own for few rows. */
	p->m = wish->rows != 0 ? wish->rows
	       : one_in(r, 3)  ? 1 + random_below(r, 4)
	       : one_in(r, 2)  ? 1 + random_below(r, 40) : any_size(r);
	p->n = any_size(r);
	p->k = any_size(r);
	while (p->m * p->n * p->k > wish->budget) {
		size_t *one = size[random_below(r, wish->rows != 0 ? 2 : 3)];

		*one = any_size(r) % (*one + 1);
	}
}

/* Returns a tensor_amax, which the options have or not. */
static float any_quantization(struct random *r, enum mxfp_format format, struct mxfp_quantize_options *q)
{
	const uint32_t amax_bits = random_f32_between(r, -10, 10) & UINT32_C(0x7FFFFFFF);
	float amax;

	q->rule = (enum mxfp_rule)random_below(r, MXFP_RULE_LOG_NEAREST + 1);
	q->recipe = (enum mxfp_recipe)random_below(r, MXFP_RECIPE_MODELOPT_4OVER6 + 1);
	q->round = q->recipe == MXFP_RECIPE_GGML ? MXFP_ROUND_RNE : (enum mxfp_round)random_below(r, MXFP_ROUND_SR + 1);
	q->non_finite = one_in(r, 2) ? MXFP_NON_FINITE_PROPAGATE : MXFP_NON_FINITE_SATURATE;
	q->no_negative_zero = one_in(r, 4);
	q->via_bf16 = one_in(r, 4) && !mxfp_format_get_info(format)->tensor_scale;
	q->seed = random_u64(r);
	q->stream = random_u64(r);
	q->first_index = random_u64(r) >> 8;
	memcpy(&amax, &amax_bits, sizeof amax);
	if (one_in(r, 4))
		q->tensor_amax = mxfp_some(amax);
	return amax;
}

/* Another for every place, and twice is not once: a finite number, but at some places a NaN that is not canonical. */
static uint32_t changed(uint32_t bits, size_t product, size_t row, size_t col)
{
	uint32_t x = bits * 3 + (uint32_t)(product * 1009 + row * 31 + col);

	return (row + col) % 11 == 5 ? x | UINT32_C(0x7F812345) : x & UINT32_C(0xBFFFFFFF);
}

static void epilogue(void *context, const struct mxfp_gemm_tile *tile)
{
	(void)context;
	for (size_t i = 0; i < tile->rows * tile->cols; i++) {
		size_t row = i / tile->cols, col = i % tile->cols;
		float *value = &tile->values[row * tile->stride + col];
		uint32_t bits;

		memcpy(&bits, value, sizeof bits);
		bits = changed(bits, tile->product, tile->row + row, tile->col + col);
		memcpy(value, &bits, sizeof bits);
	}
}

/* The activation, and the format of C's blocks, which all products of a case share as they do the options. */
static void any_named_epilogue(struct gemm_case *c, struct random *r)
{
	const uint32_t bits = random_f32_between(r, -4, 4);
	float parameter;

	memcpy(&parameter, &bits, sizeof parameter);
	if (one_in(r, 4)) {
		c->options.activation = (enum mxfp_function)random_below(r, MXFP_N_FUNCTIONS);
		if (one_in(r, 2))
			c->options.activation_parameter = mxfp_some(parameter);
	}
	if (!one_in(r, 3))
		return;
	while (!operand_format(random_below(r, 16), &c->c_blocks) || !is_block(c->c_blocks))
		;
	const float amax = any_quantization(r, c->c_blocks, &c->c_quantize);
	if (mxfp_format_get_info(c->c_blocks)->tensor_scale && c->c_quantize.recipe != MXFP_RECIPE_GGML &&
	    c->c_quantize.recipe != MXFP_RECIPE_TORCHAO_1)
		c->c_quantize.tensor_amax = mxfp_some(amax);
	c->options.c_quantize = &c->c_quantize;
}

static void any_options(struct gemm_case *c, struct random *r, const struct gemm_case_wish *wish)
{
	static const unsigned passes[] = {0, 512, 256, 128};
	struct mxfp_gemm_options *o = &c->options;

	o->acc = wish->acc;
	o->pass_k = passes[random_below(r, 4)];
	o->accumulate = one_in(r, 2);
	o->psum = one_in(r, 4) ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	o->psum_round = one_in(r, 2) ? MXFP_ROUND_SR : MXFP_ROUND_RNE;
	o->seed = random_u64(r);
	o->stream = one_in(r, 4) ? UINT64_MAX - random_below(r, 3) : random_u64(r); /* plus passes: wraps */
	o->epilogue = one_in(r, 3) ? epilogue : NULL;
	o->a_format = MXFP_FORMAT_F32;
	if (is_block(wish->a_format) && one_in(r, 3)) {
		o->a_format = wish->a_format;
		if (one_in(r, 2)) {
			any_quantization(r, o->a_format, &c->quantize);
			o->a_quantize = &c->quantize;
		}
	}
	any_named_epilogue(c, r);
}

/* An operand as the caller has it: numbers also transposed. */
static struct operand any_operand(struct random *r, const struct operand_range *range, enum mxfp_format format, size_t rows,
                                  size_t cols)
{
	if (is_block(format) || !one_in(r, 3))
		return operand_of(r, range, format, rows, cols, one_in(r, 2) ? 0 : random_below(r, 70));
	struct operand transposed = operand_of(r, range, format, cols, rows, one_in(r, 2) ? 0 : random_below(r, 70));
	transposed.matrix.transposed = true;
	transposed.matrix.rows = rows;
	transposed.matrix.cols = cols;
	return transposed;
}

static struct operand any_a(const struct gemm_case *c, struct random *r, const struct operand_range *range,
                            const struct gemm_case_product *p, enum mxfp_format format)
{
	static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

	if (is_block(c->options.a_format))
		format = sources[random_below(r, 3)];
	return any_operand(r, range, format, p->m, p->k);
}

/* Rows of a transposed matrix one after the other, in memory that is returned. */
static void *straighten(struct mxfp_matrix *m)
{
	size_t width = mxfp_format_get_info(m->format)->storage_bytes;
	uint8_t *data = matrix_allocate(m->rows * m->cols * width);

	for (size_t i = 0; i < m->rows * m->cols; i++)
		memcpy(data + i * width, (const uint8_t *)m->data + (i % m->cols * m->stride + i / m->cols) * width, width);
	m->data = data;
	m->stride = m->cols;
	m->transposed = false;
	return data;
}

static void quantize(const struct gemm_case *c, struct gemm_case_product *p)
{
	struct mxfp_blocks blocks = mxfp_blocks_at(c->options.a_format, p->m, p->k, NULL, NULL);
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	struct mxfp_sizes size;

	mxfp_blocks_size(&size, blocks.format, p->m, p->k);
	blocks.codes_stride = size.codes_row_bytes;
	blocks.scales_stride = size.scales_row_bytes;
	blocks.codes = matrix_allocate(size.codes_bytes);
	blocks.scales = p->seen_scales = matrix_allocate(size.scales_bytes);
	assert_status(mxfp_quantize(&result, &p->seen, &c->quantize, NULL), MXFP_OK);
	free(p->seen_data);
	p->seen_data = blocks.codes;
	p->seen = mxfp_blocks_matrix(&blocks);
}

static void any_like(struct random *r, struct gemm_case_like *like, const struct gemm_case_product *p, bool special)
{
	const struct operand_range range = {0, 20, special, false};

	if (!one_in(r, 3))
		return;
	like->wanted = true;
	like->is_c = !p->no_c && one_in(r, 3);
	like->numbers = operand_of(r, &range, one_in(r, 2) ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32, p->m, p->n,
	                           one_in(r, 2) ? 0 : random_below(r, 40));
	if (like->is_c) {
		like->numbers.matrix.format = p->c_format;
		like->numbers.matrix.stride = p->c_stride;
	}
}

static void any_blocks(const struct gemm_case *c, struct random *r, struct gemm_case_product *p)
{
	struct mxfp_sizes size;

	if (c->c_blocks == MXFP_FORMAT_F32 || one_in(r, 4))
		return;
	mxfp_blocks_size(&size, c->c_blocks, p->m, p->n);
	p->no_c = !c->options.accumulate && one_in(r, 3);
	p->blocks = mxfp_blocks_at(c->c_blocks, p->m, p->n, NULL, NULL);
	p->blocks.codes_stride = size.codes_row_bytes + (one_in(r, 2) ? 0 : random_below(r, 40));
	p->blocks.scales_stride = size.scales_row_bytes + (one_in(r, 2) ? 0 : random_below(r, 40));
	if (p->m != 0 && p->n != 0) {
		p->codes_bytes = (p->m - 1) * p->blocks.codes_stride + size.codes_row_bytes;
		p->scales_bytes = (p->m - 1) * p->blocks.scales_stride + size.scales_row_bytes;
	}
	p->blocks.codes = matrix_allocate(p->codes_bytes);
	p->blocks.scales = matrix_allocate(p->scales_bytes);
}

static void any_c(const struct gemm_case *c, struct random *r, struct gemm_case_product *p, bool special)
{
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE, .overflow = MXFP_OVERFLOW_OVF};
	struct mxfp_counts counts = {.size = sizeof counts};

	p->c_format = one_in(r, 3) ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	p->counts = one_in(r, 2) ? -1 : (int)random_below(r, GEMM_CASE_MAX_PRODUCTS);
	const struct mxfp_format_info *f = mxfp_format_get_info(p->c_format);
	p->c_stride = p->n + (one_in(r, 2) ? 0 : random_below(r, 40));
	any_blocks(c, r, p);
	p->c_bytes = p->m * p->n == 0 || p->no_c ? 0 : ((p->m - 1) * p->c_stride + p->n) * f->storage_bytes;
	p->given = matrix_allocate(p->c_bytes);
	p->want = matrix_allocate(p->c_bytes);
	for (size_t i = 0; i < p->c_bytes / f->storage_bytes; i++) {
		uint32_t x = special ? random_f32(r) : random_f32_between(r, -20, 20);
		mxfp_ref_store(f, p->given, i, mxfp_minifloat_encode(f, x, 0, &rne, 0, &counts));
	}
	memcpy(p->want, p->given, p->c_bytes);
	any_like(r, &p->gate, p, special);
	any_like(r, &p->residual, p, special);
	if (!one_in(r, 3))
		return;
	p->bias = matrix_allocate(p->n * sizeof *p->bias);
	for (size_t i = 0; i < p->n; i++)
		mxfp_ref_store(mxfp_format_get_info(MXFP_FORMAT_F32), p->bias, i,
		               special ? random_f32(r) : random_f32_between(r, -20, 20));
}

/* Tensor scales follow an exact sum that has passes; in a chain the elements have them. */
static bool is_scaled(const struct gemm_case_product *p)
{
	return p->acc == MXFP_ACC_EXACT && p->k != 0 &&
	       (mxfp_format_get_info(p->seen.format)->tensor_scale || mxfp_format_get_info(p->w.matrix.format)->tensor_scale);
}

static void add_scale(struct mxfp_gemm_finish_job *job, const struct mxfp_matrix *m)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);
	float *scale = m->tensor_scale_divides ? &job->divide : &job->multiply;
	bool *has = m->tensor_scale_divides ? &job->divides : &job->multiplies;

	if (!mxfp_format_get_info(m->format)->tensor_scale)
		return;
	uint32_t x = mxfp_ref_load(f32, &m->tensor_scale, 0);
	mxfp_ref_store(f32, scale, 0, *has ? mxfp_f32_mul(x, mxfp_ref_load(f32, scale, 0)) : x);
	*has = true;
}

/* A matrix like C as binary32, row by row without gaps; zeros if there is no memory. */
static float *numbers_of(const struct gemm_case_product *p, const void *data, enum mxfp_format format, size_t stride)
{
	float *numbers = matrix_allocate(p->m * p->n * sizeof *numbers);

	memset(numbers, 0, p->m * p->n * sizeof *numbers);
	for (size_t i = 0; data != NULL && i < p->m * p->n; i++)
		mxfp_ref_store(mxfp_format_get_info(MXFP_FORMAT_F32), numbers, i,
		               mxfp_ref_load(mxfp_format_get_info(format), data, i / p->n * stride + i % p->n));
	return numbers;
}

static float *like_numbers(const struct gemm_case_product *p, const struct gemm_case_like *like)
{
	const struct mxfp_matrix *m = &like->numbers.matrix;

	return numbers_of(p, !like->wanted ? NULL : like->is_c ? p->given : m->data, m->format, m->stride);
}

/* Changes sums of a product, with bias, to what is rounded to C's format and quantized. */
static void finish(const struct gemm_case *c, size_t index, float *values)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);
	const struct gemm_case_product *p = &c->product[index];
	const enum mxfp_function f = c->options.activation;
	float *gate = like_numbers(p, &p->gate), *residual = like_numbers(p, &p->residual);
	uint32_t parameter = mxfp_function_default(f);

	if (c->options.activation_parameter.given)
		memcpy(&parameter, &c->options.activation_parameter.value, sizeof parameter);
	for (size_t i = 0; i < p->m * p->n; i++) {
		uint32_t x = mxfp_ref_load(f32, values, i);

		if (f != MXFP_FUNCTION_IDENTITY)
			x = mxfp_function_ref(f, x, parameter);
		if (p->gate.wanted)
			x = mxfp_f32_mul(x, mxfp_ref_load(f32, gate, i));
		if (p->residual.wanted)
			x = mxfp_f32_add(x, mxfp_ref_load(f32, residual, i));
		if ((x & INT32_MAX) > UINT32_C(0x7F800000))
			x = UINT32_C(0x7FC00000);
		if (c->options.epilogue != NULL)
			x = changed(x, index, i / p->n, i % p->n);
		if ((x & INT32_MAX) > UINT32_C(0x7F800000))
			x = UINT32_C(0x7FC00000);
		mxfp_ref_store(f32, values, i, x);
	}
	free(gate);
	free(residual);
}

static void store(struct gemm_case *c, struct gemm_case_product *p, const float *values)
{
	static const struct mxfp_exec reference = {.size = sizeof reference, .threads = 1, .isa = "ref"};
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE, .overflow = MXFP_OVERFLOW_OVF};
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);
	const struct mxfp_format_info *f = mxfp_format_get_info(p->c_format);
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, p->m, p->n, values);
	struct mxfp_result result = mxfp_to_blocks(&p->blocks);
	struct mxfp_counts counts = {.size = sizeof counts};

	for (size_t i = 0; i < p->m * p->n && !p->no_c; i++) {
		uint32_t x = mxfp_ref_load(f32, values, i);

		if (f != f32)
			x = mxfp_minifloat_encode(f, x, 0, &rne, 0, &counts);
		mxfp_ref_store(f, p->want, i / p->n * p->c_stride + i % p->n, x);
	}
	result.counts = p->counts >= 0 ? &c->counts[p->counts] : NULL;
	if (p->blocks.codes != NULL)
		assert_status(mxfp_quantize(&result, &source, &c->c_quantize, &reference), MXFP_OK);
}

static void expect(struct gemm_case *c, size_t index)
{
	const struct mxfp_gemm_options *o = &c->options;
	struct gemm_case_product *p = &c->product[index];
	float *given = numbers_of(p, p->no_c ? NULL : p->given, p->c_format, p->c_stride);
	float *sums = matrix_allocate(p->m * p->n * sizeof *sums);
	unsigned pass = o->pass_k != 0 ? o->pass_k : 512;
	bool scaled = is_scaled(p), blocks = is_block(p->seen.format) && is_block(p->w.matrix.format);
	struct mxfp_gemm_ref_job job = {
		.a = &p->seen, .w = &p->seen_w, .rows = p->m, .cols = p->n, .acc = p->acc, .pass = blocks ? pass : pass / 4,
		.psum = o->psum, .psum_round = o->psum_round, .seed = o->seed, .stream = o->stream, .index_stride = p->n,
		.c = sums};
	struct mxfp_gemm_finish_job last = {.n = p->n, .bias = p->bias};

	memset(sums, 0, p->m * p->n * sizeof *sums);
	if (o->accumulate && !scaled)
		memcpy(sums, given, p->m * p->n * sizeof *sums);
	mxfp_gemm_ref(&job);
	if (scaled) {
		add_scale(&last, &p->seen);
		add_scale(&last, &p->w.matrix);
	}
	for (size_t row = 0; row < p->m; row++) {
		last.sum = last.result = sums + row * p->n;
		last.given = scaled && o->accumulate ? given + row * p->n : NULL;
		mxfp_gemm_finish_ref(&last);
	}
	finish(c, index, sums);
	store(c, p, sums);
	free(given);
	free(sums);
}

/* A NaN in one row of an A in MXFP8: kernels take note of it by the row. */
static void put_nan(struct random *r, const struct mxfp_matrix *a)
{
	uint8_t *data = (uint8_t *)a->data;

	if (a->rows * a->cols != 0 && (a->format == MXFP_FORMAT_MXFP8_E4M3 || a->format == MXFP_FORMAT_MXFP8_E5M2))
		data[random_below(r, (uint32_t)a->rows) * a->stride + random_below(r, (uint32_t)a->cols)] = 0x7F;
}

/* A scale of W that is NaN. */
static void put_nan_scale(struct random *r, const struct mxfp_matrix *w)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(w->format);
	uint8_t *scales = (uint8_t *)w->scales;

	if (f->kind == MXFP_KIND_BLOCK && w->rows * w->cols != 0)
		scales[random_below(r, (uint32_t)w->rows) * w->scales_stride + random_below(r, (uint32_t)w->cols) / f->block_length] = 0xFF;
}

static void init_product(struct gemm_case *c, struct random *r, const struct gemm_case_wish *wish, size_t index)
{
	static const int sums[] = {0, 0, 0, 100, -100, 127, 115, -126, -140, -149, 254, -254};
	struct gemm_case_product *p = &c->product[index];
	struct operand_range range[2];

	any_shape(r, p, wish);
	bool high = wish->rows == 0 && one_in(r, 6), nan_scale = wish->rows != 0 && one_in(r, 4);
	operand_ranges(r, high ? 0 : sums[random_below(r, sizeof sums / sizeof sums[0])], range);
	if (wish->rows != 0)
		range[0] = range[1] = (struct operand_range){.spread = (int)random_below(r, 4)};
	if (nan_scale) /* products of it and others are no larger than ordinary ones */
		range[0].center = -20;
	range[0].special = !high && one_in(r, 4);
	range[1].special = !high && one_in(r, 4);
	range[0].high = range[1].high = high;
	p->a = any_a(c, r, &range[0], p, wish->a_format);
	if (wish->rows != 0 && one_in(r, 3))
		put_nan(r, &p->a.matrix);
	p->w = any_operand(r, &range[1], wish->w_format, p->n, p->k);
	if (nan_scale)
		put_nan_scale(r, &p->w.matrix);
	p->seen = p->a.matrix;
	if (p->seen.transposed)
		p->seen_data = straighten(&p->seen);
	p->seen_w = p->w.matrix;
	if (p->seen_w.transposed)
		p->seen_w_data = straighten(&p->seen_w);
	if (is_block(c->options.a_format))
		quantize(c, p);
	p->acc = is_block(p->seen.format) && is_block(wish->w_format) ? wish->acc : MXFP_ACC_CHAIN;
	any_c(c, r, p, one_in(r, 4));
	expect(c, index);
}

void gemm_case_init(struct gemm_case *c, struct random *r, const struct gemm_case_wish *wish)
{
	memset(c, 0, sizeof *c);
	c->options.size = sizeof c->options;
	c->quantize.size = sizeof c->quantize;
	c->c_quantize.size = sizeof c->c_quantize;
	for (int i = 0; i < GEMM_CASE_MAX_PRODUCTS; i++)
		c->counts[i].size = sizeof c->counts[i];
	c->n = one_in(r, 4) ? random_below(r, GEMM_CASE_MAX_PRODUCTS + 1) : 1;
	any_options(c, r, wish);
	for (size_t i = 0; i < c->n; i++)
		init_product(c, r, wish, i);
}

void gemm_case_clear(struct gemm_case *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct gemm_case_product *p = &c->product[i];

		operand_free(&p->a);
		operand_free(&p->w);
		free(p->seen_data);
		free(p->seen_scales);
		free(p->seen_w_data);
		free(p->given);
		free(p->want);
		free(p->bias);
		free(p->blocks.codes);
		free(p->blocks.scales);
		if (p->gate.wanted)
			operand_free(&p->gate.numbers);
		if (p->residual.wanted)
			operand_free(&p->residual.numbers);
	}
}

void gemm_case_describe(const struct gemm_case *c, char *text, size_t size)
{
	const struct mxfp_gemm_options *o = &c->options;
	int at = snprintf(text, size, "acc %s, pass_k %u%s, psum %s %s, a_format %s, %s%s, blocks %s:",
	                  mxfp_option_name(MXFP_OPTION_ACC, (int)o->acc), o->pass_k, o->accumulate ? ", c given" : "",
	                  mxfp_format_get_info(o->psum)->name, mxfp_option_name(MXFP_OPTION_ROUND, (int)o->psum_round),
	                  mxfp_format_get_info(o->a_format)->name, mxfp_option_name(MXFP_OPTION_FUNCTION, (int)o->activation),
	                  o->epilogue != NULL ? ", epilogue" : "", mxfp_format_get_info(c->c_blocks)->name);

	for (size_t i = 0; i < c->n && at > 0 && (size_t)at < size; i++) {
		const struct gemm_case_product *p = &c->product[i];

		at += snprintf(text + at, size - (size_t)at, " %s%s x %s%s to %s %zu x %zu x %zu%s%s%s%s%s,",
		               mxfp_format_get_info(p->a.matrix.format)->name, p->a.matrix.transposed ? " transposed" : "",
		               mxfp_format_get_info(p->w.matrix.format)->name, p->w.matrix.transposed ? " transposed" : "",
		               mxfp_format_get_info(p->c_format)->name, p->m, p->n, p->k, p->bias != NULL ? " bias" : "",
		               p->gate.wanted ? " gate" : "", p->residual.wanted ? " residual" : "",
		               p->blocks.codes != NULL ? " blocks" : "", p->no_c ? " alone" : "");
	}
}
