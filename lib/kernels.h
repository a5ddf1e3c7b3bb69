/* SPDX-License-Identifier: MIT */
/*
 * The kernel table, filled by dispatch.c and called by the rest of lib/. Each operation with more than one
 * implementation is a slot of kernel.def. A kernel gets a job whose arguments have been checked.
 */
#ifndef MXFP_KERNELS_H
#define MXFP_KERNELS_H

#include "gemm/kernel.h"
#include "format.h"
#include "mxfp/convert.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"
#include "mxfp/rows.h"

enum {
#define MXFP_FUNCTION(id, value, name, meaning) +1
	MXFP_N_FUNCTIONS = 0
#include "option.def"
};

/* Rounding of single numbers, shared by both kinds of job. */
struct mxfp_rounding {
	enum mxfp_round mode;
	enum mxfp_overflow overflow;
	bool no_negative_zero;
	uint64_t seed, stream; /* of stochastic rounding */
};

/* A result of this size leaves the caches before it is used: kernels may store past them, which saves reading it. */
enum { MXFP_PAST_CACHES_BYTES = 32 << 20 };

/* Converts n numbers; number i of the piece is number first_index + i of the tensor. */
struct mxfp_convert_job {
	enum mxfp_format dst_format, src_format;
	void *dst;
	const void *src;
	size_t n;
	uint64_t first_index;
	struct mxfp_rounding rounding;
	struct mxfp_counts *counts; /* never NULL */
	bool past_caches;           /* a hint: the whole result is at least MXFP_PAST_CACHES_BYTES long */
};

/* Quantizes rows x cols numbers to blocks. Strides are not 0: src_stride is in elements, the others in bytes. */
struct mxfp_quantize_job {
	enum mxfp_format format, src_format;
	size_t rows, cols;
	const void *src;
	size_t src_stride;
	uint8_t *codes, *scales;
	size_t codes_stride, scales_stride;
	uint64_t first_index; /* of element (0, 0); element (row, col) has first_index + row * cols + col */
	struct mxfp_rounding rounding;
	enum mxfp_rule rule;
	enum mxfp_recipe recipe;
	bool saturate_inf;   /* non-finite policy `saturate` */
	bool via_bf16;
	uint32_t tensor_amax; /* NVFP4: binary32 bits */
	struct mxfp_counts *counts;
	bool squares;         /* 32 rows share scales: slot quantize_squares */
	size_t index_stride;  /* in that slot, from element (row, col) to (row + 1, col) in the tensor, in the place of cols */
	const uint8_t *given; /* within kernels for squares: the scale bytes of each row; NULL: scales are to be chosen */
};

struct mxfp_dequantize_job {
	enum mxfp_format format, dst_format;
	size_t rows, cols;
	const uint8_t *codes, *scales;
	size_t codes_stride, scales_stride;
	uint32_t tensor_scale; /* binary32 bits */
	bool tensor_scale_divides;
	void *dst;
	size_t dst_stride;
	bool past_caches; /* a hint: the whole result is at least MXFP_PAST_CACHES_BYTES long */
	bool continued;   /* a later job of this thread waits for stores past the caches, so this one need not */
};

/* Transposes the codes of rows x cols elements from a square on; strides are in bytes. A row of dst is whole blocks, zeros behind
   the codes of `rows` elements. */
struct mxfp_transpose_job {
	enum mxfp_format format;
	size_t rows, cols;
	const uint8_t *src;
	size_t src_stride;
	uint8_t *dst;
	size_t dst_stride;
};

/* Reads n numbers, raises amax and lowers first_non_finite; the caller initializes both. */
struct mxfp_scan_job {
	enum mxfp_format src_format;
	const void *src;
	size_t n;
	uint64_t first_index;
	uint32_t non_finite_from;  /* a number with at least these magnitude bits is non-finite: those of Inf, or less */
	uint32_t amax;             /* binary32 bits of the largest finite magnitude */
	uint64_t first_non_finite; /* index of the first NaN or Inf */
};

/* Prunes a matrix (mxfp/sparse.h). All strides are in bytes and not 0. */
struct mxfp_prune_job {
	enum mxfp_format format;
	struct mxfp_sparsity sparsity;
	size_t rows, cols;
	const uint8_t *src;
	size_t src_stride;
	uint8_t *masks;
	size_t masks_stride;
	uint8_t *pruned; /* may be src; NULL: not wanted */
	size_t pruned_stride;
};

