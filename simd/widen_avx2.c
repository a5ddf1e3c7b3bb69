/* SPDX-License-Identifier: MIT */
/* widen_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "widen_body.h"
