/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_CLI_PROFILE_LIMITS_H
#define TOOLS_CLI_PROFILE_LIMITS_H

#include "eval/profile.h"

/* Measures what the machine can do at most, in the same run as what a profile compares with that; nothing if there is no
   profile. */
void profile_add_limits(struct profile *profile, unsigned threads);

#endif
