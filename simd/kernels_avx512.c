/* SPDX-License-Identifier: MIT */
/* The slots of tier avx512, and nothing else. */
#include "config.h"

#include "kernels.h"

void mxfp_kernels_avx512(struct mxfp_kernels *table)
{
	(void)table;
}
