/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/word.h"

#include <string.h>

void word_print(FILE *file, const char *word)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./,:=+%@-";

	if (*word != '\0' && word[strspn(word, safe)] == '\0') {
		fputs(word, file);
		return;
	}
	putc('\'', file);
	for (; *word != '\0'; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, file);
	putc('\'', file);
}
