/* SPDX-License-Identifier: MIT */
/* mxfp lint --fix: what is decided about each finding by the table lint_fix.def, and the fixed model. */
#ifndef TOOLS_ANALYSE_LINT_FIX_H
#define TOOLS_ANALYSE_LINT_FIX_H

#include "analyse/lint.h"
#include "analyse/lint_mend.h"
#include "model/carry.h"

struct lint_fix {
	struct lint_mender mender;
	struct mending mending;
	struct carry carry;
	bool written;
	size_t n_found; /* errors and warnings of the output */
	bool unchecked; /* as lint_unchecked() of that */
};

/* Starts; lint_fix_free() follows in every case. Refuses an output that could not be written in the end. EXIT_USAGE, EXIT_IO,
   EXIT_MEMORY. */
int lint_fix_begin(struct lint_fix *fix, const struct lint_settings *settings, const struct model *model, struct error *error);

/* Writes the fixed model, if anything is fixed, and looks at it as lint does before it appears. EXIT_USAGE, EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY, signals. */
int lint_fix_write(struct lint_fix *fix, const struct lint *lint, struct error *error);

/* Facts for the summary; prints lines about what was written. */
json_t *lint_fix_facts(const struct lint_fix *fix, const struct lint_settings *settings);
void lint_fix_print(const struct lint_fix *fix, const struct lint_settings *settings);

void lint_fix_free(struct lint_fix *fix);

#endif
