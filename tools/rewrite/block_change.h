/* SPDX-License-Identifier: MIT */
/*
 * A block of one format as a block of another, in integers.
 *
 * A number that is known exactly is an integer times a power of two. That of a block is code x scale x tensor scale: the
 * odd part of the product, and its exponent. A format of elements holds what has few enough significant bits, is a
 * multiple of its least number, and is not above its largest: with a scale 2^k the numbers of a block are held for the k of
 * one interval. So a block has a form in the other format, the same numbers exactly, or has none, and no search is
 * needed. NVFP4's scales are s x 2^f with s odd, at most 15, which must divide every number of the block.
 *
 * Of several scales that hold a block the one is taken with which no code changes its value, that of the source; if that is
 * none, the smallest, which is the one that rule rceil finds. A block of zeros keeps its scale if the target has such
 * a one, and has byte 00 otherwise. A NaN stays one where the elements have NaN; a block that is all NaN is one in any
 * format, by its scale. Zeros keep their signs, so MXINT8 holds no block with a -0.
 *
 * What is exact here is decoded to the same binary32 numbers, because decoding rounds the product once.
 */
#ifndef TOOLS_REWRITE_BLOCK_CHANGE_H
#define TOOLS_REWRITE_BLOCK_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mxfp/format.h"

enum block_fit {
	BLOCK_SAME,    /* every code means what it meant, and so does the scale */
	BLOCK_EXACT,   /* the same numbers by other codes and another scale */
	BLOCK_ROUNDED, /* the format does not hold them */
	BLOCK_SPECIAL  /* nor a NaN or Inf among them, which no rounding mends */
};

enum { BLOCK_UNIT = 32 }; /* elements that are looked at together: whole blocks of every format */

/* What multiplies all blocks of a tensor, or divides them. */
struct block_factor {
	float scale;
	bool divides;
};

/* What an element code means. */
struct block_code {
	uint8_t odd;  /* odd part of the magnitude; 0: the number is 0 */
	int8_t exponent;
	bool negative, nan, inf;
};

struct block_form {
	enum mxfp_format format, element;
	unsigned bits, length;     /* of a code; of a block */
	bool ue4m3;                /* the scale is; else e8m0 */
	unsigned significand_bits, precision; /* as stored; with the hidden bit */
	int unit;                  /* exponent of the least number */
	uint64_t largest;          /* in units of that */
	uint16_t nan;              /* its code; BLOCK_NO_CODE: there is none */
	bool fixed;                /* two's complement */
};

enum { BLOCK_NO_CODE = 0xFFFF };

struct block_change {
	bool numbers;              /* the source is F32, and has neither codes nor scales */
	struct block_form from, to;
	struct block_code codes[256]; /* of the source */
	uint16_t same[256];        /* the code of the same number in the target, or BLOCK_NO_CODE */
	bool all_same;             /* there is one for every code */
	uint16_t same_pairs[256];  /* both codes of a byte, if codes of 4 bits become ones of 8 */
	uint16_t kept[256];        /* the byte of the same scale in the target, or BLOCK_NO_CODE */
	uint64_t p, q;             /* the source's factor divided by the target's is p/q x 2^exponent, p and q odd */
	int exponent;
};

/* Whether a tensor can have this factor: it is a finite number above 0. */
bool block_factor_is_valid(const struct block_factor *factor);

/* Starts. `from` and `to` are block formats, or `from` is F32. Factors are valid; 1 for formats without. */
void block_change_begin(struct block_change *change, enum mxfp_format from, const struct block_factor *from_factor,
                        enum mxfp_format to, const struct block_factor *to_factor);

/*
 * Changes a row of `cols` elements, of which the last block may be padded. codes: of the source, or its numbers; scales: NULL
 * with numbers. Writes codes and scales of the target's blocks, and how each is held into `fits`. The bytes of blocks that
 * are not held are zeros.
 */
void block_change_row(const struct block_change *change, size_t cols, const void *codes, const uint8_t *scales,
                      uint8_t *to_codes, uint8_t *to_scales, uint8_t *fits);

/*
 * For a target with a tensor scale: how many blocks it would hold with the target's factor times 2^t, and how many of
 * them with the source's scales, as differences from one t to the next.
 */
enum { BLOCK_SPREAD_MAX = 400, BLOCK_LEAST_T = -126, BLOCK_MOST_T = 126 }; /* what is looked at; those of normal numbers, as
                                                                             their reciprocals are, too */
struct block_spread {
	int64_t exact[2 * BLOCK_SPREAD_MAX + 2], same[2 * BLOCK_SPREAD_MAX + 2];
	uint64_t blocks;
};

void block_spread_row(struct block_spread *spread, const struct block_change *change, size_t cols, const void *codes,
                      const uint8_t *scales);

/* The same for n blocks with a scale byte, whatever their codes: the scale must be kept. For a source in MX. */
void block_spread_scale(struct block_spread *spread, const struct block_change *change, uint8_t scale, uint64_t n);

void block_spread_add(struct block_spread *sum, const struct block_spread *spread);

/* The t from `least` to `most` with which most blocks are exact; of these, most keep their scales; of these, the least, or 0
   if there is nothing to choose by. *exact, *same: how many. */
int block_spread_best(const struct block_spread *spread, int least, int most, uint64_t *exact, uint64_t *same);

#endif
