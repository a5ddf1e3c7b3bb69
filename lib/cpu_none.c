/* SPDX-License-Identifier: MIT */
/* Features on machines that have no tier but the reference: none. */
#include "cpu.h"

#include <fenv.h>
#include <string.h>

_Static_assert(sizeof(fenv_t) <= sizeof(struct mxfp_fp_state), "room for the state");

uint32_t mxfp_cpu_features(void)
{
	return 0;
}

bool mxfp_cpu_permit_tiles(void)
{
	return false;
}

struct mxfp_fp_state mxfp_fp_state_get(void)
{
	struct mxfp_fp_state state = {{0}};
	fenv_t fenv;

	fegetenv(&fenv);
	memcpy(&state, &fenv, sizeof fenv);
	return state;
}

void mxfp_fp_state_set(struct mxfp_fp_state state)
{
	fenv_t fenv;

	memcpy(&fenv, &state, sizeof fenv);
	fesetenv(&fenv);
}
