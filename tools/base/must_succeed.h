/* SPDX-License-Identifier: MIT */
/* For calls of the library that cannot fail because their arguments were checked before. */
#ifndef TOOLS_BASE_MUST_SUCCEED_H
#define TOOLS_BASE_MUST_SUCCEED_H

#include <assert.h>

#include "mxfp/status.h"

static inline void must_succeed(enum mxfp_status status)
{
	assert(status == MXFP_OK);
	(void)status;
}

#endif