/* Compresses dense rows to kept codes, or expands kept codes to dense rows of whole blocks. Masks have been checked;
   all strides are in bytes and not 0. */
struct mxfp_sparse_job {
	enum mxfp_format format;
	struct mxfp_sparsity sparsity;
	size_t rows, cols;
	const uint8_t *src;
	size_t src_stride;
	const uint8_t *masks;
	size_t masks_stride;
	uint8_t *dst;
	size_t dst_stride;
};

/* Computes a function of n binary32 numbers; dst may be src, and overlaps it in no other way. */
struct mxfp_apply_job {
	enum mxfp_function function;
	uint32_t parameter; /* binary32 bits, finite */
	const float *src;
	float *dst;
	size_t n;
};

/*
 * Steps of row operations on a strip: n numbers of a row, the first of which is number 0 or a multiple of MXFP_SUM_LANES.
 * dst may be any of the sources. Scalars are binary32 bits, sums binary64 bits.
 */
enum { MXFP_SUM_LANES = 16 };

/* What lanes of a sum take of each number x. */
enum mxfp_sum {
	MXFP_SUM_NUMBERS,   /* lane + x */
	MXFP_SUM_SQUARES,   /* fma(x, x, lane) */
	MXFP_SUM_DEVIATIONS /* fma(d, d, lane), d = fl32(fl64(x - mean)) */
};

struct mxfp_row_sum_job {
	enum mxfp_sum sum;
	const float *x;
	size_t n;
	uint64_t mean;
	uint64_t *lanes; /* MXFP_SUM_LANES, +0 at the start of a row */
	uint64_t *total; /* NULL, or gets the sum of the lanes after the strip */
	const void *next; /* what is fetched into the caches meanwhile, as many bytes as x; NULL: what follows x */
};

/* Raises max to the largest of x, where -0 < +0 and NaN (7FC00000) is above all. index becomes that of the first number
   that is NaN or, if there is none, is not less than any other; first_index is that of x[0]. */
struct mxfp_row_max_job {
	const float *x;
	size_t n;
	uint64_t first_index;
	uint32_t max;   /* -Inf at the start of a row */
	uint64_t index; /* UINT64_MAX at the start of a row; kept if max is not exceeded */
	bool wants_index;
};

/* z = x, fl32(x * scale) if has_scale, then fl32(z + mask) if mask is not NULL, and the step. */
enum mxfp_softmax_step {
	MXFP_SOFTMAX_SCORES,       /* dst = z */
	MXFP_SOFTMAX_EXPONENTIALS, /* dst = exp(fl32(z - max)), whose sum the lanes take as those of a row_sum_job do */
	MXFP_SOFTMAX_LOGARITHM     /* dst = fl32(fl32(z - max) - log_total) */
};

struct mxfp_softmax_job {
	enum mxfp_softmax_step step;
	const float *x, *mask;
	float *dst;
	size_t n;
	bool has_scale;
	uint32_t scale, max, log_total;
	uint64_t *lanes, *total; /* of exponentials */
	const void *next;      /* what is fetched into the caches beside exponentials, as many bytes as x; NULL: nothing */
};

/* dst = fl32(t * weight + bias), fused, where t = fl32(x * factor), or fl32(fl32(fl64(x - mean)) * factor) if is_centred.
   A weight or bias that is NULL is left out; weight_plus_one: it is fl32(1 + weight). */
struct mxfp_norm_job {
	const float *x, *weight, *bias;
	float *dst;
	size_t n;
	bool is_centred, weight_plus_one;
	uint64_t mean;
	uint32_t factor;
};

enum mxfp_combine {
	MXFP_COMBINE_ADD,         /* fl32(x + y) */
	MXFP_COMBINE_MULTIPLY,    /* fl32(x * v), v = y, clamped to [-limit, limit] if has_limit, then fl32(v + 1) if plus_one */
	MXFP_COMBINE_LEAST        /* limit if x > limit, else x */
};

struct mxfp_combine_job {
	enum mxfp_combine combine;
	const float *x, *y;
	float *dst;
	size_t n;
	bool has_limit, plus_one;
	uint32_t limit; /* not negative */
};

