/* SPDX-License-Identifier: MIT */
/* The pairs of formats that gemm_int16.c multiplies. */
#ifndef MXFP_BODY_GEMM_INT16_H
#define MXFP_BODY_GEMM_INT16_H

#include "kernels.h"

/* Formats whose sums of products with each other have 24 bits at most, an NVFP4 scale included. */
static inline bool int16_narrow(enum mxfp_format f)
{
	return f == MXFP_FORMAT_MXFP4 || f == MXFP_FORMAT_NVFP4 || f == MXFP_FORMAT_MXFP6_E2M3 ||
	       f == MXFP_FORMAT_MXFP6_E3M2 || f == MXFP_FORMAT_MXINT8;
}

/* Those whose sums of products with e4m3 have 31 bits at most, and are rounded before any scale. */
static inline bool int16_beside_e4m3(enum mxfp_format f)
{
	return f == MXFP_FORMAT_MXFP4 || f == MXFP_FORMAT_MXFP6_E2M3 || f == MXFP_FORMAT_MXINT8;
}

static inline bool int16_pair(enum mxfp_format a, enum mxfp_format w)
{
	return (int16_narrow(a) && int16_narrow(w)) || (a == MXFP_FORMAT_MXFP8_E4M3 && int16_beside_e4m3(w)) ||
	       (w == MXFP_FORMAT_MXFP8_E4M3 && int16_beside_e4m3(a));
}

#endif
