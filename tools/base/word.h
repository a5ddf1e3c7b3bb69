/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_BASE_WORD_H
#define TOOLS_BASE_WORD_H

#include <stdio.h>

/* Prints a word as a shell's command takes it: in quotes if it needs them. */
void word_print(FILE *file, const char *word);

#endif
