/* SPDX-License-Identifier: MIT */
/* Runs the pieces of a call on the caller's threads or on the library's. The caller of this fixes the pieces and counts are
   integers, so neither results nor counts can depend on the number of threads. */
#include "exec.h"
#include "internal.h"

#include <stdatomic.h>

#include "cpu.h"
#include "pool.h"
#include "sized.h"

enum mxfp_status mxfp_runner_init(struct mxfp_runner *runner, const struct mxfp_exec *exec)
{
	runner->exec = MXFP_SIZED(exec, &runner->copy);
	if (runner->exec == NULL)
		return MXFP_ERR_VERSION;
	runner->kernels = mxfp_kernels_up_to(runner->exec->isa);
	return runner->kernels != NULL ? MXFP_OK : MXFP_ERR_ISA;
}

static void run_all(const struct mxfp_exec *exec, size_t n, mxfp_task *task, void *argument)
{
	if (n > 1 && exec->run != NULL)
		exec->run(exec->run_context, n, task, argument);
	else
		mxfp_pool_run(n > 1 ? exec->threads : 1, n, task, argument);
}

/* Tasks that the caller wrote, and the state of the thread that called. */
struct own_tasks {
	mxfp_task *task;
	void *argument;
	struct mxfp_fp_state state;
};

static void run_own_task(void *context, size_t i)
{
	const struct own_tasks *own = context;
	const struct mxfp_fp_state before = mxfp_fp_state_get();

	mxfp_fp_state_set(own->state);
	own->task(own->argument, i);
	mxfp_fp_state_set(before);
}

enum mxfp_status mxfp_parallel_for(const struct mxfp_exec *exec, size_t n, mxfp_task *task, void *argument)
{
	struct mxfp_runner runner;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);

	if (status == MXFP_OK && task == NULL)
		status = MXFP_ERR_NULL;
	struct own_tasks own = {task, argument, mxfp_fp_state_get()};
	if (status == MXFP_OK)
		run_all(runner.exec, n, run_own_task, &own);
	return status;
}

/* What the tasks of a call share. */
struct loop {
	const struct mxfp_kernels *kernels;
	mxfp_piece *run;
	const void *context;
	_Atomic uint64_t saturated, overflowed, flushed, nan, inf;
};

/* Most counts are zero, and a locked addition would take as long as the rest of a small call. */
static void add(_Atomic uint64_t *sum, uint64_t count)
{
	if (count != 0)
		atomic_fetch_add(sum, count);
}

static void run_piece(void *argument, size_t piece)
{
	struct loop *loop = argument;
	struct mxfp_counts counts = {0};

	loop->run(loop->kernels, loop->context, piece, &counts);
	add(&loop->saturated, counts.saturated);
	add(&loop->overflowed, counts.overflowed);
	add(&loop->flushed, counts.flushed);
	add(&loop->nan, counts.nan);
	add(&loop->inf, counts.inf);
}

void mxfp_run_pieces(const struct mxfp_runner *runner, size_t n_pieces, mxfp_piece *run, const void *context,
                     struct mxfp_counts *counts)
{
	struct loop loop = {.kernels = runner->kernels, .run = run, .context = context};

	run_all(runner->exec, n_pieces, run_piece, &loop);
	if (counts == NULL)
		return;
	counts->saturated += loop.saturated;
	counts->overflowed += loop.overflowed;
	counts->flushed += loop.flushed;
	counts->nan += loop.nan;
	counts->inf += loop.inf;
}

size_t mxfp_runner_width(const struct mxfp_runner *runner)
{
	return runner->exec->threads != 0 ? runner->exec->threads : mxfp_processors();
}

enum mxfp_status mxfp_check_counts(const struct mxfp_counts *counts)
{
	struct mxfp_counts copy;

	return MXFP_SIZED(counts, &copy) != NULL ? MXFP_OK : MXFP_ERR_VERSION;
}
