/* SPDX-License-Identifier: MIT */
/*
 * Timing of products: what gemm.def lists, with packed weights; packing of A, and for one row quantizing too, is in the
 * time. Beside it, in turns: OpenBLAS where it is there, a loop that reads the packed weights, what the core can
 * compute at most.
 */
#ifndef BENCH_GEMM_BENCH_H
#define BENCH_GEMM_BENCH_H

#include "bench.h"
#include "mxfp/gemm.h"

struct bench_gemm_case {
	enum mxfp_format a, w;
	enum mxfp_acc acc;
	struct mxfp_sparsity sparsity;
	bool outliers;
};

/* Where the weights are, for one row of A; what else stands for how much work. */
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

/* "mxfp8-e4m3 x mxfp4 4:16 outliers"; "512x4096x4096" */
void bench_gemm_case_name(const struct bench_gemm_case *c, char *name, size_t size);
void bench_gemm_shape_name(const struct bench_gemm_shape *shape, char *name, size_t size);

/* "L2", "L3", "DRAM", or "" where the weights' place is not told. */
const char *bench_gemm_place_name(enum bench_gemm_place place);

/* Copies of packed weights, more than the caches hold if they are to be in DRAM. */
struct bench_ring {
	uint8_t *memory;
	size_t bytes, step, n, next;
};

/* Products of one case and shape, ready to run. The first three are given, the rest is zero. */
enum { BENCH_EXPERTS_MAX = 64 };

struct bench_gemm_data {
	const struct bench_gemm_case *c;
	const struct bench_gemm_shape *shape;
	const char *isa;
	struct mxfp_product products[BENCH_EXPERTS_MAX];
	struct mxfp_matrix a_of[BENCH_EXPERTS_MAX];
	size_t n_products;
	struct bench_ring weights;        /* of the first product */
	struct mxfp_product dense;        /* what a sparse product or experts are compared with, ... */
	struct bench_ring dense_weights;  /* ... if it has weights */
	struct mxfp_exec exec;
	struct mxfp_gemm_options options;
	float *a, *w, *c_values;          /* binary32, for OpenBLAS too */
	void *workspace;
	size_t workspace_bytes;
	void *owned[4 * BENCH_EXPERTS_MAX];
	size_t n_owned;
	limit_loop *read;                 /* set when it is timed */
	bool failed;
};

/* Memory is short if it returns false, or the library refused something. `normals` are BENCH_PATTERN numbers,
   `ring_bytes` is for weights in DRAM, `threads` the most that will be used. */
bool bench_gemm_data_make(struct bench_gemm_data *data, const float *normals, size_t ring_bytes, unsigned threads);
void bench_gemm_data_free(struct bench_gemm_data *data);

/* Seconds of a product; 0 where there is none. */
struct bench_gemm_result {
	struct bench_time kernel;
	double sgemm, dense, one; /* one: on one thread, if there are more */
	double read;              /* of a loop over the packed weights, for one row */
	double peak;              /* what the core computes at most in a second: products of 8 bits, or of binary32 in a
	                             chain; counted as 2 each */
	size_t packed_bytes;
};

/* Times product and comparisons in turns, until `seconds` have gone by. */
struct bench_gemm_result bench_gemm_measure(struct bench_gemm_data *data, double seconds);

/* Loads OpenBLAS for at most so many threads; its name and core, or NULL if it is not there or not loaded. */
void bench_sgemm_load(unsigned threads);
const char *bench_sgemm_name(void);

/* C = A W^T, as mxfp_gemm() of f32. */
void bench_sgemm(size_t m, size_t n, size_t k, const float *a, const float *w, float *c, unsigned threads);

/* Computes in registers alone and returns how many operations that were. */
typedef double bench_peak_loop(void);

struct bench_peak {
	bench_peak_loop *fma, *dot; /* binary32; products of bytes. NULL: the tier has none */
};

#define BENCH_TIER(name) extern const struct bench_peak peak_##name;
#include "tier.def"

#endif
