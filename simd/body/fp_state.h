/* SPDX-License-Identifier: MIT */
/*
 * The floating-point control and status words of the calling thread, and the states that a caller may have set. Only
 * the tests use it: <fenv.h> does not know flush-to-zero and does not expose the whole words on every system.
 */
#ifndef MXFP_BODY_FP_STATE_H
#define MXFP_BODY_FP_STATE_H

#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>

enum { FP_STATE_N_HOSTILE = 4 * 4 * 3 };

static inline uint64_t fp_state_get(void)
{
	return _mm_getcsr();
}

static inline void fp_state_set(uint64_t state)
{
	_mm_setcsr((unsigned)state);
}

/* State i of MXCSR: each rounding mode (bits 13, 14) x DAZ (6) x FTZ (15) x exceptions (masks 7 to 12, flags 0 to 5):
   all masked without flags, all masked with every flag, all unmasked. */
static inline uint64_t fp_state_hostile(unsigned i)
{
	static const unsigned exceptions[] = {0x1F80, 0x1FBF, 0};

	return (i & 3) << 13 | (i >> 2 & 1) << 6 | (i >> 3 & 1) << 15 | exceptions[i / 16 % 3];
}

#elif defined(__aarch64__)

enum { FP_STATE_N_HOSTILE = 4 * 8 * 2 };

/* FPCR is in the high half, FPSR in the low one. */
static inline uint64_t fp_state_get(void)
{
	uint64_t control, status;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
	return control << 32 | (status & UINT32_MAX);
}

static inline void fp_state_set(uint64_t state)
{
	uint64_t control = state >> 32, status = state & UINT32_MAX;

	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status) : "memory");
}

/* State i: each rounding mode (FPCR bits 22, 23) x FZ16 (19) x FZ (24) x DN (25) x no flag or every flag (FPSR bits 0
   to 4, 7, 27). */
static inline uint64_t fp_state_hostile(unsigned i)
{
	uint64_t control = (i & 3) << 22 | (i >> 2 & 1) << 19 | (i >> 3 & 3) << 24;

	return control << 32 | (i / 32 % 2 != 0 ? UINT32_C(0x0800009F) : 0);
}

#else

/* A machine without tiers has no kernel that could touch the words. */
enum { FP_STATE_N_HOSTILE = 1 };

static inline uint64_t fp_state_get(void)
{
	return 0;
}

static inline void fp_state_set(uint64_t state)
{
	(void)state;
}

static inline uint64_t fp_state_hostile(unsigned i)
{
	return i;
}

#endif
#endif
