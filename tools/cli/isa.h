/* SPDX-License-Identifier: MIT */
/* The highest instruction-set tier that may run: --isa, or else the environment variable MXFP_ISA. */
#ifndef TOOLS_CLI_ISA_H
#define TOOLS_CLI_ISA_H

#include "base/error.h"

struct isa_limit {
	const char *from; /* "--isa" or "MXFP_ISA"; NULL: there is no limit */
	const char *name; /* as given */
};

/* Notes the value of --isa. Comes before any call of the library that computes. */
int isa_set_limit(const char *name, struct error *error);

struct isa_limit isa_limit(void);

/* Fails if the limit names no tier that this build knows, with the list of those it does. */
int isa_check_limit(struct error *error);

#endif
