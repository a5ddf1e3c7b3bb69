/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/suffix.h"

#include <string.h>

size_t suffix_stem(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && strcmp(name + n - m, suffix) == 0 ? n - m : 0;
}
