/* SPDX-License-Identifier: MIT */
/* The rows of pre_name.def. */
#ifndef TOOLS_GGUF_PRE_NAME_H
#define TOOLS_GGUF_PRE_NAME_H

#include <stdbool.h>

struct pre_name {
	const char *name;
	bool ignores_merges;
	const char *steps;
};

extern const struct pre_name pre_names[]; /* the last has no name */

#endif
