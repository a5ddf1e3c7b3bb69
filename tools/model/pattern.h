/* SPDX-License-Identifier: MIT */
/*
 * Patterns on whole names of tensors: globs ("*.q_proj.weight"), and after "re:" regular expressions, which match where
 * Python's re.match() does: from the first character on, not necessarily to the last. An expression that would try too
 * long is an error.
 */
#ifndef TOOLS_MODEL_PATTERN_H
#define TOOLS_MODEL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/model.h"

struct pattern {
	const char *text;
	struct pcre2_real_code_8 *regex; /* NULL: a glob */
};

/* All zero: none. */
struct patterns {
	size_t n, n_names;
	struct pattern *items; /* as they were given */
	const char **names;    /* those that match nothing but themselves, sorted: there may be as many as tensors */
	struct pcre2_real_match_data_8 *match;
	struct pcre2_real_match_context_8 *limits;
};

/* Compiles patterns, whose texts stay where they are; patterns_free() follows in any case. `where` ("--ignore") is for
   errors. EXIT_USAGE, EXIT_MEMORY. */
int patterns_compile(struct patterns *patterns, const char *const *texts, size_t n, const char *where,
                     struct error *error);

/* Whether one of them matches; names of a model that patterns_check() accepts cannot fail. */
bool patterns_match(const struct patterns *patterns, const char *name);

/* Checks that every pattern matches some tensor of the model, and none tries too long. EXIT_USAGE, naming the nearest
   tensor. */
int patterns_check(const struct patterns *patterns, const char *where, const struct model *model, struct error *error);

void patterns_free(struct patterns *patterns);

#endif
