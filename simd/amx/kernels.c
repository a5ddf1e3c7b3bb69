/* SPDX-License-Identifier: MIT */
/* Fills the slots of tier amx, beside those of avx512. lib/dispatch.c calls it. */
#include "config.h"

#include "tier.h"

#include "body/slots.h"
#include "cpu.h"

void TIER(kernels)(struct mxfp_kernels *table)
{
	/* Refused by an old kernel, or by a sandbox: the products of avx512 stay. */
	if (mxfp_cpu_permit_tiles())
		table->gemm[MXFP_GEMM_INT8] = &TIER(gemm_int8);
}
