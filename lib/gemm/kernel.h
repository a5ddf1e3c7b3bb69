/* SPDX-License-Identifier: MIT */
/*
 * What a product kernel is. The loops around it (lib/gemm) bring A and W into panels: `mr` rows of A, `nr` rows
 * of W, over one chunk of K; a kernel says how large its panels are and what they hold. It multiplies panels into tiles
 * of mr x nr sums and knows nothing of edges, threads, C's format, tensor scales or psum: rows that a matrix has not
 * are padding in the panels, whose sums are dropped.
 *
 * A chunk is MXFP_GEMM_CHUNK elements of K (the last: what remains), and whole passes; with psum bf16 it is one pass.
 * Kernels equal ref/gemm.c in every bit, NaN excepted: any NaN will do, the finish makes it canonical.
 */
#ifndef MXFP_GEMM_KERNEL_H
#define MXFP_GEMM_KERNEL_H

#include "mxfp/gemm.h"

enum {
	MXFP_GEMM_CHUNK = 512,
	MXFP_GEMM_NUMBERS = 4, /* a pass has so many times fewer elements where an operand is in no block format */
	MXFP_GEMM_MOST_ROWS = 64, /* nr at most */
	MXFP_GEMM_MOST_COLS = 1024, /* of a tile of C */
	MXFP_GEMM_ALIGN = 64 /* of tiles and of A's panels. W's may lie anywhere: the caller's memory holds them */
};

_Static_assert(MXFP_GEMM_MOST_ROWS <= MXFP_GEMM_MOST_COLS, "a tile holds a panel of W");

/* The families of kernels. Which pairs of formats each takes, and which is best, is in one table, that of kernel.c. */
enum mxfp_gemm_family {
	MXFP_GEMM_CHAIN,
	MXFP_GEMM_EXACT,
	MXFP_GEMM_INT16,
	MXFP_GEMM_WIDE,
	MXFP_GEMM_INT8,
	MXFP_GEMM_E4M3,
	MXFP_GEMM_SPARSE_CHAIN,
	MXFP_GEMM_SPARSE_INT8,
	MXFP_GEMM_N_FAMILIES
};

/* What panels depend on besides the matrix. */
struct mxfp_gemm_shape {
	enum mxfp_format a_format, w_format;
	struct mxfp_sparsity sparsity; /* of W */
	size_t pass;                   /* elements in a pass */
};

/* One panel to be made. */
struct mxfp_gemm_pack_job {
	const struct mxfp_gemm_shape *shape;
	const struct mxfp_matrix *matrix; /* strides are never 0, never transposed; sparse only in a kernel for sparse W */
	size_t row, rows;                 /* rows of the matrix in the panel: at least 1; the panel's others are padding */
	size_t k0, k;                     /* elements of the chunk. Codes past the matrix's last element are to be zeros */
	void *panel;
};

/* Panels of A times one panel of W. Tile i holds what becomes of A's panel i: C = fl32(C + P) after each pass. */
struct mxfp_gemm_multiply_job {
	const struct mxfp_gemm_shape *shape;
	const void *a;   /* panels follow each other, each of a_panel_bytes(k) */
	size_t rows;     /* of A, in ceil(rows / mr) panels */
	const void *w;   /* what it holds may be hostile: read from a file. It leads to no access outside panels */
	float *c;        /* tiles [mr][nr], one after the other; rows past `rows` may get anything */
	void *scratch;   /* scratch_bytes of the kernel, aligned as panels are; what it holds is of no use to the next job */
	size_t k;
};

struct mxfp_gemm_kernel {
	uint32_t id;      /* in packed data: another panel layout of W is another number, never used again */
	const char *name; /* family and tier: "exact-e4m3-avx512" */
	size_t mr, nr;
	/* Bytes of a panel of A or W over k elements; never 0 if k is not 0. A's are multiples of MXFP_GEMM_ALIGN. */
	size_t (*a_panel_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
	size_t (*w_panel_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
	size_t scratch_bytes; /* that multiply() needs beside the stack, on which no function has more than 16 KiB */
	void (*pack_a)(const struct mxfp_gemm_pack_job *job);
	void (*pack_w)(const struct mxfp_gemm_pack_job *job);
	void (*multiply)(const struct mxfp_gemm_multiply_job *job);
};

/* The definition (ref/gemm.c): the sums of rows x cols of C over all of K, psum included, from what c holds. Both
   matrices are dense, with strides. */
struct mxfp_gemm_ref_job {
	const struct mxfp_matrix *a, *w;
	size_t row, rows, col, cols; /* of A, of W */
	enum mxfp_acc acc;
	size_t pass;                 /* elements */
	enum mxfp_format psum;
	enum mxfp_round psum_round;
	uint64_t seed, stream;       /* of psum_round sr; sum (i, j) of the job has the index ... */
	uint64_t first_index;        /* ... first_index + i * index_stride + j */
	uint64_t index_stride;
	float *c;                    /* rows of cols */
};

/* A row of sums that is complete: tensor scales, what C held, bias, C's format. fl32 each:
   v = multiply * sum (if it has that), / divide (likewise), given + v, + bias. NaN is made canonical. */
struct mxfp_gemm_finish_job {
	size_t n;
	const float *sum;
	bool multiplies, divides;
	float multiply, divide;
	const float *given; /* NULL: nothing is added here */
	const float *bias;  /* NULL: none */
	float *result;      /* may be `sum` */
};

#endif
