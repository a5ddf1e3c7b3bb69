/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_CLOCK_H
#define TOOLS_BASE_CLOCK_H

/* Seconds of a clock that only goes forward. */
double clock_seconds(void);

#endif
