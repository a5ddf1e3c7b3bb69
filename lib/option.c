/* SPDX-License-Identifier: MIT */
/* Names and meanings of option values, from option.def. */
#include "mxfp/options.h"

#include <string.h>

struct row {
	const char *name, *meaning;
};

static const struct row rounds[] = {
#define MXFP_ROUND(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};
static const struct row overflows[] = {
#define MXFP_OVERFLOW(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};
static const struct row rules[] = {
#define MXFP_RULE(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};
static const struct row recipes[] = {
#define MXFP_RECIPE(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};
static const struct row non_finites[] = {
#define MXFP_NON_FINITE(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};
static const struct row accs[] = {
#define MXFP_ACC(id, value, name, meaning) [value] = {name, meaning},
#include "option.def"
	{NULL, NULL},
};

static const struct row *const tables[] = {
	[MXFP_OPTION_ROUND] = rounds,     [MXFP_OPTION_OVERFLOW] = overflows,       [MXFP_OPTION_RULE] = rules,
	[MXFP_OPTION_RECIPE] = recipes,   [MXFP_OPTION_NON_FINITE] = non_finites, [MXFP_OPTION_ACC] = accs,
};

/* The row of a value, or NULL. The walk stops at the terminating row, so any int is safe. */
static const struct row *find(enum mxfp_option option, int value)
{
	if ((unsigned)option >= sizeof tables / sizeof tables[0] || value < 0)
		return NULL;
	const struct row *row = tables[option];
	while (row->name != NULL && value > 0) {
		row++;
		value--;
	}
	return row->name != NULL ? row : NULL;
}

const char *mxfp_option_name(enum mxfp_option option, int value)
{
	const struct row *row = find(option, value);

	return row != NULL ? row->name : NULL;
}

const char *mxfp_option_meaning(enum mxfp_option option, int value)
{
	const struct row *row = find(option, value);

	return row != NULL ? row->meaning : NULL;
}

enum mxfp_status mxfp_option_from_name(enum mxfp_option option, const char *name, int *value)
{
	const struct row *row;

	if (name == NULL || value == NULL)
		return MXFP_ERR_NULL;
	for (int i = 0; (row = find(option, i)) != NULL; i++)
		if (strcmp(row->name, name) == 0) {
			*value = i;
			return MXFP_OK;
		}
	return MXFP_ERR_OPTION;
}
