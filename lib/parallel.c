/* SPDX-License-Identifier: MIT */
/* The caller's threads, or OpenMP where the compiler has it, or one. Pieces are fixed by the caller, so results cannot
   depend on the number of threads; counts are integers, so neither can their sums, which need no lock. */
#include "parallel.h"

#include <stdatomic.h>

#ifdef _OPENMP
#include <fenv.h>
#include <omp.h>
#endif

struct loop {
	mxfp_piece *run;
	const void *context;
	_Atomic uint64_t saturated, overflowed, flushed, nan, inf;
};

static void run_piece(void *argument, size_t piece)
{
	struct loop *loop = argument;
	struct mxfp_counts counts = {0};

	loop->run(loop->context, piece, &counts);
	atomic_fetch_add(&loop->saturated, counts.saturated);
	atomic_fetch_add(&loop->overflowed, counts.overflowed);
	atomic_fetch_add(&loop->flushed, counts.flushed);
	atomic_fetch_add(&loop->nan, counts.nan);
	atomic_fetch_add(&loop->inf, counts.inf);
}

#ifdef _OPENMP
static void run_region(unsigned threads, size_t n_pieces, struct loop *loop)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
	for (size_t i = 0; i < n_pieces; i++)
		run_piece(loop, i);
}

/*
 * LLVM's runtime computes in floating point when it starts, which is at the first call of any of its functions, and is
 * trapped there if the caller unmasks exceptions: they are masked meanwhile. A pointer that may change keeps the
 * compiler from inlining the region, whose first call of the runtime clang puts where the function around it begins.
 */
static void (*const volatile region)(unsigned, size_t, struct loop *) = run_region;

static unsigned processors(void)
{
	fenv_t state;

	feholdexcept(&state);
	unsigned n = (unsigned)omp_get_num_procs();
	fesetenv(&state);
	return n;
}

/* At most as many threads as there are processors and pieces: more would only cost, and the runtime ends the process
   when it cannot have them. */
static void run_openmp(unsigned threads, size_t n_pieces, struct loop *loop)
{
	unsigned n = processors();
	fenv_t state;

	if (threads != 0 && threads < n)
		n = threads;
	if (n_pieces < n)
		n = (unsigned)n_pieces;
	feholdexcept(&state);
	region(n, n_pieces, loop);
	fesetenv(&state);
}
#endif

static void run_all(unsigned threads, const struct mxfp_parallel *parallel, size_t n_pieces, struct loop *loop)
{
	if (n_pieces > 1 && parallel != NULL) {
		parallel->run(parallel->context, n_pieces, run_piece, loop);
		return;
	}
#ifdef _OPENMP
	if (n_pieces > 1 && threads != 1) {
		run_openmp(threads, n_pieces, loop);
		return;
	}
#else
	(void)threads;
#endif
	for (size_t i = 0; i < n_pieces; i++)
		run_piece(loop, i);
}

void mxfp_parallel_for(unsigned threads, const struct mxfp_parallel *parallel, size_t n_pieces, mxfp_piece *run,
                       const void *context, struct mxfp_counts *counts)
{
	struct loop loop = {.run = run, .context = context};

	run_all(threads, parallel, n_pieces, &loop);
	if (counts == NULL)
		return;
	counts->saturated += loop.saturated;
	counts->overflowed += loop.overflowed;
	counts->flushed += loop.flushed;
	counts->nan += loop.nan;
	counts->inf += loop.inf;
}

size_t mxfp_parallel_width(unsigned threads)
{
#ifdef _OPENMP
	return threads != 0 ? threads : processors();
#else
	return threads != 0 ? threads : 1;
#endif
}
