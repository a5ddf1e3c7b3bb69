/* SPDX-License-Identifier: MIT */
/*
 * A library of its own, libmxfp-engine (pkg-config libmxfp-engine): a model of a chip's tensor engine. It estimates how long a
 * list of independent products (experts, heads, layers) takes on the array, whole or split by rows into sub-arrays, and what limits
 * it. mxfp_engine_run() also computes the products, in passes as deep as a sub-array.
 *
 * Published facts, with the sources in lib/engine/chip.def: 128 x 128 elements of 4 products; the split by rows; W's tile of
 * 128 columns stays while rows of A move past it, one per cycle, f32 four times slower, on Trainium3 as many as the banks
 * have sums, else up to 512; a matrix multiplication costs max(rows, min(64, columns)) cycles, because the next tile is
 * loaded meanwhile; 8 banks of 512 sums, on Trainium3 of 1024 if C is bf16; clock, memory bandwidth and peaks.
 *
 * This model's own assumptions: sub-arrays do not slow each other down, each has its share of the banks, and a tile
 * stays until as many rows have moved as they hold; each sub-array waits for its first load; sums leave their banks
 * without delay; a product is not cut, and stays on one sub-array; A and W are read from memory once and C is written
 * once, while the array works. The model claims nothing about the chip's real timing or bits.
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

/* The rates at which products run. The slower operand decides. */
enum mxfp_engine_rate {
	MXFP_ENGINE_FP4,    /* MXFP4 */
	MXFP_ENGINE_FP8,    /* MXFP8 */
	MXFP_ENGINE_16BIT,  /* bf16, f16, tf32 */
	MXFP_ENGINE_F32,
	MXFP_ENGINE_SPARSE, /* 16 bits, W sparse */
	MXFP_ENGINE_FP8_PLAIN /* e4m3 and e5m2 without block scales */
};

/* The engines of a core beside the tensor engine. */
enum mxfp_engine_unit {
	MXFP_ENGINE_VECTOR,
	MXFP_ENGINE_SCALAR,
	MXFP_ENGINE_GPSIMD
};

/*
 * A chip's constants; 0: not published, or it has none. A caller may copy one, as many bytes as the smaller of its size and
 * sizeof, change it, and set its size to sizeof.
 * mxfp_engine_estimate() reads those up to `rates` and bank_rows_16; mxfp engine --layer all of them.
 */
struct mxfp_engine_chip {
	size_t size;                  /* sizeof(struct mxfp_engine_chip) */
	const char *name, *source;
	bool announced;               /* the chip is only announced: no geometry, its figures are bounds */
	uint32_t cores;               /* each with one array */
	uint32_t rows, columns;       /* of an array, in elements; rows is a multiple of 4. Both 0: not published */
	uint32_t load_cycles;         /* the most cycles to load a stationary tile */
	uint32_t bank_rows, banks;    /* sums per bank in a column, and banks */
	uint32_t clock_mhz;
	uint32_t memory_mb_s;         /* of the chip, in 10^6 bytes per second */
	struct {
		uint32_t products;        /* per element and cycle: the depth is rows times this. SPARSE: at most */
		uint32_t row_cycles;      /* for a row to enter */
		uint32_t peak_gflop_s;    /* published for the chip; 0: it does not have this rate */
	} rates[8];                   /* by enum mxfp_engine_rate; the others are 0 */
	uint32_t sbuf_kib, psum_kib;  /* memories of a core, in 1024 bytes: of operands, and of the array's sums */
	uint32_t memory_gib;          /* of the chip, in 2^30 bytes */
	uint32_t dma_engines;         /* of the chip, which move data between its memories */
	uint32_t dma_mb_s;            /* of one of them, in 10^6 bytes per second */
	uint32_t dma_add_percent;     /* of that when they add to what the destination holds */
	uint32_t links;               /* to other chips */
	uint32_t link_mb_s;           /* of all of them together, in 10^6 bytes per second */
	uint32_t server_chips;        /* in one server, and in servers whose chips are linked */
	uint32_t ultraserver_chips;
	struct {
		uint32_t clock_mhz;
		uint32_t start_cycles;    /* vector, scalar: the least of an instruction; GPSIMD: what it adds to each */
		uint32_t one_16, one_32;  /* elements per cycle of an operation on one tensor of up to 16 bits, of 32 bits */
		uint32_t two_16, two_32;  /* the same for two tensors, element by element */
		uint32_t functions;       /* the same for an activation function of one tensor */
		uint32_t exponential;     /* the same for exp(x - max) with its sum */
		uint32_t quantize;        /* the same for 16 bits to MXFP8 and scales */
	} units[4];                   /* by enum mxfp_engine_unit; the other is 0 */
	uint32_t bank_rows_16;        /* sums per bank in a column if C is bf16; 0: sums are f32 in any case */
	uint32_t cache_bytes;         /* of 128 cached elements in MXFP8 with their scales, as attention reads them; 0: 132, which
	                                 is an MX block's */
};

