/* SPDX-License-Identifier: MIT */
/*
 * The kernel table: every operation that has more than one implementation is a slot of kernel.def, and the pure
 * function mxfp_kernels_init() fills a table for a set of ISA tiers. A kernel gets a job whose arguments have been
 * checked.
 */
#ifndef MXFP_KERNELS_H
#define MXFP_KERNELS_H

#include "gemm/kernel.h"
#include "format.h"
#include "mxfp/convert.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"

/* Rounding of single numbers, shared by both kinds of job. */
struct mxfp_rounding {
	enum mxfp_round mode;
	enum mxfp_overflow overflow;
	bool no_negative_zero;
	uint64_t seed, stream; /* of stochastic rounding */
};

/* A result that the caches will not hold until it is used: an ordinary store would first read what it overwrites. */
enum { MXFP_PAST_CACHES_BYTES = 32 << 20 };

/* n numbers; number i of the piece is number first_index + i of the tensor. */
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

/* rows x cols numbers to blocks. Strides are never 0 here: src_stride in elements, the others in bytes. */
struct mxfp_quantize_job {
	enum mxfp_format format, src_format;
	size_t rows, cols;
	const void *src;
	size_t src_stride;
	uint8_t *codes, *scales;
	size_t codes_stride, scales_stride;
	uint64_t first_index; /* of element (0, 0); rows follow each other without a gap in the numbering */
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

/* Reads n numbers; raises amax, and lowers first_non_finite, which the caller sets first. */
struct mxfp_scan_job {
	enum mxfp_format src_format;
	const void *src;
	size_t n;
	uint64_t first_index;
	uint32_t non_finite_from;  /* magnitude bits from which on a number counts as non-finite: those of Inf, or less */
	uint32_t amax;             /* binary32 bits of the largest finite magnitude */
	uint64_t first_non_finite; /* index of the first NaN or Inf */
};

/* Sparse matrices (mxfp/sparse.h); all strides are in bytes and not 0. Masks that are read have been checked. */
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

/* Compressing and expanding: of what is dense and what is kept of it, src is the one and dst the other. A row that is
   expanded gets whole blocks. */
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

typedef void mxfp_convert_kernel(const struct mxfp_convert_job *job);
typedef void mxfp_quantize_kernel(const struct mxfp_quantize_job *job);
typedef void mxfp_dequantize_kernel(const struct mxfp_dequantize_job *job);
typedef void mxfp_scan_kernel(struct mxfp_scan_job *job);
typedef void mxfp_prune_kernel(const struct mxfp_prune_job *job);
typedef void mxfp_sparse_kernel(const struct mxfp_sparse_job *job);
typedef void mxfp_gemm_ref_kernel(const struct mxfp_gemm_ref_job *job);
typedef void mxfp_gemm_finish_kernel(const struct mxfp_gemm_finish_job *job);

struct mxfp_kernels {
#define MXFP_KERNEL(slot, dimensions, job) mxfp_##job##_kernel *slot dimensions;
#include "kernel.def"
	const struct mxfp_gemm_kernel *gemm[MXFP_GEMM_N_FAMILIES]; /* NULL: the tiers have none */
};

/* One function a tier: overwrites the slots it has. */
#define MXFP_TIER(id, name, features) void mxfp_kernels_##name(struct mxfp_kernels *table);
#include "isa.def"

/* Fills the table with the best kernels of the tiers whose bits are set; bit 0 (ref) is always taken as set. */
void mxfp_kernels_init(struct mxfp_kernels *table, uint32_t isa_mask);

/* The table in use unless a call says otherwise: what the machine has and MXFP_ISA allows. */
const struct mxfp_kernels *mxfp_kernels_get(void);

/* The table of what the machine has up to the tier of that name, whatever MXFP_ISA says; NULL, the name: the one in
   use. NULL, the result: no tier has that name. */
const struct mxfp_kernels *mxfp_kernels_up_to(const char *name);

/* The mask that MXFP_ISA=name leaves of `available`; *status says whether the name is known. NULL or "": all. */
uint32_t mxfp_isa_ceiling(const char *name, uint32_t available, enum mxfp_status *status);

/* The features of cpu.def that the tier asks for and this machine has not; 0 if it can run. */
uint32_t mxfp_isa_missing(int tier);

/* What a recipe of NVFP4 makes of a tensor's amax once, for all blocks. All are binary32 bits. */
struct mxfp_nvfp4_tensor {
	uint32_t scale;        /* as it is stored: g, or gs of compressed-tensors */
	bool divides;          /* numbers are divided by it */
	uint32_t reciprocal;   /* fl32(1 / scale) */
	uint32_t six_scales;   /* fl32(6 * scale) */
	uint32_t encode;       /* te and 4over6: S_enc; 1 in other recipes */
	uint32_t decode;       /* fl32(1 / encode) */
	uint32_t encode_sixth; /* fl32(encode * fl32(1/6)) */
};

/* Whether numbers are divided by their scales. A zero quotient loses its sign there: compressed-tensors multiplies by
   sign(quotient), Model Optimizer asks quotient < 0. What only rounds to zero as a code keeps it. */
static inline bool mxfp_nvfp4_divides(enum mxfp_recipe recipe)
{
	return recipe == MXFP_RECIPE_COMPRESSED_TENSORS || recipe == MXFP_RECIPE_MODELOPT ||
	       recipe == MXFP_RECIPE_MODELOPT_0_45;
}

/* The definition (ref/nvfp4.c), in integers; every tier takes these numbers from here. */
struct mxfp_nvfp4_tensor mxfp_nvfp4_tensor_ref(enum mxfp_recipe recipe, uint32_t amax);

/* The scale byte of a block with this amax; of 4over6 the one that puts it at 6. */
uint8_t mxfp_nvfp4_block_scale_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax);

#endif
