/* SPDX-License-Identifier: MIT */
/*
 * A language model in memory that runs: tokens in, logits out, through the library's own products and row operations, so
 * that every bit is defined. Logits depend on the tokens of their sequence, the weights, and the formats that are asked
 * for; not on batches, threads or tiers.
 */
#ifndef TOOLS_EVAL_NETWORK_H
#define TOOLS_EVAL_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option_kind.h"
#include "model/model.h"
#include "mxfp/options.h"
#include "quantize/quantize.h"

struct network; /* a model in memory */

struct network_options {
	const struct quantize_plan *plan; /* how weights are quantized while they are read; NULL: they stay as stored */
	bool (*keeps)(void *context, const char *tensor); /* which of these stay as stored all the same; NULL: none */
	void *keeps_context;
	enum mxfp_format activations;     /* what the inputs of products with quantized weights become;
	                                     OPTION_FORMAT_NONE: f32 as they are */
	enum mxfp_rule activation_rule;   /* of MX formats; NVFP4 has a tensor scale of 1 */
	enum mxfp_format kv_cache;        /* of keys and values; OPTION_FORMAT_NONE: as `attention` */
	enum mxfp_format attention;       /* of queries and of probabilities; OPTION_FORMAT_NONE: f32 */
	bool bf16;                        /* matrices that stay as stored are rounded to bf16 */
	size_t batch;                     /* the most rows that run at once */
	unsigned threads;                 /* 0: one a processor */
};

/* Loads a model. The model and the plan stay open as long as the network. EXIT_INPUT, naming what is not known or does not
   fit; EXIT_IO, EXIT_MEMORY, signals. */
int network_open(struct network **network, const struct model *model, const struct network_options *options,
                 struct error *error);

uint64_t network_vocabulary(const struct network *network);
uint64_t network_bytes(const struct network *network); /* of weights in memory */
size_t network_layers(const struct network *network);
uint64_t network_quantized(const struct network *network); /* matrices in a block format */

/* Part of a sequence: ids[0 .. n - 1] are its tokens `first` and following. The logits of its rows from `wanted` on, of
   n, are given out. */
struct network_piece {
	unsigned slot; /* which holds the sequence: less than the batch */
	const uint32_t *ids;
	size_t first, n, wanted;
	size_t total;  /* tokens that the sequence will have at most, of which first 0 takes the memory; 0: n */
};

/* Gets n rows of logits, network_vocabulary() numbers each: of a piece's rows from `row` on. */
typedef int network_sink(void *context, size_t piece, size_t row, size_t n, const float *logits, struct error *error);

/*
 * Runs pieces of different slots, whose rows are together at most `batch`. `first` of a slot is 0, which begins a sequence
 * in place of the one it had, or what the slot has run. Keys and values of a slot are kept until then, or until
 * network_release().
 * EXIT_INPUT: an id that is not below the vocabulary; EXIT_MEMORY, EXIT_IO, and what the sink returns.
 */
int network_run(struct network *network, const struct network_piece *pieces, size_t n, network_sink *sink,
                void *context, struct error *error);

void network_release(struct network *network, unsigned slot);

/* What network_run() does, by kind of work. */
enum network_work {
	NETWORK_PRODUCTS,  /* with weights */
	NETWORK_ATTENTION, /* scores, softmax, sums of values */
	NETWORK_VECTOR,    /* norms, rotation, gates */
	NETWORK_QUANTIZE,  /* activations, keys and values */
	NETWORK_READ,      /* rows of the embedding */
	N_NETWORK_WORKS
};

struct network_done {
	double seconds, operations, bytes; /* two operations a product of numbers; weights, or keys and values, that products
	                                      read */
};

/* Of a layer, or with network_layers() of the rest, since the network was opened or network_restart() was called. */
const struct network_done *network_done(const struct network *network, size_t layer);
void network_restart(struct network *network);
const char *network_work_name(enum network_work work);

void network_close(struct network *network);

#endif
