/* SPDX-License-Identifier: MIT */
/*
 * Seeded activations x[tokens][cols], the same bits on every machine, for measuring products.
 *
 * Element i = t * cols + k is half of a Box-Muller pair. With p = i / 2 and r(j) word j of
 * Philox4x32-10 under (seed, stream):
 *
 *   u = (r(2p) + 1/2) 2^-32     v = r(2p + 1) 2^-32
 *   z = sqrt(-2 ln u) cos(2 pi v) for even i, sqrt(-2 ln u) sin(2 pi v) for odd i
 *
 * in binary64 with SLEEF's deterministic ln, sinpi and cospi (1, 0.5 and 0.5 ulp) and then rounded
 * once to binary32, so x is within 1 ulp of the formula and nearly always its correctly rounded
 * value. |z| <= 6.77.
 *
 * normal: x = z. outliers: x = 30 z in every 64th channel (k = 0, 64, 128, ...) and z elsewhere,
 * the shape that language models' activations have: few channels, always the same ones, far larger
 * than the others.
 */
#ifndef TOOLS_ANALYSE_ACTIVATIONS_H
#define TOOLS_ANALYSE_ACTIVATIONS_H

#include <stddef.h>
#include <stdint.h>

enum activation_kind { ACTIVATIONS_NORMAL, ACTIVATIONS_OUTLIERS, N_ACTIVATION_KINDS };

enum { OUTLIER_SPACING = 64, OUTLIER_FACTOR = 30 };

/* "normal" or "outliers". */
const char *activations_name(enum activation_kind kind);

/* Fills x, tokens rows of cols. */
void activations_fill(float *x, size_t tokens, size_t cols, enum activation_kind kind, uint64_t seed, uint64_t stream);

#endif
