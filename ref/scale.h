/* SPDX-License-Identifier: MIT */
/* The exponent of an MX block's scale: doc/numerics.md, section 3. */
#ifndef MXFP_REF_SCALE_H
#define MXFP_REF_SCALE_H

#include "kernels.h"

enum { MXFP_SCALE_MIN = -127, MXFP_SCALE_MAX = 127, MXFP_SCALE_BIAS = 127, MXFP_SCALE_NAN = 0xFF };

/* The rule raises s by one if the significand of amax, an integer in [2^23, 2^24), is at least this; 2^24 means never. */
uint32_t mxfp_ref_scale_threshold(enum mxfp_rule rule, const struct mxfp_format_info *element);

/* The exponent s of the scale 2^s, clamped to [-127, 127], for a block whose largest magnitude is the finite nonzero
   binary32 `amax`. For mse this is its first candidate, the same as `floor`. */
int mxfp_ref_scale(enum mxfp_rule rule, const struct mxfp_format_info *element, uint32_t amax);

#endif
