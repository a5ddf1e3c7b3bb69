/* SPDX-License-Identifier: MIT */
/* The versions of the headers and of the library that runs. */
#ifndef MXFP_VERSION_H
#define MXFP_VERSION_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers. Versions of the same MAJOR work with each other in both directions (mxfp.h); before 1.0,
   those of the same MINOR. */
#define MXFP_VERSION_MAJOR 0
#define MXFP_VERSION_MINOR 1
#define MXFP_VERSION_PATCH 0

/* The same as one number, which grows with each version. */
#define MXFP_VERSION (MXFP_VERSION_MAJOR * 1000000 + MXFP_VERSION_MINOR * 1000 + MXFP_VERSION_PATCH)

/* Returns the version of the library that runs, "MAJOR.MINOR.PATCH". */
MXFP_API const char *mxfp_version(void);

/* Returns one line about the build for bug reports: compiler and its version, target. Its form may change. */
MXFP_API const char *mxfp_build_info(void);

#ifdef __cplusplus
}
#endif
#endif
