/* SPDX-License-Identifier: MIT */
/* mx_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "mx_body.h"
