/* SPDX-License-Identifier: MIT */
/* The library reads MXFP_ISA at its first call, so --isa is a change of the environment. */
#include "config.h"

#include "cli/isa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
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
	const char *names[32]; /* mxfp_isa_available() has a bit for each tier */
	size_t n = 0;

	if (limit.from == NULL)
		return EXIT_OK;
	for (; mxfp_isa_name((int)n) != NULL; n++) {
		names[n] = mxfp_isa_name((int)n);
		if (strcmp(limit.name, names[n]) == 0)
			return EXIT_OK;
	}
	return nearest_fail(limit.from, limit.name, "tiers", names, n, error);
}
