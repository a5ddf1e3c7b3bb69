/* SPDX-License-Identifier: MIT */
/* convert_nearest_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "convert_nearest_body.h"
