/* SPDX-License-Identifier: MIT */
/* Sequences of token ids, and files of them: JSON, NumPy arrays, raw numbers. */
#ifndef TOOLS_EVAL_TOKEN_FILE_H
#define TOOLS_EVAL_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Zeroed: none. */
struct token_sequences {
	size_t n;
	size_t *starts;             /* n + 1; sequence i is ids[starts[i]] to ids[starts[i + 1] - 1]; may be NULL if n is 0 */
	uint32_t *ids;
	size_t n_ids;               /* of all sequences, and of one that is being made behind them */
	size_t ids_room, starts_room;
};

/*
 * Reads a file, by its name:
 *
 *   .json        a list of ids, a list of such lists, or an object whose member seqs, tokens or input_ids is one
 *   .npy         u16, u32, i32 or i64; one dimension is one sequence, two are one a row
 *   .u16, .bin   u16, little-endian: one sequence
 *   .u32         u32, little-endian: one sequence
 *
 * An id of `vocabulary` or more is refused, naming sequence and place, counted from 0; so are a file without ids, and
 * one of more than 2^31. EXIT_INPUT, EXIT_IO, EXIT_MEMORY.
 */
int tokens_read(struct token_sequences *tokens, const char *path, uint64_t vocabulary, struct error *error);

/* Whether that is the name of such a file. */
bool tokens_is_file(const char *path);

/* Adds an id behind the sequences; tokens_end() makes those added since the last one a sequence. EXIT_MEMORY. */
int tokens_add(struct token_sequences *tokens, uint32_t id, struct error *error);
int tokens_end(struct token_sequences *tokens, struct error *error);

/* Cuts each sequence into windows of `context` > 0 tokens, the last one of what is left. EXIT_MEMORY. */
int tokens_cut(struct token_sequences *tokens, size_t context, struct error *error);

void tokens_free(struct token_sequences *tokens);

#endif
