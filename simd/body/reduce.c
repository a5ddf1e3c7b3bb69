/* SPDX-License-Identifier: MIT */
/* Sums buffers as mxfp_reduce_ref() does: a chain of binary64 additions in each lane, rounded once to binary32, in which
   every NaN becomes 7FC00000. */
#include "tier.h"

#include "body/slots.h"

enum { VECTORS = 4 }; /* of binary32, summed at once: enough chains to hide the latency of an addition */

/* The numbers of a buffer from `at` on, of which only `n` are there, as binary32. */
ALWAYS_INLINE void load_numbers(float *to, enum mxfp_format format, const uint8_t *at, size_t n)
{
	if (format == MXFP_FORMAT_F32) {
		memcpy(to, at, n * sizeof *to);
	} else if (n == LANES) {
		store(to, load_u16(at) << 16);
	} else {
		uint16_t words[LANES] = {0};

		memcpy(words, at, n * sizeof *words);
		store(to, load_u16(words) << 16);
	}
}

/* Sums `vectors` vectors from element `first` on; of the last one, only `last` numbers are there. */
ALWAYS_INLINE void sum_vectors(const struct mxfp_reduce_job *job, enum mxfp_format format, size_t i, int vectors,
                               size_t last)
{
	const size_t width = format == MXFP_FORMAT_F32 ? sizeof(float) : sizeof(uint16_t);
	vf64 sum[2 * VECTORS];

	for (int v = 0; v < 2 * vectors; v++)
		sum[v] = splat_f64(-0.0); /* which changes no number that is added, -0 neither */
	for (size_t b = 0; b < job->n_src; b++) {
		const uint8_t *at = (const uint8_t *)job->src[b] + (job->first + i) * width;

		for (int v = 0; v < vectors; v++) {
			const size_t n = v == vectors - 1 ? last : LANES;
			float numbers[LANES] = {0};
			vf64 low, high;

			if (format == MXFP_FORMAT_F32 && n == LANES) {
				low = widen_f32(at + v * sizeof numbers);
				high = widen_f32(at + v * sizeof numbers + sizeof numbers / 2);
			} else {
				load_numbers(numbers, format, at + v * LANES * width, n);
				low = widen_f32(numbers);
				high = widen_f32(numbers + LANES / 2);
			}
			sum[2 * v] += low;
			sum[2 * v + 1] += high;
		}
	}
	for (int v = 0; v < vectors; v++) {
		vf32 rounded = narrow_f64(sum[2 * v], sum[2 * v + 1]);
		vu32 result = blend(rounded == rounded, (vu32)rounded, splat(F32_NAN));

		memcpy(job->dst + i + (size_t)v * LANES, &result,
		       v == vectors - 1 ? last * sizeof(float) : sizeof result);
	}
}

ALWAYS_INLINE void sum_all(const struct mxfp_reduce_job *job, enum mxfp_format format)
{
	size_t i = 0;

	for (; job->n - i >= VECTORS * LANES; i += VECTORS * LANES)
		sum_vectors(job, format, i, VECTORS, LANES);
	for (; job->n - i >= LANES; i += LANES)
		sum_vectors(job, format, i, 1, LANES);
	if (i < job->n)
		sum_vectors(job, format, i, 1, job->n - i);
}

static NOINLINE void reduce(const struct mxfp_reduce_job *job)
{
	if (job->src_format == MXFP_FORMAT_F32)
		sum_all(job, MXFP_FORMAT_F32);
	else
		sum_all(job, MXFP_FORMAT_BF16);
}

FP_KERNEL(TIER(reduce), mxfp_reduce_job, reduce)
