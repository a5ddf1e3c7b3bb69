/* SPDX-License-Identifier: MIT */
/* What the files of a network share: a network as it lies in memory. */
#ifndef TOOLS_EVAL_NETWORK_PARTS_H
#define TOOLS_EVAL_NETWORK_PARTS_H

#include "base/pages.h"
#include "eval/network.h"
#include "eval/shape.h"
#include "eval/tensor_name.h"
#include "io/transfer.h"
#include "model/quantized.h"
#include "mxfp/gemm.h"
#include "mxfp/rows.h"

/* A tensor of the model, of which rows are read: numbers, blocks, or numbers that become blocks. */
struct weight {
	const char *name;              /* as the tables of the model's tensors have it; it lives as long as the network */
	uint64_t rows, cols;           /* all its matrices on top of each other */
	uint64_t matrices;             /* of a tensor with three dimensions; else 1 */
	bool is_quantized;
	struct quantized quantized;    /* if it is stored so */
	const struct tensor *tensor;   /* its rows, if not */
	const struct file *file;
	const struct quantize_entry *entry; /* how it becomes blocks; NULL: it does not */
	float amax;
};

/* y = x W^T + bias. */
struct linear {
	const char *name;              /* of the tensor that it is from; NULL: there is no such layer */
	size_t row;                    /* of the tensor, where its n rows begin */
	size_t site;                   /* of the inputs that it takes */
	size_t n, k;
	enum mxfp_format a_format;     /* what x becomes: blocks, or numbers of another format; f32: nothing */
	struct mxfp_matrix w;          /* if it is not packed; tensor_scale of FP8 and of what was rounded to it: a power of two */
	void *memory;                  /* malloc'ed: of w; or of network->pages: the packed W */
	size_t packed_bytes;           /* 0: it is not packed */
	float *bias;                   /* NULL: none */
};

struct expert {
	struct linear gate, up;        /* gate_up of gpt-oss: both in `gate`, rows interleaved */
	struct linear down;
};

struct layer {
	float *attention_norm, *mlp_norm;
	struct linear q, k, v, output;
	float *q_norm, *k_norm, *sinks; /* NULL: none */
	struct linear gate, up, down;   /* of a layer without experts, or the expert that all tokens take */
	struct linear router, shared_router;
	struct expert *experts;         /* NULL: none */
};

/* Linear layer i of a layer, NULL after the last; those without a name are not there. */
struct linear *layer_linear(struct layer *layer, size_t experts, size_t i);

/* The keys and values of a sequence. */
struct slot {
	void *memory;      /* of each layer, a struct mxfp_attention_cache's, or in a block format codes [capacity][kv_heads][head_cols],
	                      then scales, of keys and then values */
	size_t capacity;   /* a multiple of ATTENTION_TILE */
};

/* Queries whose places, by position, run together: a row is computed the same whatever else is in its batch. */
enum { ATTENTION_TILE = 32 };

/* Memory that grows to what was ever asked of it. */
struct scratch {
	void *memory;
	size_t bytes;
};

enum scratch_id {
	SCRATCH_WORKSPACE, SCRATCH_PRODUCTS, SCRATCH_BLOCKS, SCRATCH_ROUNDED, SCRATCH_SCALES,
	SCRATCH_QUERIES, SCRATCH_SCORES, SCRATCH_VALUES, SCRATCH_SUMS, SCRATCH_MASK,
	SCRATCH_ROUTES, SCRATCH_GATHERED, SCRATCH_GATES, SCRATCH_UPS, SCRATCH_DOWNS, SCRATCH_LOGITS,
	N_SCRATCHES
};

/* What network_change() replaces. */
struct network_kept {
	struct network_options options;
	struct network_size size;
	uint64_t bytes, quantized;
	size_t packed_more;
	struct linear head;
	struct layer *layers;
	bool *changed;                /* of each layer, and of the head */
};

