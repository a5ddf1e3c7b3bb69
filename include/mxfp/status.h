/* SPDX-License-Identifier: MIT */
/* Status codes. Every function that can fail returns one: 0 is success, errors are negative; values never change. */
#ifndef MXFP_STATUS_H
#define MXFP_STATUS_H

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MXFP_OK and MXFP_ERR_*: the rows of status.def. On an error nothing has been written except *first_non_finite and
   *failed_product, which tell where it occurred. */
enum mxfp_status {
#define MXFP_STATUS(id, value, text) MXFP_##id = (value),
#include "status.def"
};

/* Returns one line of English for a status, without a final period; "unknown status" for any other number. */
MXFP_API const char *mxfp_status_text(enum mxfp_status status);

#ifdef __cplusplus
}
#endif
#endif
