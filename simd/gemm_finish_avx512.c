/* SPDX-License-Identifier: MIT */
/* gemm_finish_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "gemm_finish_body.h"
