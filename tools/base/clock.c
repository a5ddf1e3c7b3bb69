/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/clock.h"

#include <time.h>

double clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void clock_pause(long *nanoseconds)
{
	if (*nanoseconds == 0)
		*nanoseconds = 1000;
	nanosleep(&(struct timespec){.tv_nsec = *nanoseconds}, NULL);
	if (*nanoseconds < 100000)
		*nanoseconds *= 2;
}
