/* SPDX-License-Identifier: MIT */
/* The tiers of this build and machine, and which of them runs. */
#ifndef MXFP_ISA_H
#define MXFP_ISA_H

#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of tier `tier`, ascending from 0 ("ref", ...), or NULL past the last. */
MXFP_API const char *mxfp_isa_name(int tier);

/* Returns a mask: bit i is set if this build and machine can run tier i. */
MXFP_API uint32_t mxfp_isa_available(void);

/* Returns the i-th CPU feature that the tier needs and this machine lacks ("avx512vbmi"), or NULL past the last. */
MXFP_API const char *mxfp_isa_lacks(int tier, int i);

/* Returns the highest tier in use unless struct mxfp_exec says otherwise: the highest available one, limited by the
   environment variable MXFP_ISA=<name>, which is read once, at the first call that needs it, and ignored in set-user-ID
   programs. Tier "amx" is in use only where that or struct mxfp_exec names it; it then asks Linux for the use of tiles, for the
   whole process, and runs as "avx512" if that is refused. Results never depend on the tier. */
MXFP_API int mxfp_isa_active(void);

#ifdef __cplusplus
}
#endif
#endif
