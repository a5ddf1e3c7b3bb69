/* SPDX-License-Identifier: MIT */
/* The slots of tier neon, and nothing else. */
#include "config.h"

#include "kernels.h"

void mxfp_kernels_neon(struct mxfp_kernels *table)
{
	(void)table;
}
