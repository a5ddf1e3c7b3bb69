/* SPDX-License-Identifier: MIT */
/* What was found about a machine, in words. */
#ifndef TOOLS_CONFORM_PROBE_PRINT_H
#define TOOLS_CONFORM_PROBE_PRINT_H

#include "conform/probe_find.h"

enum { NAMES_MAX = 8 };

struct probed_name {
	const char *acc;
	unsigned pass; /* pass_k; 0: as the contract has it */
};

/* A pair of formats. */
struct probed {
	const char *a, *w, *answers;      /* the last: what answers are rounded to, NULL: nothing */
	bool supported;
	size_t n, n_names;                /* random dot products; accumulators that give the same of all */
	struct probed_name names[NAMES_MAX];
	struct found found;
};

/* EXIT_CHECK: none is supported; EXIT_MEMORY. */
int probed_print(const struct probed *probed, size_t n, const char *name, const struct conform_options *options, struct error *error);

#endif
