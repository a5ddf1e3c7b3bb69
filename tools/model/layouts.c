/* SPDX-License-Identifier: MIT */
/* The table of layouts. */
#include "config.h"

#include <string.h>

#include "model/layout.h"

const struct layout *const layouts[] = {
#define LAYOUT(id) &layout_##id,
#include "model/layout.def"
	NULL,
};

const struct layout *layout_named(const char *name)
{
	for (size_t i = 0; layouts[i] != NULL; i++)
		if (strcmp(layouts[i]->name, name) == 0)
			return layouts[i];
	return NULL;
}
