/* SPDX-License-Identifier: MIT */
/* nvfp4_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "nvfp4_body.h"
