/* SPDX-License-Identifier: MIT */
/*
 * The work of `mxfp advise`: the error of every layer in every variant, and which mixture of formats has the least
 * error at an average of bits.
 *
 * A layer in a format has the variant of that format with the least error. All units (fused.h) get the formats whose
 * errors, weight_error.h, have the least sum of all that fit the bits: knapsack.h. In place of these errors a caller may
 * give others, of each unit in each variant, such as what eval/mixture.h measures.
 */
#ifndef TOOLS_ANALYSE_ADVISE_H
#define TOOLS_ANALYSE_ADVISE_H

#include <jansson.h>
#include <stdio.h>

#include "analyse/knapsack.h"
#include "analyse/measure.h"
#include "analyse/weight_error.h"
#include "model/fused.h"
#include "model/layout.h"
#include "model/model.h"
#include "model/select.h"

struct advise_layer {
	const struct file *file;
	const struct tensor *tensor;
	struct weight_error *errors; /* one a variant */
	uint64_t non_finite;         /* weights that are NaN or Inf */
	size_t unit;                 /* it belongs to */
};

struct advice {
	const struct model *model;
	const struct select *select;
	const struct layout *layout;
	const struct measure_options *options;
	bool pad_tail;             /* layers whose rows are not whole blocks, too */
	const char *activations;   /* what a recipe asks for; NULL: nothing */
	uint32_t not_loaded;       /* formats, as bits 1 << format, that the program which the advice is for does not load */
	const char *program, *program_activations; /* of that program, and with which it does not */
	const char *command;       /* what comes next; NULL: nothing */
	const double *costs;       /* [unit][variant]: errors to choose by; NULL: those of the weights */
	size_t n_layers;
	size_t n_left_out, n_refused; /* rows that are not whole blocks; what loaders of the layout do not take quantized */
	struct advise_layer *layers;
	const char **left_out;     /* names of tensors whose rows are not whole blocks */
	size_t n_formats;
	enum mxfp_format formats[FORMATS_MAX];
	struct units units;
	struct knapsack_option *choices; /* [unit][format] */
	struct arena arena;        /* tensors that are turned */
};

/* A mixture. */
struct advise_mix {
	size_t *formats;           /* of each unit */
	struct weight_error total;
	double cost;               /* what was to be the least: the sum over units */
	bool exact;                /* none has less error; false: a search of bounded memory found none */
};

/* Selects the layers, as mxfp quantize does, whose rows are whole blocks of every variant. The caller sets the members
   before n_layers, and advise_free() follows in any case. EXIT_USAGE, EXIT_MEMORY. */
int advise_select(struct advice *advice, struct error *error);

/* Bytes of the layers in their files. */
uint64_t advise_bytes(const struct advice *advice);

/* Measures the layers and finds the units. As measure_layer(). */
int advise_measure(struct advice *advice, struct error *error);

/* The second half of advise_measure(). EXIT_MEMORY. */
int advise_find_units(struct advice *advice, struct error *error);

/* Has mixtures be chosen by these costs from now on, which must stay: [unit][variant], at least 0; HUGE_VAL: nothing is
   worse. */
void advise_choose_by(struct advice *advice, const double *costs);

/* The variant of a format that a layer has the least error, or cost, in; the first of equal ones. */
size_t advise_best(const struct advice *advice, const struct advise_layer *layer, enum mxfp_format format);

/* The mixture of those formats, one a unit, which it takes over: they are released by free(mix->formats). */
void advise_make_mix(struct advise_mix *mix, const struct advice *advice, size_t *formats);

/* The best mixture of at most that many bits a weight, or all in the smallest format if there is none. It is released
   by free(mix->formats). EXIT_MEMORY. */
int advise_mix(struct advise_mix *mix, const struct advice *advice, double bits, struct error *error);

/* What a mixture costs; NaN if that is not finite. */
double advise_mix_cost(const struct advise_mix *mix);

/* The format of each layer in a mixture, one a layer; released by free(). NULL without memory. */
size_t *advise_of_layers(const struct advice *advice, const struct advise_mix *mix);

/* Prints everything, with what a mixture makes of each layer unless it is NULL. EXIT_MEMORY. */
int advise_text(const struct advice *advice, const struct advise_mix *mix, struct error *error);
int advise_json(const struct advice *advice, const struct advise_mix *mix, struct error *error);

/* Called with the mixtures of the front: the smallest, at every quarter of a bit, and the largest. */
typedef int advise_point(const struct advice *advice, const struct advise_mix *mix, double bits, void *context,
                         struct error *error);
int advise_front(const struct advice *advice, advise_point *point, void *context, struct error *error);

/* Parts of what is printed: the front, what was left out, and what a mixture is. EXIT_MEMORY; NULL without memory. */
int advise_print_front(const struct advice *advice, struct error *error);
void advise_print_left_out(const struct advice *advice);
json_t *advise_not_loaded_facts(const struct advice *advice);
json_t *advise_front_facts(const struct advice *advice, struct error *error);
json_t *advise_mix_facts(const struct advice *advice, const struct advise_mix *mix);

/* The share of weights that a mixture has in a format, 0 to 1. */
double advise_share(const struct advice *advice, const struct advise_mix *mix, size_t format);

/* The recipe, mxfp-recipe(5), of a mixture; NULL without memory. */
json_t *advise_recipe(const struct advice *advice, const struct advise_mix *mix);

void advise_free(struct advice *advice);

#endif
