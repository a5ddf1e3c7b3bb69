/* SPDX-License-Identifier: MIT */
/* Runs the pieces of a call on the caller's threads, on OpenMP's if the compiler has it, or on one. The caller fixes
   the pieces and counts are integers, so neither results nor counts can depend on the number of threads. */
#include "exec.h"

#include <stdatomic.h>

#include "sized.h"

#ifdef _OPENMP
#include <fenv.h>
#include <omp.h>
#include <unistd.h>
#endif

typedef void task_function(void *argument, size_t i);

enum mxfp_status mxfp_runner_init(struct mxfp_runner *runner, const struct mxfp_exec *exec)
{
	runner->exec = MXFP_SIZED(exec, &runner->copy, run_context);
	if (runner->exec == NULL)
		return MXFP_ERR_OPTION;
	runner->kernels = mxfp_kernels_up_to(runner->exec->isa);
	return runner->kernels != NULL ? MXFP_OK : MXFP_ERR_OPTION;
}

#ifdef _OPENMP
static void run_region(unsigned threads, size_t n, task_function *task, void *argument)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
	for (size_t i = 0; i < n; i++)
		task(argument, i);
}

/*
 * LLVM's runtime starts at the first call of any of its functions and then computes in floating point, which traps if
 * the caller unmasked exceptions: processors() makes that call with exceptions masked. The volatile pointer keeps the
 * region from being inlined, because clang moves its first call of the runtime to the start of the enclosing function.
 */
static void (*const volatile region)(unsigned, size_t, task_function *, void *) = run_region;

static unsigned processors(void)
{
	fenv_t state;

	feholdexcept(&state);
	unsigned n = (unsigned)omp_get_num_procs();
	fesetenv(&state);
	return n;
}

/* Whether this process was forked from one that used several threads. gcc's runtime would wait forever there: the child
   has no such threads, but it has the runtime's list of them. */
static bool is_forked(void)
{
	static atomic_long first_process;
	long expected = 0, process = (long)getpid();

	return !atomic_compare_exchange_strong(&first_process, &expected, process) && expected != process;
}

/* Uses at most as many threads as there are processors and tasks: more would only cost, and the runtime ends the
   process if the system refuses it a thread. */
static void run_openmp(unsigned threads, size_t n, task_function *task, void *argument)
{
	unsigned most = processors();
	fenv_t state;

	if (threads != 0 && threads < most)
		most = threads;
	if (n < most)
		most = (unsigned)n;
	if (most > 1 && is_forked())
		most = 1;
	feholdexcept(&state);
	region(most, n, task, argument);
	fesetenv(&state);
}
#endif

static void run_all(const struct mxfp_exec *exec, size_t n, task_function *task, void *argument)
{
	if (n > 1 && exec->run != NULL) {
		exec->run(exec->run_context, n, task, argument);
		return;
	}
#ifdef _OPENMP
	if (n > 1 && exec->threads != 1) {
		run_openmp(exec->threads, n, task, argument);
		return;
	}
#endif
	for (size_t i = 0; i < n; i++)
		task(argument, i);
}

enum mxfp_status mxfp_parallel_for(const struct mxfp_exec *exec, size_t n, task_function *task, void *argument)
{
	struct mxfp_runner runner;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);

	if (status == MXFP_OK && task == NULL)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK)
		run_all(runner.exec, n, task, argument);
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
#ifdef _OPENMP
	return runner->exec->threads != 0 ? runner->exec->threads : processors();
#else
	return runner->exec->threads != 0 ? runner->exec->threads : 1;
#endif
}

enum mxfp_status mxfp_check_counts(const struct mxfp_counts *counts)
{
	struct mxfp_counts copy;

	return MXFP_SIZED(counts, &copy, inf) != NULL ? MXFP_OK : MXFP_ERR_OPTION;
}
