/* SPDX-License-Identifier: MIT */
/* Which tensors a GGUF file of a model has, and where their numbers or codes are in the model's own files; and the way
   back. */
#ifndef TOOLS_GGUF_TENSORS_H
#define TOOLS_GGUF_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "eval/shape.h"
#include "io/transfer.h"
#include "model/layout.h"
#include "model/layout_config.h"
#include "model/model.h"

/* A tensor of the model that some rows come from. */
struct tensors_source {
	const char *name;
	const struct tensor *tensor; /* of numbers, as rows; NULL: quantized */
	const struct file *file;
	struct quantized quantized;
};

/* Row `i` of each matrix is row first + step * j of the source's matrix of `stride` rows; j is i, or where that row of a
   head is there. With in_turns, rows are those of all sources in turns, whose matrices have `stride` rows each. */
struct tensors_rows {
	uint64_t stride, first, step;
	uint64_t head_rows; /* 0: the order is the same */
	bool back;          /* the source is GGUF's */
	bool in_turns;
};

enum tensors_kind {
	TENSORS_CODES,   /* blocks, moved */
	TENSORS_NUMBERS, /* copied; of another dtype only if that is F32 */
	TENSORS_VALUES   /* computed: `values` */
};

struct tensors_entry {
	enum tensors_kind kind;
	struct tensor output;           /* of codes: as it was before it was quantized, in the way back */
	struct layout_choice choice;    /* TENSORS_CODES: layout and form */
	struct tensor parts[N_LAYOUT_PARTS]; /* TENSORS_CODES: the tensors; the tensor scale is an entry of its own */
	size_t n_sources;               /* 1, or one for each matrix, or those in turns */
	struct tensors_source *sources; /* in the arena */
	uint64_t rows, cols;            /* of the output as one matrix */
	uint64_t matrix;                /* rows of each of the matrices that are put together */
	struct tensors_rows order;
	const float *values;            /* in the arena */
	bool weights_only;              /* NVFP4 whose activations the model does not quantize: no input scale */
};

/* What could not come along. */
struct tensors_left {
	size_t n;
	const char *first; /* name */
};

struct tensors {
	size_t n;
	struct tensors_entry *entries; /* malloc'ed */
	struct arena arena;
	struct tensors_left left;      /* scales of activations of formats that have none in GGUF, and of caches */
	size_t rounded;                /* tensor scales */
	double change;                 /* the largest of these, relative */
};

/* Decides. EXIT_INPUT: a tensor is missing, is not known, or is in a format or of a shape that GGUF has not; a tensor scale
   has to be rounded without `allow_rounding`. EXIT_IO, EXIT_MEMORY. tensors_free() follows in every case. */
int tensors_plan(struct tensors *tensors, const struct model *model, const struct shape *shape, bool allow_rounding,
                 struct error *error);

/* The same of a GGUF file's tensors for a directory: each expert has its own, and codes are held in a layout, which takes
   roles of `role_model`. Adds what is quantized and what is not to `facts`. */
int tensors_plan_back(struct tensors *tensors, const struct model *model, const struct shape *shape,
                      const struct role_model *role_model, struct layout_facts *facts, bool allow_rounding, struct error *error);

/* Writes one into transfer->writer. EXIT_IO, EXIT_INPUT, EXIT_MEMORY, signals. */
int tensors_write(struct transfer *transfer, const struct tensors_entry *entry, struct error *error);

void tensors_free(struct tensors *tensors);

#endif
