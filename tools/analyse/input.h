/* SPDX-License-Identifier: MIT */
/* Activations of one layer for measuring products: seeded, or read from a file; exact, and quantized. */
#ifndef TOOLS_ANALYSE_INPUT_H
#define TOOLS_ANALYSE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/activations.h"
#include "analyse/variant.h"
#include "base/error.h"
#include "base/stats.h"
#include "io/file.h"
#include "mxfp/gemm.h"

struct input_source {
	const struct file *file; /* NULL: seeded */
	struct variant variant;  /* what the activations are quantized to, rounded to nearest even */
	size_t tokens;           /* at most this many; 0: no activations */
	uint64_t seed;           /* the stream is XXH3-64 of the layer's name with seed 1 */
	unsigned threads;
};

/* All zero: no activations. The tokens of all kinds are rows of one matrix, kind after kind, so that a product reads
   its weights once. */
struct input {
	unsigned n_kinds;
	size_t tokens;              /* of each kind */
	int unit;                   /* of a file's numbers: 0, unless products of ordinary weights could leave the range of
	                               binary32, which would say more about the unit than about the numbers */
	struct mxfp_matrix exact;   /* f32 */
	unsigned n_quantized;       /* of the next member: 1, or n_kinds if each kind has its own tensor scale */
	struct mxfp_matrix quantized[N_ACTIVATION_KINDS];
	float *x;                   /* the numbers of `exact` */
	uint8_t *codes;             /* codes and then scales of each of `quantized` */
	struct stats stats[N_ACTIVATION_KINDS]; /* quantized against exact activations, token by token, as the file has them */
};

/* Kinds of activations that a source has: both seeded ones, or the file's alone, or none. */
unsigned input_kinds(const struct input_source *source);

/* "normal", "outliers" or "file". */
const char *input_kind_name(const struct input_source *source, unsigned kind);

/*
 * Finds a file's tensor of activations for a layer with `cols` input channels: that with the layer's name, or with that name
 * less ".weight", or the only tensor if it fits. Its last dimension is `cols`. NULL: there is none. EXIT_INPUT (a tensor of the
 * layer's name that does not fit), EXIT_MEMORY.
 */
int input_find(const struct tensor **tensor, const struct file *file, const char *layer, uint64_t cols, struct error *error);

/* The rows of activations that the source has for a layer, also beyond its `tokens`; 0: none. As input_make(). */
int input_rows(uint64_t *rows, const struct input_source *source, const struct tensor *layer, struct error *error);

/* Makes the activations of all kinds of a layer with `cols` input channels. In a file they are the first rows of the tensor that
   input_find() finds; without one there are none (no rows). As that; EXIT_IO, EXIT_INPUT (NaN or Inf). */
int input_make(struct input *input, const struct input_source *source, const struct tensor *layer, size_t cols,
               struct error *error);

/* The unit in which the largest of n numbers is from 2^-ordinary to 2^(ordinary + 1): 0 if it is so. False: all are 0, and any
   unit does. input_turn() turns numbers into it, times 2^-unit. */
bool input_unit(int *unit, const float *x, size_t n, int ordinary);
void input_turn(float *x, size_t n, int unit);

void input_free(struct input *input);

#endif