/* Returns the i-th known chip, or NULL past the last; the first is the default. */
MXFP_API const struct mxfp_engine_chip *mxfp_engine_get_chip(int i);

/* Where and when a product runs. */
struct mxfp_engine_place {
	size_t product;
	unsigned array;               /* core * sub-arrays per core + sub-array */
	enum mxfp_engine_rate rate;
	uint64_t depth;               /* elements of K that a sub-array takes at once */
	uint64_t start, cycles;       /* the first product of a sub-array includes the wait for its first tile */
};

/*
 * The account. Sub-array i works for busy[i] / cycles of the time; over all sub-arrays, rows move for `moving` cycles.
 * Of the macs_tiles slots for products that moving rows pass, only `macs` are filled: macs / macs_depth if K is not a
 * multiple of the depth, times macs_depth / macs_tiles if N is not a multiple of 128. Model FLOP utilization is
 * ideal_ps / max(compute_ps, memory_ps).
 */
struct mxfp_engine {
	size_t size;                  /* sizeof(struct mxfp_engine) */
	/* Set by the caller. */
	const struct mxfp_engine_chip *chip; /* NULL: the first */
	unsigned cores;               /* the cores that work, with their share of peak and bandwidth; 0: all */
	struct mxfp_engine_place *places;    /* room for one per product */
	uint64_t *busy;               /* cycles of each sub-array */
	size_t n_busy;                /* the sub-arrays that busy has room for */
	/* Set by the call. */
	size_t arrays;                /* sub-arrays: cores * 512 / pass_k */
	uint64_t cycles;              /* until the last sub-array is done; 0 without a geometry */
	uint64_t moving;              /* cycles, over all sub-arrays */
	uint64_t macs;                /* sum of M N K */
	uint64_t macs_depth;          /* the same with K rounded up to whole tiles */
	uint64_t macs_tiles;          /* the same with K and N rounded up to whole tiles */
	uint64_t bytes;               /* of A, W and C as stored; C counts twice if it is added to */
	uint64_t compute_ps;          /* cycles at the clock */
	uint64_t memory_ps;           /* bytes at the bandwidth */
	uint64_t ideal_ps;            /* 2 M N K at the published peak of each product's rate */
};

/*
 * Fills in the account of n products. options->pass_k splits the arrays: 512 or 0 whole, 256 halves, 128 quarters. Of
 * the products, shapes, formats and sparsity count, those of w even if w_packed is given, and of c its format; of the options,
 * pass_k, a_format and accumulate. Products are placed longest first (ties: lower index first), each on the sub-array that is
 * done earliest (ties: lower index), and `places` is in that order. On an error of one product, *failed is set to its index;
 * failed may be NULL.
 *
 * MXFP_ERR_FORMAT  an operand other than MXFP8, MXFP4, e4m3, e5m2, bf16, f16, tf32 and f32, or one that the chip has no rate
 *                  for; a c in another format than f32 and bf16
 * MXFP_ERR_SHAPE   a->cols and w->cols differ
 * MXFP_ERR_OPTION  pass_k, sparsity; more cores than the chip has; a chip whose constants make no sense
 * MXFP_ERR_SIZE    n_busy is too small
 */
MXFP_API enum mxfp_status mxfp_engine_estimate(struct mxfp_engine *engine, size_t *failed,
                                               const struct mxfp_product *products, size_t n,
                                               const struct mxfp_gemm_options *options);

/*
 * Also computes the products in passes of pass_k, by mxfp_gemm_grouped().
 *
 * Errors as mxfp_engine_estimate() and mxfp_gemm_grouped()
 */
MXFP_API enum mxfp_status mxfp_engine_run(struct mxfp_engine *engine, size_t *failed, const struct mxfp_product *products,
                                          size_t n, const struct mxfp_gemm_options *options, void *workspace,
                                          size_t workspace_bytes, const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
