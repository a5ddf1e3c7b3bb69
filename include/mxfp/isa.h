/* SPDX-License-Identifier: MIT */
/* Which implementation runs, and which version this is. */
#ifndef MXFP_ISA_H
#define MXFP_ISA_H

#include <stdint.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, "MAJOR.MINOR.PATCH". */
MXFP_API const char *mxfp_version(void);

/* One line about the build: compiler and its version, target, threads. For bug reports; its form is not promised. */
MXFP_API const char *mxfp_build_info(void);

/* Name of ISA tier `tier`, ascending from 0 ("ref", ...), or NULL past the last. */
MXFP_API const char *mxfp_isa_name(int tier);

/* Bit i is set if this build and machine can run tier i. */
MXFP_API uint32_t mxfp_isa_available(void);

/* The highest tier in use: the highest available one, cut by the environment variable MXFP_ISA=<name>, which is read
   once, at the first call that needs it, and ignored in set-user-ID programs. Results never depend on the tier. */
MXFP_API int mxfp_isa_active(void);

/* MXFP_ERR_OPTION if MXFP_ISA named no known tier (then only "ref" runs), else MXFP_OK. */
MXFP_API enum mxfp_status mxfp_isa_status(void);

#ifdef __cplusplus
}
#endif
#endif
