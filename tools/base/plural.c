/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/plural.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *one, *several;
} verbs[] = {
	{"is", "are"}, {"has", "have"}, {"stands", "stand"}, {"multiplies", "multiply"},
};

const char *plural_verb(const char **text, size_t n)
{
	if (strncmp(*text, "it ", 3) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
		const size_t length = strlen(verbs[i].one);

		if (strncmp(*text + 3, verbs[i].one, length) != 0 || (*text)[3 + length] != ' ')
			continue;
		*text += 3 + length + 1;
		return n == 1 ? verbs[i].one : verbs[i].several;
	}
	return NULL;
}

void plural_others(char *text, size_t size, size_t n)
{
	if (n == 1)
		text[0] = '\0';
	else
		snprintf(text, size, " and %zu other%s", n - 1, n == 2 ? "" : "s");
}
