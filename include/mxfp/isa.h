/* SPDX-License-Identifier: MIT */
/* Which implementation runs. */
#ifndef MXFP_ISA_H
#define MXFP_ISA_H

#include <stdint.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name of ISA tier `tier`, ascending from 0 ("ref", ...), or NULL past the last. */
MXFP_API const char *mxfp_isa_name(int tier);

/* Bit i is set if this build and machine can run tier i. */
MXFP_API uint32_t mxfp_isa_available(void);

/* Name of the i-th CPU feature that the tier needs and this machine lacks ("avx512vbmi"), or NULL past the last. */
MXFP_API const char *mxfp_isa_lacks(int tier, int i);

/* The highest tier in use unless struct mxfp_exec says otherwise: the highest available one, cut by the environment
   variable MXFP_ISA=<name>, which is read once, at the first call that needs it, and ignored in set-user-ID programs.
   Results never depend on the tier. */
MXFP_API int mxfp_isa_active(void);

/* MXFP_ERR_OPTION if MXFP_ISA named no known tier (then only "ref" runs), else MXFP_OK. */
MXFP_API enum mxfp_status mxfp_isa_status(void);

#ifdef __cplusplus
}
#endif
#endif
