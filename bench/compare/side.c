/* SPDX-License-Identifier: MIT */
/* The rows and tiers of one commit, as one object. SPEED_GROUPS lists the groups that were compiled: GROUP(products) ... */
#include "rows.h"

#include <stdio.h>

#include "mxfp.h"

#define GROUP(name) extern const struct speed_group speed_##name;
SPEED_GROUPS
#undef GROUP

static const struct speed_group *const groups[] = {
#define GROUP(name) &speed_##name,
	SPEED_GROUPS
#undef GROUP
};

enum { N_GROUPS = sizeof groups / sizeof groups[0] };

/* Finds the group of row *i and makes *i a row of it. */
static const struct speed_group *find(size_t *i)
{
	char name[SPEED_NAME_BYTES];

	for (size_t g = 0; g < N_GROUPS; g++) {
		size_t n = 0;

		while (n <= *i && groups[g]->name(n, name))
			n++;
		if (n > *i)
			return groups[g];
		*i -= n;
	}
	return NULL;
}

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	const struct speed_group *group = find(&i);

	return group != NULL && group->name(i, name);
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	const struct speed_group *group = find(&i);

	return group != NULL && group->start(i, host, work);
}

static const char *find_tier(int i, const char **lacks)
{
	static char text[256];
	const char *name = mxfp_isa_name(i);

	*lacks = NULL;
	if (name == NULL || (mxfp_isa_available() >> i & 1) != 0)
		return name;
	size_t length = 0;
	const char *feature;
	for (int f = 0; (feature = mxfp_isa_lacks(i, f)) != NULL && length < sizeof text; f++)
		length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", f != 0 ? " " : "", feature);
	*lacks = text;
	return name;
}

__attribute__((visibility("default"))) const struct speed_side *speed_side(void);

const struct speed_side *speed_side(void)
{
	static const struct speed_side side = {SPEED_SIDE, name_row, start_row, find_tier, mxfp_isa_active};

	return &side;
}
