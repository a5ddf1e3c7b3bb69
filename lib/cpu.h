/* SPDX-License-Identifier: MIT */
/* Features of the CPU that the operating system supports; isa.def combines them into tiers. And the floating-point state. */
#ifndef MXFP_CPU_H
#define MXFP_CPU_H

#include <stdbool.h>
#include <stdint.h>

enum {
#define MXFP_CPU(id, bit, name) MXFP_CPU_##id = 1 << (bit),
#include "cpu.def"
};

/* Returns the MXFP_CPU_* bits of this machine. */
uint32_t mxfp_cpu_features(void);

/* Asks the operating system to let this process use the tiles of AMX, which from then on wants larger stacks for signals of it.
   Returns whether it does. */
bool mxfp_cpu_permit_tiles(void);

/* The floating-point state of a thread: rounding, flush to zero, traps, flags. A caller's function runs in that of the thread that
   called, whatever thread it is on. Kernels need none of this: they enter a state of their own (simd/body/x86.h). */
struct mxfp_fp_state {
	uint64_t words[2];
};

/* The calling thread's. <fenv.h> is for other processors: glibc's leaves out FPCR.DN on aarch64, and is slow on x86. */
struct mxfp_fp_state mxfp_fp_state_get(void);
void mxfp_fp_state_set(struct mxfp_fp_state state);

/* Returns the name of the feature with that bit number, or NULL past the last. */
const char *mxfp_cpu_name(int bit);

#endif
