/* SPDX-License-Identifier: MIT */
/* --help of a sub-command: synopsis, text, options with their defaults, the values of each choice, an example. */
#include "cli/help.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/color.h"
#include "model/choices.h"

enum { WIDTH = 80, OPTION_COLUMN = 28, MEANING_COLUMN = 22 };

/* Prints words from column `column` on, starting lines at `indent` and breaking them before WIDTH. */
static void print_wrapped(const char *text, int column, int indent)
{
	while (*text != '\0') {
		int length = (int)strcspn(text, " ");
		if (column > indent && column + 1 + length > WIDTH) {
			printf("\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", length, text);
		column += length;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static bool has_default(const struct option_spec *option)
{
	switch (option->kind) {
	case OPTION_FLAG:
	case OPTION_LIST:
	case OPTION_HEADING:
	case OPTION_END:
		return false;
	case OPTION_STRING:
		return *(const char *const *)option->value != NULL;
	case OPTION_UNSIGNED:
		return *(const uint64_t *)option->value != OPTION_UNSIGNED_NONE;
	case OPTION_ELEMENT:
	case OPTION_BLOCK:
		return *(const enum mxfp_format *)option->value != OPTION_FORMAT_NONE;
	case OPTION_OVERFLOW:
	case OPTION_ACC:
		return *(const int *)option->value != OPTION_CHOICE_NONE;
	case OPTION_THREADS:
	case OPTION_ROUND:
	case OPTION_RULE:
	case OPTION_RECIPE:
	case OPTION_NON_FINITE:
	case OPTION_LAYOUT:
		return true;
	}
	return false;
}

/* Appends " [default: VALUE]". */
static void append_default(char *text, size_t size, const struct option_spec *option)
{
	size_t used = strlen(text);

	if (!has_default(option))
		return;
	if (option->kind == OPTION_STRING)
		snprintf(text + used, size - used, " [default: %s]", *(const char *const *)option->value);
	else if (option->kind == OPTION_UNSIGNED)
		snprintf(text + used, size - used, " [default: %" PRIu64 "]", *(const uint64_t *)option->value);
	else if (option->kind == OPTION_THREADS)
		snprintf(text + used, size - used, " [default: %u]", *(const unsigned *)option->value);
	else if (option->kind == OPTION_ELEMENT || option->kind == OPTION_BLOCK)
		snprintf(text + used, size - used, " [default: %s]",
		         mxfp_format_get_info(*(const enum mxfp_format *)option->value)->name);
	else
		snprintf(text + used, size - used, " [default: %s]",
		         choice_name(option->kind, *(const int *)option->value));
}

static void print_option(const struct option_spec *option)
{
	char head[64], text[1024];
	int column;

	if (option->letter != 0)
		snprintf(head, sizeof head, "  -%c, --%s", option->letter, option->name);
	else
		snprintf(head, sizeof head, "      --%s", option->name);
	column = printf("%s%s%s", head, option->argument != NULL ? " " : "",
	                option->argument != NULL ? option->argument : "");
	if (column > OPTION_COLUMN - 2) {
		putchar('\n');
		column = 0;
	}
	printf("%*s", OPTION_COLUMN - column, "");
	snprintf(text, sizeof text, "%s", option->help);
	append_default(text, sizeof text, option);
	print_wrapped(text, OPTION_COLUMN, OPTION_COLUMN);
}

static void print_heading(const char *text)
{
	printf("\n%s%s:%s\n", color_begin(stdout, COLOR_HEADING), text, color_end(stdout));
}

/* Prints the values of one kind: names with meanings one per line, bare names as one paragraph. */
static void print_choices(enum option_kind kind)
{
	struct choice choice;
	char names[512] = "", title[64];
	size_t used = 0;

	snprintf(title, sizeof title, "%s", choice_title(kind));
	title[0] = (char)toupper((unsigned char)title[0]);
	print_heading(title);
	for (int i = 0; choice_at(kind, i, &choice); i++) {
		if (choice.meaning != NULL) {
			printf("  %-*s", MEANING_COLUMN - 2, choice.name);
			print_wrapped(choice.meaning, MEANING_COLUMN, MEANING_COLUMN);
		} else if (used < sizeof names) {
			used += (size_t)snprintf(names + used, sizeof names - used, "%s ", choice.name);
		}
	}
	if (used != 0) {
		printf("  ");
		print_wrapped(names, 2, 2);
	}
}

static bool lists_values(const struct option_spec *option)
{
	char text[CHOICE_WORDS_TEXT];
	const char *names[CHOICES_MAX];

	return choice_words(option->argument, text, names) != 0;
}

void help_print(const struct option_spec *options, const struct usage *usage)
{
	static const struct option_spec help = {"help", 'h', OPTION_FLAG, NULL, "print this text", NULL};

	printf("Usage: mxfp %s\n\n%s\n", usage->synopsis, usage->text);
	if (options->kind != OPTION_HEADING)
		print_heading("Options");
	for (const struct option_spec *option = options; option->kind != OPTION_END; option++)
		if (option->kind == OPTION_HEADING)
			print_heading(option->help);
		else
			print_option(option);
	print_option(&help);
	for (int kind = 0; kind < OPTION_END; kind++) {
		const struct option_spec *option = options;
		while (option->kind != OPTION_END && (option->kind != (enum option_kind)kind || lists_values(option)))
			option++;
		if (option->kind != OPTION_END && choice_title(option->kind) != NULL)
			print_choices(option->kind);
	}
	print_heading("Example");
	puts(usage->example);
}
