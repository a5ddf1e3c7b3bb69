/* SPDX-License-Identifier: MIT */
/*
 * The expected result of every conversion, by MPFR: a second reading of doc/numerics.md, sections 1 and 2, that shares
 * nothing with ref/ but the columns of format.def.
 *
 * A format becomes the ascending list of its finite magnitudes. To encode x the list is searched for the neighbours of
 * |x|, and the rounding mode chooses between them by where |x| lies in the gap, exactly.
 */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <mpfr.h>
#include <stdint.h>

#include "kernels.h"

#define F32_SIGN UINT32_C(0x80000000)
#define F32_INF UINT32_C(0x7F800000)
#define F32_MAX UINT32_C(0x7F7FFFFF)

struct oracle {
	const struct mxfp_format_info *format;
	uint32_t n;            /* finite magnitudes; magnitude[c] is that of code c */
	mpfr_t *magnitude;     /* n + 1 of them: [n] is what would come next if exponents had no upper end */
	uint8_t *significands; /* of all of them */
};

/* Makes the list of an element format (f32: none is needed, n is 0). */
void oracle_init(struct oracle *o, enum mxfp_format format);
void oracle_clear(struct oracle *o);

/* Sets x to what a binary32 stands for: NaN, +-Inf, +-0 or a number. x needs 24 bits of precision. */
void oracle_set_f32(mpfr_ptr x, uint32_t bits);

/* The binary32 of a code: exact. */
uint32_t oracle_decode(const struct mxfp_format_info *format, uint32_t code);

/* The code of x, which is not a NaN: +-0, +-Inf or any number whose distance to a magnitude fits in 64 bits. */
uint32_t oracle_round(const struct oracle *o, mpfr_srcptr x, const struct mxfp_rounding *rounding, uint32_t random,
                      struct mxfp_counts *counts);

/* The code of x * 2^-shift, x any binary32. In f32 only shift 0 has a meaning. */
uint32_t oracle_encode(const struct oracle *o, uint32_t x, int shift, const struct mxfp_rounding *rounding,
                       uint32_t random, struct mxfp_counts *counts);

/* Whether the overflow mode makes a difference: not in formats that always overflow or always saturate. */
int oracle_has_overflow_modes(const struct mxfp_format_info *format);

/*
 * Arithmetic of binary32 by MPFR: between begin and end the exponent range is that of binary32. `y`, of 24 bits, is the
 * result of one operation and `ternary` what the operation returned; gives the bits, subnormal and overflowed results
 * rounded as IEEE 754 has it and NaN as 7FC00000.
 */
void oracle_f32_begin(void);
uint32_t oracle_f32_bits(mpfr_ptr y, int ternary);
void oracle_f32_end(void);

#endif
