/* SPDX-License-Identifier: MIT */
/* Which version this is. */
#ifndef MXFP_VERSION_H
#define MXFP_VERSION_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the headers. Versions with one MAJOR work with each other in both directions (mxfp.h); before 1.0, those with one
   MINOR. */
#define MXFP_VERSION_MAJOR 0
#define MXFP_VERSION_MINOR 1
#define MXFP_VERSION_PATCH 0

/* The same as a number that grows. */
#define MXFP_VERSION (MXFP_VERSION_MAJOR * 1000000 + MXFP_VERSION_MINOR * 1000 + MXFP_VERSION_PATCH)

/* Of the library that runs, "MAJOR.MINOR.PATCH". */
MXFP_API const char *mxfp_version(void);

/* One line about the build: compiler and its version, target, threads. For bug reports; its form is not promised. */
MXFP_API const char *mxfp_build_info(void);

#ifdef __cplusplus
}
#endif
#endif
