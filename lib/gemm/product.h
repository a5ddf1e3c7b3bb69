/* SPDX-License-Identifier: MIT */
/* An array of products, whose struct may be of another version than the library's. */
#ifndef MXFP_GEMM_PRODUCT_H
#define MXFP_GEMM_PRODUCT_H

#include <stddef.h>

#include "mxfp/gemm.h"
#include "sized.h"

/* Returns product i, in *copy if it is of another version; NULL if the library cannot read that version. */
static inline const struct mxfp_product *mxfp_product_at(const struct mxfp_product *products, size_t i, struct mxfp_product *copy)
{
	const struct mxfp_product *product = (const void *)((const char *)products + i * products->size);

	return product->size == products->size ? MXFP_SIZED(product, copy) : NULL;
}

#endif
