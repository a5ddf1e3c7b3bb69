/* SPDX-License-Identifier: MIT */
/* Where the pieces of a call run: the one place that knows about threads. */
#ifndef MXFP_LIB_EXEC_H
#define MXFP_LIB_EXEC_H

#include <stddef.h>

#include "kernels.h"
#include "mxfp/exec.h"
#include "mxfp/options.h"

/* A caller's checked struct mxfp_exec, and the kernels that it may use. */
struct mxfp_runner {
	const struct mxfp_exec *exec;
	const struct mxfp_kernels *kernels;
	struct mxfp_exec copy; /* what exec points to if the caller's struct is of another version */
};

/* Initializes a runner, which must not be copied. exec may be NULL: {0}. MXFP_ERR_ISA, MXFP_ERR_VERSION. */
enum mxfp_status mxfp_runner_init(struct mxfp_runner *runner, const struct mxfp_exec *exec);

/* Does piece `piece` of the work in `context`, and adds to counts that no other thread sees. */
typedef void mxfp_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                        struct mxfp_counts *counts);

/* Runs pieces 0 .. n_pieces - 1 in any order and adds their counts to *counts (NULL: dropped). */
void mxfp_run_pieces(const struct mxfp_runner *runner, size_t n_pieces, mxfp_piece *run, const void *context,
                     struct mxfp_counts *counts);

/* Returns how many tasks can usefully run at once, at least 1. */
size_t mxfp_runner_width(const struct mxfp_runner *runner);

/* Returns MXFP_ERR_VERSION or MXFP_OK. NULL is allowed. */
enum mxfp_status mxfp_check_counts(const struct mxfp_counts *counts);

#endif
