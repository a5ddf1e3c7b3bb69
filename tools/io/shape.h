/* SPDX-License-Identifier: MIT */
/* Shapes of tensors for people and for --json. */
#ifndef TOOLS_IO_SHAPE_H
#define TOOLS_IO_SHAPE_H

#include <jansson.h>

#include "io/file.h"

enum { SHAPE_TEXT = 128 };

/* Writes "[512, 64]" to `text`, cut with "..." if it is long, and returns it. */
const char *shape_text(const struct tensor *tensor, char text[SHAPE_TEXT]);

/* Returns the shape as a JSON array; NULL if memory ran out. */
json_t *shape_facts(const struct tensor *tensor);

#endif
