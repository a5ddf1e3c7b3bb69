/* SPDX-License-Identifier: MIT */
/* Which elements their blocks clamp (ref/clamp.c): one comparison each, as integers. No block is shorter than a vector. */
#include "tier.h"

#include "body/slots.h"
#include "scale.h"

enum { UNIT = 4 * LANES };

_Static_assert((int)LANES <= (int)MXFP_NVFP4_BLOCK, "lanes of one vector have one limit");

/* 1 where a magnitude is above the limit, which is at most MXFP_LIMIT_NONE, so that signs do not matter. */
ALWAYS_INLINE vu32 above(const uint8_t *x, uint32_t limit)
{
	const vs32 magnitude = (vs32)(load(x) & ~F32_SIGN);

	return (vu32)(magnitude > (vs32)splat(limit)) & 1;
}

ALWAYS_INLINE void clamp(const struct mxfp_clamp_job *job, const size_t block)
{
	const uint8_t *x = job->x;
	size_t i = 0;

	for (; i + UNIT <= job->n; i += UNIT) {
		vu32 bits[4];

		for (size_t v = 0; v < 4; v++)
			bits[v] = above(x + 4 * (i + v * LANES), job->limits[(i + v * LANES) / block]);
		store(job->clamped + i, (vu32)low_bytes(bits));
	}
	for (; i < job->n; i++) {
		uint32_t bits;

		memcpy(&bits, x + 4 * i, sizeof bits);
		job->clamped[i] = (bits & ~F32_SIGN) > job->limits[i / block];
	}
}

void TIER(clamp)(const struct mxfp_clamp_job *job)
{
	if (job->block_length == MXFP_MX_BLOCK)
		clamp(job, MXFP_MX_BLOCK);
	else
		clamp(job, MXFP_NVFP4_BLOCK);
}
