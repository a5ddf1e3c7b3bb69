/* SPDX-License-Identifier: MIT */
/*
 * A panel of W in MXFP4 that stays in its codes: a head, the codes of the scales [block][column], and the words of codes as
 * they are stored, [word][column]. It takes hardly more than W itself. gemm_fp4.c multiplies it by integers of 16 bits,
 * avx2/gemm_fp4_bytes.c by bytes.
 */
#ifndef MXFP_BODY_GEMM_FP4_H
#define MXFP_BODY_GEMM_FP4_H

#include "body/gemm_int16.h"

enum {
	FP4_WORDS = MXFP_MX_BLOCK / INT16_WORD, /* of a block */
	FP4_WORD_BYTES = INT16_WORD / 2,
	FP4_MAGNITUDES = 0x77777777,
	FP4_BLOCKS = MXFP_GEMM_CHUNK / MXFP_MX_BLOCK
};

static inline size_t fp4_codes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * INT16_NR;
}

static inline size_t fp4_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return fp4_codes(shape, k) + blocks_count(shape, k) * FP4_WORDS * FP4_WORD_BYTES * INT16_NR;
}

/* The binary32 of a scale: 2^(code - 127), or NaN. */
static inline uint32_t fp4_scale(uint8_t code)
{
	if (code == MXFP_SCALE_NAN)
		return F32_NAN;
	return code == 0 ? F32_HIDDEN / 2 : (uint32_t)code << F32_SIGNIFICAND_BITS;
}

/* Packs a row as column r of the panel: its words, and scales. A block of zeros has the scale 1, unless it is NaN. */
static inline void fp4_pack_row(const struct mxfp_gemm_pack_job *job, size_t r, struct blocks_head *head)
{
	const struct mxfp_matrix *m = job->matrix;
	const size_t blocks = blocks_count(job->shape, job->k), row = job->row + r;
	const uint8_t *codes = (const uint8_t *)m->data + mxfp_codes_offset(m->format, m->stride, row, job->k0);
	const uint8_t *from = (const uint8_t *)m->scales + mxfp_scales_offset(m->format, m->scales_stride, row, job->k0);
	uint8_t *scales = (uint8_t *)job->panel + BLOCKS_HEAD_BYTES, *words = (uint8_t *)job->panel + fp4_codes(job->shape, job->k);

	for (size_t b = 0; b < blocks; b++) {
		const size_t k = b * MXFP_MX_BLOCK, n = job->k - k < MXFP_MX_BLOCK ? job->k - k : MXFP_MX_BLOCK;
		uint32_t block[FP4_WORDS] = {0}, any_magnitude = 0;

		memcpy(block, codes + k / 2, (n + 1) / 2);
		if (n % 2 != 0)
			((uint8_t *)block)[n / 2] &= 0x0F;
		for (size_t i = 0; i < FP4_WORDS; i++) {
			memcpy(words + ((b * FP4_WORDS + i) * INT16_NR + r) * FP4_WORD_BYTES, &block[i], FP4_WORD_BYTES);
			any_magnitude |= block[i] & FP4_MAGNITUDES;
		}
		const uint8_t code = any_magnitude == 0 && from[b] != MXFP_SCALE_NAN ? MXFP_SCALE_BIAS : from[b];
		const uint32_t scale = fp4_scale(code);
		scales[b * INT16_NR + r] = code;
		head->least_scale = scale < head->least_scale ? scale : head->least_scale;
		head->greatest_scale = scale > head->greatest_scale ? scale : head->greatest_scale;
	}
}

static inline void fp4_pack_w(const struct mxfp_gemm_pack_job *job)
{
	struct blocks_head head = {F32_ONE, F32_ONE, F32_ONE, F32_ONE};
	uint8_t *panel = job->panel;
	const size_t codes = fp4_codes(job->shape, job->k);

	memset(panel, 0, BLOCKS_HEAD_BYTES);
	if (job->rows < INT16_NR) {
		memset(panel + BLOCKS_HEAD_BYTES, MXFP_SCALE_BIAS, codes - BLOCKS_HEAD_BYTES);
		memset(panel + codes, 0, fp4_w_bytes(job->shape, job->k) - codes);
	}
	for (size_t r = 0; r < job->rows; r++)
		fp4_pack_row(job, r, &head);
	memcpy(panel, &head, sizeof head);
}

/* The binary32 of each scale of a panel. */
static inline void fp4_expand_scales(float *to, const uint8_t *scales, size_t blocks)
{
	for (size_t i = 0; i < blocks * INT16_NR; i += LANES) {
		const vu32 code = load_u8(scales + i), finite = blend((vs32)(code == 0), splat(F32_HIDDEN / 2), code << F32_SIGNIFICAND_BITS);

		store(to + i, blend((vs32)(code == MXFP_SCALE_NAN), splat(F32_NAN), finite));
	}
}

#endif
