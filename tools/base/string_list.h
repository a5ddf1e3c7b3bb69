/* SPDX-License-Identifier: MIT */
/* The values of an option that may be repeated. */
#ifndef TOOLS_BASE_STRING_LIST_H
#define TOOLS_BASE_STRING_LIST_H

#include <stddef.h>

enum { STRING_LIST_MAX = 256 };

struct string_list {
	size_t n;
	const char *items[STRING_LIST_MAX];
};

#endif
