/* SPDX-License-Identifier: MIT */
/*
 * The caller's choices as enums made from option.def, their names, and the counts that conversions report. In each enum
 * the value 0 is the default.
 */
#ifndef MXFP_OPTIONS_H
#define MXFP_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MXFP_ROUND_RNE, ...: how one number is rounded (doc/numerics.md, section 2). */
enum mxfp_round {
#define MXFP_ROUND(id, value, name, meaning) MXFP_ROUND_##id = (value),
#include "option.def"
};

/* MXFP_OVERFLOW_SAT, ...: what becomes of values past the largest finite one. bf16, f16, tf32 and f32 always
   overflow; a format with neither Inf nor NaN always saturates. */
enum mxfp_overflow {
#define MXFP_OVERFLOW(id, value, name, meaning) MXFP_OVERFLOW_##id = (value),
#include "option.def"
};

/* MXFP_RULE_MSE, ...: how an MX block's E8M0 scale follows from its elements (section 3). */
enum mxfp_rule {
#define MXFP_RULE(id, value, name, meaning) MXFP_RULE_##id = (value),
#include "option.def"
};

/* MXFP_RECIPE_TE, ...: whose arithmetic makes NVFP4's scales (section 4). */
enum mxfp_recipe {
#define MXFP_RECIPE(id, value, name, meaning) MXFP_RECIPE_##id = (value),
#include "option.def"
};

/* MXFP_NON_FINITE_PROPAGATE, ...: what a block with a NaN or Inf becomes. */
enum mxfp_non_finite {
#define MXFP_NON_FINITE(id, value, name, meaning) MXFP_NON_FINITE_##id = (value),
#include "option.def"
};

/* MXFP_ACC_EXACT, ...: how the products of a block of K are summed (section 5). */
enum mxfp_acc {
#define MXFP_ACC(id, value, name, meaning) MXFP_ACC_##id = (value),
#include "option.def"
};

/* MXFP_FUNCTION_IDENTITY, ...: a function of one number (section 8). */
enum mxfp_function {
#define MXFP_FUNCTION(id, value, name, meaning) MXFP_FUNCTION_##id = (value),
#include "option.def"
};

/* Names the enums above for the functions below. */
enum mxfp_option {
	MXFP_OPTION_ROUND,
	MXFP_OPTION_OVERFLOW,
	MXFP_OPTION_RULE,
	MXFP_OPTION_RECIPE,
	MXFP_OPTION_NON_FINITE,
	MXFP_OPTION_ACC,
	MXFP_OPTION_FUNCTION
};

/* Returns the name of a value of an option, as the command spells it ("rceil"), or NULL if there is no such value.
   Values are dense from 0, so a loop until NULL visits them all. */
MXFP_API const char *mxfp_option_name(enum mxfp_option option, int value);

/* Returns the meaning of a value in one English phrase, or NULL if there is no such value. */
MXFP_API const char *mxfp_option_meaning(enum mxfp_option option, int value);

/* Finds a value by name (exact, lower case). MXFP_ERR_NULL; MXFP_ERR_OPTION: no value has that name, and *value is
   unchanged. */
MXFP_API enum mxfp_status mxfp_option_from_name(enum mxfp_option option, const char *name, int *value);

/* What happened to the elements of a call. A call adds to the counts, so the caller zeroes them first. In a block that
   became NaN as a whole, only nan, inf and what via_bf16 made Inf are counted. */
struct mxfp_counts {
	size_t size;         /* sizeof(struct mxfp_counts), or 0 (mxfp.h) */
	uint64_t saturated;  /* became +-max: finite numbers past max after rounding, and Inf; in blocks, an Inf that policy
	                        saturate replaces counts as such a finite number */
	uint64_t overflowed; /* finite numbers that became Inf or NaN: MXFP_OVERFLOW_OVF, via_bf16, a negative in a format
	                        without sign */
	uint64_t flushed;    /* nonzero numbers that became zero */
	uint64_t nan;        /* NaN in the source */
	uint64_t inf;        /* Inf in the source */
};

#ifdef __cplusplus
}
#endif
#endif
