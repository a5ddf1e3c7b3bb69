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

struct mxfp_fp_state mxfp_fp_state_get(void)
{
	struct mxfp_fp_state state = {{0}};

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(state.words[0]), "=r"(state.words[1]));
	return state;
}

void mxfp_fp_state_set(struct mxfp_fp_state state)
{
	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(state.words[0]), "r"(state.words[1]) : "memory");
}
