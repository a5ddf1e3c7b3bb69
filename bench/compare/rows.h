/* SPDX-License-Identifier: MIT */
/* A group of rows: a file rows_<group>.c has one. A group whose commit's headers do not compile it is left out. */
#ifndef BENCH_COMPARE_ROWS_H
#define BENCH_COMPARE_ROWS_H

#include "side.h"

struct speed_group {
	bool (*name)(size_t i, char name[SPEED_NAME_BYTES]);
	bool (*start)(size_t i, const struct speed_host *host, struct speed_work *work);
};

#endif
