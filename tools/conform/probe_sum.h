/* SPDX-License-Identifier: MIT */
/* What a machine makes of products, by its order and by how one step rounds. In the processor's arithmetic: it describes. */
#ifndef TOOLS_CONFORM_PROBE_SUM_H
#define TOOLS_CONFORM_PROBE_SUM_H

#include "conform/probe_tree.h"

/* How a number is cut or rounded. */
enum cut { CUT_NEAREST, CUT_ZERO, CUT_DOWN, CUT_AWAY, N_CUTS }; /* to even; toward zero, -Inf; to nearest, ties away */

/* What the exponent of a product is, for alignment. */
enum measure { MEASURE_OPERANDS, MEASURE_PRODUCT, MEASURE_SCALES, N_MEASURES }; /* e_a + e_w; of the value; of scales alone */

enum { FRACTION_ALL = 99, LOWEST_NONE = -999 };

/* One step: terms are aligned to the largest exponent, cut, summed exactly, and the sum is rounded. */
struct rule {
	int fraction;          /* bits of a term below the largest exponent; FRACTION_ALL */
	enum cut term;
	enum measure measure;
	int lowest;            /* the largest exponent counts as at least this */
	bool apart;            /* the sum so far is no such term: both it, at 24 bits, and the sum of the others, at 32, are
	                          rounded down, aligned to the larger, and then added and rounded down, at 31 */
	int bits;              /* of the result's significand; more than 24: without limit of exponent */
	enum cut result;
};

/* How the products of a block enter the sum: from INSIDE_CHAIN on in several additions, in the last four by sums of 2, 4, 8, 16. */
enum inside {
	INSIDE_TERMS, INSIDE_ONE, INSIDE_HALVES, INSIDE_ROUNDED, INSIDE_CHAIN, INSIDE_OWN_CHAIN, INSIDE_TWOS, INSIDE_FOURS, INSIDE_EIGHTS,
	INSIDE_SIXTEENS, N_INSIDE
};

/* What answers are rounded to in the end. */
enum answers { ANSWERS_F32, ANSWERS_BF16, ANSWERS_F16, N_ANSWERS };

struct machine {
	struct tree tree;
	struct rule several, pair;   /* of nodes with more than two children or an exact sum, and of others */
	bool *rounded;               /* of each leaf: whether it is a sum by itself, and rounded, before it is added to others */
	enum inside inside;
	bool operands_flushed[2], results_flushed, sums_flushed; /* subnormals; the last: of additions of sums alone */
	bool products_overflow;      /* a product of 2^128 or more is Inf */
	enum answers answers;
};

struct factor {
	double value;
	int exponent, scale; /* of the operand with its scale, a subnormal's that of the least normal; of the scale alone */
	bool subnormal;
};

/* The factors of all products: leaf i has those from i * length on. */
struct products {
	const struct factor *a, *w;
	size_t length;
};

/* The additions that are left where only some leaves are not zero. */
struct plan;

/* Makes the plan of these leaves, or of all if `leaves` is NULL. NULL: no memory. */
struct plan *plan_make(const struct machine *machine, const size_t *leaves, size_t n);
void plan_free(struct plan *plan);

float plan_run(const struct plan *plan, const struct machine *machine, const struct products *products);

#endif
