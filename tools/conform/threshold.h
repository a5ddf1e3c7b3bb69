/* SPDX-License-Identifier: MIT */
/* Where scale rules decide: doc/numerics.md, section 3. */
#ifndef TOOLS_CONFORM_THRESHOLD_H
#define TOOLS_CONFORM_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "mxfp/format.h"
#include "mxfp/options.h"

/* The significand, without its hidden bit, of amax's 23 bits at which a rule begins to give one more than for a power of two. */
struct threshold {
	uint32_t significand;
	bool is_exact;   /* it is the value that the rule compares with; else that lies below, and is no number */
	bool is_reached; /* it has one more; else what is above has */
};

/* False: a rule decides at powers of two alone, or not by amax. */
bool threshold_of(struct threshold *t, const struct mxfp_format_info *element, enum mxfp_rule rule);

/* The significand of a number above 0, subnormals included, without its hidden bit. */
uint32_t threshold_significand(uint32_t amax);

#endif
