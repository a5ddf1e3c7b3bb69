/* SPDX-License-Identifier: MIT */
#include "oracle/oracle_gemm.h"

#include <assert.h>
#include <string.h>

#include "mxfp/philox.h"

/* Enough for every block sum: products have at most 64 bits, their exponents differ by less than 64. */
enum { WIDE = 192 };

/* The code of element k: in a block format bits k * bits and on of the row, the low ones first. */
static uint32_t code_of(const struct mxfp_matrix *x, size_t row, size_t k)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(x->format);
	const uint8_t *data = x->data;
	uint32_t code = 0;
	uint16_t half;

	if (f->kind == MXFP_KIND_BLOCK) {
		unsigned bits = mxfp_format_get_info(f->element)->bits;

		for (size_t bit = 0, at = k * bits; bit < bits; bit++, at++)
			code |= (uint32_t)(data[row * x->stride + at / 8] >> at % 8 & 1) << bit;
		return code;
	}
	data += (row * x->stride + k) * f->storage_bytes;
	if (f->storage_bytes == sizeof half) {
		memcpy(&half, data, sizeof half);
		return half;
	}
	memcpy(&code, data, sizeof code);
	return code;
}

static void set_element(mpfr_ptr y, const struct mxfp_matrix *x, size_t row, size_t k)
{
	enum mxfp_format element = mxfp_format_get_info(x->format)->element;

	oracle_set_f32(y, oracle_decode(mxfp_format_get_info(element), code_of(x, row, k)));
}

static void set_scale(mpfr_ptr y, const struct mxfp_matrix *x, size_t row, size_t k)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(x->format);
	const uint8_t *scales = x->scales;

	oracle_set_f32(y, oracle_decode(mxfp_format_get_info(f->scale), scales[row * x->scales_stride + k / f->block_length]));
}

/* Rounds what MPFR has rounded to 24 bits without limit of exponent to binary32, as if at once. */
static uint32_t to_f32(mpfr_ptr y, int ternary)
{
	oracle_f32_begin();
	uint32_t bits = oracle_f32_bits(y, mpfr_check_range(y, ternary, MPFR_RNDN));
	oracle_f32_end();
	return bits;
}

static uint32_t add(uint32_t a, mpfr_srcptr b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	return to_f32(y, mpfr_add(y, x, b, MPFR_RNDN));
}

static uint32_t add_f32(uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);

	oracle_set_f32(x, b);
	return add(a, x);
}

/* T_b. That e8m0 scales come before the rounding to 24 bits changes nothing: they are powers of two. */
static void set_term(mpfr_ptr t, const struct mxfp_gemm_ref_job *job, size_t m, size_t n, size_t k, size_t length)
{
	MPFR_DECL_INIT(sum, WIDE);
	MPFR_DECL_INIT(a, 24);
	MPFR_DECL_INIT(w, 24);
	int inexact = 0;

	mpfr_set_zero(sum, 1);
	for (size_t i = k; i < k + length && i < job->a->cols; i++) {
		set_element(a, job->a, m, i);
		set_element(w, job->w, n, i);
		inexact |= mpfr_fma(sum, a, w, sum, MPFR_RNDN);
	}
	set_scale(a, job->a, m, k);
	set_scale(w, job->w, n, k);
	inexact |= mpfr_mul(sum, sum, a, MPFR_RNDN);
	inexact |= mpfr_mul(sum, sum, w, MPFR_RNDN);
	assert(inexact == 0);
	(void)inexact;
	mpfr_set(t, sum, MPFR_RNDN);
	if (mpfr_zero_p(t))
		mpfr_set_zero(t, 1);
}

static uint32_t exact_pass(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, size_t k, size_t end)
{
	bool nvfp4 = job->a->format == MXFP_FORMAT_NVFP4 || job->w->format == MXFP_FORMAT_NVFP4;
	size_t length = nvfp4 ? 16 : 32;
	uint32_t p = 0;
	MPFR_DECL_INIT(t, 24);

	for (; k < end; k += length) {
		set_term(t, job, m, n, k, length);
		p = add(p, t);
	}
	return p;
}

/* The binary32 of element k as mxfp_dequantize() defines it. */
static uint32_t decoded(const struct mxfp_matrix *x, size_t row, size_t k)
{
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(scale, 24);
	MPFR_DECL_INIT(g, 24);
	uint32_t bits;

	set_element(y, x, row, k);
	if (mxfp_format_get_info(x->format)->kind != MXFP_KIND_BLOCK) {
		enum mxfp_format format = mxfp_format_get_info(x->format)->element;
		return oracle_decode(mxfp_format_get_info(format), code_of(x, row, k));
	}
	set_scale(scale, x, row, k);
	bits = to_f32(y, mpfr_mul(y, y, scale, MPFR_RNDN));
	if (!mxfp_format_get_info(x->format)->tensor_scale)
		return bits;
	memcpy(&bits, &x->tensor_scale, sizeof bits);
	oracle_set_f32(g, bits);
	return to_f32(y, x->tensor_scale_divides ? mpfr_div(y, y, g, MPFR_RNDN) : mpfr_mul(y, y, g, MPFR_RNDN));
}

