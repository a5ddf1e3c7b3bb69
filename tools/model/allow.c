/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/allow.h"

#include <string.h>

#include "base/word.h"

struct string_list allow_keys;

void allow_print(FILE *file)
{
	for (size_t i = 0; i < allow_keys.n; i++)
		word_print_option(file, "allow-unknown", allow_keys.items[i]);
}

bool allowed_unknown(const char *key)
{
	for (size_t i = 0; i < allow_keys.n; i++)
		if (strcmp(allow_keys.items[i], key) == 0)
			return true;
	return false;
}

bool allowed_unknown_under(const char *name)
{
	for (size_t i = 0; i < allow_keys.n; i++) {
		const size_t n = strlen(allow_keys.items[i]);

		if (strncmp(name, allow_keys.items[i], n) == 0 && (name[n] == '\0' || name[n] == '.'))
			return true;
	}
	return false;
}
