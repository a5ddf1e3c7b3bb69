/* SPDX-License-Identifier: MIT */
/* How a call runs: its threads and the instruction sets that it may use. Neither ever changes a result. */
#ifndef MXFP_EXEC_H
#define MXFP_EXEC_H

#include <stddef.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A NULL pointer to this: the library's threads on every processor that the process may use, and the tier of
 * mxfp_isa_active().
 *
 * run(run_context, n, task, argument) calls task(argument, i) once for every i < n, in any order and on any threads,
 * including the calling one, and returns when all have returned and the calling thread sees what they wrote. It cannot
 * fail. Tasks take no locks and do not wait for each other. A small call runs on the calling thread. How a call is cut
 * into tasks depends on its sizes, in products and mxfp_pack() also on `threads`; no result depends on it.
 *
 * The caller's function, the epilogue of a product, begins in the floating-point state of the thread that calls (rounding, flush
 * to zero, traps, flags), whatever thread it runs on; what it changes of that, flags included, ends with it. The library's own
 * results do not depend on it.
 *
 * The library's threads start when a call could use them, block all signals but those of faults (SIGBUS, SIGFPE, SIGILL,
 * SIGSEGV, SIGTRAP), and are shared by calls at the same time. The calling thread runs tasks itself and waits only for those
 * that others have taken, so a call completes even if no thread can be created. After fork(), threads start anew in the child.
 */
struct mxfp_exec {
	size_t size;           /* sizeof(struct mxfp_exec) */
	unsigned threads;      /* the most threads, the calling one included, and never more than processors; 0: all. With
	                          run: the most tasks that a product or mxfp_pack() gives it (0: as many as processors) */
	const char *isa;       /* the highest tier that may run, by name ("ref"); NULL: mxfp_isa_active()'s */
	void (*run)(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument);
	                       /* the caller's threads; NULL: the library's */
	void *run_context;
};

#ifdef __cplusplus
}
#endif
#endif
