/* SPDX-License-Identifier: MIT */
/* What an option that may be repeated was given. */
#ifndef TOOLS_BASE_STRING_LIST_H
#define TOOLS_BASE_STRING_LIST_H

#include <stddef.h>

enum { STRING_LIST_MAX = 256 };

struct string_list {
	size_t n;
	const char *items[STRING_LIST_MAX];
};

#endif
