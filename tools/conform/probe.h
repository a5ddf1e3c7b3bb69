/* SPDX-License-Identifier: MIT */
/* mxfp conform --probe: what sums the products of an unknown machine. */
#ifndef TOOLS_CONFORM_PROBE_H
#define TOOLS_CONFORM_PROBE_H

#include "conform/conform.h"

/* Probes each pair of formats that the program multiplies, and prints. EXIT_CHECK: it multiplies none. */
int probe_run(const struct conform_options *options, struct error *error);

#endif
