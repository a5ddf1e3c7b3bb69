/* SPDX-License-Identifier: MIT */
/* Raw features of the CPU and its operating system; isa.def makes tiers of them. */
#ifndef MXFP_CPU_H
#define MXFP_CPU_H

#include <stdint.h>

enum {
#define MXFP_CPU(id, bit, name) MXFP_CPU_##id = 1 << (bit),
#include "cpu.def"
};

/* The MXFP_CPU_* bits of this machine. */
uint32_t mxfp_cpu_features(void);

/* Name of the feature with that bit, or NULL past the last. */
const char *mxfp_cpu_name(int bit);

#endif
