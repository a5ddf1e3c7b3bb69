/* SPDX-License-Identifier: MIT */
/*
 * Products C[M,N] = A[M,K] W[N,K]^T of matrices in block formats and of ordinary ones, with every bit defined:
 * doc/numerics.md, section 5. No result depends on the instruction set, the number of threads, or on whether W was
 * packed before.
 */
#ifndef MXFP_GEMM_H
#define MXFP_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec.h"
#include "export.h"
#include "format.h"
#include "matrix.h"
#include "options.h"
#include "quantize.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One product, with m = a->rows and k = a->cols. In an array all have the same `size`, which is also their distance: set
   it to sizeof there, because 0 is the distance in the first version. */
struct mxfp_product {
	size_t size;                 /* sizeof(struct mxfp_product), or 0 (mxfp.h) */
	const struct mxfp_matrix *a; /* never sparse */
	const struct mxfp_matrix *w; /* never transposed; n = w->rows. Not looked at if there is a w_packed */
	const void *w_packed;        /* what mxfp_pack() made of W; NULL: W is `w` */
	size_t w_packed_bytes;
	size_t n;                    /* of w_packed: its rows, for which c has room. Not looked at without */
	void *c;                     /* m rows of n numbers in the options' c_format */
	size_t c_stride;             /* elements from a row to the next; 0: n */
	const float *bias;           /* n numbers that are added to every row; NULL: none */
};

/* A part of a result that is finished but for the caller's function and the rounding to c_format. */
struct mxfp_gemm_tile {
	size_t product;               /* which of the group */
	size_t row, col, rows, cols;  /* place in C */
	float *values;                /* rows of cols numbers, to be changed in place */
	size_t stride;                /* elements from a row to the next */
};

/* All zero: exact block sums, passes of 512, C is f32 and is overwritten, A is used as it is, every processor. */
struct mxfp_gemm_options {
	size_t size;                  /* sizeof(struct mxfp_gemm_options), or 0 (mxfp.h) */
	enum mxfp_acc acc;            /* of two block formats; any other pair runs the chain */
	unsigned pass_k;              /* 512, 256 or 128: the whole array, a half, one sub-array; 0: 512 */
	enum mxfp_format c_format;    /* f32 or bf16 */
	bool accumulate;              /* C holds numbers that the product is added to */
	enum mxfp_format psum;        /* f32, or bf16: C is rounded to bf16 after every pass */
	enum mxfp_round psum_round;   /* rne or sr */
	uint64_t seed, stream;        /* of that rounding: mxfp_convert_options; pass p has stream + p, C[m][n] the index
	                                 m * N + n */
	enum mxfp_format a_format;    /* a block format: A is in it, or is f32, bf16 or f16 and is quantized to it. 0, which is
	                                 f32: A is used as it is */
	const struct mxfp_quantize_options *a_quantize; /* how; its exec and counts are not looked at, first_non_finite is set
	                                 under policy error alone, first_index is that of A[0][0], and A[m][k] has
	                                 first_index + m * K + k. NULL: {0} */
	void (*epilogue)(void *context, const struct mxfp_gemm_tile *tile); /* called once for every part of C, on any
	                                 thread, after bias; tiles depend on the sizes and the kernel. NULL: none */
	void *epilogue_context;
	size_t *failed_product;       /* set on an error of one product to which it is; NULL: not wanted */
	const struct mxfp_exec *exec; /* NULL: {0}. `threads` is also how many tasks the caller's `run` is given; the
	                                 workspace depends on it */
};

/*
 * Bytes that mxfp_gemm_grouped() can use for these products: shapes, formats, sparsity, w_packed and options count, the
 * other pointers are not looked at. With exec->threads given they depend on the instruction set alone, with 0 also on the
 * processors that the process may use at the moment. options may be NULL: {0}. Errors as there.
 */
