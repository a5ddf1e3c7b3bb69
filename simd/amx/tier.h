/* SPDX-License-Identifier: MIT */
/* Tier amx: the vectors of avx512, and products in tiles. */
#ifndef MXFP_AMX_TIER_H
#define MXFP_AMX_TIER_H

#ifdef EMULATED_TILES /* by tests */
#define TIER(name) mxfp_##name##_emulated
#define TIER_NAME "emulated"
#else
#define TIER(name) mxfp_##name##_amx
#define TIER_NAME "amx"
#endif

#include "avx512/tier.h"

#endif
