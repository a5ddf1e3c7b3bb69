/* SPDX-License-Identifier: MIT */
/*
 * A model of one decoder layer on the engines of a chip: which engine runs what when, what limits the layer, and what
 * would help. doc/engine.md says which engine runs which operation, and the assumptions.
 *
 * All cores, of one chip or of several, share the layer: each has its part of heads and of columns of weights, and its
 * share of memory, DMA engines and links, so that all do the same at the same time and one of them stands for all.
 */
#ifndef TOOLS_ENGINE_LAYER_H
#define TOOLS_ENGINE_LAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "engine/decoder.h"
#include "engine/route.h"
#include "mxfp/engine.h"

enum { CONTEXT_MAX = 1 << 24, CHIPS_LINKED_MAX = 1 << 10 };
#define LAYER_PS_MAX UINT64_C(100000000000000) /* 100 seconds */

/* What works: a row of the time line. */
enum lane { LANE_TENSOR, LANE_VECTOR, LANE_SCALAR, LANE_GPSIMD, LANE_DMA, LANE_LINKS, N_LANES };

/* What an operation belongs to: a color of the time line, and a letter in text. */
enum part { PART_NORM, PART_QKV, PART_ATTENTION, PART_OUTPUT, PART_UP, PART_DOWN, PART_EXCHANGE, N_PARTS };

enum { CAUSES_MAX = 4 };
#define NO_OPERATION SIZE_MAX

/* An operation, or one of the pieces that it is cut into. Its starts and ends are set by schedule(). */
struct operation {
	const char *name;
	enum lane lane;
	bool ahead;                   /* data of weights and caches, which come in their own order, early */
	bool experts;                 /* of experts, not of all tokens */
	enum part part;
	unsigned layer;               /* of those that follow each other */
	uint64_t ps;                  /* picoseconds of its lane */
	uint64_t macs, bytes, elements; /* its work */
	size_t causes[CAUSES_MAX];    /* operations that end before it starts */
	size_t n_causes;
	uint64_t start, end;
	size_t cause;                 /* the operation whose end it started at; NO_OPERATION: none */
	bool critical;                /* in the chain that makes the layer's time */
};

struct schedule {
	struct operation *operations; /* in the order of the program */
	size_t n, capacity;
};

/* Starts each operation as early as its causes and its lane allow. A lane does its operations in the order of the list,
   and one of the two lists of the DMA engines, those that come ahead and the others, if both could start. */
int schedule_run(struct schedule *schedule, struct error *error);

/* What is modelled. */
struct layer_setup {
	struct decoder decoder;
	struct mxfp_engine_chip chip;
	unsigned cores, chips;        /* cores of each of the chips */
	uint64_t tokens, sequences, context; /* tokens of that many sequences, each seeing `context` keys at its end */
	enum mxfp_format a, w, cache;
	struct routing routing;       /* skew and seed */
};

/* Work of a lane. */
struct layer_lane {
	uint64_t busy;                /* picoseconds within a layer's time */
	uint64_t critical;            /* of the chain of operations that makes the layer's time */
	uint64_t macs, bytes, elements; /* of one layer */
};

/* The time of one layer among many equal ones. */
struct layer_time {
	uint64_t begin, end;          /* of the layer's time in the schedule: end - begin is what each layer adds */
	unsigned layer;               /* its number there */
	struct layer_lane lanes[N_LANES];
	enum lane limit;              /* the busiest lane */
	uint64_t weight_bytes, cache_bytes; /* of all cores, of one layer: all experts, and all keys and values */
	uint64_t activation_bytes;    /* the most that one core holds of the layer's numbers at once */
	struct schedule schedule;     /* freed by layer_time_free() */
};

/* Something that would help. */
struct layer_advice {
	char text[96];
	uint64_t ps, tokens;          /* of a layer then, and tokens that it takes */
	bool fits;                    /* weights and cache fit the memory then, which they did not before */
	enum lane limit;
};

enum { ADVICE_MAX = 8 };

struct layer_report {
	struct layer_setup setup;
	struct layer_time time;
	struct layer_advice advice[ADVICE_MAX];
	size_t n_advice;
	bool fits;                    /* weights and cache of all layers fit the chips' memory */
	uint64_t window_ps;           /* of a layer with the model's window; 0: the context is no longer */
};

/* Fills in the time of a layer. EXIT_USAGE: the chip cannot run the formats, there are more cores than heads, a number
   overflows; EXIT_MEMORY. */
int layer_run(struct layer_time *time, const struct layer_setup *setup, struct error *error);

/* The same for a report, with advice. */
int layer_estimate(struct layer_report *report, struct error *error);

void layer_time_free(struct layer_time *time);

/* Bytes of all layers (of one, if their number is not known) on all chips: weights, and keys and values, of which layers
   with a window hold no more than that. UINT64_MAX: too many. */
uint64_t layer_weights_held(const struct layer_setup *setup);
uint64_t layer_cache_held(const struct layer_setup *setup);

/* Whether these fit the chips' memory. */
bool layer_fits(const struct layer_setup *setup);

/* Keys that the last token of a sequence sees in a layer with a window; no fewer than the new tokens of a sequence, for
   which attention is modelled in full. */
uint64_t layer_window(const struct layer_setup *setup);

/* The name of a lane and of a part; a part's letter in a time line. */
const char *layer_lane_name(enum lane lane);
const char *layer_part_name(enum part part);
char layer_part_letter(enum part part);

/* Whether a lane takes part. */
bool layer_has_lane(const struct layer_report *report, enum lane lane);

int layer_text(const struct layer_report *report, FILE *file, struct error *error);
json_t *layer_json(const struct layer_report *report);
int layer_svg(const struct layer_report *report, FILE *file, struct error *error);

#endif
