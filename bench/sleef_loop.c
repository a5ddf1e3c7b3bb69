/* SPDX-License-Identifier: MIT */
/* Loops over SLEEF's vector functions. The file is compiled once per tier; SLEEF is the name of what it defines. */
#include "config.h"

#include "sleef_peer.h"

#include "machine.h"

#ifdef LANES

typedef vf32 vector_function(vf32 x);

static inline vf32 load(const float *at)
{
	vf32 v;

	memcpy(&v, at, sizeof v);
	return v;
}

#define SLEEF_LOOP(expression) \
	for (size_t i = 0; i < n; i += LANES) { \
		const vf32 x = load(src + i), y = (expression); \
\
		memcpy(dst + i, &y, sizeof y); \
	}

static void run(enum mxfp_function function, void *symbol, float *dst, const float *src, size_t n)
{
	const vf32 one = splat_f32(1), half = splat_f32(0.5F), sqrt_half = splat_f32(0.707106781F);
	const vf32 linear = splat_f32(0.797884561F), cube = splat_f32(0.0356774081F);
	vector_function *f;

	memcpy(&f, &symbol, sizeof f);
	switch (function) {
	case MXFP_FUNCTION_SIGMOID:
		SLEEF_LOOP(one / (one + f(-x)))
		break;
	case MXFP_FUNCTION_SILU:
		SLEEF_LOOP(x / (one + f(-x)))
		break;
	case MXFP_FUNCTION_GELU:
		SLEEF_LOOP(half * x * (one + f(sqrt_half * x)))
		break;
	case MXFP_FUNCTION_GELU_TANH:
		SLEEF_LOOP(half * x * (one + f(x * (linear + cube * x * x))))
		break;
	default:
		SLEEF_LOOP(f(x))
	}
}
#endif

const struct sleef_tier SLEEF = {
#if defined LANES && LANES == 16
	"avx512f", "16", run
#elif defined LANES && LANES == 8
	"avx2", "8", run
#elif defined LANES && LANES == 4
	"advsimd", "4", run
#else
	NULL, NULL, NULL
#endif
};
