/* SPDX-License-Identifier: MIT */
/* Machines for which there is no tier but the reference. */
#include "cpu.h"

uint32_t mxfp_cpu_features(void)
{
	return 0;
}
