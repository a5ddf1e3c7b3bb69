/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/profile.h"

#include <string.h>

#include "base/nearest.h"

static const struct {
	const char *profile, *words;
} rows[] = {
#define PROFILE(profile, words, source) {profile, words},
#include "conform/profile.def"
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

bool profile_has(const char *profile, const char *label, bool (*begins)(const char *label, const char *words))
{
	for (int i = 0; i < N_ROWS; i++)
		if (strcmp(rows[i].profile, profile) == 0 && begins(label, rows[i].words))
			return true;
	return false;
}

int profile_check(const char *profile, struct error *error)
{
	const char *names[N_ROWS];
	size_t n = 0;

	for (int i = 0; i < N_ROWS; i++) {
		if (strcmp(rows[i].profile, profile) == 0)
			return EXIT_OK;
		if (n == 0 || strcmp(names[n - 1], rows[i].profile) != 0)
			names[n++] = rows[i].profile;
	}
	return nearest_fail("conform: --like", profile, "profiles", names, n, error);
}
