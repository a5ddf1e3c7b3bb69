/* SPDX-License-Identifier: MIT */
/*
 * The floating-point state of aarch64: FPCR holds the control bits, FPSR the sticky flags. Kernels use it by the rules
 * of body/x86.h. FPCR 0 means round to nearest, keep subnormals, trap no exception, propagate NaNs.
 */
#ifndef MXFP_NEON_FP_H
#define MXFP_NEON_FP_H

struct fp_state {
	uint64_t control, flags;
};

/* Rounding down, bits 22 and 23 of FPCR. */
#define FPCR_DOWN (UINT64_C(2) << 22)

ALWAYS_INLINE struct fp_state fp_change(uint64_t control)
{
	struct fp_state state;

	__asm__ volatile("mrs %0, fpcr" : "=r"(state.control));
	__asm__ volatile("mrs %0, fpsr" : "=r"(state.flags));
	__asm__ volatile("msr fpcr, %0" : : "r"(control));
	return state;
}

ALWAYS_INLINE struct fp_state fp_enter(void)
{
	return fp_change(0);
}

ALWAYS_INLINE struct fp_state fp_enter_down(void)
{
	return fp_change(FPCR_DOWN);
}

ALWAYS_INLINE void fp_leave(struct fp_state state)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(state.control));
	__asm__ volatile("msr fpsr, %0" : : "r"(state.flags));
}

#endif
