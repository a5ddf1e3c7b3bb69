/* SPDX-License-Identifier: MIT */
/*
 * Products: doc/numerics.md, section 5. Sums are computed one after another, in the order of the definition. Block sums
 * are exact 128-bit integers in two limbs. What a machine makes of its products is in mma.c.
 */
#include <string.h>

#include "f32.h"
#include "minifloat.h"
#include "mma.h"
#include "pack.h"
#include "mxfp/philox.h"
#include "ref.h"
#include "scale.h"

/* A 128-bit integer in two's complement. */
struct wide {
	uint64_t low, high;
};

static struct wide negate(struct wide a)
{
	a.low = ~a.low + 1;
	a.high = ~a.high + (a.low == 0);
	return a;
}

static struct wide add(struct wide a, struct wide b)
{
	a.low += b.low;
	a.high += b.high + (a.low < b.low);
	return a;
}

/* One block of a row: its elements as integers in units of the format, and its scale. */
struct part {
	uint64_t magnitude[MXFP_MX_BLOCK];
	bool negative[MXFP_MX_BLOCK], inf[MXFP_MX_BLOCK];
	bool nan;              /* an element or the scale is NaN */
	uint32_t scale;        /* a ue4m3 scale as an integer; 1 for e8m0 */
	int exponent;          /* of the unit of elements times that of the scale */
};

/* The exponent of the unit of an element format: every finite value is a multiple of it. */
static int unit(const struct mxfp_format_info *element)
{
	if (element->kind == MXFP_KIND_FIXED)
		return -(int)element->significand_bits;
	return 1 - element->bias - (int)element->significand_bits;
}

/* The magnitude of a finite binary32 as a multiple of 2^exponent. */
static uint64_t in_units(uint32_t bits, int exponent)
{
	if (mxfp_f32_is_zero(bits))
		return 0;
	struct mxfp_exact v = mxfp_f32_unpack(bits);
	int shift = v.exponent - exponent;

	return shift >= 0 ? v.significand << shift : v.significand >> -shift;
}

static void load_scale(struct part *p, const struct mxfp_format_info *scale, uint8_t code)
{
	uint32_t x = mxfp_minifloat_decode(scale, code);

	p->scale = 1;
	if (mxfp_f32_is_nan(x)) {
		p->nan = true;
	} else if (scale->kind == MXFP_KIND_EXPONENT) {
		p->exponent += code - scale->bias;
	} else {
		p->scale = (uint32_t)in_units(x, unit(scale));
		p->exponent += unit(scale);
	}
}

/* Loads elements [k, k + n) of a row, which lie in one block. */
static void load_part(struct part *p, const struct mxfp_matrix *matrix, size_t row, size_t k, size_t n)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(matrix->format);
	const struct mxfp_format_info *element = mxfp_format_get_info(format->element);
	uint8_t codes[MXFP_MX_BLOCK];

	memset(p, 0, sizeof *p);
	p->exponent = unit(element);
	mxfp_ref_unpack(codes, (const uint8_t *)matrix->data + row * matrix->stride + k * element->bits / 8, n,
	                element->bits);
	load_scale(p, mxfp_format_get_info(format->scale),
	           ((const uint8_t *)matrix->scales)[row * matrix->scales_stride + k / format->block_length]);
	for (size_t i = 0; i < n && k + i < matrix->cols; i++) {
		uint32_t x = mxfp_minifloat_decode(element, codes[i]);

		p->negative[i] = x & MXFP_F32_SIGN;
		p->inf[i] = mxfp_f32_is_inf(x);
		if (mxfp_f32_is_nan(x))
			p->nan = true;
		else if (!p->inf[i])
			p->magnitude[i] = in_units(x, unit(element));
	}
}

/* The contribution of a block: NaN, Inf, or a rounded finite value. */
struct term {
	bool nan, inf;
	struct mxfp_exact value; /* the sign is also that of an Inf */
};

