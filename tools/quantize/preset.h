/* SPDX-License-Identifier: MIT */
/* Named ways of quantizing a model, which options of the command line then change. */
#ifndef TOOLS_QUANTIZE_PRESET_H
#define TOOLS_QUANTIZE_PRESET_H

#include <stdbool.h>

#include "base/error.h"
#include "mxfp/format.h"

struct preset {
	const char *name;
	enum mxfp_format weights;
	const char *activations; /* as --activations has it */
	bool mixed;              /* layers are promoted, to PRESET_PROMOTED, as far as --bits goes */
	bool fuse;               /* what loaders fuse has one tensor scale */
};

#define PRESET_PROMOTED MXFP_FORMAT_MXFP8_E4M3

/* The preset of that name, or the first for NULL. EXIT_USAGE with the known ones, for an option: "quantize: --preset". */
int preset_find(const struct preset **preset, const char *where, const char *name, struct error *error);

/* The preset of such weights and activations, which fuses or does not; NULL: there is none. */
const struct preset *preset_like(enum mxfp_format weights, const char *activations, bool fuse);

/* The known ones, for --help and completion. */
#define PRESET_NAMES "w4a8|w4a8-mixed|mxfp8|nvfp4"

#endif
