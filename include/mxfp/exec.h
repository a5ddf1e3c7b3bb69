/* SPDX-License-Identifier: MIT */
/* Where and how a call runs: its threads and the instruction sets that it may use. Neither ever changes a result. */
#ifndef MXFP_EXEC_H
#define MXFP_EXEC_H

#include <stddef.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * All zero, and NULL wherever a pointer to this is taken: every processor that the process may use, OpenMP's threads,
 * and the tier of mxfp_isa_active().
 *
 * run(run_context, n, task, argument) calls task(argument, i) once for every i < n, in any order and on any threads,
 * the calling one too, and returns when all have returned and the calling thread sees what they wrote. It cannot fail.
 * Tasks take no locks and do not wait for each other. A small call runs where it is made. The cut of a call into tasks
 * depends on sizes alone, in products and mxfp_pack() also on `threads`; no result depends on it.
 *
 * OpenMP's runtime ends the process if the system refuses it a thread, and does not survive fork(): in a child of a
 * process that had used several of its threads, calls use one. `run` has neither limit.
 */
struct mxfp_exec {
	size_t size;           /* sizeof(struct mxfp_exec), or 0 (mxfp.h) */
	unsigned threads;      /* of OpenMP's at most, and never more than there are processors; 0: all; 1: none. With run:
	                          at most how many tasks a product or mxfp_pack() gives it (0: as many as processors) */
	const char *isa;       /* the highest tier that may run, by name ("ref"); NULL: mxfp_isa_active()'s */
	void (*run)(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument);
	                       /* the caller's threads; NULL: OpenMP's */
	void *run_context;
};

/* Calls task(argument, i) once for every i < n on the threads of exec, as the library's own calls do. MXFP_ERR_NULL: no
   task; MXFP_ERR_OPTION: exec->isa names no tier of this build. */
MXFP_API enum mxfp_status mxfp_parallel_for(const struct mxfp_exec *exec, size_t n,
                                            void (*task)(void *argument, size_t i), void *argument);

#ifdef __cplusplus
}
#endif
#endif
