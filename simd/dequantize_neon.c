/* SPDX-License-Identifier: MIT */
/* dequantize_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "dequantize_body.h"
