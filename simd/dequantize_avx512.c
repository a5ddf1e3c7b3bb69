/* SPDX-License-Identifier: MIT */
/* dequantize_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "dequantize_body.h"