struct network {
	struct shape shape;
	const struct model *model;
	struct network_options options;
	struct mxfp_exec exec, one;   /* one: the same on one thread */
	struct weight embedding;
	struct linear head;
	float *norm;
	struct layer *layers;
	struct slot *slots;           /* options.batch */
	struct slot spare;            /* of a sequence that has ended, for one that begins */
	uint64_t bytes, quantized;
	struct network_size size;
	uint64_t layer_bytes;         /* of a network by layers: of the largest as it is stored */
	size_t packed_more;           /* bytes that packing may still add */
	size_t rows_bytes;            /* of what a batch takes besides weights, keys and values */
	size_t at;                    /* the layer that runs; the number of layers: none of them */
	struct network_done (*done)[N_NETWORK_WORKS];
	float *x, *h, *q, *k, *v, *sums, *up, *gate; /* [batch][...]: state, normalized, ..., of the feed-forward part */
	uint32_t *positions;          /* [batch] */
	network_watcher *watch;       /* NULL: none */
	void *watch_context;
	size_t first_step;            /* where runs begin */
	network_state *state;         /* NULL: nobody asks */
	void *state_context;
	struct network_kept *kept;    /* what network_change() put aside; NULL: nothing */
	const struct network *leader; /* whose choice of experts counts; NULL: its own */
	const size_t *chosen;         /* the experts of each token of the last rows that ran: of the scratch */
	struct scratch scratch[N_SCRATCHES];
	struct arena arena;
	struct pages pages;
};

/* Inputs of products: rows of numbers, and the same in blocks, or rounded, if a product wants that. */
struct inputs {
	const float *x;
	size_t rows, cols;
	struct mxfp_blocks blocks;  /* without rows: not made yet */
	struct mxfp_matrix rounded; /* likewise; `scales`: a float for each row if it was rounded to FP8, else NULL */
	enum mxfp_format rounded_to;
};

/* numbers.c: rounds to a format of numbers, to nearest even. FP8 has scales, powers of two: each the least that brings the
   largest magnitude to the largest finite number or below. Only machines multiply FP8; elsewhere its numbers are kept in bf16. */

/* W, whose memory is malloc'ed. EXIT_MEMORY. */
int numbers_round_w(const struct network *network, struct linear *linear, enum mxfp_format format, struct error *error);

/* Inputs, each row with a scale of its own, into so many bytes of memory. */
size_t numbers_inputs_bytes(const struct network *network, const struct inputs *inputs, enum mxfp_format format);
void numbers_round_inputs(const struct network *network, struct inputs *inputs, enum mxfp_format format, void *memory);

static inline bool numbers_are_fp8(enum mxfp_format format)
{
	return format == MXFP_FORMAT_E4M3 || format == MXFP_FORMAT_E5M2;
}

/* Whether acc is a machine's. */
static inline bool acc_is_machine(enum mxfp_acc acc)
{
	return acc != MXFP_ACC_EXACT && acc != MXFP_ACC_CHAIN;
}

/* weights.c: loads every tensor. As network_open(). */
int weights_load(struct network *network, struct error *error);
void weights_free(struct network *network);

/* Frees the memory of W, and leaves the rest. */
void linear_free_w(struct linear *linear);

/* As network_load_layer() and network_drop_layer(). */
int weights_load_layer(struct network *network, size_t layer, struct error *error);
void weights_drop_layer(struct network *network, size_t layer);

/* Reads the head, in place of what is there. As network_open(). */
int weights_load_head(struct network *network, struct error *error);

/* Frees W and the bias. */
void weights_free_linear(struct linear *linear);

/* Reads rows of a weight as binary32 numbers. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int weight_numbers(const struct weight *weight, uint64_t first, size_t n, float *x, struct error *error);

/* linear.c. Memory of at least so many bytes, of which what it held before is lost; NULL: there is none. */
void *scratch_take(struct network *network, enum scratch_id id, size_t bytes);

