/* SPDX-License-Identifier: MIT */
/* convert_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

#include "convert_body.h"
