/* SPDX-License-Identifier: MIT */
/* Dot products of chosen numbers, for mxfp conform --probe. */
#ifndef TOOLS_CONFORM_PROBE_ASK_H
#define TOOLS_CONFORM_PROBE_ASK_H

#include "conform/child.h"
#include "conform/conform.h"
#include "conform/probe_sum.h"

/* A side of a product: where it is in an item, and what it can hold. */
struct side {
	const struct mxfp_format_info *element, *scale; /* scale NULL: numbers */
	size_t codes_at, scales_at, length;             /* elements of a block */
	float *values;                                  /* of all codes, in formats of at most 16 bits */
	int low, high, lowest;                          /* exponents of a factor; with subnormals */
};

/* Dot products of k elements, `length` of which are a leaf of the order: a block, or one number. */
struct asker {
	struct child *child;
	struct question q;
	struct side side[2];
	size_t k, length, n_leaves;
	struct items items;          /* to be asked next */
	uint8_t *item;               /* that is being made */
	int top;                     /* the largest exponent of products that are to be summed */
	bool vary;                   /* let elements of blocks have exponents of their own */
	struct factor *a, *w;        /* of an item */
};

/* EXIT_MEMORY. */
int asker_begin(struct asker *asker, struct child *child, enum mxfp_format a, enum mxfp_format w, size_t k, uint64_t seed,
                struct error *error);
void asker_end(struct asker *asker);

/* Begins an item of zeros; puts the product of ma * 2^i and mw * 2^j, i + j = exponent, at a leaf: false, no such factors;
   adds the item. */
void item_clear(struct asker *asker);
bool item_put(struct asker *asker, size_t leaf, double ma, double mw, int exponent, bool subnormals);
void item_add(struct asker *asker);

/* Puts a number at one side of a leaf. */
bool item_factor(struct asker *asker, int side, size_t leaf, double m, int exponent, bool subnormals);

/* Makes an item of 1 and, on one side of a format of 8 bits, the code past the largest number. Or takes all such codes for numbers. */
bool item_special(struct asker *asker, int side);
void side_take_numbers(struct side *side);

/* Puts any elements at a leaf of blocks, whose scales multiply to about 2^exponent, or to what is nearest. */
void item_block(struct asker *asker, size_t leaf, int exponent);

/* Fills the item at random, in a style from 0 to N_STYLES - 1; the last has NaN and Inf. */
enum { N_STYLES = 9, STYLE_MASKS = 7, STYLE_SPECIAL = N_STYLES - 1 };
void item_random(struct asker *asker, int style);

/* Least and largest exponents of products of normal numbers, or with subnormals. */
int products_low(const struct asker *asker, bool subnormals);
int products_high(const struct asker *asker);

/* The factors of item i of those that were added. */
struct products item_products(struct asker *asker, size_t i);

/* Asks for the items that were added. *answers is NULL if the child refuses. The items are kept until items_clear(). */
int asker_ask(struct asker *asker, float **answers, struct error *error);
void items_clear(struct asker *asker);

#endif
