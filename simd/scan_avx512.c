/* SPDX-License-Identifier: MIT */
/* scan_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "scan_body.h"