/* Adds a product with an Inf, which overrides all finite ones. */
static void add_inf(struct term *t, const struct part *a, const struct part *w, size_t i)
{
	bool negative = a->negative[i] != w->negative[i];
	bool zero = (!a->inf[i] && a->magnitude[i] == 0) || (!w->inf[i] && w->magnitude[i] == 0);

	if (zero || (t->inf && t->value.negative != negative))
		t->nan = true;
	t->inf = true;
	t->value.negative = negative;
}

/* Rounds a magnitude to 24 bits, ties to even, with unlimited exponent range. */
static struct mxfp_exact round_24(struct wide magnitude)
{
	struct mxfp_exact v = {0};

	/* Reduce to 26 bits and jam the discarded bits into the lowest. */
	for (; magnitude.high != 0 || magnitude.low >> 26 != 0; v.exponent++) {
		magnitude.low = magnitude.low >> 1 | magnitude.high << 63 | (magnitude.low & 1);
		magnitude.high >>= 1;
	}
	v.significand = magnitude.low;
	int extra = v.significand >> 25 != 0 ? 2 : v.significand >> 24 != 0;
	if (extra != 0) {
		uint64_t half = UINT64_C(1) << (extra - 1), rest = v.significand & (2 * half - 1);

		v.significand >>= extra;
		v.significand += rest > half || (rest == half && (v.significand & 1) != 0);
		v.exponent += extra;
	}
	return v;
}

/* The exact sum of the products of two parts, rounded once. */
static struct term block_term(const struct part *a, const struct part *w)
{
	struct term t = {.nan = a->nan || w->nan};
	struct wide sum = {0};
	/* If a scale is not 1, an operand is NVFP4: a sum of 16 products has 40 bits, the product of the scales 36. */
	uint64_t scales = (uint64_t)a->scale * w->scale;

	for (size_t i = 0; i < MXFP_MX_BLOCK; i++) {
		struct wide product = {.low = a->magnitude[i] * w->magnitude[i]}; /* at most 32 bits each */

		if (a->inf[i] || w->inf[i])
			add_inf(&t, a, w, i);
		else
			sum = add(sum, a->negative[i] != w->negative[i] ? negate(product) : product);
	}
	t.nan = t.nan || (t.inf && scales == 0);
	if (t.nan || t.inf)
		return t;
	bool negative = sum.high >> 63;
	if (negative)
		sum = negate(sum);
	if (scales != 1) {
		uint64_t low = (sum.low & UINT32_MAX) * scales, high = (sum.low >> 32) * scales;

		sum.low = low + (high << 32);
		sum.high = (high >> 32) + (sum.low < low);
	}
	t.value = round_24(sum);
	t.value.negative = negative;
	t.value.exponent += a->exponent + w->exponent;
	return t;
}

/* fl32(p + t). */
static uint32_t add_term(uint32_t p, const struct term *t)
{
	uint32_t sign = t->value.negative ? MXFP_F32_SIGN : 0;

	if (t->nan)
		return MXFP_F32_NAN;
	if (t->inf)
		return mxfp_f32_add(p, sign | MXFP_F32_INF);
	return mxfp_f32_add_exact(p, t->value);
}

static uint32_t exact_pass(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, size_t k, size_t end)
{
	size_t a_length = mxfp_format_get_info(job->a->format)->block_length;
	size_t w_length = mxfp_format_get_info(job->w->format)->block_length;
	size_t length = a_length < w_length ? a_length : w_length;
	uint32_t p = 0;

	for (; k < end; k += length) {
		struct part a, w;

		load_part(&a, job->a, m, k, length);
		load_part(&w, job->w, n, k, length);
		struct term t = block_term(&a, &w);
		p = add_term(p, &t);
	}
	return p;
}

