/* SPDX-License-Identifier: MIT */
#include "oracle/inputs.h"

#define BOTH_SIGNS(bits) UINT32_C(bits), UINT32_C(bits) | UINT32_C(0x80000000)

const uint32_t inputs_edge[] = {
	BOTH_SIGNS(0x00000000), BOTH_SIGNS(0x00000001), BOTH_SIGNS(0x00000002), BOTH_SIGNS(0x00000003),
	BOTH_SIGNS(0x003FFFFF), BOTH_SIGNS(0x00400000), BOTH_SIGNS(0x00400001), BOTH_SIGNS(0x007FFFFE),
	BOTH_SIGNS(0x007FFFFF), BOTH_SIGNS(0x00800000), BOTH_SIGNS(0x00800001), BOTH_SIGNS(0x00FFFFFF),
	BOTH_SIGNS(0x01000000), BOTH_SIGNS(0x33800000), BOTH_SIGNS(0x34000000), BOTH_SIGNS(0x3EAAAAAB),
	BOTH_SIGNS(0x3F000000), BOTH_SIGNS(0x3F7FFFFF), BOTH_SIGNS(0x3F800000), BOTH_SIGNS(0x3F800001),
	BOTH_SIGNS(0x3FFFFFFF), BOTH_SIGNS(0x40000000), BOTH_SIGNS(0x40400000), BOTH_SIGNS(0x4B7FFFFF),
	BOTH_SIGNS(0x4B800000), BOTH_SIGNS(0x7E7FFFFF), BOTH_SIGNS(0x7E800000), BOTH_SIGNS(0x7EFFFFFF),
	BOTH_SIGNS(0x7F000000), BOTH_SIGNS(0x7F7FFFFE), BOTH_SIGNS(0x7F7FFFFF), BOTH_SIGNS(0x7F800000),
	BOTH_SIGNS(0x7F800001), BOTH_SIGNS(0x7F801FFF), BOTH_SIGNS(0x7FA00000), BOTH_SIGNS(0x7FBFFFFF),
	BOTH_SIGNS(0x7FC00000), BOTH_SIGNS(0x7FC00001), BOTH_SIGNS(0x7FDFFFFF), BOTH_SIGNS(0x7FFFFFFF),
};

const size_t inputs_n_edge = sizeof inputs_edge / sizeof inputs_edge[0];

uint64_t random_u64(struct random *r)
{
	uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)(((random_u64(r) >> 32) * n) >> 32);
}

uint32_t random_f32(struct random *r)
{
	uint32_t bits = (uint32_t)random_u64(r);

	switch (random_below(r, 8)) {
	case 0: /* few significand bits at the top: ties and exact values */
		return bits & ~(UINT32_C(0x7FFFFF) >> random_below(r, 24));
	case 1: /* a run of ones at the bottom: just below a tie or a power of two */
		return bits | (UINT32_C(0x7FFFFF) >> random_below(r, 24));
	case 2: /* one unit off a round significand */
		return (bits & ~(UINT32_C(0x7FFFFF) >> random_below(r, 24))) + 1;
	case 3: /* subnormal */
		return (bits & UINT32_C(0x807FFFFF)) >> (bits & 1 ? 0 : random_below(r, 24));
	case 4:
		return inputs_edge[random_below(r, (uint32_t)inputs_n_edge)];
	default:
		return bits;
	}
}

uint32_t random_f32_between(struct random *r, int low, int high)
{
	int exponent = low + (int)random_below(r, (uint32_t)(high - low + 1));

	return ((uint32_t)random_u64(r) & UINT32_C(0x807FFFFF)) | (uint32_t)(exponent + 127) << 23;
}
