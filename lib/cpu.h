/* SPDX-License-Identifier: MIT */
/* Features of the CPU that the operating system supports; isa.def combines them into tiers. */
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

/* Returns the name of the feature with that bit number, or NULL past the last. */
const char *mxfp_cpu_name(int bit);

#endif
