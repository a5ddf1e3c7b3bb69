/* SPDX-License-Identifier: MIT */
/* Features on aarch64: HWCAP says what the kernel lets programs use. */
#include <sys/auxv.h>

#include <asm/hwcap.h>

#include "cpu.h"

uint32_t mxfp_cpu_features(void)
{
	return getauxval(AT_HWCAP) & HWCAP_ASIMD ? MXFP_CPU_NEON : 0;
}

bool mxfp_cpu_permit_tiles(void)
{
	return false;
}
