/* SPDX-License-Identifier: MIT */
/*
 * Files of a model's directory other than weights, such as the tokenizer's, are carried into an output unchanged, also
 * those of directories in it, such as 1_Pooling of sentence-transformers, unless they are large. Only regular files are,
 * also by symbolic links that member_open() follows: other links, hidden files, weights that are not the model's,
 * adapters, and directories that mxfp wrote stay behind.
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
	size_t superseded;       /* tensors that the index takes from another file */
	const char *first;       /* of them; NULL: none */
	struct arena arena;
};

/* Lists what to carry, by names such as "a" or "a/b"; nothing if the user named a single file. EXIT_IO, EXIT_MEMORY. carry_free() follows in every
   case. */
int carry_list(struct carry *carry, const struct model *model, struct error *error);

/* Copies the files into a directory, over what stands there under their names, and syncs them. EXIT_INPUT, EXIT_IO,
   signals. */
int carry_copy(const struct carry *carry, const char *source, const char *target, struct error *error);

/* The names, as JSON; NULL without memory. */
json_t *carry_facts(const struct carry *carry);

/* The names of what stays behind. As carry_facts(). */
json_t *carry_left_facts(const struct carry *carry);

/* Adds the names to a run's fingerprint: other files make another output. */
void carry_fingerprint(const struct carry *carry, json_t *fingerprint);

/* The names as the value of METADATA_CARRIED, from the arena; NULL without memory. */
const char *carry_text(struct carry *carry);

/* A line for which adapters, and one for which other weights, stand beside a model and are no part of it, unless there are
   none: --quiet does not hide them, for a result that somebody takes for that of all of them is wrong. */
void carry_losses(const struct carry *carry, FILE *stream);

/* A line for what is carried, one for what is not, those of carry_losses(), and one for superseded tensors; nothing for what
   there is not. */
void carry_print(const struct carry *carry, FILE *stream);

/* carry_losses() for a command that copies nothing. EXIT_MEMORY. */
int carry_warn(const struct model *model, FILE *stream, struct error *error);

void carry_free(struct carry *carry);

#endif
