/* SPDX-License-Identifier: MIT */
/* gemm_finish_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "gemm_finish_body.h"
