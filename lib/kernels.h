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

typedef void mxfp_convert_kernel(const struct mxfp_convert_job *job);
typedef void mxfp_quantize_kernel(const struct mxfp_quantize_job *job);
typedef void mxfp_dequantize_kernel(const struct mxfp_dequantize_job *job);
typedef void mxfp_scan_kernel(struct mxfp_scan_job *job);
typedef void mxfp_prune_kernel(const struct mxfp_prune_job *job);
typedef void mxfp_sparse_kernel(const struct mxfp_sparse_job *job);
typedef void mxfp_apply_kernel(const struct mxfp_apply_job *job);
typedef void mxfp_gemm_ref_kernel(const struct mxfp_gemm_ref_job *job);
typedef void mxfp_gemm_finish_kernel(const struct mxfp_gemm_finish_job *job);

struct mxfp_kernels {
#define MXFP_KERNEL(slot, dimensions, job) mxfp_##job##_kernel *slot dimensions;
#include "kernel.def"
	const struct mxfp_gemm_kernel *gemm[MXFP_GEMM_N_FAMILIES]; /* NULL: the tiers have none */
};

/* One function per tier: overwrites the slots the tier has. */
#define MXFP_TIER(id, name, features) void mxfp_kernels_##name(struct mxfp_kernels *table);
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
	uint32_t encode;       /* te and 4over6: S_enc; 1 in other recipes */
	uint32_t decode;       /* fl32(1 / encode) */
	uint32_t encode_sixth; /* fl32(encode * fl32(1/6)) */
};

/* Whether the recipe divides numbers by their scales. A zero quotient then loses its sign: compressed-tensors
   multiplies by sign(quotient), Model Optimizer tests quotient < 0. A quotient that rounds to a zero code keeps it. */
static inline bool mxfp_nvfp4_divides(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_COMPRESSED_TENSORS || recipe == MXFP_RECIPE_MODELOPT ||
	       recipe == MXFP_RECIPE_MODELOPT_0_45;
}

/* The definition of these numbers (ref/nvfp4.c), in integers; every tier takes them from here. */
struct mxfp_nvfp4_tensor mxfp_nvfp4_tensor_ref(enum mxfp_recipe recipe, uint32_t amax);

/* Returns the scale byte of a block with this amax; for 4over6, the one that maps amax to 6. */
uint8_t mxfp_nvfp4_block_scale_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax);

/*
 * The definition of functions of one number (ref/function.c), in integers: f(x) on bits of binary32, correctly rounded.
 * `parameter` is a finite binary32 that functions without one ignore; mxfp_function_default() is its default.
 */
uint32_t mxfp_function_ref(enum mxfp_function function, uint32_t x, uint32_t parameter);
uint32_t mxfp_function_default(enum mxfp_function function);

/* base^exponent of finite numbers, base > 0, correctly rounded: for the frequencies of rotary positions. */
uint32_t mxfp_pow_ref(uint32_t base, uint32_t exponent);

#endif