/* Decodes elements [k, k + n) of a row to binary32 bits; k is a multiple of every block length. */
static void decode(uint32_t *x, const struct mxfp_matrix *matrix, size_t row, size_t k, size_t n)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(matrix->format);

	if (format->kind != MXFP_KIND_BLOCK) {
		for (size_t i = k; i < k + n; i++)
			x[i - k] = mxfp_ref_load(format, matrix->data,
			                         matrix->transposed ? i * matrix->stride + row : row * matrix->stride + i);
		return;
	}
	struct mxfp_dequantize_job job = {
		.format = matrix->format,
		.dst_format = MXFP_FORMAT_F32,
		.rows = 1,
		.cols = n,
		.codes = (const uint8_t *)matrix->data + row * matrix->stride +
		         k * mxfp_format_get_info(format->element)->bits / 8,
		.scales = (const uint8_t *)matrix->scales + row * matrix->scales_stride + k / format->block_length,
		.tensor_scale = mxfp_ref_load(mxfp_format_get_info(MXFP_FORMAT_F32), &matrix->tensor_scale, 0),
		.tensor_scale_divides = matrix->tensor_scale_divides,
		.dst = x,
		.dst_stride = n,
	};
	if (format->tensor_scale)
		mxfp_dequantize_nvfp4_ref(&job);
	else
		mxfp_dequantize_mx_ref(&job);
}

static uint32_t chain_pass(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, size_t k, size_t end)
{
	uint32_t a[MXFP_MX_BLOCK], w[MXFP_MX_BLOCK], p = 0;

	for (; k < end; k += MXFP_MX_BLOCK) {
		size_t count = end - k < MXFP_MX_BLOCK ? end - k : MXFP_MX_BLOCK;

		decode(a, job->a, m, k, count);
		decode(w, job->w, n, k, count);
		for (size_t i = 0; i < count; i++)
			p = mxfp_f32_fma(a[i], w[i], p);
	}
	return p;
}

static uint32_t round_psum(const struct mxfp_gemm_ref_job *job, uint32_t c, uint64_t index, size_t pass)
{
	const struct mxfp_format_info *bf16 = mxfp_format_get_info(MXFP_FORMAT_BF16);
	struct mxfp_rounding rounding = {.mode = job->psum_round, .overflow = MXFP_OVERFLOW_OVF};
	struct mxfp_counts counts = {0};
	uint32_t random = 0;

	if (job->psum_round == MXFP_ROUND_SR)
		random = mxfp_philox_word(job->seed, job->stream + pass, index);
	return mxfp_minifloat_decode(bf16, mxfp_minifloat_encode(bf16, c, 0, &rounding, random, &counts));
}

/* Sum (i, j) of the job over all passes, starting from c. */
static uint32_t sum(const struct mxfp_gemm_ref_job *job, size_t i, size_t j, uint32_t c)
{
	uint64_t index = job->first_index + i * job->index_stride + j;
	size_t pass = 0;

	for (size_t k = 0; k < job->a->cols; k += job->pass, pass++) {
		size_t end = job->a->cols - k < job->pass ? job->a->cols : k + job->pass;
		uint32_t p = job->acc == MXFP_ACC_EXACT ? exact_pass(job, job->row + i, job->col + j, k, end)
		                                        : chain_pass(job, job->row + i, job->col + j, k, end);

		c = mxfp_f32_add(c, p);
		if (job->psum == MXFP_FORMAT_BF16)
			c = round_psum(job, c, index, pass);
	}
	return c;
}

void mxfp_mma_pass_ref(const struct mxfp_gemm_ref_job *job, const struct mxfp_mma *mma, size_t k, size_t end,
                       struct mxfp_mma_tile *t)
{
	const int fraction = mxfp_mma_fraction(job->a->format) + mxfp_mma_fraction(job->w->format);
	struct mxfp_mma_operand a[MXFP_MMA_ROWS][MXFP_MMA_MOST], w[MXFP_MMA_MOST];

	for (; k < end; k += mma->k) {
		for (size_t i = 0; i < t->rows; i++)
			mxfp_mma_load(a[i], mma, job->a, job->row + t->row + i, k, mma->k);
		for (size_t j = 0; j < t->cols; j++) {
			mxfp_mma_load(w, mma, job->w, job->col + t->col + j, k, mma->k);
			for (size_t i = 0; i < t->rows; i++)
				t->sum[i][j] = mxfp_mma_sum(mma, a[i], w, fraction, t->sum[i][j]);
		}
	}
}

