/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/allow.h"

#include <string.h>

struct string_list allow_keys;

bool allowed_unknown(const char *key)
{
	for (size_t i = 0; i < allow_keys.n; i++)
		if (strcmp(allow_keys.items[i], key) == 0)
			return true;
	return false;
}
