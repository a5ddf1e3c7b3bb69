/* SPDX-License-Identifier: MIT */
/* nvfp4_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "nvfp4_body.h"
