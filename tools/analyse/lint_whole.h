/* SPDX-License-Identifier: MIT */
/* What is missing of a model, by names of unquantized weights: what its family needs, and what other layers have. */
#ifndef TOOLS_ANALYSE_LINT_WHOLE_H
#define TOOLS_ANALYSE_LINT_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/lint.h"
#include "base/arena.h"

enum { LINT_LAYERS_MAX = 1 << 12 };

/* Something that is not there. */
struct lint_missing {
	const char *in;   /* the layer, "model.layers.3", or what the layers are in, "model.layers"; "": the model */
	const char *name;
	bool layer;       /* it is a layer, of which nothing is there */
	size_t others;    /* so many other layers have it; 0: its family needs it */
};

struct lint_whole {
	struct lint *lint;
	const char *type;      /* model_type, or general.architecture; NULL: none is known */
	bool gguf, alike;      /* alike: all layers of the family have the same */
	uint64_t layers;       /* by the configuration; 0: it does not say */
	uint64_t experts;
	const char **names;    /* of all tensors as they were unquantized, sorted, each once */
	size_t n_names;
	struct lint_missing *missing;
	size_t n_missing, capacity;
	struct arena arena;
};

/* A layer's tensor: "model.layers." with `prefix` characters, the number, and the rest of the name. */
struct lint_member {
	const char *name;
	size_t prefix;
	uint64_t number;
	const char *rest;
};

/* Splits a name at the first number that counts layers; false if it has none. */
bool lint_member_of(struct lint_member *member, const char *name);

/* Sets the names; lint_whole_free() follows in any case. EXIT_MEMORY. */
int lint_whole_set_names(struct lint_whole *whole, struct error *error);
void lint_whole_free(struct lint_whole *whole);

bool lint_whole_has(const struct lint_whole *whole, const char *name);

/* Whether a name starts so. */
bool lint_whole_starts(const struct lint_whole *whole, const char *start);

/* Whether a name that starts so has one of the parts, separated by |, behind that. */
bool lint_whole_has_part(const struct lint_whole *whole, const char *start, const char *parts);

/* Whether `words`, with a blank before and after each, has the type of the model. */
bool lint_whole_is(const struct lint_whole *whole, const char *words);

/* Notes what is missing: `in` of so many characters of `name`. EXIT_MEMORY. */
int lint_whole_miss(struct lint_whole *whole, const char *name, size_t in, bool layer, size_t others, struct error *error);

/* Tells of what is missing. EXIT_MEMORY. */
int lint_whole_tell(struct lint_whole *whole, struct error *error);

/* Compares layers with each other, and experts. EXIT_MEMORY. */
int lint_layers(struct lint_whole *whole, struct error *error);

/* Finds names that no loader knows; *found: all names are such, so that no other is missing. EXIT_MEMORY. */
int lint_prefixes(struct lint_whole *whole, bool *found, struct error *error);

#endif
