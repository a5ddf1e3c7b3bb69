/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "gguf/pre_name.h"

#include <stddef.h>

const struct pre_name pre_names[] = {
#define PRE_NAME(name, ignores_merges, steps) {name, ignores_merges, steps},
#include "gguf/pre_name.def"
	{NULL, false, NULL},
};
