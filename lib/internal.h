/* SPDX-License-Identifier: MIT */
/* What the command and the tests use of the library besides its interface; the shared library does not export it. */
#ifndef MXFP_INTERNAL_H
#define MXFP_INTERNAL_H

#include "mxfp/exec.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

/* Calls task(argument, i) once for every i < n on the threads of exec, as the library's own calls do. MXFP_ERR_NULL: no task;
   MXFP_ERR_ISA, MXFP_ERR_VERSION. */
enum mxfp_status mxfp_parallel_for(const struct mxfp_exec *exec, size_t n, void (*task)(void *argument, size_t i),
                                   void *argument);

/* A machine that sums numbers as `hopper` does (doc/numerics.md, section 5): k products and C, cut at `fraction` bits below the
   largest exponent, at least `lowest`; the sum cut to `bits`. */
struct mxfp_aligned {
	int k, fraction, lowest, bits;
};

/* Whether acc is such a machine for these formats. */
bool mxfp_acc_aligned(struct mxfp_aligned *to, enum mxfp_acc acc, enum mxfp_format a, enum mxfp_format w);

/* Returns MXFP_ERR_ISA if MXFP_ISA names no known tier (then only "ref" runs), else MXFP_OK. */
enum mxfp_status mxfp_isa_status(void);

#endif
