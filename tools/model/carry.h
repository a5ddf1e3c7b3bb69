/* SPDX-License-Identifier: MIT */
/*
 * Files of a model's directory that are no weights, such as the tokenizer's: they are carried into an output as
 * they are. Only regular files are: symbolic links, which could lead anywhere, directories, hidden files and weights
 * of other formats stay behind.
 */
#ifndef TOOLS_MODEL_CARRY_H
#define TOOLS_MODEL_CARRY_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/model.h"

struct carry_left {
	const char *name, *reason;
};

/* Both lists are in the order of strcmp(). */
struct carry {
	size_t n, n_left;
	const char **names;
	struct carry_left *left; /* what stays behind */
	struct arena arena;
};

/* Lists what to carry; nothing if the user named a single file. EXIT_IO, EXIT_MEMORY. carry_free() follows in every
   case. */
int carry_list(struct carry *carry, const struct model *model, struct error *error);

/* Copies the files into a directory, over what stands there under their names, and syncs them. EXIT_INPUT, EXIT_IO,
   signals. */
int carry_copy(const struct carry *carry, const char *source, const char *target, struct error *error);

/* The names, as JSON; NULL without memory. */
json_t *carry_facts(const struct carry *carry);

/* A line for what is carried and one for what is not; nothing if there is neither. */
void carry_print(const struct carry *carry, FILE *stream);

void carry_free(struct carry *carry);

#endif
