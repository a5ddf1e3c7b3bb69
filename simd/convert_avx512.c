/* SPDX-License-Identifier: MIT */
/* convert_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

#include "convert_body.h"
