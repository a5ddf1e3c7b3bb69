/* SPDX-License-Identifier: MIT */
/* OpenMP where the compiler has it, one thread otherwise. Pieces are fixed by the caller, so results cannot depend on
   the number of threads; counts are integers, so neither can their sums. */
#include "parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static void add_counts(struct mxfp_counts *to, const struct mxfp_counts *from)
{
	to->saturated += from->saturated;
	to->overflowed += from->overflowed;
	to->flushed += from->flushed;
	to->nan += from->nan;
	to->inf += from->inf;
}

#ifdef _OPENMP
#pragma omp declare reduction(add : struct mxfp_counts : add_counts(&omp_out, &omp_in)) \
	initializer(omp_priv = (struct mxfp_counts){0})

/* From 1 to the number of processors: more would only cost, and the runtime aborts when it cannot have them. */
static int thread_count(unsigned threads, size_t n_pieces)
{
	int n = omp_get_num_procs();

	if (threads != 0 && threads < (unsigned)n)
		n = (int)threads;
	if (n_pieces < (size_t)n)
		n = (int)n_pieces;
	return n > 0 ? n : 1;
}
#endif

void mxfp_parallel_for(unsigned threads, size_t n_pieces, mxfp_piece *run, const void *context,
                       struct mxfp_counts *counts)
{
	struct mxfp_counts sum = {0};

#ifdef _OPENMP
#pragma omp parallel for num_threads(thread_count(threads, n_pieces)) schedule(dynamic) reduction(add : sum)
#endif
	for (size_t i = 0; i < n_pieces; i++)
		run(context, i, &sum);
	if (counts != NULL)
		add_counts(counts, &sum);
}
