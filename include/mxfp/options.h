/* SPDX-License-Identifier: MIT */
/* The caller's choices, their names, and the counts that conversions report. In each enum 0 is the default. */
#ifndef MXFP_OPTIONS_H
#define MXFP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How one number is rounded (doc/numerics.md, section 2). */
enum mxfp_round {
	MXFP_ROUND_RNE = 0, /* to nearest, ties to even */
	MXFP_ROUND_RNA = 1, /* to nearest, ties away from zero */
	MXFP_ROUND_RHZ = 2, /* to nearest, ties toward zero (ggml) */
	MXFP_ROUND_RTZ = 3, /* toward zero */
	MXFP_ROUND_RTP = 4, /* toward +Inf */
	MXFP_ROUND_RTN = 5, /* toward -Inf */
	MXFP_ROUND_SR = 6, /* stochastic, Philox4x32-10 keyed by --seed and the element's index */
};

/* What becomes of values past the largest finite one. bf16, f16, tf32 and f32 always
   overflow; a format with neither Inf nor NaN always saturates. */
enum mxfp_overflow {
	MXFP_OVERFLOW_SAT = 0, /* finite values past the largest, and Inf, become +-max (4-, 6- and 8-bit formats) */
	MXFP_OVERFLOW_OVF = 1, /* they become Inf, or NaN in a format without Inf */
};

/* How an MX block's E8M0 scale follows from its elements (section 3). */
enum mxfp_rule {
	MXFP_RULE_MSE = 0, /* floor or floor+1, whichever has the least squared error in the block */
	MXFP_RULE_FLOOR = 1, /* floor(log2 amax) - emax: OCP sample algorithm, llama.cpp, AWS NKI before 0.5.0 */
	MXFP_RULE_CEIL = 2, /* ceil(log2 amax) - emax */
	MXFP_RULE_EVEN = 3, /* exponent of amax rounded to the element's significand: Quark, torchao EVEN, compressed-tensors MXFP6 */
	MXFP_RULE_EVEN_M1 = 4, /* even with one significand bit whatever the element: compressed-tensors MXFP4 and MXFP8 */
	MXFP_RULE_RCEIL = 5, /* smallest scale with amax <= max * scale: NVIDIA, torchao RCEIL, MLX from 0.32.2 on */
	MXFP_RULE_FIT = 6, /* smallest scale without overflow under rne: Arm TOSA */
	MXFP_RULE_TRN3 = 7, /* floor(log2 amax) - (emax - 1): AWS Trainium3 since NKI 0.5.0, before it floor */
	MXFP_RULE_RNE = 8, /* amax / max to the nearest power of two, as a cast to e8m0: ml_dtypes, PyTorch */
	MXFP_RULE_LOG_NEAREST = 9, /* log2(amax / max) to the nearest integer: MLX up to 0.32.1 */
};

/* Whose arithmetic makes NVFP4's scales (section 4). */
enum mxfp_recipe {
	MXFP_RECIPE_TE = 0, /* Transformer Engine; tensor scale amax/2688 */
	MXFP_RECIPE_TORCHAO = 1, /* torchao, two levels; block scales at least 2^-6 */
	MXFP_RECIPE_TORCHAO_1 = 2, /* torchao, one level: no tensor scale */
	MXFP_RECIPE_COMPRESSED_TENSORS = 3, /* llm-compressor; the tensor scale 2688/amax divides */
	MXFP_RECIPE_MODELOPT = 4, /* NVIDIA Model Optimizer up to 0.44; small block scales become 0 */
	MXFP_RECIPE_MODELOPT_0_45 = 5, /* NVIDIA Model Optimizer from 0.45 on; block scales at least 2^-9 */
	MXFP_RECIPE_GGML = 6, /* llama.cpp; no tensor scale, ties toward zero */
	MXFP_RECIPE_4OVER6 = 7, /* te with 1536 for 2688, block maximum at 4 or 6, whichever errs least */
	MXFP_RECIPE_MODELOPT_4OVER6 = 8, /* NVIDIA Model Optimizer, four_over_six: 1536 for 2688, 4 or 6 by squared error */
};

/* What a block with a NaN or Inf becomes. */
enum mxfp_non_finite {
	MXFP_NON_FINITE_PROPAGATE = 0, /* a block with a NaN or Inf becomes all NaN (scale FF, codes 0) */
	MXFP_NON_FINITE_ERROR = 1, /* refused, naming the first such element; nothing is written */
	MXFP_NON_FINITE_SATURATE = 2, /* each Inf is rounded as the largest finite f32; NaN as propagate */
};

