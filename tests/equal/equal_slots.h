/* SPDX-License-Identifier: MIT */
/*
 * Every way to call one slot of kernel.def: lengths, places in memory, options, numbers. Each function is false, with
 * e->message, on the first difference from the reference, and true at once if no tier has a kernel of its own.
 */
#ifndef TESTS_EQUAL_SLOTS_H
#define TESTS_EQUAL_SLOTS_H

#include "equal/equal.h"

bool equal_convert(struct equal *e, enum mxfp_format dst_format, enum mxfp_format src_format);

/* Sources and destinations of blocks: f32, bf16, f16. Squares are for MX formats. */
bool equal_quantize(struct equal *e, enum mxfp_format format, enum mxfp_format src_format, bool squares);
bool equal_dequantize(struct equal *e, enum mxfp_format format, enum mxfp_format dst_format);

/* Parameters are drawn at random too. */
bool equal_apply(struct equal *e, enum mxfp_function function);

bool equal_scan(struct equal *e, enum mxfp_format src_format);

/* equal_main() where _i is a format: one case for each block format, or for each element format, named prefix and then the
   format. */
int equal_main_formats(struct equal *e, const char *prefix, bool blocks);

/* A matrix's rows of any length from 0 to past three vectors, n_long more whose length is more than a kernel takes at a time,
   and every alignment of every array. `make` completes a case of rows x cols numbers. */
typedef void equal_make(struct equal *e, struct equal_case *c, size_t rows, size_t cols);
bool equal_shapes(struct equal *e, struct equal_case *c, equal_make *make, int n_long);

/* Elements between two rows: none in half of the cases, so that rows follow each other. */
size_t equal_gap(struct random *r);

/* Elements from the first to the last of a matrix. */
size_t equal_span(size_t rows, size_t row, size_t stride);

/* The number of values of an option. */
int equal_n_values(enum mxfp_option option);

/* Any rounding mode, overflow mode, sign of zero, seed and stream. */
struct mxfp_rounding equal_any_rounding(struct random *r);

/* An index of a first element, so that n elements have one: small, odd, about where counter words overflow, the
   last. */
uint64_t equal_any_index(struct random *r, uint64_t n);

/* A number, as binary32, whose distance from its neighbor in element format f nearer zero is, as a fraction of the gap, this
   random word divided by 2^32, rounded down to the 24 bits of the number, or the next larger one. Any binade and sign. */
uint32_t equal_beside_word(struct random *r, const struct mxfp_format_info *f, uint32_t word);

/* Counts that are not zero, such that adding and setting differ. */
struct mxfp_counts equal_any_counts(struct random *r);

#endif