/* c + p after pass `pass`, or p where there are no passes; p becomes what the next begins with. */
static uint32_t mma_end(const struct mxfp_gemm_ref_job *job, uint32_t c, uint32_t *p, uint64_t index, uint64_t pass)
{
	if (job->pass == MXFP_GEMM_NO_PASSES)
		c = *p;
	else
		c = mxfp_f32_add(c, *p);
	*p = 0;
	return job->psum == MXFP_FORMAT_BF16 ? round_psum(job, c, index, pass) : c;
}

static void mma_tile(const struct mxfp_gemm_ref_job *job, const struct mxfp_mma *mma, mxfp_mma_pass *multiply,
                     struct mxfp_mma_tile *t)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);
	uint64_t pass = 0;

	for (size_t i = 0; i < t->rows; i++)
		for (size_t j = 0; j < t->cols; j++)
			t->sum[i][j] = job->pass != MXFP_GEMM_NO_PASSES ? 0 : mxfp_ref_load(f32, job->c, (t->row + i) * job->cols + t->col + j);
	for (size_t k = 0, end; k < job->a->cols; k = end, pass++) {
		end = job->a->cols - k < job->pass ? job->a->cols : k + job->pass;
		multiply(job, mma, k, end, t);
		for (size_t i = 0; i < t->rows; i++)
			for (size_t j = 0; j < t->cols; j++) {
				const size_t at = (t->row + i) * job->cols + t->col + j;
				const uint64_t index = job->first_index + (t->row + i) * job->index_stride + t->col + j;

				mxfp_ref_store(f32, job->c, at, mma_end(job, mxfp_ref_load(f32, job->c, at), &t->sum[i][j], index, pass));
			}
	}
}

void mxfp_mma_run(const struct mxfp_gemm_ref_job *job, mxfp_mma_pass *pass)
{
	const struct mxfp_mma *mma = mxfp_mma_find(job->acc, job->a->format, job->w->format);
	struct mxfp_mma_tile t;

	for (t.row = 0; t.row < job->rows; t.row += t.rows) {
		t.rows = job->rows - t.row < MXFP_MMA_ROWS ? job->rows - t.row : MXFP_MMA_ROWS;
		for (t.col = 0; t.col < job->cols; t.col += t.cols) {
			t.cols = job->cols - t.col < MXFP_MMA_COLS ? job->cols - t.col : MXFP_MMA_COLS;
			mma_tile(job, mma, pass, &t);
		}
	}
}

void mxfp_gemm_mma_ref(const struct mxfp_gemm_ref_job *job)
{
	mxfp_mma_run(job, mxfp_mma_pass_ref);
}

void mxfp_gemm_ref(const struct mxfp_gemm_ref_job *job)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);

	if (mxfp_mma_is(job->acc)) {
		mxfp_gemm_mma_ref(job);
		return;
	}
	for (size_t i = 0; i < job->rows; i++)
		for (size_t j = 0; j < job->cols; j++) {
			size_t at = i * job->cols + j;

			mxfp_ref_store(f32, job->c, at, sum(job, i, j, mxfp_ref_load(f32, job->c, at)));
		}
}

void mxfp_gemm_finish_ref(const struct mxfp_gemm_finish_job *job)
{
	const struct mxfp_format_info *f32 = mxfp_format_get_info(MXFP_FORMAT_F32);

	for (size_t i = 0; i < job->n; i++) {
		uint32_t v = mxfp_ref_load(f32, job->sum, i);

		if (job->multiplies)
			v = mxfp_f32_mul(mxfp_ref_load(f32, &job->multiply, 0), v);
		if (job->divides)
			v = mxfp_f32_div(v, mxfp_ref_load(f32, &job->divide, 0));
		if (job->given != NULL)
			v = mxfp_f32_add(mxfp_ref_load(f32, job->given, i), v);
		if (job->bias != NULL)
			v = mxfp_f32_add(v, mxfp_ref_load(f32, job->bias, i));
		if (job->gate != NULL)
			v = mxfp_f32_mul(v, mxfp_ref_load(f32, job->gate, i));
		if (job->residual != NULL)
			v = mxfp_f32_add(v, mxfp_ref_load(f32, job->residual, i));
		if (mxfp_f32_is_nan(v))
			v = MXFP_F32_NAN;
		mxfp_ref_store(f32, job->result, i, v);
	}
}
