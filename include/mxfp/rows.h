/* SPDX-License-Identifier: MIT */
/* The mathematics around products: functions of one number, each result the binary32 nearest to the true value, and
   operations on rows, whose every step is rounded as IEEE 754 has it (doc/numerics.md, sections 8 and 9). */
#ifndef MXFP_ROWS_H
#define MXFP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec.h"
#include "export.h"
#include "matrix.h"
#include "options.h"
#include "quantize.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is read is a matrix of numbers in f32 or bf16. A result has as many rows and columns: numbers in f32, or in bf16, rounded
 * from the binary32 results to nearest even, and blocks, which get what mxfp_quantize() makes of the binary32 results, in the
 * same pass, as the options' `quantize` says (NULL: the defaults). Results are not known before they are written, so policy
 * `error`, first_non_finite, clamped, block_rows 32, and a tensor scale without tensor_amax are refused.
 *
 * Each result of an operation on rows is one or a few IEEE 754 operations on binary32 numbers and on sums of its row, in
 * binary64; bf16 is decoded exactly. A sum is that of 16 lanes, lane j being numbers j, j + 16, ... in this order, then lane j
 * takes lane j + 8, j + 4, j + 2, j + 1: no result depends on threads, tier, or strides. A NaN result is 7FC00000. Nothing is
 * allocated.
 *
 * result->data may be rows that are read (but not a mask), with their format and stride: each result then replaces the number
 * in its place.
 *
 * Functions of this header that have a result return, besides what is said below:
 *
 * MXFP_ERR_NULL    neither data nor blocks in the result
 * MXFP_ERR_FORMAT  numbers that are not f32 or bf16, transposed or sparse; blocks not in a block format
 * MXFP_ERR_SHAPE   matrices or blocks of another shape
 * MXFP_ERR_OPTION  a `quantize` that mxfp_quantize() refuses or that is refused above; a result with clamped or first_non_finite
 */

/* All zero: the function's default parameter. */
struct mxfp_function_options {
	size_t size;                    /* sizeof(struct mxfp_function_options) */
	struct mxfp_optional parameter; /* finite: slope of leaky-relu, alpha of elu, beta of silu. None: 0.01, 1, 1. With other
	                                   functions it must be finite all the same, and is not used */
	const struct mxfp_quantize_options *quantize;
};

/*
 * Computes the function of each number. Each result is the binary32 number nearest to the true value of the function, ties to
 * even, subnormals and overflow to Inf included; NaN gives 7FC00000. Limits stand for values at zeros and infinities, and a zero
 * has the sign that the function has beside it.
 *
 * MXFP_ERR_OPTION  a function out of range; a parameter that is NaN or Inf
 */
MXFP_API enum mxfp_status mxfp_function_apply(const struct mxfp_result *result, enum mxfp_function function,
                                              const struct mxfp_matrix *src, const struct mxfp_function_options *options,
                                              const struct mxfp_exec *exec);

enum mxfp_reduction {
	MXFP_REDUCTION_SUM,        /* rounded once from the sum in binary64 */
	MXFP_REDUCTION_MEAN,       /* that sum divided by cols, in binary64, and rounded to binary32 */
	MXFP_REDUCTION_SQUARE_SUM, /* lanes take fma(x, x, lane) */
	MXFP_REDUCTION_MAX         /* -0 < +0; NaN if there is one */
};

/*
 * Reduces each row to a number: dst[0 .. rows - 1]. A sum of no numbers is +0.
 *
 * MXFP_ERR_FORMAT  src is not f32 or bf16, or is transposed or sparse
 * MXFP_ERR_OPTION  a reduction out of range
 * MXFP_ERR_SIZE    mean or max of no numbers, even of no rows
 */
MXFP_API enum mxfp_status mxfp_rows_reduce(float *dst, enum mxfp_reduction reduction, const struct mxfp_matrix *src,
                                           const struct mxfp_exec *exec);

/*
 * Finds in each row the first number that is not less than any other, or the first NaN if there is one: dst[0 .. rows - 1]
 * are their columns. -0 and +0 are equal.
 *
 * MXFP_ERR_FORMAT  src is not f32 or bf16, or is transposed or sparse
 * MXFP_ERR_SIZE    rows of no numbers, even no rows
 */
MXFP_API enum mxfp_status mxfp_rows_argmax(size_t *dst, const struct mxfp_matrix *src, const struct mxfp_exec *exec);

