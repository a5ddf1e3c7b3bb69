/* SPDX-License-Identifier: MIT */
/*
 * The state of floating point, x86: a kernel that computes in floating point enters with fp_enter(), calls a function
 * that is not inlined (so that nothing moves across), and leaves with fp_leave(), which restores the control bits and
 * the sticky flags.
 */
#ifndef MXFP_BODY_FP_X86_H
#define MXFP_BODY_FP_X86_H

#include <immintrin.h>

/* To nearest, subnormals kept, no exception trapped: what a process starts with. */
enum { MXCSR_DEFAULT = 0x1F80 };

struct fp_state {
	uint32_t mxcsr;
};

ALWAYS_INLINE struct fp_state fp_enter(void)
{
	struct fp_state state = {_mm_getcsr()};

	_mm_setcsr(MXCSR_DEFAULT);
	return state;
}

ALWAYS_INLINE void fp_leave(struct fp_state state)
{
	_mm_setcsr(state.mxcsr);
}

#endif
