/* SPDX-License-Identifier: MIT */
/* Constants of blocks and their scales, and the exponent of an MX block's scale: doc/numerics.md, section 3. */
#ifndef MXFP_REF_SCALE_H
#define MXFP_REF_SCALE_H

#include "kernels.h"

enum { MXFP_SCALE_MIN = -127, MXFP_SCALE_MAX = 127, MXFP_SCALE_BIAS = 127, MXFP_SCALE_NAN = 0xFF };

enum { MXFP_MX_BLOCK = 32, MXFP_NVFP4_BLOCK = 16 };

/* ue4m3, the format of NVFP4's block scales. */
#define MXFP_UE4M3_MAX 448
#define MXFP_UE4M3_MIN 0x1p-9F
#define MXFP_UE4M3_MIN_NORMAL 0x1p-6F
enum { MXFP_UE4M3_NAN = 0x7F, MXFP_UE4M3_BIAS = 7, MXFP_UE4M3_SIGNIFICAND_BITS = 3, MXFP_UE4M3_EIGHTH = 0x20 };

/* What is added to the bits of amax, or to a significand in [2^23, 2^24), so that the exponent minus emax is the rule's s:
   it carries into the exponent from the significand on at which the rule raises s above floor's. A rule whose s may be
   below floor's has one less than 0, as an unsigned number, which borrows where it is. */
uint32_t mxfp_ref_scale_carry(enum mxfp_rule rule, const struct mxfp_format_info *element);

/* The exponent s of the scale 2^s, clamped to [-127, 127], for a block whose largest magnitude is the finite nonzero
   binary32 `amax`. For mse this is its first candidate, the same as `floor`. */
int mxfp_ref_scale(enum mxfp_rule rule, const struct mxfp_format_info *element, uint32_t amax);

/* The scale byte of a square: the blocks in place `block` of the job's rows, of which there are at most 32. */
uint8_t mxfp_ref_square_scale(const struct mxfp_quantize_job *job, size_t block);

#endif
