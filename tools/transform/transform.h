/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp transform`: writes a model with other weights and the same outputs, of which a block format may lose less.
 *
 * Scaling: the inputs of linear layers that a norm, the rows of v, or those of up make are divided by powers of two, and the
 * columns of these layers multiplied by them. Every product in binary32 is then the one it was, bit for bit.
 * Folding: a norm's weight becomes part of the layers behind it, with a rounding.
 * Rotation: v and the columns of o, or all that writes and reads the residual stream, take an orthogonal matrix on both sides.
 */
#ifndef TOOLS_TRANSFORM_TRANSFORM_H
#define TOOLS_TRANSFORM_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/carry.h"
#include "model/model.h"

struct transform_settings {
	const char *in, *out;
	bool scale_norms, scale_values, scale_mlp, fold_norms, rotate_values, rotate_stream;
	double exponent;         /* of the inputs' part in a scale, 0 to 1 */
	uint64_t rotation;       /* size of Hadamard matrices; 0: the largest that fits */
	unsigned threads;
	bool force, json, quiet;
};

/* What was done; transform_free() releases it. */
struct transformation {
	size_t n_left_out;                  /* tensors: scales of activations and caches */
	size_t n_changed, n_kept, n_scales; /* tensors; powers of two that were chosen */
	int least, most;                    /* exponents of these powers */
	size_t value_rotation, stream_rotation; /* sizes; 0: none */
	uint64_t n_rounded;                 /* numbers that powers of two made too small to be exact */
	bool exact;                         /* all numbers in f32 are what they were, times powers of two */
	bool untied;                        /* an output head was added */
	struct carry carry;
};

/* Writes the model, and takes scales of activations and caches out of it, which are those of the numbers before. EXIT_USAGE: an output that cannot be; EXIT_INPUT: a model that is not known, or has no such transform;
   EXIT_IO, EXIT_MEMORY, signals. transform_free() follows in every case. */
int transform_run(struct transformation *done, const struct transform_settings *settings, struct model *model,
                  struct error *error);

/* Prints lines, or JSON, to stdout. EXIT_MEMORY. */
int transform_print(const struct transformation *done, const struct transform_settings *settings, struct error *error);

/* What --quiet does not hide: numbers that became inexact, as a line on standard error. */
void transform_losses(const struct transformation *done);

void transform_free(struct transformation *done);

#endif
