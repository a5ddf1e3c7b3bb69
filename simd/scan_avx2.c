/* SPDX-License-Identifier: MIT */
/* scan_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

#include "scan_body.h"
