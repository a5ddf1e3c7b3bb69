/* SPDX-License-Identifier: MIT */
/* The constants of an NVFP4 tensor for vector code. ref/nvfp4.c computes them, in integers, as HACKING.md asks. */
#ifndef MXFP_BODY_NVFP4_TENSOR_H
#define MXFP_BODY_NVFP4_TENSOR_H

#include "kernels.h"
#include "scale.h"

/* The members of struct mxfp_nvfp4_tensor, bit patterns there, as floats. */
struct nvfp4_tensor {
	float scale, reciprocal, six_scales, sixth;
	float encode, decode, encode_sixth;
};

static inline void nvfp4_tensor_init(struct nvfp4_tensor *t, const struct mxfp_nvfp4_tensor *bits)
{
	*t = (struct nvfp4_tensor){
		.scale = float_of(bits->scale),
		.reciprocal = float_of(bits->reciprocal),
		.six_scales = float_of(bits->six_scales),
		.sixth = float_of(bits->sixth),
		.encode = float_of(bits->encode),
		.decode = float_of(bits->decode),
		.encode_sixth = float_of(bits->encode_sixth),
	};
}

#endif
