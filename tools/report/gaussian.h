/* SPDX-License-Identifier: MIT */
/* The yardstick of a report: what a format costs standard normal numbers. */
#ifndef TOOLS_REPORT_GAUSSIAN_H
#define TOOLS_REPORT_GAUSSIAN_H

#include "analyse/variant.h"

/* SQNR in dB. What a file holds without a word of its rule has that of floor, the rule of the standard, or in NVFP4 of te.
   NaN: there is none, of pruned weights and of formats that are mixed. */
double gaussian_sqnr(const struct variant *variant);

#endif
