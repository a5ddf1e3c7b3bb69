/* SPDX-License-Identifier: MIT */
/* model.merges of a tokenizer.json: pairs of tokens, each a list of two, or as older files have them a text with a space
   between the two. */
#ifndef TOOLS_EVAL_HF_MERGES_H
#define TOOLS_EVAL_HF_MERGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/json.h"

/* Takes a pair; the left one has no NUL at its end. */
typedef int hf_merge_taker(void *context, const char *left, size_t n_left, const char *right, struct error *error);

struct hf_merges {
	const char *path; /* of the file */
	hf_merge_taker *take;
	void *context;
	uint32_t n;       /* taken so far */
};

/* An element, for json_take_array(); `merges` is a struct hf_merges. EXIT_INPUT: it is no pair. */
int hf_merges_take(struct json_text *text, void *merges, struct error *error);

/* The same without a look at it. */
int hf_merges_skip(struct json_text *text, void *unused, struct error *error);

#endif
