/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/ggml_q8.h"

#include <math.h>

#include "base/must_succeed.h"
#include "mxfp/convert.h"

enum { LARGEST = 127 };

static void convert(void *to, enum mxfp_format to_format, const void *from, enum mxfp_format from_format)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_convert_options options = {.size = sizeof options, .overflow = MXFP_OVERFLOW_OVF};
	must_succeed(mxfp_convert_array(to, to_format, from, from_format, 1, &options, &exec));
}

void q8_0_decode(float *x, const uint8_t *blocks, size_t n_blocks)
{
	for (; n_blocks > 0; n_blocks--, blocks += Q8_0_BYTES, x += Q8_0_ELEMENTS) {
		const uint16_t half = (uint16_t)(blocks[0] | blocks[1] << 8);
		float d;

		convert(&d, MXFP_FORMAT_F32, &half, MXFP_FORMAT_F16);
		for (int i = 0; i < Q8_0_ELEMENTS; i++) {
			const int code = blocks[2 + i];

			x[i] = d * (float)(code > LARGEST ? code - 256 : code);
		}
	}
}

void q8_0_encode(uint8_t *blocks, const float *x, size_t n_blocks)
{
	for (; n_blocks > 0; n_blocks--, blocks += Q8_0_BYTES, x += Q8_0_ELEMENTS) {
		float amax = 0;
		uint16_t half;

		for (int i = 0; i < Q8_0_ELEMENTS; i++)
			if (fabsf(x[i]) > amax)
				amax = fabsf(x[i]);
		const float d = amax / LARGEST, inverse = d > 0 ? 1 / d : 0;
		convert(&half, MXFP_FORMAT_F16, &d, MXFP_FORMAT_F32);
		blocks[0] = (uint8_t)half;
		blocks[1] = (uint8_t)(half >> 8);
		for (int i = 0; i < Q8_0_ELEMENTS; i++) {
			const float code = roundf(x[i] * inverse);

			blocks[2 + i] = fabsf(code) <= LARGEST ? (uint8_t)(int)code : 0;
		}
	}
}
