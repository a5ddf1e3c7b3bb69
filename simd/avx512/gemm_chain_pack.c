/* SPDX-License-Identifier: MIT */
/* Panels of the chain family: numbers of any format become binary32, exactly but for what a tensor scale rounds. */
#include "avx512/gemm_chain.h"
#include "avx512/transpose.h"

enum { MR = GEMM_CHAIN_MR, NR = GEMM_CHAIN_NR };

static uint32_t float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static void decode_blocks(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, float *to, size_t stride)
{
	const struct mxfp_matrix *m = job->matrix;
	const struct mxfp_format_info *format = mxfp_format_info(m->format);
	const size_t bits = mxfp_format_info(format->element)->bits;
	const struct mxfp_dequantize_job decode = {
		.format = m->format,
		.dst_format = MXFP_FORMAT_F32,
		.rows = rows,
		.cols = job->k,
		.codes = (const uint8_t *)m->data + row * m->stride + job->k0 * bits / 8,
		.scales = (const uint8_t *)m->scales + row * m->scales_stride + job->k0 / format->block_length,
		.codes_stride = m->stride,
		.scales_stride = m->scales_stride,
		.tensor_scale = float_bits(m->tensor_scale),
		.tensor_scale_divides = m->tensor_scale_divides,
		.dst = to,
		.dst_stride = stride,
	};

	TIER(dequantize)(&decode);
}

static void decode_numbers(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, float *to, size_t stride)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t width = mxfp_format_info(m->format)->storage_bytes;
	struct mxfp_counts counts = {0};

	for (size_t i = 0; i < rows; i++) {
		if (m->format == MXFP_FORMAT_F32) { /* any NaN will do */
			memcpy(to + i * stride, (const float *)m->data + (row + i) * m->stride + job->k0, job->k * width);
			continue;
		}
		const struct mxfp_convert_job decode = {
			.dst_format = MXFP_FORMAT_F32,
			.src_format = m->format,
			.dst = to + i * stride,
			.src = (const uint8_t *)m->data + ((row + i) * m->stride + job->k0) * width,
			.n = job->k,
			.counts = &counts,
		};
		TIER(decode_wide)(&decode);
	}
}

void TIER(gemm_chain_decode)(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, float *to,
                                   size_t stride)
{
	if (mxfp_format_info(job->matrix->format)->kind == MXFP_KIND_BLOCK)
		decode_blocks(job, row, rows, to, stride);
	else
		decode_numbers(job, row, rows, to, stride);
}

size_t TIER(gemm_chain_a_bytes)(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return MR * gemm_chain_a_stride(k) * sizeof(float);
}

size_t TIER(gemm_chain_w_bytes)(const struct mxfp_gemm_shape *shape, size_t k)
{
	return NR * k * gemm_chain_w_width(shape->w_format);
}

/* Rows that the matrix has not are left as they are: the kernel does not read them. */
void TIER(gemm_chain_pack_a)(const struct mxfp_gemm_pack_job *job)
{
	TIER(gemm_chain_decode)(job, job->row, job->rows, job->panel, gemm_chain_a_stride(job->k));
}

/* Columns of 16 rows, `stride` apart. */
ALWAYS_INLINE void transpose(__m512 b[LANES], const float *from, size_t stride)
{
#pragma GCC unroll 16
	for (size_t i = 0; i < LANES; i++)
		b[i] = _mm512_loadu_ps(from + i * stride);
	transpose_16x16(b);
}

/* Numbers back in the format that they were decoded from, bf16 or f16, or as they are. */
ALWAYS_INLINE void store_numbers(enum mxfp_format format, void *to, __m512 x)
{
	if (format == MXFP_FORMAT_BF16)
		_mm256_storeu_si256(to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16)));
	else if (format == MXFP_FORMAT_F16)
		_mm256_storeu_si256(to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	else
		_mm512_storeu_ps(to, x);
}

static NOINLINE void pack_w(const struct mxfp_gemm_pack_job *job)
{
	const enum mxfp_format format = job->matrix->format;
	const size_t width = gemm_chain_w_width(format);
	float rows[LANES][MXFP_GEMM_CHUNK];
	__m512 columns[LANES];

	for (size_t row = 0; row < NR; row += LANES) {
		const size_t left = job->rows > row ? job->rows - row : 0, n = left < LANES ? left : LANES;

		if (n < LANES)
			memset(rows, 0, sizeof rows);
		if (n != 0)
			TIER(gemm_chain_decode)(job, job->row + row, n, rows[0], MXFP_GEMM_CHUNK);
		for (size_t k = 0; k < job->k; k++) {
			if (k % LANES == 0)
				transpose(columns, &rows[0][k], MXFP_GEMM_CHUNK);
			store_numbers(format, (uint8_t *)job->panel + (k * NR + row) * width, columns[k % LANES]);
		}
	}
}

void TIER(gemm_chain_pack_w)(const struct mxfp_gemm_pack_job *job)
{
	struct fp_state state = fp_enter();

	pack_w(job);
	fp_leave(state);
}