/* All zero: the plain softmax of whole rows. */
struct mxfp_softmax_options {
	size_t size;                  /* sizeof(struct mxfp_softmax_options) */
	struct mxfp_optional scale;   /* numbers are multiplied by it; none: they are not */
	const struct mxfp_matrix *mask; /* numbers, added after the scale: row r takes mask row r mod mask->rows; NULL: none */
	size_t head_rows;             /* row r is query r mod head_rows of head r / head_rows; 0: rows, which are one head */
	bool causal;                  /* query q takes part with columns 0 .. q + causal_offset; the others are not read */
	ptrdiff_t causal_offset;      /* cols - head_rows aligns the last query with the last column */
	const float *sinks;           /* one a head: a score that takes part and has no column; NULL: none */
	const struct mxfp_quantize_options *quantize;
};

/*
 * Computes y = e / T for each row, where z = fl32(fl32(x * scale) + mask), m is the largest z of the row and its sink, d =
 * fl32(z - m), e = exp(d) correctly rounded, T = the sum of e, plus exp(fl32(sink - m)), and y = fl32(e * r), r being the binary32
 * nearest to 1 / T. mxfp_log_softmax(): y = fl32(d - log(fl32(T))), the logarithm correctly rounded.
 *
 * Columns that take no part give +0, or -Inf of mxfp_log_softmax(). So do all columns of a row whose m is -Inf: one in which
 * everything is masked. In a row with a NaN or +Inf, all columns that take part give NaN.
 */
MXFP_API enum mxfp_status mxfp_softmax(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                       const struct mxfp_softmax_options *options, const struct mxfp_exec *exec);
MXFP_API enum mxfp_status mxfp_log_softmax(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                           const struct mxfp_softmax_options *options, const struct mxfp_exec *exec);

/* All zero: no weight, no bias, no residual, epsilon 0. */
struct mxfp_norm_options {
	size_t size;                        /* sizeof(struct mxfp_norm_options) */
	double epsilon;                     /* added to the mean square or the variance; finite, not negative */
	const struct mxfp_matrix *weight;   /* a row of cols numbers; NULL: none */
	const struct mxfp_matrix *bias;     /* a row of cols numbers; NULL: none, as mxfp_rms_norm() must have it */
	bool weight_plus_one;               /* 1 + weight stands for the weight, rounded to binary32: Gemma. Ignored without
	                                       weight */
	const struct mxfp_matrix *residual; /* added to src before the norm; NULL: none */
	const struct mxfp_result *residual_out; /* gets the sums, as numbers, which may be the residual or src. The sums are then
	                                       normalized as they are stored. NULL: not wanted */
	const struct mxfp_quantize_options *quantize;
};

/*
 * Normalizes each row h: src, or fl32(src + residual). mxfp_rms_norm(): v = fl64(fl64(sum of h^2 / cols) + epsilon), r the
 * binary32 nearest to 1 / sqrt(v), y = fl32(fl32(h * r) * weight). mxfp_layer_norm(): mean = fl64(sum of h / cols), d =
 * fl32(fl64(h - mean)), v of d instead of h, y = fma(fl32(d * r), weight, bias), or one operation less without weight or bias.
 *
 * MXFP_ERR_NULL    residual_out without residual, too
 * MXFP_ERR_OPTION  an epsilon other than above; mxfp_rms_norm() with bias; more than numbers in residual_out
 */
MXFP_API enum mxfp_status mxfp_rms_norm(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                        const struct mxfp_norm_options *options, const struct mxfp_exec *exec);
MXFP_API enum mxfp_status mxfp_layer_norm(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                          const struct mxfp_norm_options *options, const struct mxfp_exec *exec);

/* All zero: blocks by the defaults. */
struct mxfp_add_options {
	size_t size;                /* sizeof(struct mxfp_add_options) */
	const struct mxfp_quantize_options *quantize;
};

/* Computes fl32(a + b). */
MXFP_API enum mxfp_status mxfp_rows_add(const struct mxfp_result *result, const struct mxfp_matrix *a,
                                        const struct mxfp_matrix *b, const struct mxfp_add_options *options,
                                        const struct mxfp_exec *exec);

/* All zero: fl32(f(gate) * up). */
struct mxfp_glu_options {
	size_t size;                    /* sizeof(struct mxfp_glu_options) */
	struct mxfp_optional parameter; /* of the function, as in struct mxfp_function_options */
	struct mxfp_optional limit;     /* finite, not negative: gates above it become the limit before the function, and ups are
	                                   clamped to [-limit, limit]; a NaN stays. None: no limit */
	bool up_plus_one;               /* fl32(up + 1), after the limit, stands for up */
	const struct mxfp_quantize_options *quantize;
};

