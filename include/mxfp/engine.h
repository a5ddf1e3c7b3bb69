/* SPDX-License-Identifier: MIT */
/*
 * A model of a chip's tensor engine: how long a list of independent products (experts, heads, layers) takes on its
 * array, whole or split by rows into sub-arrays, and what limits it. mxfp_engine_run() also computes the products, in
 * passes as deep as a sub-array.
 *
 * Published, with the sources in lib/chip.def: 128 x 128 elements of 4 products; the split by rows; W's tile of 128
 * columns stays while up to 512 rows of A move past it, one a cycle, f32 four times slower; a matrix multiplication
 * costs max(rows, min(64, columns)) cycles, because the next tile is loaded meanwhile; 8 banks of 512 sums; clock,
 * memory bandwidth and peaks.
 *
 * This model's own assumptions: sub-arrays do not slow each other down, each has its share of the banks, and a tile
 * stays until as many rows have moved as they hold; the first load of each sub-array is waited for, sums leave their
 * banks without delay; a product is not cut, and stays on one sub-array; A and W are read from memory once and C is
 * written once, while the array works. Nothing is claimed of the chip's own timing or bits.
 */
#ifndef MXFP_ENGINE_H
#define MXFP_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export.h"
#include "gemm.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How fast a product runs, by the slower of its operands. */
enum mxfp_engine_rate {
	MXFP_ENGINE_FP4,    /* MXFP4 */
	MXFP_ENGINE_FP8,    /* MXFP8 */
	MXFP_ENGINE_16BIT,  /* bf16, f16, tf32 */
	MXFP_ENGINE_F32,
	MXFP_ENGINE_SPARSE  /* 16 bits, W sparse */
};

/* A chip's constants. A caller may copy one, change it, and set its size to sizeof. */
struct mxfp_engine_chip {
	size_t size;                  /* sizeof(struct mxfp_engine_chip), or 0 (mxfp.h), as mxfp_engine_get_chip() has it */
	const char *name, *source;
	bool announced;               /* figures of a chip that is announced: no geometry, bounds alone */
	uint32_t cores;               /* each with one array */
	uint32_t rows, columns;       /* of an array's elements; rows a multiple of 4. All of these 0: not published */
	uint32_t load_cycles;         /* at most, for a stationary tile */
	uint32_t bank_rows, banks;    /* sums that a column holds */
	uint32_t clock_mhz;
	uint32_t memory_mb_s;         /* of the chip, 10^6 bytes a second */
	struct {
		uint32_t products;        /* an element takes each cycle: the depth is rows times this. SPARSE: at most */
		uint32_t row_cycles;      /* for a row to enter */
		uint32_t peak_gflop_s;    /* published for the chip; 0: it has no such rate */
	} rates[8];                   /* by enum mxfp_engine_rate; the others are 0 */
};

/* The i-th known chip, or NULL past the last; the first is the default. */
MXFP_API const struct mxfp_engine_chip *mxfp_engine_get_chip(int i);

/* Where and when a product runs. */
struct mxfp_engine_place {
	size_t product;
	unsigned array;               /* core * sub-arrays of a core + sub-array */
	enum mxfp_engine_rate rate;
	uint64_t depth;               /* elements of K that a sub-array takes at once */
	uint64_t start, cycles;       /* on a sub-array's first product with the wait for its first tile */
};

/*
 * The account. The share of its time that a sub-array works is busy[i] / cycles; of that time rows move for `moving`
 * cycles in all. Of the slots for products that the moving rows pass, macs_tiles, only `macs` are filled: a K that is
 * no multiple of the depth leaves macs_depth / macs filled by depth, an N that is none of 128 the rest. Model FLOP
 * utilization is ideal_ps / max(compute_ps, memory_ps).
 */
struct mxfp_engine {
	size_t size;                  /* sizeof(struct mxfp_engine), or 0 (mxfp.h) */
	/* What the caller sets. */
	const struct mxfp_engine_chip *chip; /* NULL: the first */
	unsigned cores;               /* that work, with their share of peak and bandwidth; 0: all */
	struct mxfp_engine_place *places;    /* one for each product */
	uint64_t *busy;               /* one for each sub-array: cycles */
	size_t n_busy;                /* room there */
	/* What a call sets. */
	size_t arrays;                /* sub-arrays: cores * 512 / pass_k */
	uint64_t cycles;              /* until the last sub-array is done; 0 without a geometry */
	uint64_t moving;              /* cycles, over all sub-arrays */
	uint64_t macs;                /* sum of M N K */
	uint64_t macs_depth;          /* with K rounded up to whole tiles */
	uint64_t macs_tiles;          /* with K and N rounded up */
	uint64_t bytes;               /* A, W and C as stored, C twice if it is added to */
	uint64_t compute_ps;          /* cycles at the clock */
	uint64_t memory_ps;           /* bytes at the bandwidth */
	uint64_t ideal_ps;            /* 2 M N K at the published peak of each product's rate */
};

/*
 * Fills in the account of n products. pass_k of the options splits the arrays: 512 or 0 whole, 256 halves, 128
 * quarters. Of the products the shapes, formats and sparsity count, w's even if w_packed is given; of the options
 * pass_k, a_format, c_format, accumulate and failed_product. Products are placed longest first (ties: lower index first), each on the
 * sub-array that is done earliest (ties: lower index), and `places` is in that order.
 *
 * MXFP_ERR_NULL; MXFP_ERR_FORMAT: an operand other than MXFP8, MXFP4, bf16, f16, tf32 and f32, or one that the chip has
 * no rate for, a c_format other than f32 and bf16; MXFP_ERR_OPTION: pass_k, sparsity, more cores than the chip has, a
 * chip that cannot be; MXFP_ERR_SIZE: a->cols and w->cols differ, n_busy is too small, a number overflows. On an error
 * nothing is written but *failed_product, if it is one of a single product.
 */
MXFP_API enum mxfp_status mxfp_engine_estimate(const struct mxfp_product *products, size_t n,
                                               const struct mxfp_gemm_options *options, struct mxfp_engine *engine);

/* Computes the products too, in passes of pass_k: mxfp_gemm_grouped(), whose errors and workspace it has besides. */
MXFP_API enum mxfp_status mxfp_engine_run(const struct mxfp_product *products, size_t n,
                                          const struct mxfp_gemm_options *options, void *workspace,
                                          size_t workspace_bytes, struct mxfp_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
