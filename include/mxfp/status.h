/* SPDX-License-Identifier: MIT */
/* Status codes. Every function that can fail returns one: 0 is success, errors are negative; values never change. */
#ifndef MXFP_STATUS_H
#define MXFP_STATUS_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns. On an error nothing has been written, except the place of the error where a function says so. A call
   with several errors returns one of them. */
enum mxfp_status {
	MXFP_OK = 0, /* success */
	MXFP_ERR_NULL = -1, /* a required pointer is NULL */
	MXFP_ERR_VERSION = -2, /* a struct's size is not set or too small, or it has a member that this library does not know */
	MXFP_ERR_FORMAT = -3, /* format unknown or not supported in this place */
	MXFP_ERR_OPTION = -4, /* option value unknown or not allowed here */
	MXFP_ERR_ISA = -5, /* no instruction-set tier of this build has that name */
	MXFP_ERR_SHAPE = -6, /* shapes do not agree */
	MXFP_ERR_STRIDE = -7, /* a stride is shorter than a row */
	MXFP_ERR_SIZE = -8, /* a size or index is out of range or overflows */
	MXFP_ERR_WORKSPACE = -9, /* memory given for the work or the result is too small */
	MXFP_ERR_OVERLAP = -10, /* arrays overlap, at least one of which is written */
	MXFP_ERR_NON_FINITE = -11, /* NaN or Inf in the input */
	MXFP_ERR_PACKED = -12, /* packed for another kernel, format or option, or cut off */
	MXFP_ERR_MASK = -13, /* sparsity mask keeps another number of elements, or one that is not there */
};

/* Returns one line of English for a status, without a final period; "unknown status" for any other number. */
MXFP_API const char *mxfp_status_text(enum mxfp_status status);

#ifdef __cplusplus
}
#endif
#endif
