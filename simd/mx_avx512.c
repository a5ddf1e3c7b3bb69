/* SPDX-License-Identifier: MIT */
/* mx_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "mx_body.h"