/* Adds what has passed since `begun`, of clock_seconds(), to a kind of work of the layer that runs. */
void work_end(struct network *network, enum network_work work, double begun);

/* One thread if the work is shorter than waking others, which takes far longer while other programs run; else all. A byte read
   counts as ten operations. */
const struct mxfp_exec *work_exec(const struct network *network, double operations);

struct result {
	const struct linear *linear;
	float *c;
	const float *gate, *residual; /* of the shape of c; NULL: none */
};

/* Products of the same inputs with several weights; the inputs become blocks, once, if one wants them so, and are rounded.
   EXIT_MEMORY. */
int linear_multiply(struct network *network, struct inputs *inputs, enum mxfp_function activation,
                     const struct result *results, size_t n, struct error *error);

/* Rows of the inputs as products with weights of that a_format take them, which have to be made before. */
int linear_prepare(struct network *network, struct inputs *inputs, enum mxfp_format a_format, struct error *error);
struct mxfp_matrix linear_inputs(const struct inputs *inputs, enum mxfp_format a_format, size_t first, size_t rows);

/* Runs products of inputs in one format; those of weights are summed as the options say. Gates and residuals are not both
   given. EXIT_MEMORY. */
int linear_products(struct network *network, const struct mxfp_product *products, size_t n,
                     enum mxfp_function activation, enum mxfp_format a_format, enum network_work work,
                     struct error *error);

/* The options by which products with weights run. */
struct mxfp_gemm_options linear_options(const struct network *network, enum mxfp_format a_format);

/* W of a product. */
void linear_set_w(struct mxfp_product *product, const struct linear *linear);

/* Makes blocks of rows as the activations of the network are made; the second in memory of its own, EXIT_MEMORY. */
void linear_quantize_into(struct network *network, struct mxfp_blocks *blocks, const float *x);
int linear_quantize(struct network *network, struct inputs *inputs, enum mxfp_format format, struct error *error);

/* Rows of numbers as a matrix, and rows from `first` on of blocks. */
struct mxfp_matrix linear_numbers(const float *x, size_t rows, size_t cols, size_t stride);
struct mxfp_matrix linear_blocks(const struct mxfp_blocks *blocks, size_t first, size_t rows);

/* forward.c: runs the layers and the head. As network_run(). */
int forward_run(struct network *network, const struct network_piece *pieces, size_t n, network_sink *sink, void *context,
                struct error *error);

/* Its parts: the positions of rows; rows of the embedding into network->x; a step of a layer on these. */
void forward_set_positions(struct network *network, const struct network_piece *pieces, size_t n);
int forward_embed(struct network *network, const struct network_piece *pieces, size_t n, size_t *rows, struct error *error);
int forward_step(struct network *network, size_t step, const struct network_piece *pieces, size_t n, size_t rows,
                 struct error *error);

/* attention.c: network->sums of the rows of a piece, which begin at row `row` of the batch, from q, k and v. EXIT_MEMORY. */
int attention_run(struct network *network, size_t layer, const struct network_piece *piece, size_t row,
                  struct error *error);

/* The format of keys and values. */
enum mxfp_format attention_cache_format(const struct network *network);

/* attention_blocks.c: the same of keys and values in a block format, with a layer's memory of a slot; the bytes of that. */
int attention_run_blocks(struct network *network, size_t layer, const struct network_piece *piece, size_t row, void *memory,
                         struct error *error);
size_t attention_blocks_bytes(const struct network *network, size_t capacity);

/* The bytes of keys and values of so many tokens, a multiple of ATTENTION_TILE, in all layers; 0: too many. */
size_t attention_cache_bytes(const struct network *network, size_t capacity);

/* experts.c: adds what the experts of a layer make of rows h to x. EXIT_MEMORY. */
int experts_run(struct network *network, const struct layer *layer, size_t rows, struct error *error);

#endif