static uint32_t chain_pass(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, size_t k, size_t end)
{
	MPFR_DECL_INIT(a, 24);
	MPFR_DECL_INIT(w, 24);
	MPFR_DECL_INIT(sum, 24);
	uint32_t p = 0;

	for (; k < end; k++) {
		oracle_set_f32(a, decoded(job->a, m, k));
		oracle_set_f32(w, decoded(job->w, n, k));
		oracle_set_f32(sum, p);
		p = to_f32(sum, mpfr_fma(sum, a, w, sum, MPFR_RNDN));
	}
	return p;
}

static uint32_t to_bf16(const struct mxfp_gemm_ref_job *job, const struct oracle *bf16, uint32_t c, uint64_t index,
                        uint64_t pass)
{
	const struct mxfp_rounding rounding = {.mode = job->psum_round};
	struct mxfp_counts counts = {.size = sizeof counts};
	uint32_t random = mxfp_philox_word(job->seed, job->stream + pass, index);

	return oracle_decode(bf16->format, oracle_encode(bf16, c, 0, &rounding, random, &counts));
}

uint32_t oracle_gemm_sum(const struct mxfp_gemm_ref_job *job, const struct oracle *bf16, size_t m, size_t n, uint32_t c)
{
	uint64_t pass = 0;

	for (size_t k = 0; k < job->a->cols; k += job->pass, pass++) {
		size_t end = k + job->pass < job->a->cols ? k + job->pass : job->a->cols;

		c = add_f32(c, job->acc == MXFP_ACC_EXACT ? exact_pass(job, m, n, k, end) : chain_pass(job, m, n, k, end));
		if (job->psum == MXFP_FORMAT_BF16)
			c = to_bf16(job, bf16, c, job->first_index + m * job->index_stride + n, pass);
	}
	return c;
}

static void set_float(mpfr_ptr y, const float *x)
{
	uint32_t bits;

	memcpy(&bits, x, sizeof bits);
	oracle_set_f32(y, bits);
}

uint32_t oracle_gemm_finish(const struct mxfp_gemm_finish_job *job, size_t i)
{
	MPFR_DECL_INIT(v, 24);
	MPFR_DECL_INIT(x, 24);
	uint32_t bits;

	set_float(v, &job->sum[i]);
	bits = to_f32(v, 0);
	if (job->multiplies) {
		set_float(x, &job->multiply);
		bits = to_f32(v, mpfr_mul(v, v, x, MPFR_RNDN));
	}
	if (job->divides) {
		oracle_set_f32(v, bits);
		set_float(x, &job->divide);
		bits = to_f32(v, mpfr_div(v, v, x, MPFR_RNDN));
	}
	if (job->given != NULL) {
		set_float(x, &job->given[i]);
		bits = add(bits, x);
	}
	if (job->bias != NULL) {
		set_float(x, &job->bias[i]);
		bits = add(bits, x);
	}
	if (job->gate != NULL) {
		oracle_set_f32(v, bits);
		set_float(x, &job->gate[i]);
		bits = to_f32(v, mpfr_mul(v, v, x, MPFR_RNDN));
	}
	if (job->residual != NULL) {
		set_float(x, &job->residual[i]);
		bits = add(bits, x);
	}
	return bits;
}

bool oracle_gemm_exact(const struct mxfp_gemm_ref_job *job, size_t m, size_t n, mpfr_ptr sum, mpfr_ptr magnitudes)
{
	MPFR_DECL_INIT(a, WIDE);
	MPFR_DECL_INIT(x, 24);
	int inexact = 0;

	mpfr_set_zero(sum, 1);
	mpfr_set_zero(magnitudes, 1);
	for (size_t k = 0; k < job->a->cols; k++) {
		set_element(a, job->a, m, k);
		set_scale(x, job->a, m, k);
		inexact |= mpfr_mul(a, a, x, MPFR_RNDN);
		set_scale(x, job->w, n, k);
		inexact |= mpfr_mul(a, a, x, MPFR_RNDN);
		set_element(x, job->w, n, k);
		inexact |= mpfr_mul(a, a, x, MPFR_RNDN);
		inexact |= mpfr_add(sum, sum, a, MPFR_RNDN);
		mpfr_abs(a, a, MPFR_RNDN);
		inexact |= mpfr_add(magnitudes, magnitudes, a, MPFR_RNDN);
	}
	return inexact == 0 && mpfr_number_p(sum) != 0;
}
