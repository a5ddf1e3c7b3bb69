/* SPDX-License-Identifier: MIT */
/* dequantize_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "dequantize_body.h"
