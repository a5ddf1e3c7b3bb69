/* SPDX-License-Identifier: MIT */
/* Named ways of quantizing a model, which options of the command line then change. */
#ifndef TOOLS_PRESET_H
#define TOOLS_PRESET_H

#include "error.h"
#include "mxfp/format.h"

struct preset {
	const char *name;
	enum mxfp_format weights;
	const char *activations; /* as --activations has it */
};

/* The preset of that name, or the first for NULL. EXIT_USAGE with the known ones. */
int preset_find(const struct preset **preset, const char *name, struct error *error);

/* The known ones, for --help and completion. */
#define PRESET_NAMES "w4a8|mxfp8|nvfp4"

#endif
