/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_WORD_H
#define TOOLS_BASE_WORD_H

#include <stdio.h>

/* Prints a word as a shell's command takes it: in quotes if it needs them, and as $'...' if it has bytes that are not to be shown. */
void word_print(FILE *file, const char *word);

/* The same of the path of a file, which a command does not take for an option. */
void word_print_path(FILE *file, const char *path);

/* " --OPTION VALUE", so that a value that begins with '-' is taken, too. */
void word_print_option(FILE *file, const char *option, const char *value);

/* A word of the command line for a message: what is too long for the rest of the line ends in "...". Returns `text`, or the word. */
enum { WORD_CUT = 128 };
const char *word_cut(const char *word, char text[WORD_CUT]);

#endif
