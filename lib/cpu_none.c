/* SPDX-License-Identifier: MIT */
/* Features on machines that have no tier but the reference: none. */
#include "cpu.h"

uint32_t mxfp_cpu_features(void)
{
	return 0;
}

bool mxfp_cpu_permit_tiles(void)
{
	return false;
}
