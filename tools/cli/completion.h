/* SPDX-License-Identifier: MIT */
/* Shell completion: candidates for the last word of a command line, from the option tables. */
#ifndef TOOLS_CLI_COMPLETION_H
#define TOOLS_CLI_COMPLETION_H

#include <stddef.h>

/*
 * Prints what may stand for words[n - 1], the words before it being those behind "mxfp", one to a line:
 * "WORD<TAB>MEANING", ":files<TAB>SUFFIX" for the files with that ending, which is "" for all files and "/" for
 * directories. Whatever the words are, there may be nothing to offer, and that is no error.
 */
void completion_print(const char *const *words, size_t n);

#endif
