/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int facts_print(FILE *stream, json_t *facts, struct error *error)
{
	if (facts == NULL)
		return fail_memory(error);
	int failed = json_dumpf(facts, stream, JSON_INDENT(2));
	json_decref(facts);
	if (failed && !ferror(stream))
		return fail_memory(error);
	fputc('\n', stream);
	return EXIT_OK;
}

json_t *facts_text(const char *text)
{
	json_t *string = json_string(text);

	if (string != NULL)
		return string;
	char *copy = strdup(text);
	if (copy == NULL)
		return NULL;
	for (unsigned char *c = (unsigned char *)copy; *c != '\0'; c++)
		if (*c >= 0x80)
			*c = '?';
	string = json_string(copy);
	free(copy);
	return string;
}
