/* SPDX-License-Identifier: MIT */
/* widen_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "widen_body.h"
