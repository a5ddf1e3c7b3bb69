/* SPDX-License-Identifier: MIT */
/* mx_nearest_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "mx_nearest_body.h"
