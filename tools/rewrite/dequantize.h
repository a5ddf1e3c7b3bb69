/* SPDX-License-Identifier: MIT */
/* The work of `mxfp dequantize`: turns a quantized model back into plain numbers. */
#ifndef TOOLS_REWRITE_DEQUANTIZE_H
#define TOOLS_REWRITE_DEQUANTIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"

struct dequantize_settings {
	const char *in, *out;
	enum mxfp_format to; /* f32, bf16 or f16 */
	unsigned threads;
	bool force, quiet;
};

struct dequantize_counts {
	size_t decoded, kept;
};

/* Writes the model. EXIT_INPUT: nothing in it is quantized and mxfp quantize did not write it, or parts are missing;
   EXIT_IO, EXIT_MEMORY, signals. */
int dequantize_run(const struct dequantize_settings *settings, const struct model *model,
                   struct dequantize_counts *counts, struct error *error);

#endif
