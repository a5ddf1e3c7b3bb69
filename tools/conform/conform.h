/* SPDX-License-Identifier: MIT */
/* mxfp conform: a program's answers beside the contract's, and beside what others do. */
#ifndef TOOLS_CONFORM_CONFORM_H
#define TOOLS_CONFORM_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/option_kind.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

enum op {
#define OPERATION(id, symbol, name) OP_##id,
#include "conform/operation.def"
	N_OPERATIONS
};

enum quirk {
#define QUIRK(id, operations, meaning) QUIRK_##id,
#include "conform/quirk.def"
	N_QUIRKS
};

/* How results are made: a choice of each option that the operation has, -1 for others, and quirks, which the contract has
   none of. */
enum { N_CHOICES = MXFP_OPTION_FUNCTION + 1 };

struct way {
	int choice[N_CHOICES];
	uint64_t quirks[(N_QUIRKS + 63) / 64];
	bool has_scale; /* blocks have this scale byte, whatever their numbers */
	uint8_t scale;
};

static inline bool has_quirk(const struct way *way, enum quirk quirk)
{
	return way->quirks[quirk / 64] >> quirk % 64 & 1;
}

enum { PARTS_MAX = 4 };

/* One question: an operation with its options, asked about any number of items. An item is the least that has a result of its
   own: a number, a block, a product. Its bytes are parts that follow each other; a request has all first parts, then all
   second ones. */
struct question {
	enum op op;
	char label[96];           /* "cast e4m3 rne sat" */
	char keys[160];           /* those of the request */
	enum mxfp_format format, other; /* of codes; of W */
	struct way way;           /* the contract's */
	size_t cols, pass, n_keep; /* numbers of an item; of a pass; what is kept of cols */
	uint32_t parameter;       /* binary32: a tensor's largest magnitude or scale */
	uint64_t seed, stream;
	const char *row;          /* the row operation */
	size_t in[PARTS_MAX], out[PARTS_MAX], in_word[PARTS_MAX], out_word[PARTS_MAX], in_bytes, out_bytes;
};

/* Items to ask about, and random bits for more. */
struct items {
	uint8_t *bytes;
	size_t n, capacity, item_bytes;
	size_t most; /* 0: as many as are added */
	uint64_t random;
	bool quick, out_of_memory;
};

void items_add(struct items *items, const void *item);
bool items_full(const struct items *items); /* no more are added */
uint64_t items_random(struct items *items);

struct operation {
	/* Describes question i of n_questions; false: it makes no sense. */
	bool (*question)(struct question *q, size_t i);
	size_t n_questions;
	/* Adds what to ask: every edge, then random ones. */
	void (*items)(const struct question *q, struct items *items);
	/* Computes n results in a way. Item i has the index indices[i]. */
	void (*answer)(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n, uint8_t *out);
	/* The class of an item: a string constant. */
	const char *(*class_of)(const struct question *q, const uint8_t *in, const uint8_t *expected);
	/* Whether a result is the expected one; NULL: byte for byte. */
	bool (*same)(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got);
};

extern const struct operation *const operations[N_OPERATIONS];

/* The name of an operation. */
const char *op_name(enum op op);

/* For question(): a key of the request, which the label shows too; parts of an item and of a result, of so many bytes in words
   of so many. */
void question_begin(struct question *q, enum op op);
void question_key(struct question *q, const char *key, const char *value);
void question_number(struct question *q, const char *key, uint64_t value);
void question_bits(struct question *q, const char *key, uint32_t bits); /* of binary32, as a number */
void question_choice(struct question *q, const char *key, enum mxfp_option option, int value);
void question_in(struct question *q, size_t bytes, size_t word);
void question_out(struct question *q, size_t bytes, size_t word);

struct child;

/* Asks about the items from first to n - 1. The answers to all follow each other in `got`, or child->unsupported is set. */
int question_ask(struct child *child, const struct question *q, const uint8_t *items, size_t first, size_t n, uint8_t *got,
                 struct error *error);

struct conform_options {
	const char *command, *profile;
	const struct string_list *only;
	bool quick, json, probe;
	uint64_t seed, timeout, products; /* the last: of a dot product that is probed */
};

/* Asks the program, prints, and returns EXIT_CHECK if anything differs. */
int conform_run(const struct conform_options *options, struct error *error);

#endif
