/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/preset.h"

#include <string.h>

#include "base/nearest.h"

/* NVFP4's own activations have a tensor scale that takes calibration, so only its weights are quantized. Loaders that fuse
   layers take one of their tensor scales for all, and say at most a word about it. */
static const struct preset presets[] = {
	{"w4a8", MXFP_FORMAT_MXFP4, "mxfp8-e4m3", false, false},
	{"w4a8-mixed", MXFP_FORMAT_MXFP4, "mxfp8-e4m3", true, false},
	{"mxfp8", MXFP_FORMAT_MXFP8_E4M3, "mxfp8-e4m3", false, false},
	{"nvfp4", MXFP_FORMAT_NVFP4, "none", false, true},
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

int preset_find(const struct preset **preset, const char *where, const char *name, struct error *error)
{
	const char *names[N_PRESETS];

	*preset = &presets[0];
	if (name == NULL)
		return EXIT_OK;
	for (size_t i = 0; i < N_PRESETS; i++) {
		*preset = &presets[i];
		if (strcmp(presets[i].name, name) == 0)
			return EXIT_OK;
		names[i] = presets[i].name;
	}
	return nearest_fail(where, name, "presets", names, N_PRESETS, error);
}

const struct preset *preset_like(enum mxfp_format weights, const char *activations, bool fuse)
{
	for (size_t i = 0; i < N_PRESETS; i++)
		if (!presets[i].mixed && presets[i].weights == weights && presets[i].fuse == fuse &&
		    strcmp(presets[i].activations, activations) == 0)
			return &presets[i];
	return NULL;
}
