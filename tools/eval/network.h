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
	bool (*keeps)(void *context, const char *tensor); /* tensors of `plan` that stay as stored; NULL: none */
	void *keeps_context;
	enum mxfp_format activations;     /* what the inputs of products with quantized weights become;
	                                     OPTION_FORMAT_NONE: f32 as they are */
	enum mxfp_rule activation_rule;   /* of MX formats; NVFP4 has a tensor scale of 1 */
	enum mxfp_format kv_cache;        /* of keys and values; OPTION_FORMAT_NONE: as `attention` */
	enum mxfp_format attention;       /* of queries and of probabilities; OPTION_FORMAT_NONE: f32 */
	enum mxfp_format numbers;         /* what other matrices are rounded to: f16, bf16, tf32, FP8; f32: they stay as stored */
	bool summed;                      /* inputs of products with these are rounded to their format, as machines take them */
	enum mxfp_acc acc;                /* how products with weights are summed; a machine's: `summed` */
	unsigned pass_k;                  /* as of struct mxfp_gemm_options */
	bool checks;                      /* weights of linear layers are only checked, and nothing runs */
	bool by_layer;                    /* weights of layers are read by network_load_layer(), and no head is */
	size_t batch;                     /* the most rows that run at once */
	unsigned threads;                 /* 0: one a processor */
};

/* Loads a model. The model and the plan stay open as long as the network. EXIT_INPUT, naming what is not known or does not
   fit, or weights that `acc` does not take with their inputs; EXIT_IO, EXIT_MEMORY, signals. */
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
 * A run goes in steps: the attention of a layer, its feed-forward part, ..., and at the end the head. The state between two
 * is network_hidden() numbers a row. Weights that change leave all states before the step they belong to as they were.
 */
enum { NETWORK_STEPS = 2 }; /* of a layer */
size_t network_steps(const struct network *network); /* the number of the head */

/* Has the state of the rows of a run before a step: the steps from `first` on, in order, and the head. Before the first, if
   that is not 0, it gives the state in place of the embedding. */
typedef void network_state(void *context, size_t step, float *x, size_t rows);

/* Has runs begin at a step, and shows their states. NULL: nobody looks, and `first` is 0. */
void network_begin_at(struct network *network, size_t first, network_state *state, void *context);

/*
 * Quantizes what the plan of other options does not keep, until network_restore(), while all else stays as it is; of the
 * options plan, keeps, activations and their rule count, and the network must have no plan itself. `step` is the first that has
 * such weights, SIZE_MAX if none has. network_restore() follows in any case. As network_open().
 */
int network_change(struct network *network, const struct network_options *options, size_t *step, struct error *error);
void network_restore(struct network *network);

/*
 * A model whose weights change while it runs, layer by layer, for calibration. x holds rows of pieces one after the other,
 * as many as run at once, network_hidden() numbers each.
 */
size_t network_hidden(const struct network *network);

/* Of a network by layers: reads the weights of a layer, and drops them. As network_open(). */
int network_load_layer(struct network *network, size_t layer, struct error *error);
void network_drop_layer(struct network *network, size_t layer);

/* Bytes of the weights of a layer as they are stored, at most. */
uint64_t network_layer_bytes(const struct network *network);

/* What network_run_layer() takes for a sequence of a whole batch beside weights and x: rows of experts, inputs in blocks, keys
   and values; but for workspaces and scores. */
uint64_t network_scratch_bytes(const struct network *network);

/* Reads rows of the embedding into x. As network_run(). */
int network_embed(struct network *network, const struct network_piece *pieces, size_t n, float *x, struct error *error);

/* Runs one layer on x; pieces are whole sequences, and keep no keys and values. x changes only if all went well. As
   network_run(), and what the watcher returns. */
int network_run_layer(struct network *network, size_t layer, const struct network_piece *pieces, size_t n, float *x,
                      struct error *error);

/* Inputs of linear layers in a layer. Those that take the same are one site. */
enum network_site {
	NETWORK_SITE_QKV,
	NETWORK_SITE_OUTPUT,
	NETWORK_SITE_MLP,    /* gate and up, of all tokens; the router */
	NETWORK_SITE_DOWN,
	NETWORK_SITE_EXPERTS /* gate and up of each expert, then down of each */
};

/* The experts of a layer, 0: none; and those that a token takes. */
size_t network_experts(const struct network *network, size_t layer);
size_t network_experts_per_token(const struct network *network);

/* A linear layer: rows of a tensor. */
struct network_linear {
	const char *weight;     /* the tensor; it lives as long as the network */
	size_t row, rows, cols; /* its rows there */
	size_t site;
	bool routes;            /* its results choose the experts */
};

/* Lists the linear layers of a layer, malloc'ed. EXIT_MEMORY. */
int network_linears(const struct network *network, size_t layer, struct network_linear **linears, size_t *n,
                    struct error *error);

/* Sees the inputs of a site while they run: rows of x before they become blocks. A site may be seen twice, with the same
   inputs; that of an expert has those of its tokens, perhaps 0 rows, and experts are seen in their order. What it returns
   ends the run, but for EXIT_OK. */
typedef int network_watcher(void *context, size_t site, const float *x, size_t rows, size_t cols, struct error *error);

/* NULL: nobody watches. */
void network_watch(struct network *network, network_watcher *watch, void *context);

/* Sends tokens to the experts that another network of the same shape chose for them in the layer and the rows that it ran
   last; NULL: to those that it chooses itself. */
void network_follow(struct network *network, const struct network *leader);

/* Rounds inputs of linear layers to what products with blocks take: the format and rule of the options. */
void network_round(struct network *network, float *x, size_t rows, size_t cols);

/* The same to any format and rule, without a network. */
void network_round_inputs(enum mxfp_format format, enum mxfp_rule rule, float *x, size_t rows, size_t cols,
                          const struct mxfp_exec *exec);

/* Has a linear layer take these blocks in place of its weights; copies them. EXIT_MEMORY. */
int network_replace(struct network *network, size_t layer, const struct network_linear *linear,
                    const struct mxfp_blocks *blocks, struct error *error);

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
