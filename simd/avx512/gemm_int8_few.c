/* SPDX-License-Identifier: MIT */
/* Few rows of A, down to the one of decoding, times W as it is stored: elements and scales are expanded on their way
   into the registers, and memory is what takes the time. */
#include "avx512/gemm_int8_block.h"

enum { AHEAD = 4096 };

/* n rows of A's only panel times W as it is stored. */
ALWAYS_INLINE void multiply_few(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                const struct kind *kind, int n)
{
	const size_t block = gemm_int8_w_block(job->shape->w_format), repeats = block / (size_t)kind->block;
	const size_t n_blocks = gemm_int8_count(job->k, (size_t)kind->block);
	const size_t per_pass = job->shape->pass / (size_t)kind->block;
	const size_t block_bytes = (size_t)kind->block * NR / (kind->nibbles ? 2 : 1);
	const uint8_t *scales = job->w, *codes = scales + gemm_int8_count(job->k, block) * NR;

	for (size_t b = 0; b < n_blocks;) {
		const size_t end = n_blocks - b < per_pass ? n_blocks : b + per_pass;
		__m512 p[MR][VECTORS] = {0};

		for (; b < end; b++) {
			const uint8_t *at = codes + b * block_bytes;
			__m512 scale[VECTORS];

			for (size_t i = 0; i < block_bytes; i += VECTOR_BYTES)
				_mm_prefetch((const char *)at + AHEAD + i, _MM_HINT_T0);
			for (int v = 0; v < VECTORS; v++)
				scale[v] = load_scales(kind->ue4m3, scales + b / repeats * NR + (size_t)v * LANES);
			multiply_block(p, a, kind, at, scale, b, n);
		}
		end_pass(job->c, p, n);
	}
}

ALWAYS_INLINE void multiply_kind(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                 const struct kind *kind)
{
	switch (job->rows) {
	case 1:
		multiply_few(job, a, kind, 1);
		break;
	case 2:
		multiply_few(job, a, kind, 2);
		break;
	default:
		multiply_few(job, a, kind, MR);
	}
}

static NOINLINE void multiply_few_bytes(const struct mxfp_gemm_multiply_job *job, const struct rows *a, int block)
{
	if (block == 32)
		multiply_kind(job, a, &(struct kind){.block = 32});
	else
		multiply_kind(job, a, &(struct kind){.block = 16});
}

static NOINLINE void multiply_few_nibbles(const struct mxfp_gemm_multiply_job *job, const struct rows *a,
                                          const struct kind *kind)
{
	if (kind->ue4m3)
		multiply_kind(job, a, &(struct kind){.nibbles = true, .ue4m3 = true, .block = 16});
	else if (kind->block == 32)
		multiply_kind(job, a, &(struct kind){.nibbles = true, .block = 32});
	else
		multiply_kind(job, a, &(struct kind){.nibbles = true, .block = 16});
}

void mxfp_gemm_int8_few(const struct mxfp_gemm_multiply_job *job)
{
	const struct rows a = first_rows(job);
	const struct kind kind = {
		.ue4m3 = job->shape->w_format == MXFP_FORMAT_NVFP4,
		.block = (int)gemm_int8_pair_block(job->shape),
	};

	if (gemm_int8_has_nibbles(job->shape->w_format))
		multiply_few_nibbles(job, &a, &kind);
	else
		multiply_few_bytes(job, &a, kind.block);
}