/* Pairs (a, b) become fl32(fl32(a c) - fl32(b s)) and fl32(fl32(b c) + fl32(a s)). Halves: a is x[i], b is x[n + i]. Else a is
   x[2 i], b is x[2 i + 1], and cosine and sine hold each number twice. */
struct mxfp_rotate_job {
	const float *x, *cosine, *sine;
	float *dst;
	size_t n; /* pairs */
	bool halves;
};

/* Sums element first + i of n_src buffers, at least one, for each i < n, into dst[i]; src_format is f32 or bf16, and dst may
   be element `first` of one of the buffers if it is f32. */
struct mxfp_reduce_job {
	enum mxfp_format src_format;
	size_t n_src;
	const void *const *src;
	size_t first, n;
	float *dst;
};

/* clamped[i] = 1 if the magnitude of x[i], in binary32, is above limits[i / block_length], else 0; neither limits nor NaN are
   above MXFP_LIMIT_NONE. */
#define MXFP_LIMIT_NONE UINT32_C(0x7FFFFFFF)

struct mxfp_clamp_job {
	const void *x;
	size_t n;
	size_t block_length;
	const uint32_t *limits;
	uint8_t *clamped;
};

/* A product of attention (doc/numerics.md, section 12): c = a times a panel of MXFP_ATTEND_COLS columns, in passes of
   MXFP_ATTEND_PASS elements, of which the first may be shorter. Strides are in numbers. */
enum { MXFP_ATTEND_COLS = 32, MXFP_ATTEND_PASS = 128 };

struct mxfp_attend_job {
	const float *a; /* rows x k */
	size_t a_stride;
	size_t rows, k, first_pass;
	const float *panel; /* k rows of MXFP_ATTEND_COLS numbers */
	float *c;           /* rows x MXFP_ATTEND_COLS */
	size_t c_stride;
};

typedef void mxfp_convert_kernel(const struct mxfp_convert_job *job);
typedef void mxfp_quantize_kernel(const struct mxfp_quantize_job *job);
typedef void mxfp_dequantize_kernel(const struct mxfp_dequantize_job *job);
typedef void mxfp_transpose_kernel(const struct mxfp_transpose_job *job);
typedef void mxfp_scan_kernel(struct mxfp_scan_job *job);
typedef void mxfp_prune_kernel(const struct mxfp_prune_job *job);
typedef void mxfp_sparse_kernel(const struct mxfp_sparse_job *job);
typedef void mxfp_apply_kernel(const struct mxfp_apply_job *job);
typedef void mxfp_row_sum_kernel(const struct mxfp_row_sum_job *job);
typedef void mxfp_row_max_kernel(struct mxfp_row_max_job *job);
typedef void mxfp_softmax_kernel(const struct mxfp_softmax_job *job);
typedef void mxfp_norm_kernel(const struct mxfp_norm_job *job);
typedef void mxfp_combine_kernel(const struct mxfp_combine_job *job);
typedef void mxfp_rotate_kernel(const struct mxfp_rotate_job *job);
typedef void mxfp_attend_kernel(const struct mxfp_attend_job *job);
typedef void mxfp_gemm_ref_kernel(const struct mxfp_gemm_ref_job *job);
typedef void mxfp_gemm_finish_kernel(const struct mxfp_gemm_finish_job *job);
typedef void mxfp_reduce_kernel(const struct mxfp_reduce_job *job);
typedef void mxfp_clamp_kernel(const struct mxfp_clamp_job *job);

struct mxfp_kernels {
#define MXFP_KERNEL(slot, dimensions, job) mxfp_##job##_kernel *slot dimensions;
#include "kernel.def"
	const struct mxfp_gemm_kernel *gemm[MXFP_GEMM_N_FAMILIES]; /* NULL: the tiers have none */
	uint32_t cpu; /* MXFP_CPU_* of the machine, whatever the tiers: by these kernels choose their loops, not results */
};

/* One function per tier: overwrites the slots the tier has. */
#define MXFP_TIER(id, name, by_name, features) void mxfp_kernels_##name(struct mxfp_kernels *table);
#include "isa.def"

/* Fills the table with the best kernels of the tiers whose bits are set in the mask; bit 0 (ref) always counts as
   set. */
void mxfp_kernels_init(struct mxfp_kernels *table, uint32_t isa_mask);

