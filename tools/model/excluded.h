/* SPDX-License-Identifier: MIT */
/* Modules that a configuration leaves out, whose weights may be quantized otherwise than it says: FP8 of the source. */
#ifndef TOOLS_MODEL_EXCLUDED_H
#define TOOLS_MODEL_EXCLUDED_H

#include "model/model.h"
#include "model/module_list.h"

/* All zero but for the model: the lists are read when they are first asked for. */
struct excluded {
	const struct model *model;
	bool read;
	json_t *second;          /* hf_quant_config.json; NULL: none */
	struct module_list list;
	struct module_name name;
};

/* Whether the configuration has 8-bit floats with scales that are numbers: it states their format, or no format, or leaves the
   module of the weight out. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int excluded_allows(struct excluded *excluded, const struct tensor *codes, bool *allows, struct error *error);

void excluded_free(struct excluded *excluded);

#endif
