/* SPDX-License-Identifier: MIT */
/* For calls of the library that cannot fail because their arguments were checked before. One that fails all the same is a bug of the
   command, and ends it with file and line, with or without NDEBUG: what it would have written is wrong. */
#ifndef TOOLS_BASE_MUST_SUCCEED_H
#define TOOLS_BASE_MUST_SUCCEED_H

#include <stdio.h>
#include <stdlib.h>

#include "mxfp/status.h"

#define must_succeed(status) must_succeed_at((status), __FILE__, __LINE__)

static inline void must_succeed_at(enum mxfp_status status, const char *file, int line)
{
	if (status == MXFP_OK)
		return;
	fprintf(stderr, "mxfp: %s:%d: a call of the library failed: %s; this is a bug in mxfp\n", file, line, mxfp_status_text(status));
	abort();
}

#endif
