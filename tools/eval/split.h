/* SPDX-License-Identifier: MIT */
/* Cutting a text where a regular expression matches, as pre-tokenizers of Hugging Face's tokenizers do. */
#ifndef TOOLS_EVAL_SPLIT_H
#define TOOLS_EVAL_SPLIT_H

#include <stdbool.h>

#include "eval/pieces.h"

/* What becomes of matches. */
enum split_behavior {
	SPLIT_REMOVED,              /* they vanish */
	SPLIT_ISOLATED,             /* each is a piece, as is what lies between */
	SPLIT_MERGED_WITH_PREVIOUS, /* each ends the piece before it */
	SPLIT_MERGED_WITH_NEXT,     /* each begins the piece behind it */
	SPLIT_CONTIGUOUS,           /* those in a row are one piece */
	N_SPLIT_BEHAVIORS
};

/* Zeroed: nothing to free. */
struct split {
	struct pcre2_real_code_8 *regex;
	struct pcre2_real_match_data_8 *match;
	struct pcre2_real_match_context_8 *limits;
	enum split_behavior behavior;
	bool invert; /* what does not match counts as matching */
};

/* Compiles an expression, or, with `literal`, a text. `path` and `where` are for errors. EXIT_INPUT, EXIT_MEMORY. */
int split_compile(struct split *split, const char *pattern, bool literal, const char *path, const char *where,
                  struct error *error);

/* Appends the pieces of a text, valid UTF-8. EXIT_INPUT if matching takes too many steps; EXIT_MEMORY. */
int split_apply(const struct split *split, const char *text, size_t n, struct pieces *out, const char *path,
                struct error *error);

void split_free(struct split *split);

#endif
