/* SPDX-License-Identifier: MIT */
/* gemm_finish_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "gemm_finish_body.h"