/* How products are summed (section 5): the first two as this library does, the others as a machine does. */
enum mxfp_acc {
	MXFP_ACC_EXACT = 0, /* exact sum over each block, one rounding a block */
	MXFP_ACC_CHAIN = 1, /* decoded elements, one fused multiply-add each, in ascending k */
	MXFP_ACC_VOLTA = 2, /* NVIDIA Volta: 4 products and C, cut at 23 fraction bits; equal to a V100 */
	MXFP_ACC_TURING = 3, /* NVIDIA Turing: 8 products and C, cut at 24 fraction bits; not compared with silicon */
	MXFP_ACC_AMPERE = 4, /* NVIDIA Ampere: 8 products and C, cut at 24 fraction bits; equal to an A100 */
	MXFP_ACC_ADA = 5, /* NVIDIA Ada: as ampere, 16 products of fp8 cut at 13; equal to an L40S */
	MXFP_ACC_HOPPER = 6, /* NVIDIA Hopper: 16 products and C, cut at 25 fraction bits, 32 of fp8 (wgmma) at 13; equal to an H200 */
	MXFP_ACC_HOPPER_MMA = 7, /* NVIDIA Hopper, fp8 by mma.sync: two sums as of f16, then C; equal to an H200 */
	MXFP_ACC_BLACKWELL = 8, /* NVIDIA Blackwell: cut at 25 fraction bits, mxfp4 and nvfp4 at 35; fp8 and blocks not compared with silicon */
	MXFP_ACC_CDNA2 = 9, /* AMD MI200: 4 products, each operation rounded and flushed; not compared with silicon */
	MXFP_ACC_CDNA3 = 10, /* AMD MI300: 8 products, 16 of fp8 (fnuz), cut at 24 fraction bits, then C; not compared with silicon */
	MXFP_ACC_FMMLA = 11, /* Arm FMMLA: 8 products of fp8 and C, rounded once; not compared with silicon */
	MXFP_ACC_VDPBF16PS = 12, /* x86 AVX512_BF16: a chain, odd k before even, subnormals flushed; equal to a Xeon */
	MXFP_ACC_TDPBF16PS = 13, /* x86 AMX-BF16: chains of even and of odd k, then C, flushed; not compared with silicon */
	MXFP_ACC_ACE = 14, /* x86 ACE: 4 products of mxfp8, fp8 or mxint8 rounded once, then C; no silicon yet */
};

/* A function of one number (section 8). */
enum mxfp_function {
	MXFP_FUNCTION_IDENTITY = 0, /* x */
	MXFP_FUNCTION_RELU = 1, /* x if x > 0, else 0 */
	MXFP_FUNCTION_LEAKY_RELU = 2, /* x if x > 0, else x times the parameter [0.01] */
	MXFP_FUNCTION_EXP = 3, /* e^x */
	MXFP_FUNCTION_EXP2 = 4, /* 2^x */
	MXFP_FUNCTION_LOG = 5, /* natural logarithm */
	MXFP_FUNCTION_TANH = 6, /* hyperbolic tangent */
	MXFP_FUNCTION_SIGMOID = 7, /* 1 / (1 + e^-x) */
	MXFP_FUNCTION_SILU = 8, /* x / (1 + e^(-b x)), b the parameter [1]; also known as swish */
	MXFP_FUNCTION_SOFTPLUS = 9, /* log(1 + e^x) */
	MXFP_FUNCTION_ELU = 10, /* x if x > 0, else (e^x - 1) times the parameter [1] */
	MXFP_FUNCTION_SELU = 11, /* elu, scaled as in PyTorch */
	MXFP_FUNCTION_GELU = 12, /* x times the normal distribution function of x */
	MXFP_FUNCTION_GELU_TANH = 13, /* gelu approximated by tanh, as in PyTorch */
	MXFP_FUNCTION_RSQRT = 14, /* 1 / sqrt(x) */
	MXFP_FUNCTION_RECIPROCAL = 15, /* 1 / x */
	MXFP_FUNCTION_SIN = 16, /* sine of x radians */
	MXFP_FUNCTION_COS = 17, /* cosine of x radians */
};

/* Names the enums above for the functions below. */
enum mxfp_option {
	MXFP_OPTION_ROUND,
	MXFP_OPTION_OVERFLOW,
	MXFP_OPTION_RULE,
	MXFP_OPTION_RECIPE,
	MXFP_OPTION_NON_FINITE,
	MXFP_OPTION_ACC,
	MXFP_OPTION_FUNCTION
};

/* Returns the name of a value of an option, as the command spells it ("rceil"), or NULL if there is no such value.
   Values are dense from 0, so a loop until NULL visits them all. */
MXFP_API const char *mxfp_option_name(enum mxfp_option option, int value);

/* Returns the meaning of a value in one English phrase, or NULL if there is no such value. */
MXFP_API const char *mxfp_option_meaning(enum mxfp_option option, int value);

/*
 * Finds a value of an option by name (exact, lower case).
 *
 * MXFP_ERR_OPTION  no value has that name, or there is no such option
 */
MXFP_API enum mxfp_status mxfp_option_from_name(int *value, enum mxfp_option option, const char *name);

/* A number that may be left out: {0} is none, mxfp_some(7) is 7. */
struct mxfp_optional {
	bool given;
	float value;
};

static inline struct mxfp_optional mxfp_some(float value)
{
	struct mxfp_optional some;

	some.given = true;
	some.value = value;
	return some;
}

/* What happened to the elements of a call. A call adds to the counts, so the caller zeroes them first. In a block that
   became NaN as a whole, only nan, inf and what via_bf16 made Inf are counted. */
struct mxfp_counts {
	size_t size;         /* sizeof(struct mxfp_counts) */
	uint64_t saturated;  /* became +-max: finite numbers past max after rounding (not those that round to max), and Inf; in
	                        blocks, an Inf that policy saturate replaces counts as such a finite number */
	uint64_t overflowed; /* finite numbers that became Inf or NaN: MXFP_OVERFLOW_OVF, via_bf16, a negative in a format
	                        without sign */
	uint64_t flushed;    /* nonzero numbers that became zero */
	uint64_t nan;        /* NaN in the source */
	uint64_t inf;        /* Inf in the source */
};

#ifdef __cplusplus
}
#endif
#endif
