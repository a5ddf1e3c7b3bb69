/* SPDX-License-Identifier: MIT */
/*
 * A small character language model: from twelve characters it predicts the next one. It is what the demo quantizes, so
 * it has what larger models have: an embedding, linear layers, RMS norms, residuals and an output head, without biases.
 *
 *     r    = input * [embedding of each character of the context, one after the other]
 *     r   += down * relu(up * norm(r))          for each layer
 *     logits = head * norm(r)
 *
 * All arithmetic is binary32 in a fixed order, the functions are SLEEF's deterministic ones, the random numbers are
 * Philox's: training and evaluation give the same bits on every machine.
 */
#ifndef EXAMPLES_CHARLM_H
#define EXAMPLES_CHARLM_H

#include <stdint.h>

#include "charlm_text.h"
#include "mxfp.h"
#include "base/error.h"

enum {
	CHARLM_CONTEXT = 12,
	CHARLM_EMBEDDING = 32,
	CHARLM_INPUT = CHARLM_CONTEXT * CHARLM_EMBEDDING,
	CHARLM_WIDTH = 128,
	CHARLM_HIDDEN = 384,
	CHARLM_LAYERS = 2,
	CHARLM_TENSORS = 4 + 3 * CHARLM_LAYERS,
	CHARLM_BATCH = 64 /* characters predicted at a time */
};

struct charlm_layer {
	float norm[CHARLM_WIDTH];
	float up[CHARLM_HIDDEN * CHARLM_WIDTH];
	float down[CHARLM_WIDTH * CHARLM_HIDDEN];
};

/* The parameters; a matrix is [outputs][inputs], row-major. Gradients have the same type. */
struct charlm {
	float embedding[CHARLM_SYMBOLS * CHARLM_EMBEDDING];
	float input[CHARLM_WIDTH * CHARLM_INPUT];
	struct charlm_layer layers[CHARLM_LAYERS];
	float norm[CHARLM_WIDTH];
	float head[CHARLM_SYMBOLS * CHARLM_WIDTH];
};

/* A tensor of struct charlm as the file has it. */
struct charlm_tensor {
	const char *name;
	unsigned rank;
	uint64_t shape[2];
	size_t offset;    /* in struct charlm, bytes */
	float gain;       /* of a matrix: initial variance times inputs */
};

extern const struct charlm_tensor charlm_tensors[CHARLM_TENSORS];

size_t charlm_elements(const struct charlm_tensor *tensor);

/* Where the tensor lies in a model. */
float *charlm_values(struct charlm *model, const struct charlm_tensor *tensor);

/* One batch on its way through the model: every matrix is [CHARLM_BATCH][...], row-major. Kept for the gradients. */
struct charlm_batch {
	uint8_t context[CHARLM_BATCH * CHARLM_CONTEXT];
	uint8_t target[CHARLM_BATCH];
	float input[CHARLM_BATCH * CHARLM_INPUT];
	float residual[CHARLM_LAYERS + 1][CHARLM_BATCH * CHARLM_WIDTH];
	float normed[CHARLM_LAYERS + 1][CHARLM_BATCH * CHARLM_WIDTH];
	float hidden[CHARLM_LAYERS][CHARLM_BATCH * CHARLM_HIDDEN];
	float logits[CHARLM_BATCH * CHARLM_SYMBOLS];
};

/* How the input of each quantized linear layer (all but the head) is rounded. */
struct charlm_activations {
	enum mxfp_format format; /* a block format */
	enum mxfp_rule rule;
};

/* Sets row `row` of the batch to the context of text->symbols[position] and to that symbol.
   position >= CHARLM_CONTEXT. */
void charlm_batch_set(struct charlm_batch *batch, unsigned row, const struct charlm_text *text, size_t position);

/* Computes the batch's logits from its contexts. activations == NULL: nothing is quantized. Fails as mxfp_quantize()
   does, if activations->format is no block format. */
enum mxfp_status charlm_forward(const struct charlm *model, struct charlm_batch *batch,
                                const struct charlm_activations *activations);

/* The cross entropy of a row of logits, in nats, and the probabilities it is made from. */
double charlm_cross_entropy(float probabilities[CHARLM_SYMBOLS], const float logits[CHARLM_SYMBOLS], unsigned target);

/* The mean cross entropy over the held-out characters of a text. */
enum mxfp_status charlm_loss(double *loss, const struct charlm *model, const struct charlm_text *text,
                             const struct charlm_activations *activations);

/* Reads or writes the parameters as a safetensors file; charlm_save() refuses a file that exists. */
int charlm_load(struct charlm *model, const char *path, struct error *error);
int charlm_save(const struct charlm *model, const char *path, struct error *error);

#endif
