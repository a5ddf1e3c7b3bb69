/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "mxfp/version.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

const char *mxfp_version(void)
{
	return PACKAGE_VERSION;
}

const char *mxfp_build_info(void)
{
	return COMPILER ", " MXFP_HOST;
}
