/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "cli/profile_limits.h"

#include "speed.h"

enum { BYTES_MAX = 1 << 28 }; /* read at most: more than most caches hold */

void profile_add_limits(struct profile *profile, unsigned threads)
{
	const size_t bytes = profile->bytes < BYTES_MAX ? (size_t)profile->bytes : BYTES_MAX;
	struct bench_speed speed;

	if (profile->done != NULL && bench_speed(&speed, threads, bytes))
		profile->limits = (struct profile_limits){.operations = speed.operations, .bytes = speed.bytes};
}
