/* SPDX-License-Identifier: MIT */
/* scan_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "scan_body.h"
