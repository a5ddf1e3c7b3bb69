/* SPDX-License-Identifier: MIT */
/* The kinds of values of options on the command line and of keys in a recipe. */
#ifndef TOOLS_BASE_OPTION_KIND_H
#define TOOLS_BASE_OPTION_KIND_H

#include <stddef.h>

#include "mxfp/format.h"

enum option_kind {
	OPTION_FLAG,      /* bool: set to true */
	OPTION_STRING,    /* const char * */
	OPTION_LIST,      /* struct string_list: the option may be repeated */
	OPTION_UNSIGNED,  /* uint64_t, decimal or 0x... */
	OPTION_THREADS,   /* unsigned, 0: one per processor */
	OPTION_ELEMENT,   /* enum mxfp_format, an element format */
	OPTION_BLOCK,     /* enum mxfp_format, a block format */
	OPTION_ROUND,     /* int: a value of that enum of option.def */
	OPTION_OVERFLOW,
	OPTION_RULE,
	OPTION_RECIPE,
	OPTION_NON_FINITE,
	OPTION_ACC,
	OPTION_LAYOUT,    /* int: an index of layouts[] */
	OPTION_HEADING,   /* not an option: `help` is a heading for those that follow */
	OPTION_END
};

/* The values of an option that may be repeated. */
enum { STRING_LIST_MAX = 256 };

struct string_list {
	size_t n;
	const char *items[STRING_LIST_MAX];
};

/* Stands for "none" in place of a format, and of another choice. */
#define OPTION_FORMAT_NONE ((enum mxfp_format)-1)
#define OPTION_CHOICE_NONE (-1)

#endif