MXFP_API enum mxfp_status mxfp_gemm_workspace_size(const struct mxfp_product *products, size_t n,
                                                   const struct mxfp_gemm_options *options, size_t *bytes);

/*
 * Computes one product. workspace is workspace_bytes of memory that the call may use as it likes. What
 * mxfp_gemm_workspace_size() says for one thread is always enough; with less than it says for all, fewer threads
 * compute.
 *
 * Two block formats, acc exact: for every block of K (32, or 16 beside NVFP4) the sum of element products is exact; it
 * is rounded to 24 bits, scaled by both block scales without limit of exponent, and added to P in binary32. Every
 * pass_k elements P is added to C and starts again from +0. Any other pair, and acc chain: elements are decoded to
 * binary32, P = fma(a, w, P) in ascending k; a pass has pass_k elements if both are block formats, else pass_k / 4.
 * Tensor scales multiply the sum at the end (exact), or the elements (chain).
 *
 * NaN and Inf follow IEEE 754; every NaN that is stored is 7FC00000 (7FC0). With k = 0 the product is +0.
 *
 * Nothing but *failed_product and *first_non_finite is written unless MXFP_OK is returned. MXFP_ERR_NULL;
 * MXFP_ERR_FORMAT: a format that is no operand, a c_format or psum other than f32 and bf16, an a_format that is neither 0
 * nor a block format, or one with an A that is in another one or in tf32, transposed codes or W; MXFP_ERR_OPTION: an enum
 * or pass_k out of range, psum_round other than rne and sr, a_quantize as mxfp_quantize() refuses it, an unknown
 * sparsity, a sparse A, exec->isa, a product of another size than the first; MXFP_ERR_SIZE: A and W have other columns,
 * a stride is shorter than a row, a size overflows, the workspace is too small; MXFP_ERR_OVERLAP: c or the workspace with
 * anything else; MXFP_ERR_PACKED: w_packed was made for another kernel, another format of A or other options, has other
 * rows than n, or is cut off; MXFP_ERR_MASK: as mxfp_sparse_expand(); MXFP_ERR_NON_FINITE: as mxfp_quantize().
 */
MXFP_API enum mxfp_status mxfp_gemm(const struct mxfp_product *product, const struct mxfp_gemm_options *options,
                                    void *workspace, size_t workspace_bytes);

/* Computes n independent products of any shapes and formats, all with the same options; n may be 0. It takes as long as
   one product of the same work. Bits and errors are those of mxfp_gemm() for each; tile.product counts from 0. */
MXFP_API enum mxfp_status mxfp_gemm_grouped(const struct mxfp_product *products, size_t n,
                                            const struct mxfp_gemm_options *options, void *workspace,
                                            size_t workspace_bytes);

/*
 * Bytes of memory in which mxfp_pack() brings W into the order that this machine's kernel reads for products with these
 * options. A's format in them is options->a_format if that is a block format; 0: A is numbers in f32, tf32, bf16 or f16.
 * Errors as mxfp_gemm().
 */
MXFP_API enum mxfp_status mxfp_pack_size(const struct mxfp_matrix *w, const struct mxfp_gemm_options *options,
                                         size_t *bytes);

/*
 * Brings W into that order: once, for many products. `packed` may be saved and read again, and begins with the kernel's
 * identity: a product on a machine, build or option that wants another order gives MXFP_ERR_PACKED. Of the options
 * a_format, acc, pass_k, psum and exec count. bytes is at least what mxfp_pack_size() says. Packed data has no checksum:
 * changed bytes give other numbers, not an error, but are safe to multiply.
 *
 * MXFP_ERR_SIZE: bytes is less than that; MXFP_ERR_OVERLAP: packed with W; else as mxfp_pack_size().
 */
MXFP_API enum mxfp_status mxfp_pack(void *packed, size_t bytes, const struct mxfp_matrix *w,
                                    const struct mxfp_gemm_options *options);

#ifdef __cplusplus
}
#endif
#endif
