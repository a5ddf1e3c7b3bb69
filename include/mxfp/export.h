/* SPDX-License-Identifier: MIT */
/* MXFP_API marks what the shared library exports; everything else is hidden. */
#ifndef MXFP_EXPORT_H
#define MXFP_EXPORT_H

#if defined(__GNUC__)
#define MXFP_API __attribute__((visibility("default")))
#else
#define MXFP_API
#endif

#endif
