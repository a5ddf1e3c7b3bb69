/* SPDX-License-Identifier: MIT */
/* OpenMP where the compiler has it, one thread otherwise. Pieces are fixed by the caller, so results cannot depend on the
   number of threads; counts are integers, so neither can their sums. */
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
static int thread_count(unsigned threads, size_t n_pieces)
{
	size_t n = threads != 0 ? threads : (size_t)omp_get_num_procs();

	return (int)(n < n_pieces ? n : n_pieces);
}
#endif

void mxfp_parallel_for(unsigned threads, size_t n_pieces, mxfp_piece *run, const void *context,
                       struct mxfp_counts *counts)
{
	struct mxfp_counts sum = {0};

	if (threads == 1 || n_pieces <= 1) {
		for (size_t i = 0; i < n_pieces; i++)
			run(context, i, &sum);
	} else {
#ifdef _OPENMP
#pragma omp parallel num_threads(thread_count(threads, n_pieces))
#endif
		{
			struct mxfp_counts mine = {0};
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif
			for (size_t i = 0; i < n_pieces; i++)
				run(context, i, &mine);
#ifdef _OPENMP
#pragma omp critical(mxfp_counts)
#endif
			add_counts(&sum, &mine);
		}
	}
	if (counts != NULL)
		add_counts(counts, &sum);
}
