/* SPDX-License-Identifier: MIT */
/* Inside a call: where it runs. The one place that knows threads. */
#ifndef MXFP_LIB_EXEC_H
#define MXFP_LIB_EXEC_H

#include <stddef.h>

#include "kernels.h"
#include "mxfp/exec.h"
#include "mxfp/options.h"

/* A caller's struct mxfp_exec, checked, and the kernels that it may use. */
struct mxfp_runner {
	const struct mxfp_exec *exec;
	const struct mxfp_kernels *kernels;
	struct mxfp_exec copy; /* what exec points to if the caller's is of another version */
};

/* MXFP_ERR_OPTION: a tier that is none, or an exec of a newer version that asks for more. NULL: {0}. A runner may
   not be copied. */
enum mxfp_status mxfp_runner_init(struct mxfp_runner *runner, const struct mxfp_exec *exec);

/* Does piece `piece` of the work in `context`, adding to counts that no other thread sees. */
typedef void mxfp_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                        struct mxfp_counts *counts);

/* Runs pieces 0 .. n_pieces - 1 in any order and adds what they counted to *counts (NULL: dropped). */
void mxfp_run_pieces(const struct mxfp_runner *runner, size_t n_pieces, mxfp_piece *run, const void *context,
                     struct mxfp_counts *counts);

/* How many tasks at once are worth while: at least 1. */
size_t mxfp_runner_width(const struct mxfp_runner *runner);

/* MXFP_ERR_OPTION: counts of a newer version with more in them. NULL is right. */
enum mxfp_status mxfp_check_counts(const struct mxfp_counts *counts);

#endif
