/* SPDX-License-Identifier: MIT */
/* Names and meanings of option values, from option.def. */
#include "mxfp/options.h"

#include <string.h>

struct row {
	enum mxfp_option option;
	int value;
	const char *name, *meaning;
};

static const struct row rows[] = {
#define MXFP_ROUND(id, value, name, meaning) {MXFP_OPTION_ROUND, value, name, meaning},
#define MXFP_OVERFLOW(id, value, name, meaning) {MXFP_OPTION_OVERFLOW, value, name, meaning},
#define MXFP_RULE(id, value, name, meaning) {MXFP_OPTION_RULE, value, name, meaning},
#define MXFP_RECIPE(id, value, name, meaning) {MXFP_OPTION_RECIPE, value, name, meaning},
#define MXFP_NON_FINITE(id, value, name, meaning) {MXFP_OPTION_NON_FINITE, value, name, meaning},
#define MXFP_ACC(id, value, name, meaning) {MXFP_OPTION_ACC, value, name, meaning},
#define MXFP_FUNCTION(id, value, name, meaning) {MXFP_OPTION_FUNCTION, value, name, meaning},
#include "option.def"
};

static const struct row *find(enum mxfp_option option, int value)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].option == option && rows[i].value == value)
			return &rows[i];
	return NULL;
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

enum mxfp_status mxfp_option_from_name(int *value, enum mxfp_option option, const char *name)
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
