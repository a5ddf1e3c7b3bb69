/* SPDX-License-Identifier: MIT */
/* The sections of config.json that say how weights are quantized. */
#ifndef TOOLS_MODEL_SECTION_H
#define TOOLS_MODEL_SECTION_H

#include <jansson.h>
#include <stdbool.h>

/* Their names, and whose keys they have if they do not say so; the last has no name. The first may stand in a part of a
   model in several, too. */
struct section_name {
	const char *name, *method; /* NULL: they must */
};
extern const struct section_name section_names[];

/* Whether a value says nothing: also one that is not there. */
bool section_is_empty(const json_t *value);

/* The first section of a config.json that says something, NULL: none. Takes all of them out of it. */
json_t *section_find(const json_t *config);
void section_remove_all(json_t *config);

#endif