/* Returns the table in use unless a call says otherwise: what the machine has and MXFP_ISA allows. */
const struct mxfp_kernels *mxfp_kernels_get(void);

/* Returns the table of what the machine has up to the tier of that name, whatever MXFP_ISA says; for a NULL name, the
   table in use. Returns NULL if no tier has that name. */
const struct mxfp_kernels *mxfp_kernels_up_to(const char *name);

/* Returns what MXFP_ISA=name leaves of the mask `available` (NULL or "": all); *status says whether the name is
   known. */
uint32_t mxfp_isa_ceiling(const char *name, uint32_t available, enum mxfp_status *status);

/* Returns the features of cpu.def that the tier needs and this machine lacks; 0 if it can run. */
uint32_t mxfp_isa_missing(int tier);

/* What an NVFP4 recipe computes once per tensor, from its amax, for all blocks. Numbers are binary32 bits. */
struct mxfp_nvfp4_tensor {
	uint32_t scale;        /* as stored: g, or gs of compressed-tensors */
	bool divides;          /* decoded numbers are divided by it */
	uint32_t reciprocal;   /* fl32(1 / scale) */
	uint32_t six_scales;   /* fl32(6 * scale) */
	uint32_t sixth;        /* fl32(amax / 6); of an amax of 0 that of 1536, whose scale of modelopt-4over6 is 1 */
	uint32_t encode;       /* te and 4over6: S_enc; 1 in other recipes */
	uint32_t decode;       /* fl32(1 / encode) */
	uint32_t encode_sixth; /* fl32(encode * fl32(1/6)) */
};

/* Whether the recipe divides numbers by their scales. A zero quotient then loses its sign: compressed-tensors
   multiplies by sign(quotient), Model Optimizer tests quotient < 0. A quotient that rounds to a zero code keeps it. */
static inline bool mxfp_nvfp4_divides(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_COMPRESSED_TENSORS || recipe == MXFP_RECIPE_MODELOPT ||
	       recipe == MXFP_RECIPE_MODELOPT_0_45 || recipe == MXFP_RECIPE_MODELOPT_4OVER6;
}

/* Whether the recipe scales a block's amax to 6 or to 4. */
static inline bool mxfp_nvfp4_chooses(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_4OVER6 || recipe == MXFP_RECIPE_MODELOPT_4OVER6;
}

/* The definition of these numbers (ref/nvfp4.c), in integers; every tier takes them from here. */
struct mxfp_nvfp4_tensor mxfp_nvfp4_tensor_ref(enum mxfp_recipe recipe, uint32_t amax);

/* Returns the scale byte of a block with this amax; if the recipe chooses, the one that maps amax to 6. */
uint8_t mxfp_nvfp4_block_scale_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax);

/* The largest magnitude bits that a block with this scale byte does not clamp, MXFP_F32_INF if it clamps no finite number,
   MXFP_LIMIT_NONE if it is NaN (ref/clamp.c, ref/nvfp4.c). The byte is one that quantizing gives. */
uint32_t mxfp_mx_limit_ref(enum mxfp_format format, bool via_bf16, uint8_t scale);
uint32_t mxfp_nvfp4_limit_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint8_t scale);

/*
 * The definition of functions of one number (ref/function.c), in integers: f(x) on bits of binary32, correctly rounded.
 * `parameter` is a finite binary32 that functions without one ignore; mxfp_function_default() is its default.
 */
uint32_t mxfp_function_ref(enum mxfp_function function, uint32_t x, uint32_t parameter);
uint32_t mxfp_function_default(enum mxfp_function function);

/* base^exponent of finite numbers, base > 0, correctly rounded: for the frequencies of rotary positions. */
uint32_t mxfp_pow_ref(uint32_t base, uint32_t exponent);

/* What the frequencies of rotary positions are computed from; all but the counts are binary64 bits. */
struct mxfp_rotary {
	enum mxfp_rotary_scaling scaling;
	size_t cols; /* even, at least 2 */
	uint32_t original_positions;
	uint64_t base, factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
	bool no_truncate;
};

/* The definition of the cols / 2 frequencies and of the attention factor's bits (ref/rotary.c). */
void mxfp_rotary_frequencies_ref(const struct mxfp_rotary *r, float *frequencies);
uint32_t mxfp_rotary_attention_ref(const struct mxfp_rotary *r);

#endif
