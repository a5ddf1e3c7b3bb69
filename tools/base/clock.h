/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_CLOCK_H
#define TOOLS_BASE_CLOCK_H

/* Seconds of a clock that only goes forward. */
double clock_seconds(void);

/* Sleeps between two looks at what cannot be waited for otherwise: 1 us, then twice as long each time, at most 100 us. *nanoseconds
   is 0 at first. */
void clock_pause(long *nanoseconds);

#endif
