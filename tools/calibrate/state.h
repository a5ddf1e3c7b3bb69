/* SPDX-License-Identifier: MIT */
/*
 * What a run keeps in OUT.partial (partial.h) while it goes through the layers, so that memory holds only one layer, and a run
 * that was stopped goes on at the layer where it was:
 *
 *   states-N.state     the states of all tokens before layer N, of the exact model and of the rounded one, window after window
 *   weights-N.state    the weights of layer N, in blocks
 *   layers.journal     which layers are done: their weights, and the states behind them, are on the disk, with a hash of each
 *
 * Numbers are in the order of bytes of the machine, which the fingerprint names. Ranks (ranks.h) have the files in common, each with
 * the states of its windows in them; the rest is rank 0's. All call state_begin(), state_open_layer() and state_close_layer() together.
 */
#ifndef TOOLS_CALIBRATE_STATE_H
#define TOOLS_CALIBRATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "calibrate/compensate.h"
#include "io/journal.h"
#include "io/partial.h"
#include "mxfp/quantize.h"

/* A matrix that was calibrated: rows of a tensor. */
struct state_weight {
	char *name;             /* of the tensor */
	size_t layer, row, rows, cols;
	enum mxfp_format format;
	float tensor_scale;
	bool divides;           /* as of struct mxfp_blocks */
	bool narrow;            /* the tensor's own dtype holds all of its numbers */
	bool pooled;            /* calibrated by the tokens of all experts */
	size_t tokens;          /* in its statistics */
	struct compensation done;
	uint64_t at;            /* of its codes in the file, which the scales follow */
};

struct state {
	const struct partial *partial;
	char *journal_path;
	struct journal journal;
	struct journal_record *records; /* two a layer */
	size_t n_layers;
	bool stateless;
	size_t n_weights;
	struct state_weight *weights;   /* in the order of the layers, until state_sort() */
	int states, next, file;         /* descriptors: states of this layer and of the next, its weights; -1: none */
	char *states_path, *next_path, *file_path;
	uint64_t file_bytes;
};

/* What this run writes: tells whether a stored matrix belongs to it, and whether layers keep states. */
struct state_plan {
	bool stateless;
	bool (*fits)(const void *context, const struct state_weight *weight);
	const void *context;
};

/* Finds what an earlier run did: *first is the layer to go on with, the number of layers if none is left. What is damaged counts
   as not done. Matrices are listed on rank 0. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. state_end() follows in every case. */
int state_begin(struct state *state, const struct partial *partial, size_t n_layers, const struct state_plan *plan, size_t *first,
                struct error *error);

/* Opens the states before a layer, if there are any, which are written for layer 0, else read, and the file of its weights, empty.
   EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int state_open_layer(struct state *state, size_t layer, struct error *error);

/* Reads or writes n states from number `first` on: those before this layer, or those behind it. EXIT_IO, EXIT_INPUT. */
int state_read(const struct state *state, uint64_t first, float *x, size_t n, struct error *error);
int state_write(const struct state *state, uint64_t first, const float *x, size_t n, struct error *error);
int state_write_next(const struct state *state, uint64_t first, const float *x, size_t n, struct error *error);

/* Adds a matrix of this layer; copies its name. EXIT_IO, EXIT_MEMORY. */
int state_add(struct state *state, const struct state_weight *weight, const struct mxfp_blocks *blocks, struct error *error);

/* Syncs what the layer wrote, notes that it is done, and removes the states before it. EXIT_IO, EXIT_MEMORY. */
int state_close_layer(struct state *state, size_t layer, struct error *error);

/* Sorts the matrices, and finds those of a tensor: *n of them by rows, 0: none. */
void state_sort(struct state *state);
const struct state_weight *state_find(const struct state *state, const char *name, size_t *n);

/* Reads the blocks of a matrix into malloc'ed *memory. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int state_read_blocks(const struct state *state, const struct state_weight *weight, struct mxfp_blocks *blocks, void **memory,
                      struct error *error);

void state_end(struct state *state);

#endif
