/* SPDX-License-Identifier: MIT */
#ifndef MXFP_LIB_SOFTMAX_H
#define MXFP_LIB_SOFTMAX_H

#include "kernels.h"

/* Replaces n scores by their softmax. NULL: no scale, no sink. */
void mxfp_softmax_row(const struct mxfp_kernels *kernels, float *row, size_t n, const float *scale, const float *sink);

#endif
