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

/* The model that runs, as its files would have it: numbers as they are stored, rounded to bf16 or quantized, with their
   scales. The same on every machine, while memory also has what the machine's products want in another form. */
struct network_size {
	uint64_t elements, bytes;
};
struct network_size network_size(const struct network *network);

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

/*
 * A model whose weights change while it runs, layer by layer, for calibration. x holds rows of pieces one after the other,
 * as many as run at once, network_hidden() numbers each.
 */
size_t network_hidden(const struct network *network);

/* Reads rows of the embedding into x. As network_run(). */
int network_embed(struct network *network, const struct network_piece *pieces, size_t n, float *x, struct error *error);

/* Runs one layer on x; pieces are whole sequences, and keep no keys and values. x changes only if all went well. As
   network_run(), and what the watcher returns. */
int network_run_layer(struct network *network, size_t layer, const struct network_piece *pieces, size_t n, float *x,
                      struct error *error);

/* Sees the inputs of linear layers, except experts', while they run: rows of x before they become blocks. Layers of the same
   inputs, which are called one after the other, get the same x. What it returns ends the run, but for EXIT_OK. */
typedef int network_watcher(void *context, const char *weight, const float *x, size_t rows, size_t cols, struct error *error);

/* NULL: nobody watches. */
void network_watch(struct network *network, network_watcher *watch, void *context);

/* Rounds inputs of linear layers to what products with blocks take: the format and rule of the options. */
void network_round(struct network *network, float *x, size_t rows, size_t cols);

/* Has a linear layer, one that a watcher is called for, take these blocks in place of its weights; copies them.
   EXIT_MEMORY. */
int network_replace(struct network *network, const char *weight, const struct mxfp_blocks *blocks, struct error *error);

/* The blocks that network_replace() gave it; NULL: none. */
const struct mxfp_matrix *network_replaced(const struct network *network, const char *weight);

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
