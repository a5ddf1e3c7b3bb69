/* SPDX-License-Identifier: MIT */
/* The work of `mxfp dequantize`: turns a quantized model back into plain numbers. */
#ifndef TOOLS_REWRITE_DEQUANTIZE_H
#define TOOLS_REWRITE_DEQUANTIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/option_kind.h"
#include "model/carry.h"
#include "model/model.h"
#include "mxfp/options.h"

struct dequantize_settings {
	const char *in, *out;
	enum mxfp_format to; /* f32, bf16 or f16 */
	int overflow; /* of numbers that are too large for it: enum mxfp_overflow; OPTION_CHOICE_NONE: EXIT_INPUT */
	unsigned threads;
	bool all; /* tensors of numbers that are not quantized become `to`, too */
	bool force, json, resume, quiet;
};

/* What was done; dequantize_free() releases it. */
struct dequantize_done {
	size_t decoded, kept;
	size_t converted; /* were numbers before, of another dtype */
	size_t folded;   /* of those decoded: by a pre_quant_scale */
	bool cache_lost; /* the source says how keys and values are quantized, for which there is no place */
	struct mxfp_counts counts; /* of decoded numbers: `saturated`, `overflowed` */
	struct carry carry;
};

/* Writes the model, or resumes writing it. EXIT_INPUT: nothing in it is quantized, parts are missing, or numbers are too
   large; EXIT_IO,
   EXIT_MEMORY, signals. dequantize_free() follows in every case. */
int dequantize_run(const struct dequantize_settings *settings, const struct model *model,
                   struct dequantize_done *done, struct error *error);

void dequantize_free(struct dequantize_done *done);

#endif
