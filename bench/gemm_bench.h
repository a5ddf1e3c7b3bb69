/* SPDX-License-Identifier: MIT */
/*
 * Timing of the products in gemm.def, with packed weights. The time includes packing A and, for one row, quantizing it.
 * For comparison, in turns: OpenBLAS if it is installed, a loop that reads the packed weights, and the most that the
 * core can compute.
 */
#ifndef BENCH_GEMM_BENCH_H
#define BENCH_GEMM_BENCH_H

#include "bench.h"
#include "mxfp/gemm.h"

/* What becomes of the sums: C in f32; silu of them, times a matrix of f32; blocks of mxfp8-e4m3 instead of numbers. */
enum bench_gemm_epilogue { BENCH_GEMM_PLAIN, BENCH_GEMM_SILU_GATE, BENCH_GEMM_QUANTIZED };

struct bench_gemm_case {
	enum mxfp_format a, w;
	enum mxfp_acc acc;
	struct mxfp_sparsity sparsity;
	bool outliers;
	enum bench_gemm_epilogue epilogue;
};

/* The numbers of A and W, which are repeated row after row. */
struct bench_gemm_source {
	const char *name;
	const float *numbers;
	size_t n;
	bool outliers;  /* one column in 64, of A and of W, is 64 times as large */
};

/* For one row of A, where the weights are; otherwise, how much work there is. */
enum bench_gemm_place {
	BENCH_GEMM_L2,
	BENCH_GEMM_L3,
	BENCH_GEMM_DRAM,
	BENCH_GEMM_FEW,
	BENCH_GEMM_SOME,
	BENCH_GEMM_SMALL,
	BENCH_GEMM_MANY,
	BENCH_GEMM_EXPERTS
};

struct bench_gemm_shape {
	enum bench_gemm_place place;
	size_t m, n, k, experts;
	bool quick;
};

enum bench_gemm_unit { BENCH_GFLOPS, BENCH_SGEMM, BENCH_READ, BENCH_DENSE, BENCH_ONE, BENCH_GBPS };

struct bench_gemm_target {
	size_t of; /* index of the case */
	enum bench_gemm_place place;
	enum bench_gemm_unit unit;
	double at_least;
};

extern const struct bench_gemm_case bench_gemm_cases[];
extern const size_t bench_n_gemm_cases;
extern const struct bench_gemm_shape bench_gemm_shapes[];
extern const size_t bench_n_gemm_shapes;
extern const struct bench_gemm_target bench_gemm_targets[];
extern const size_t bench_n_gemm_targets;

/* Write the names of a case and a shape, such as "mxfp8-e4m3 x mxfp4 4:16 outliers" and "512x4096x4096". */
void bench_gemm_case_name(const struct bench_gemm_case *c, char *name, size_t size);
void bench_gemm_shape_name(const struct bench_gemm_shape *shape, char *name, size_t size);

/* "L2", "L3", "DRAM", or "" for a place that does not say where the weights are. */
const char *bench_gemm_place_name(enum bench_gemm_place place);

/* Copies of packed weights: more than the caches hold, if they are to be in DRAM. */
struct bench_ring {
	uint8_t *memory;
	size_t bytes, step, n, next;
};

/* Products of one case and shape, ready to run. The caller sets the first four members and clears the others. */
enum { BENCH_EXPERTS_MAX = 64 };

struct bench_gemm_data {
	const struct bench_gemm_case *c;
	const struct bench_gemm_shape *shape;
	const struct bench_gemm_source *source;
	const char *isa;
	struct mxfp_product products[BENCH_EXPERTS_MAX];
	struct mxfp_matrix a_of[BENCH_EXPERTS_MAX], gate;
	struct mxfp_result c_of[BENCH_EXPERTS_MAX], dense_c;
	struct mxfp_blocks c_blocks;
	size_t n_products;
	struct bench_ring weights;        /* of the first product */
	struct mxfp_product dense;        /* compared with sparse products, epilogues and experts, ... */
	struct bench_ring dense_weights;  /* ... and absent if n is 0 */
	struct mxfp_exec exec;
	struct mxfp_gemm_options options;
	float *a, *w, *c_values;          /* binary32, also for OpenBLAS */
	void *workspace;
	size_t workspace_bytes;
	void *owned[4 * BENCH_EXPERTS_MAX];
	size_t n_owned;
	limit_loop *read;                 /* set by bench_gemm_measure() */
	bool failed;
};

/* Makes the operands. Returns false, with all freed, if memory is short or the library refuses a call. ring_bytes:
   for weights in DRAM. threads: the most that will be used. */
bool bench_gemm_data_make(struct bench_gemm_data *data, size_t ring_bytes, unsigned threads);
void bench_gemm_data_free(struct bench_gemm_data *data);

/* Seconds per product; 0 for what was not timed. */
struct bench_gemm_result {
	struct bench_time kernel;
	double sgemm, dense, one; /* one: on one thread, if `kernel` has more */
	double read;              /* a loop over the packed weights, for one row */
	double peak;              /* the most operations per second of the cores, two a product: of bytes, or in a chain of
	                             binary32 */
	size_t packed_bytes;
};

/* Times the product and its comparisons in turns for `seconds` seconds. */
struct bench_gemm_result bench_gemm_measure(struct bench_gemm_data *data, double seconds);

/* Loads OpenBLAS for at most `threads` threads; returns its name and core, or NULL if it is not loaded. */
void bench_sgemm_load(unsigned threads);
const char *bench_sgemm_name(void);

/* C = A W^T in binary32, by OpenBLAS, which must be loaded. */
void bench_sgemm(size_t m, size_t n, size_t k, const float *a, const float *w, float *c, unsigned threads);

/* Computes in registers only. Returns the number of operations. */
typedef double bench_peak_loop(void);

struct bench_peak {
	bench_peak_loop *fma, *dot; /* of binary32; of bytes; NULL if the tier has none */
};

#define BENCH_TIER(name) extern const struct bench_peak peak_##name;
#include "tier.def"

const struct bench_peak *bench_peak_of_tier(const char *isa);

#endif
