/* SPDX-License-Identifier: MIT */
/* convert_nearest_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "convert_nearest_body.h"
