/* SPDX-License-Identifier: MIT */
/* The library reads MXFP_ISA at its first call, so --isa is a change of the environment. */
#include "config.h"

#include "isa.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/isa.h"

static const char variable[] = "MXFP_ISA";
static bool by_option;

int isa_set_limit(const char *name, struct error *error)
{
	by_option = true;
	return setenv(variable, name, 1) == 0 ? EXIT_OK : fail_memory(error);
}

struct isa_limit isa_limit(void)
{
	const char *name = getenv(variable);

	if (by_option)
		return (struct isa_limit){"--isa", name};
	if (name == NULL || *name == '\0')
		return (struct isa_limit){NULL, NULL};
	return (struct isa_limit){variable, name};
}

int isa_check_limit(struct error *error)
{
	const struct isa_limit limit = isa_limit();
	char known[256] = "";

	if (limit.from == NULL)
		return EXIT_OK;
	for (int i = 0; mxfp_isa_name(i) != NULL; i++) {
		size_t used = strlen(known);

		if (strcmp(limit.name, mxfp_isa_name(i)) == 0)
			return EXIT_OK;
		snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", mxfp_isa_name(i));
	}
	return fail(error, EXIT_USAGE, "%s: unknown tier '%s' / known: %s", limit.from, limit.name, known);
}
