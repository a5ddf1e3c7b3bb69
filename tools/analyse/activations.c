/* SPDX-License-Identifier: MIT */
/* Seeded activations: activations.h has the formulas. */
#include "analyse/activations.h"

#include <math.h>

#include <sleef.h>

#include "mxfp/philox.h"

const char *activations_name(enum activation_kind kind)
{
	return kind == ACTIVATIONS_NORMAL ? "normal" : "outliers";
}

/* Numbers 4q .. 4q + 3, which the four words of Philox's counter block q make. */
static void normal_quad(uint64_t seed, uint64_t stream, uint64_t q, double z[4])
{
	for (unsigned pair = 0; pair < 4; pair += 2) {
		double u = ((double)mxfp_philox_word(seed, stream, 4 * q + pair) + 0.5) * 0x1p-32;
		double two_v = (double)mxfp_philox_word(seed, stream, 4 * q + pair + 1) * 0x1p-31; /* in half turns */
		double radius = sqrt(-2 * Sleef_cinz_logd1_u10purec(u));

		z[pair] = radius * Sleef_cinz_cospid1_u05purec(two_v);
		z[pair + 1] = radius * Sleef_cinz_sinpid1_u05purec(two_v);
	}
}

void activations_fill(float *x, size_t tokens, size_t cols, enum activation_kind kind, uint64_t seed, uint64_t stream)
{
	double z[4];

	for (size_t i = 0; i < tokens * cols; i++) {
		if (i % 4 == 0)
			normal_quad(seed, stream, i / 4, z);
		if (kind == ACTIVATIONS_OUTLIERS && i % cols % OUTLIER_SPACING == 0)
			x[i] = (float)(z[i % 4] * OUTLIER_FACTOR);
		else
			x[i] = (float)z[i % 4];
	}
}
