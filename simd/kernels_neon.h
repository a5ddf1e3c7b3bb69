/* SPDX-License-Identifier: MIT */
/* The kernels of tier neon. */
#ifndef MXFP_KERNELS_NEON_H
#define MXFP_KERNELS_NEON_H

#include "kernels.h"

mxfp_convert_kernel mxfp_convert_neon;

#endif
