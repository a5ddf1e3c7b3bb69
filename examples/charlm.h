/* SPDX-License-Identifier: MIT */
/*
 * A small character language model, which predicts a character from the twelve before it. The demo quantizes it, so it
 * has the parts of larger models: an embedding, linear layers, RMS norms, residuals and an output head, without biases.
 *
 *     r    = input * [the embeddings of the context's characters, concatenated]
 *     r   += down * relu(up * norm(r))          for each layer
 *     logits = head * norm(r)
 *
 * Evaluation (charlm.c) multiplies with mxfp_gemm(), with the weights as they are in the file, binary32 or blocks.
 * Training (charlm_train.c) computes in binary32 in a fixed order, with SLEEF's deterministic functions and Philox's
 * random numbers: all give the same bits on every machine.
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

/* The same tensors as the library reads them, in f32 or in a block format. */
struct charlm_matrices {
	struct mxfp_matrix embedding, input;
	struct {
		struct mxfp_matrix norm, up, down;
	} layers[CHARLM_LAYERS];
	struct mxfp_matrix norm, head;
	enum mxfp_format activations;        /* the format of the inputs of layers in blocks; f32: not quantized */
	struct mxfp_quantize_options how;
	unsigned char *bytes;                /* the data of the tensors; charlm_unload() frees it */
};

/* A tensor of the model in a file. */
struct charlm_tensor {
	const char *name;
	unsigned rank;
	uint64_t shape[2];
	size_t values, matrix;   /* its offset in struct charlm and in struct charlm_matrices */
	float gain;              /* of a matrix: its initial variance times its inputs */
};

extern const struct charlm_tensor charlm_tensors[CHARLM_TENSORS];

size_t charlm_elements(const struct charlm_tensor *tensor);

/* The values of a tensor in a model. */
float *charlm_values(struct charlm *model, const struct charlm_tensor *tensor);

/* Characters to predict, and the CHARLM_CONTEXT before each. */
struct charlm_batch {
	uint8_t context[CHARLM_BATCH * CHARLM_CONTEXT];
	uint8_t target[CHARLM_BATCH];
};

/* Sets row `row` of the batch to text->symbols[position] and its context. position is at least CHARLM_CONTEXT. */
void charlm_batch_set(struct charlm_batch *batch, unsigned row, const struct charlm_text *text, size_t position);

/* Looks up the embeddings of the batch's contexts: input[CHARLM_BATCH][CHARLM_INPUT]. */
void charlm_embed(float *input, const float *embedding, const struct charlm_batch *batch);

void charlm_rectify(float *x, size_t n);

/* Returns the cross entropy of a row of logits, in nats, and stores the probabilities of all symbols. */
double charlm_cross_entropy(float probabilities[CHARLM_SYMBOLS], const float logits[CHARLM_SYMBOLS], unsigned target);

/* *loss becomes the mean cross entropy, in nats, over the held-out characters of a text. Fails as mxfp_gemm() does. */
enum mxfp_status charlm_loss(double *loss, const struct charlm_matrices *model, const struct charlm_text *text);

/* Runs a model on n characters of the part of a text that it was trained on, evenly spaced. x[i] becomes the inputs of the
   linear layer of charlm_tensors[i], [n][inputs], if it is not NULL. Fails as mxfp_gemm() does. */
enum mxfp_status charlm_inputs(float *const x[CHARLM_TENSORS], size_t n, const struct charlm_matrices *model,
                               const struct charlm_text *text);

/* How many characters there are for that. */
size_t charlm_trained(const struct charlm_text *text);

/* The matrices of a model in f32, valid as long as `model`. */
struct charlm_matrices charlm_matrices(struct charlm *model);

/* Reads a model, quantized in the layout of compressed-tensors or not. charlm_unload() frees it and must be called
   after a failure, too. */
int charlm_load(struct charlm_matrices *model, const char *path, struct error *error);
void charlm_unload(struct charlm_matrices *model);

/* The block format of that name, or f32 for "none". Returns false for any other name. */
bool charlm_activations(enum mxfp_format *format, const char *name);

/* Writes a model to a new file, and leaves its numbers in the file's byte order. An existing file is refused. */
int charlm_save(struct charlm *model, const char *path, struct error *error);

#endif
