/* SPDX-License-Identifier: MIT */
/* The number of formats, which callers are not to have compiled in. */
#ifndef MXFP_LIB_FORMAT_H
#define MXFP_LIB_FORMAT_H

#include "mxfp/format.h"

enum {
	MXFP_N_FORMATS = 0
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) +1
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) +1
#include "format.def"
};

#endif
