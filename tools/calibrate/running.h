/* SPDX-License-Identifier: MIT */
/* What the files of mxfp calibrate share: a run at work. */
#ifndef TOOLS_CALIBRATE_RUNNING_H
#define TOOLS_CALIBRATE_RUNNING_H

#include "base/progress.h"
#include "calibrate/calibrate.h"
#include "calibrate/state.h"
#include "eval/evaluate.h"
#include "io/transfer.h"
#include "model/edit.h"

/* Inputs of sites that are taken while a network runs on a window. */
struct taken {
	bool wanted, seen;
	size_t at, rows, cols; /* at: in numbers */
};

struct taking {
	struct taken *sites;
	size_t n_sites, left; /* how many of those that are wanted were not seen yet */
	float *x;
	size_t used, capacity;
};

/* A tensor that is to be quantized, and its inputs in the file. */
struct running_input {
	const struct quantize_entry *entry;
	const struct tensor *x;
	uint64_t rows;
};

struct running {
	const struct calibrate_settings *settings;
	const struct model *model;
	struct calibration *done;
	struct mxfp_exec exec;
	struct evaluate_network exact, rounded; /* of a file of inputs, nothing but the plan of the latter */
	struct edit edit;
	struct editing editing;
	struct state state;
	size_t longest;                /* tokens of a window */
	float *exact_x, *rounded_x;    /* states of a window, one after the other, [longest][hidden] each; or rows of inputs */
	size_t n_inputs;               /* of a file of inputs: layers, of one tensor each */
	struct running_input *inputs;
	struct taking taking, exact_taking;
	struct taking heard, heard_exact; /* what another rank has taken */
	struct workspace workspace;
	uint64_t statistics;           /* bytes that sums of one pass may take, but for one that takes more alone */
	struct transfer transfer;      /* reads weights for their largest */
	struct progress progress;
	size_t first;                  /* the layer where this run begins */
	uint64_t shown;                /* tokens that the progress shows */
};

enum { RUNNING_OTHER_BYTES = 112 << 20 /* workspaces, scores, and the program */ };

/* A window of the tokens. Rank r of n runs those of numbers r, r + n, ... */
struct network_piece window_of(const struct running *running, size_t i);

/* The entry of the plan of a tensor that is to be quantized; NULL: it stays as it is. */
const struct quantize_entry *entry_of(const struct running *running, const char *weight);

/* layer.c: what calibrating a linear layer takes: sums, factor and weights, in bytes; and its sums alone. */
uint64_t layer_statistics(size_t rows, size_t cols);
uint64_t layer_sums(size_t cols);

/* Calibrates a layer, and brings the states behind it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int layer_calibrate(struct running *running, size_t layer, struct error *error);

/* inputs.c: finds the inputs of the tensors that the plan quantizes, and makes room for rows of them; EXIT_INPUT, EXIT_MEMORY.
   Whether the memory suffices for the largest tensor; EXIT_USAGE. Calibrates a tensor; EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int inputs_open(struct running *running, struct error *error);
int inputs_check_memory(const struct running *running, struct error *error);
int inputs_calibrate(struct running *running, size_t number, struct error *error);

/* matrix.c: compensates rows of a tensor by the factor of its inputs (compensate.h), and adds them to the state. The weight has
   its name, layer, place, tokens and whether they are pooled; the rest is filled in. Its blocks are in malloc'ed *memory, which
   the caller frees in every case. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int matrix_calibrate(struct running *running, struct state_weight *weight, const float *factor, struct mxfp_blocks *blocks,
                     void **memory, struct error *error);

/* write.c: fills in running->edit. */
void write_prepare(struct running *running);

#endif
