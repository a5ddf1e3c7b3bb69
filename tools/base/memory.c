/* SPDX-License-Identifier: MIT */
/* Measures the memory that the process uses, for --mem. */
#include "config.h"

#include "base/memory.h"

#ifdef HAVE_MALLINFO2
#include <malloc.h>
#else
#include <sys/resource.h>
#endif

enum { PROGRAM_BYTES = 4 << 20 };

uint64_t memory_used(void)
{
#ifdef HAVE_MALLINFO2
	struct mallinfo2 info = mallinfo2();

	return PROGRAM_BYTES + info.uordblks + info.hblkhd;
#else
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? 1024 * (uint64_t)usage.ru_maxrss : PROGRAM_BYTES;
#endif
}
