/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp calibrate`: writes a model whose weights are what a block format holds, chosen on tokens so that the
 * model's outputs change least. Quantizing it to that format afterwards loses nothing more.
 *
 * Two networks run side by side, layer after layer: the model as it is, and one whose weights become rounded as soon as they are
 * compensated, with rounded activations. The inputs of the linear layers of both, over all tokens, are what compensate.h
 * wants. Layers of the same inputs share their sums; an expert has those of the tokens that the rounded network sends to it,
 * which in the exact one are sent to it too while inputs are taken. Of the weights, one layer is in memory, and of the states
 * one window; the rest is in files beside the output (state.h).
 *
 * Ranks (ranks.h) do this together: each runs both networks on its windows, and gives their inputs to the others in the order of
 * windows. Each adds them to some rows of the sums, so that a sum has one order, and makes some rows of the factor and of the weights,
 * which all ranks then get.
 */
#ifndef TOOLS_CALIBRATE_CALIBRATE_H
#define TOOLS_CALIBRATE_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "calibrate/compensate.h"
#include "eval/token_file.h"
#include "eval/trial.h"
#include "model/carry.h"
#include "model/model.h"

struct calibrate_settings {
	const char *in, *out;
	const struct trial *trial;            /* it quantizes */
	const struct token_sequences *tokens; /* windows, run one by one; NULL: calibrate on `inputs` */
	const struct file *inputs;            /* inputs of layers; NULL: calibrate on `tokens` */
	double damping;
	unsigned threads;
	uint64_t memory_bytes;                /* the most to use; 0: no limit */
	bool force, resume, transient, json, quiet; /* transient: as of struct partial */
	const char *command;                  /* what comes next; NULL: nothing */
};

/* A tensor that was compensated. */
struct calibrate_row {
	char *name;
	size_t layer, rows, cols;
	size_t matrices, pooled; /* how many it has, and those of them that took the tokens of all experts */
	size_t tokens;           /* in its statistics; of several matrices, the fewest */
	char format[TRIAL_TEXT];
	struct compensation done;
};

/* What was done; calibrate_free() releases it. */
struct calibration {
	size_t n_tokens, n_rows;
	size_t n_kept;                   /* tensors that stay as they are */
	size_t n_left;                   /* of those kept, the ones that mxfp quantize would quantize */
	const char **left;               /* their names, of the model; of a file of inputs only */
	size_t n_pooled;                 /* matrices that took the tokens of all experts */
	struct calibrate_row *rows;
	struct carry carry;
};

/* Writes the model. EXIT_USAGE: a model or output that cannot be; EXIT_INPUT: what network_open() says, NaN or Inf in a
   weight, nothing to calibrate; EXIT_IO, EXIT_MEMORY, signals. calibrate_free() follows in every case. */
int calibrate_run(struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                  struct error *error);

/* Prints tables, or JSON, to stdout. EXIT_MEMORY. */
int calibrate_print(const struct calibration *done, const struct calibrate_settings *settings, const struct model *model,
                    struct error *error);

void calibrate_free(struct calibration *done);

#endif
