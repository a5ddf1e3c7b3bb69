/* SPDX-License-Identifier: MIT */
/*
 * The interface of a micro-kernel, which simd/ implements and lib/gemm calls. A panel is `mr` rows of A or `nr` rows
 * of W over one chunk of K; the kernel defines its size and contents. The kernel multiplies panels into tiles of mr x
 * nr sums and knows nothing of edges, threads, C's format, tensor scales or psum: rows past the end of a matrix are
 * padding in the panels, and their sums are dropped.
 *
 * A chunk is MXFP_GEMM_CHUNK elements of K (the last one: what remains) and whole passes; with psum bf16 it is one
 * pass. Kernels equal ref/gemm.c in every bit, except that any NaN will do: gemm_finish makes it canonical.
 */
#ifndef MXFP_GEMM_KERNEL_H
#define MXFP_GEMM_KERNEL_H

#include "mxfp/gemm.h"

enum {
	MXFP_GEMM_CHUNK = 512,
	MXFP_GEMM_NUMBERS = 4, /* a pass is this many times shorter if an operand is not in a block format */
	MXFP_GEMM_MOST_ROWS = 64, /* the largest nr */
	MXFP_GEMM_MOST_COLS = 1024, /* the most columns of a tile of C */
	MXFP_GEMM_ALIGN = 64 /* bytes, for tiles and A's panels; W's are in the caller's memory and may be unaligned */
};

_Static_assert(MXFP_GEMM_MOST_ROWS <= MXFP_GEMM_MOST_COLS, "a tile holds a panel of W");

#define MXFP_GEMM_NO_PASSES SIZE_MAX

/* The families of kernels. The table in kernel.c says which pairs of formats each takes, and which family is best. */
enum mxfp_gemm_family {
	MXFP_GEMM_CHAIN,
	MXFP_GEMM_CHAIN_BLOCKS,
	MXFP_GEMM_INT16_CODES,
	MXFP_GEMM_FP4,
	MXFP_GEMM_FP4_BYTES,
	MXFP_GEMM_FP8,
	MXFP_GEMM_MXFP8,
	MXFP_GEMM_INT8,
	MXFP_GEMM_E4M3,
	MXFP_GEMM_SPARSE_CHAIN,
	MXFP_GEMM_SPARSE_FP4,
	MXFP_GEMM_N_FAMILIES
};

/* What panels depend on besides the matrix. */
struct mxfp_gemm_shape {
	enum mxfp_format a_format, w_format;
	struct mxfp_sparsity sparsity; /* of W */
	size_t pass;                   /* elements in a pass; MXFP_GEMM_NO_PASSES: a machine sums from C on, over all of K */
};

/* One panel to be made. */
struct mxfp_gemm_pack_job {
	const struct mxfp_gemm_shape *shape;
	const struct mxfp_matrix *matrix; /* strides are not 0; transposed only if it is W; sparse only in a kernel for that */
	size_t row, rows;                 /* rows of the matrix in the panel, at least 1; the others are padding */
	size_t unit_rows;                 /* of A, that are packed for the same products; 0 for W */
	size_t k0, k;                     /* elements of the chunk; codes past the matrix's last element become zeros */
	void *panel;
};

/* Multiplies panels of A by one panel of W. Tile i holds the sums of A's panel i: C = fl32(C + P) after each pass. Where a
   kernel takes_panels, by `panels` of them one after the other, and the tiles of each follow those of the one before. */
struct mxfp_gemm_multiply_job {
	const struct mxfp_gemm_shape *shape;
	const void *a;   /* consecutive panels of a_panel_bytes(k) each */
	size_t rows;     /* of A, in ceil(rows / mr) panels */
	size_t panels;   /* of W, w_bytes apart */
	size_t w_bytes;
	const void *w_later; /* a panel that is likely to be multiplied later, for a kernel that waits for memory to fetch
	                        meanwhile */
	size_t w_stride; /* 0: w is a panel; else it points at numbers of a transposed W of binary32, [k][nr], so many apart: for
	                    a kernel that reads_lines */
	const void *w;   /* may be hostile data from a file: its contents must not cause an access outside the panels */
	float *c;        /* consecutive tiles [mr][nr]; rows past `rows` may get anything */
	void *scratch;   /* the kernel's scratch_bytes, aligned to MXFP_GEMM_ALIGN; contents are not kept between jobs */
	size_t k;
	uint32_t cpu;    /* MXFP_CPU_*: which of a kernel's loops is likely to be fastest; all give the same sums */
};

struct mxfp_gemm_kernel {
	uint32_t id;      /* stored in packed weights: a new panel layout of W gets a new number, never reused */
	const char *name; /* family and tier: "exact-e4m3-avx512" */
	size_t mr, nr;
	/* Return the bytes of a panel of A or W over k elements: not 0 unless k is; for A a multiple of MXFP_GEMM_ALIGN. */
	size_t (*a_panel_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
	size_t (*w_panel_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
	bool reads_lines;     /* takes W where it lies, for at most mr rows */
	bool takes_panels;
	size_t scratch_bytes; /* what multiply() needs besides the stack, where a function may use 16 KiB at most */
	void (*pack_a)(const struct mxfp_gemm_pack_job *job);
	void (*pack_w)(const struct mxfp_gemm_pack_job *job);
	void (*multiply)(const struct mxfp_gemm_multiply_job *job);
};

/* Adds to c the sums of rows x cols of C over all of K, with rounding to psum (ref/gemm.c, the definition). Both
   matrices are dense, and their strides are not 0; W alone may be transposed. */
struct mxfp_gemm_ref_job {
	const struct mxfp_matrix *a, *w;
	size_t row, rows, col, cols; /* of A, of W */
	enum mxfp_acc acc;
	size_t pass;                 /* elements, or MXFP_GEMM_NO_PASSES */
	enum mxfp_format psum;
	enum mxfp_round psum_round;
	uint64_t seed, stream;       /* of psum_round sr */
	uint64_t first_index;        /* sum (i, j) of the job has the index first_index + i * index_stride + j */
	uint64_t index_stride;
	float *c;                    /* [rows][cols] */
};

/* Finishes a row of sums: tensor scales, what C held, bias, gate, residual. Each step rounds to binary32: v = sum *
   multiply (if `multiplies`), v / divide (if `divides`), given + v, v + bias, v * gate, v + residual. NaN is made
   canonical. */
struct mxfp_gemm_finish_job {
	size_t n;
	const float *sum;
	bool multiplies, divides;
	float multiply, divide;
	const float *given; /* what C held; NULL: nothing is added */
	const float *bias;  /* NULL: none; likewise below */
	const float *gate, *residual;
	float *result;      /* may be `sum` */
};

#endif
