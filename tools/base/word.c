/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/word.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"

/* Whether a terminal shows the word as it is. */
static bool is_shown(const char *word)
{
	char *copy = strdup(word);

	if (copy == NULL)
		return false;
	make_printable(copy);
	const bool shown = strcmp(copy, word) == 0;
	free(copy);
	return shown;
}

/* As bash, zsh and ksh read it. */
static void print_escaped(FILE *file, const char *word)
{
	fputs("$'", file);
	for (; *word != '\0'; word++)
		if (*word < ' ' || *word > '~')
			fprintf(file, "\\%03o", (unsigned char)*word);
		else
			fprintf(file, "%s%c", *word == '\'' || *word == '\\' ? "\\" : "", *word);
	putc('\'', file);
}

void word_print(FILE *file, const char *word)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./,:=+%@-";

	if (*word != '\0' && word[strspn(word, safe)] == '\0') {
		fputs(word, file);
		return;
	}
	if (!is_shown(word)) {
		print_escaped(file, word);
		return;
	}
	putc('\'', file);
	for (; *word != '\0'; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, file);
	putc('\'', file);
}

void word_print_path(FILE *file, const char *path)
{
	if (*path == '-')
		fputs("./", file);
	word_print(file, path);
}

void word_print_option(FILE *file, const char *option, const char *value)
{
	fprintf(file, " --%s%c", option, *value == '-' ? '=' : ' ');
	word_print(file, value);
}

const char *word_cut(const char *word, char text[WORD_CUT])
{
	static const char rest[] = "...";
	size_t n = WORD_CUT - sizeof rest;

	if (strlen(word) < WORD_CUT)
		return word;
	/* Not within a character of UTF-8. */
	while (n > 0 && ((unsigned char)word[n] & 0xC0) == 0x80)
		n--;
	memcpy(text, word, n);
	memcpy(text + n, rest, sizeof rest);
	return text;
}
