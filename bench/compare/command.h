/* SPDX-License-Identifier: MIT */
/* Rows that run the command: a model of 256 MB quantized, a prompt, a generation. */
#ifndef BENCH_COMPARE_COMMAND_H
#define BENCH_COMPARE_COMMAND_H

#include "table.h"

/* Appends the rows whose names contain one of the n texts, or all if n is 0. */
void commands_list(struct table *table, char *const *texts, int n);

/* Times them until `end`, a time of CLOCK_MONOTONIC: mxfp of each side, files in directory `work`, which exists. Measures
   what is too low again. Returns false, with a line on stderr, if the files cannot be written. */
bool commands_time(const char *const programs[N_SIDES], const char *work, struct table *table, size_t tier, double end);

#endif
