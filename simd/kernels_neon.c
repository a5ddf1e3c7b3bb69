/* SPDX-License-Identifier: MIT */
/* The slots of tier neon, and nothing else. */
#include "config.h"

#include "kernels_neon.h"

void mxfp_kernels_neon(struct mxfp_kernels *table)
{
	for (int to = 0; to < MXFP_N_FORMATS; to++)
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[to][from] != NULL)
				table->convert[to][from] = mxfp_convert_neon;
}
