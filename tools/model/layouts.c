/* SPDX-License-Identifier: MIT */
/* The table of layouts. */
#include "config.h"

#include "model/layout.h"

const struct layout *const layouts[] = {
#define LAYOUT(id) &layout_##id,
#include "model/layout.def"
	NULL,
};
