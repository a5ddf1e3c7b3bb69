/* SPDX-License-Identifier: MIT */
/* mx_nearest_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "mx_nearest_body.h"
