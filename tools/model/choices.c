/* SPDX-License-Identifier: MIT */
/* Named choices of the command line, looked up in the library's tables and that of layouts. */
#include "config.h"

#include "model/choices.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "model/layout.h"

/* Each kind of option that is a choice: where its values come from. Other kinds have no title. */
static const struct {
	const char *title;
	bool is_format;
	enum mxfp_option option; /* unless is_format */
} kinds[OPTION_END + 1] = {
	[OPTION_ELEMENT] = {"element formats", true, 0},
	[OPTION_BLOCK] = {"block formats", true, 0},
	[OPTION_ROUND] = {"rounding modes", false, MXFP_OPTION_ROUND},
	[OPTION_OVERFLOW] = {"overflow modes", false, MXFP_OPTION_OVERFLOW},
	[OPTION_RULE] = {"scale rules", false, MXFP_OPTION_RULE},
	[OPTION_RECIPE] = {"NVFP4 recipes", false, MXFP_OPTION_RECIPE},
	[OPTION_NON_FINITE] = {"non-finite policies", false, MXFP_OPTION_NON_FINITE},
	[OPTION_ACC] = {"sums of products", false, MXFP_OPTION_ACC},
	[OPTION_LAYOUT] = {"layouts", false, 0},
};

const char *choice_title(enum option_kind kind)
{
	return kinds[kind].title;
}

static bool is_of_kind(enum option_kind kind, enum mxfp_format format)
{
	return (mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK) == (kind == OPTION_BLOCK);
}

static bool format_at(enum option_kind kind, int i, struct choice *choice)
{
	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL; f++)
		if (is_of_kind(kind, (enum mxfp_format)f) && i-- == 0) {
			*choice = (struct choice){mxfp_format_get_info((enum mxfp_format)f)->name, NULL, f};
			return true;
		}
	return false;
}

bool choice_at(enum option_kind kind, int i, struct choice *choice)
{
	if (kinds[kind].title == NULL)
		return false;
	if (kinds[kind].is_format)
		return format_at(kind, i, choice);
	if (kind == OPTION_LAYOUT) {
		if (layouts[i] != NULL)
			*choice = (struct choice){layouts[i]->name, layouts[i]->meaning, i};
		return layouts[i] != NULL;
	}
	*choice = (struct choice){mxfp_option_name(kinds[kind].option, i),
	                          mxfp_option_meaning(kinds[kind].option, i), i};
	return choice->name != NULL;
}

bool choice_find(enum option_kind kind, const char *name, int *value)
{
	enum mxfp_format format;

	if (kind == OPTION_LAYOUT) {
		for (*value = 0; layouts[*value] != NULL; ++*value)
			if (strcmp(layouts[*value]->name, name) == 0)
				return true;
		return false;
	}
	if (!kinds[kind].is_format)
		return mxfp_option_from_name(value, kinds[kind].option, name) == MXFP_OK;
	if (mxfp_format_from_name(&format, name) != MXFP_OK || !is_of_kind(kind, format))
		return false;
	*value = (int)format;
	return true;
}

const char *choice_name(enum option_kind kind, int value)
{
	struct choice choice;

	for (int i = 0; choice_at(kind, i, &choice); i++)
		if (choice.value == value)
			return choice.name;
	return NULL;
}

/* The format of the kind that a format of the other kind is about: the first one with such elements, or the elements; NULL: none. */
static const char *related(enum option_kind kind, enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	struct choice choice;

	if (kind == OPTION_ELEMENT)
		return mxfp_format_get_info(info->element)->name;
	for (int i = 0; format_at(kind, i, &choice); i++)
		if (mxfp_format_get_info((enum mxfp_format)choice.value)->element == format)
			return choice.name;
	return NULL;
}

int choice_fail(enum option_kind kind, const char *where, const char *name, struct error *error)
{
	const char *names[CHOICES_MAX];
	struct choice choice;
	enum mxfp_format format;
	size_t n = 0;

	if (kinds[kind].is_format && mxfp_format_from_name(&format, name) == MXFP_OK) {
		const char *meant = related(kind, format);

		return fail(error, EXIT_USAGE, meant != NULL ? "%s: '%s' is not %s format: did you mean '%s'?" : "%s: '%s' is not %s format",
		            where, name, kind == OPTION_BLOCK ? "a block" : "an element", meant);
	}
	for (int i = 0; n < CHOICES_MAX && choice_at(kind, i, &choice); i++)
		names[n++] = choice.name;
	return nearest_fail(where, name, kinds[kind].title, names, n, error);
}

size_t choice_words(const char *argument, char text[CHOICE_WORDS_TEXT], const char *names[CHOICES_MAX])
{
	char *rest = NULL;
	size_t n = 0;

	if (argument == NULL || !(islower((unsigned char)argument[0]) || isdigit((unsigned char)argument[0])))
		return 0;
	snprintf(text, CHOICE_WORDS_TEXT, "%s", argument);
	for (char *word = strtok_r(text, "|", &rest); word != NULL && n < CHOICES_MAX; word = strtok_r(NULL, "|", &rest))
		names[n++] = word;
	return n;
}
