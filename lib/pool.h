/* SPDX-License-Identifier: MIT */
/* The library's own threads. */
#ifndef MXFP_LIB_POOL_H
#define MXFP_LIB_POOL_H

#include <stddef.h>

typedef void mxfp_task(void *argument, size_t i);

/* Returns how many processors the process may use, at least 1. */
unsigned mxfp_processors(void);

/* Calls task(argument, i) once for every i < n on at most `threads` threads (0: as many as there are processors), of which the
   calling one is one, and returns when all have returned. Cannot fail: who is not there has no part in it. */
void mxfp_pool_run(unsigned threads, size_t n, mxfp_task *task, void *argument);

#endif
