/* SPDX-License-Identifier: MIT */
/*
 * How matrix units of real machines sum products: doc/numerics.md, section 5, `Accumulators of real machines`. Each is one
 * instruction, D = instruction(A, W, C) for one number of C, by the few parameters below; mma.def has their values.
 */
#ifndef MXFP_REF_MMA_H
#define MXFP_REF_MMA_H

#include "kernels.h"
#include "mxfp/options.h"

/* The order in which an instruction takes its products. */
enum mxfp_mma_order {
	MXFP_MMA_ASCENDING,
	MXFP_MMA_SWAPPED, /* 1 0 3 2 5 4 ... */
	MXFP_MMA_PAIRS,   /* 0 1 4 5 8 9 ..., then 2 3 6 7 10 11 ... */
	MXFP_MMA_PARITY   /* 0 2 4 ..., then 1 3 5 ... */
};

/* What becomes of C. */
enum mxfp_mma_addend {
	MXFP_MMA_SUMMED, /* a term of the first step's sum; each step's result is one of the next's */
	MXFP_MMA_ADDED,  /* fl32(C + the sum of the others) */
	MXFP_MMA_CUT,    /* rounded down to 24 fraction bits and the sum of the others to 32, then added, rounded down to 31, and rounded */
	MXFP_MMA_APART   /* the same, after steps that are summed apart, and each rounded down to `fraction` bits below the largest
	                    exponent of all products; C is 0 if its exponent is more than 25 below that */
};

enum mxfp_mma_subnormal {
	MXFP_MMA_KEPT,
	MXFP_MMA_FLUSHED, /* an operand that is subnormal in its format is a zero of its sign; likewise a result that is below
	                         2^-126 when it is rounded without limit of exponent */
	MXFP_MMA_DROPPED, /* zeros and subnormals of A, W and C are +0, a result that is subnormal is a zero of its sign */
	MXFP_MMA_NUMBERS  /* kept in A and W, whose codes of NaN and Inf are numbers too; C and results as in FLUSHED */
};

struct mxfp_mma {
	enum mxfp_acc acc;
	uint32_t formats;   /* of A and of W, a bit each: both the same, or both of at most 8 bits */
	uint8_t k;          /* products of an instruction, at most MXFP_MMA_MOST */
	uint8_t group;      /* products of a step, whose terms are aligned and summed; 0: fused multiply-adds, each rounded */
	uint8_t lanes;      /* of these: product i goes to sum i mod lanes, and neighbouring sums are added up, in pairs of pairs */
	uint8_t term;       /* products that make one term by their exact sum; it is aligned by the exponents of scales alone */
	uint8_t fraction;   /* bits of a term that are kept below the largest exponent of a step; MXFP_MMA_ALL */
	int16_t lowest;     /* the largest exponent counts as at least this */
	uint8_t result;     /* significand bits of a step's result */
	bool nearest;       /* it is rounded to nearest even, else toward zero */
	enum mxfp_mma_addend addend;
	enum mxfp_mma_order order;
	enum mxfp_mma_subnormal subnormal;
	uint32_t nan;       /* what every NaN becomes */
};

enum { MXFP_MMA_MOST = 64, MXFP_MMA_ALL = 255 };

/* An element of A or W with the scale of its block: significand * 2^(exponent - fraction bits). */
struct mxfp_mma_operand {
	uint32_t x;          /* the element as binary32; NaN if the scale is NaN */
	int32_t significand;
	int exponent;        /* a subnormal has that of the smallest normal */
};

/* The fraction bits of all operands of a format, those of the scale included. */
int mxfp_mma_fraction(enum mxfp_format format);

/* Whether acc is the name of a machine. */
bool mxfp_mma_is(enum mxfp_acc acc);

/* Returns the machine of that name for these formats of A and W, or NULL: it takes no such pair. */
const struct mxfp_mma *mxfp_mma_find(enum mxfp_acc acc, enum mxfp_format a, enum mxfp_format w);

/* Which of an instruction's products is number i of its sum. */
unsigned mxfp_mma_place(const struct mxfp_mma *mma, unsigned i);

/* Loads elements [k, k + n) of a row, and behind the last of the row zeros. k is a multiple of n, n of 16. */
void mxfp_mma_load(struct mxfp_mma_operand *to, const struct mxfp_mma *mma, const struct mxfp_matrix *matrix,
                       size_t row, size_t k, size_t n);

/* Returns what one instruction makes of mma->k products and c; fraction is that of A and of W together. */
uint32_t mxfp_mma_sum(const struct mxfp_mma *mma, const struct mxfp_mma_operand *a,
                          const struct mxfp_mma_operand *w, int fraction, uint32_t c);

/* gemm.c: sums that are made together, so that elements are decoded fewer times. */
enum { MXFP_MMA_ROWS = 8, MXFP_MMA_COLS = 64 };

struct mxfp_mma_tile {
	size_t row, rows, col, cols; /* of the job */
	uint32_t sum[MXFP_MMA_ROWS][MXFP_MMA_COLS];
};

/* Makes of the sums of a tile and of products [k, end) what the machine does. */
typedef void mxfp_mma_pass(const struct mxfp_gemm_ref_job *job, const struct mxfp_mma *mma, size_t k, size_t end,
                           struct mxfp_mma_tile *t);

mxfp_mma_pass mxfp_mma_pass_ref;

/* Does a job whose acc is a machine; `pass` multiplies. */
void mxfp_mma_run(const struct mxfp_gemm_ref_job *job, mxfp_mma_pass *pass);

#endif