/*
 * Gated linear unit: computes fl32(f(gate) * up), f any function of one number: SwiGLU (silu), GeGLU (gelu). up may be NULL: the
 * rows of `gate` then have twice as many numbers as the result, gate 0, up 0, gate 1, up 1 and so on, and result->data must not
 * be these. gpt-oss: function silu, parameter 1.702, limit 7, up_plus_one, interleaved.
 *
 * MXFP_ERR_SHAPE   without up, an odd number of columns
 * MXFP_ERR_OPTION  as mxfp_function_apply(); a limit that is negative, NaN or Inf
 */
MXFP_API enum mxfp_status mxfp_glu(const struct mxfp_result *result, enum mxfp_function function, const struct mxfp_matrix *gate,
                                   const struct mxfp_matrix *up, const struct mxfp_glu_options *options,
                                   const struct mxfp_exec *exec);

/* All zero: one head, halves, positions 0, 1, ... */
struct mxfp_rotary_options {
	size_t size;                   /* sizeof(struct mxfp_rotary_options) */
	size_t head_cols;              /* numbers of a head, at most 512, which divide cols; 0: cols */
	size_t rotary_cols;            /* the first so many numbers of a head rotate, an even number; 0: all */
	bool interleaved;              /* numbers 2 k and 2 k + 1 are pair k; else k and k + rotary_cols / 2 */
	const uint32_t *positions;     /* one a row; NULL: first_position + row, modulo 2^32 */
	uint32_t first_position;
	struct mxfp_optional attention_factor; /* cosines and sines are multiplied by it; none: they are not */
	const struct mxfp_quantize_options *quantize;
};

/*
 * Rotary position embedding: rotates pair k (a, b) of each head by the angle fl32(fl32(position) * frequencies[k]) to
 * fl32(fl32(a c) - fl32(b s)) and fl32(fl32(b c) + fl32(a s)); c and s, its cosine and sine, are correctly rounded. There are
 * rotary_cols / 2 frequencies. Numbers that do not rotate are converted, as mxfp_convert() does; from f32 to f32 they are copied,
 * the bits of NaN included.
 *
 * MXFP_ERR_SHAPE  head_cols or rotary_cols other than above
 */
MXFP_API enum mxfp_status mxfp_rotary(const struct mxfp_result *result, const struct mxfp_matrix *src, const float *frequencies,
                                      const struct mxfp_rotary_options *options, const struct mxfp_exec *exec);

/* How frequencies are scaled for more positions than a model was trained with. */
enum mxfp_rotary_scaling {
	MXFP_ROTARY_UNSCALED,
	MXFP_ROTARY_LLAMA3,
	MXFP_ROTARY_YARN
};

/* The names are those of the model's config.json, rope_scaling or rope_parameters. */
struct mxfp_frequency_options {
	size_t size;                   /* sizeof(struct mxfp_frequency_options) */
	double base;                   /* rope_theta: as binary32 finite and more than 1 */
	enum mxfp_rotary_scaling scaling; /* rope_type; what another scaling than this has is ignored */
	double factor;                 /* llama3, yarn: from 2^-100 to 2^100 */
	uint32_t original_positions;   /* llama3, yarn: original_max_position_embeddings, at least 1 */
	double low_freq_factor, high_freq_factor; /* llama3: from 2^-100 to 2^100, as is the second minus the first */
	double beta_fast, beta_slow;   /* yarn: from 2^-100 to 2^100, or 0: 32, 1 */
	bool no_truncate;              /* yarn: "truncate": false */
	double mscale, mscale_all_dim; /* yarn: of the attention factor; from 2^-100 to 2^100, or 0: not given */
};

/*
 * Computes the rotary_cols / 2 frequencies for mxfp_rotary(), and its attention factor (which may be NULL), as transformers'
 * modeling_rope_utils does with PyTorch on a CPU, each step rounded as doc/numerics.md says; powers and logarithms are
 * correctly rounded, and all results are finite. A model whose configuration gives an attention_factor uses that instead.
 *
 * MXFP_ERR_NULL    options, too
 * MXFP_ERR_OPTION  a member other than above
 * MXFP_ERR_SIZE    rotary_cols is 0, odd or above 2^20
 */
MXFP_API enum mxfp_status mxfp_rotary_frequencies(float *frequencies, float *attention_factor, size_t rotary_cols,
                                                  const struct mxfp_frequency_options *options);

#ifdef __cplusplus
}
#endif
#endif
