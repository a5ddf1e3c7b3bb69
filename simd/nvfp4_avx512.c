/* SPDX-License-Identifier: MIT */
/* nvfp4_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "nvfp4_body.h"
