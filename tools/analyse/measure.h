/* SPDX-License-Identifier: MIT */
/*
 * What quantization does to one weight matrix, measured against its binary32 values: errors of the
 * decoded elements, and errors of products y = x W^T. The matrix is read in pieces of rows; every
 * number is independent of the pieces.
 */
#ifndef TOOLS_ANALYSE_MEASURE_H
#define TOOLS_ANALYSE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/element_errors.h"
#include "analyse/input.h"
#include "analyse/product.h"
#include "analyse/variant.h"
#include "base/error.h"
#include "base/stats.h"
#include "io/file.h"
#include "model/model.h"
#include "model/quantized.h"

enum { N_SCALE_CODES = 256, MEASURE_NUMBER_BYTES = 12, MEASURE_OTHER_BYTES = 1 << 20 };

/* Errors of products; the exact ones are those of binary32 weights and binary32 activations. */
struct product_stats {
	struct stats weights_only; /* quantized weights, exact activations (W4A16) */
	struct stats both;         /* quantized weights and activations (W4A8) */
};

/* Of one matrix in one variant, or of many together. */
struct measurement {
	struct variant variant;
	uint64_t elements, bytes; /* bytes: codes, masks, scales, tensor scale */
	uint64_t saturated;       /* as struct mxfp_counts has it */
	bool saturated_known;
	struct element_errors errors; /* of the weights */
	struct product_stats products[N_ACTIVATION_KINDS];
	unsigned first_scale, n_scales;
	uint64_t *scales;         /* [n_scales]: blocks with scale code first_scale + i */
};

/* What quantized activations do by themselves: of the activations, and of products with exact weights. */
struct input_stats {
	struct stats input, product;
};

/* One matrix in every variant. */
struct layer {
	const struct file *file;
	const struct tensor *tensor;
	uint64_t rows, cols;
	struct measurement *measurements; /* one a variant */
	struct input_stats inputs[N_ACTIVATION_KINDS];
};

struct measure_options {
	struct variants variants;
	const struct model *against; /* NULL, or what to measure instead: a model with quantized tensors, one variant,
	                              whose format may be another for each layer */
	struct input_source input;
	uint64_t product_rows; /* at most so many rows of a layer, evenly spaced, have their products measured; 0: all */
	bool noise_only; /* of the weights' errors: signal and noise are all that is wanted */
	enum mxfp_round round;
	uint64_t seed; /* of stochastic rounding; the stream is XXH3-64 of the tensor's name */
	unsigned threads;
	size_t numbers;  /* of a layer at once, unless a row, or 32 of squares, have more: they take MEASURE_NUMBER_BYTES each, and
	                    MEASURE_OTHER_BYTES are taken besides, if there is one variant and no input; 0: as suits products */
	void (*advance)(void *context, uint64_t bytes); /* called after pieces are read, by one thread at a time */
	void *context;
};

/* Layers that are measured one after the other or at the same time. */
struct measure_queue {
	size_t n;
	/* Sets the first two members of layer i. */
	void (*give)(void *context, size_t i, struct layer *layer);
	/* Gets what was measured, in the order of the layers, on the thread that called measure_layers(). */
	int (*take)(void *context, size_t i, const struct layer *layer, struct error *error);
	void *context;
};

/* Measures every layer, each on one thread if there are several, so that no number depends on threads: small tensors
   cost no parallel region each, and large ones no waiting within them. As measure_layer(), and what take() returns; of
   several failures that of the first layer. */
int measure_layers(const struct measure_queue *queue, const struct measure_options *options, struct error *error);

/* Measures layer->tensor, which has elements of a float type; the rest of *layer is filled.
   EXIT_MEMORY, EXIT_IO, EXIT_INPUT, also if `against` has the tensor in another shape. */
int measure_layer(struct layer *layer, const struct measure_options *options, struct error *error);

/* The variant that a quantized tensor is: the rule or recipe that mxfp quantize noted in the file; other writers' files
   do not tell. */
struct variant measure_variant_of(const struct quantized *quantized, const char *name);

/* Of how many rows of a layer the products are measured. */
uint64_t measure_product_rows(const struct measure_options *options, uint64_t rows);

/* How often a layer is read: NVFP4's tensor scale needs the largest magnitude first. */
unsigned measure_readings(const struct measure_options *options);

/* Prepares a measurement that others are merged into. EXIT_MEMORY. */
int measurement_init(struct measurement *total, const struct variant *variant, struct error *error);
void measurement_merge(struct measurement *total, const struct measurement *part);

/* 8 bytes / elements. */
double measurement_bits(const struct measurement *measurement);

void measurement_free(struct measurement *measurement);
void layer_free(struct layer *layer, size_t n_variants);

#endif
