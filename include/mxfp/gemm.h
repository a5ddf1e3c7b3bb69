/* SPDX-License-Identifier: MIT */
/*
 * Products C[M,N] = A[M,K] W[N,K]^T of matrices in block formats or of ordinary numbers. doc/numerics.md, section 5,
 * defines every bit: no result depends on the instruction set, the number of threads, or whether W was packed before.
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

/* One product, with m = a->rows and k = a->cols. The products of an array have the same `size`, which is also the
   distance between them: set it to sizeof there, because 0 means the distance in the first version. */
struct mxfp_product {
	size_t size;                 /* sizeof(struct mxfp_product), or 0 (mxfp.h) */
	const struct mxfp_matrix *a; /* never sparse */
	const struct mxfp_matrix *w; /* n = w->rows. Ignored if w_packed is given */
	const void *w_packed;        /* W as packed by mxfp_pack(); NULL: W is `w` */
	size_t w_packed_bytes;
	size_t n;                    /* rows of w_packed, for which c has room. Ignored without w_packed */
	void *c;                     /* m rows of n numbers in the options' c_format; NULL if only c_blocks is wanted */
	size_t c_stride;             /* elements from a row to the next; 0: n */
	const float *bias;           /* n numbers to be added to every row; NULL: none */
	const struct mxfp_matrix *gate; /* m x n numbers in f32 or bf16, by which the results of the activation are
	                                multiplied; NULL: none */
	const struct mxfp_matrix *residual; /* likewise, added after that. Each of the two may be C itself: its address,
	                                format and stride */
	struct mxfp_blocks *c_blocks; /* m x n elements: C quantized as the options' c_quantize says, from its binary32
	                                numbers; NULL: not wanted */
};

/* A part of a result that is finished except for the caller's epilogue, the rounding to c_format and the
   quantization. */
struct mxfp_gemm_tile {
	size_t product;               /* index in the group */
	size_t row, col, rows, cols;  /* place in C */
	float *values;                /* [rows][cols], to be changed in place */
	size_t stride;                /* elements from a row to the next */
};

/* All zero: exact block sums, passes of 512, C is f32 and is overwritten, A is not quantized, no activation, all
   processors. */
struct mxfp_gemm_options {
	size_t size;                  /* sizeof(struct mxfp_gemm_options), or 0 (mxfp.h) */
	enum mxfp_acc acc;            /* for two block formats; any other pair runs the chain */
	unsigned pass_k;              /* 512, 256 or 128: the whole array, a half, one sub-array; 0: 512 */
	enum mxfp_format c_format;    /* f32 or bf16 */
	bool accumulate;              /* adds the product to what C holds */
	enum mxfp_format psum;        /* f32, or bf16: C is rounded to bf16 after every pass */
	enum mxfp_round psum_round;   /* rne or sr */
	uint64_t seed, stream;        /* of that rounding, as in mxfp_convert_options; pass p uses stream + p, and C[m][n]
	                                 has the index m * N + n */
	enum mxfp_format a_format;    /* a block format: A is in it, or is f32, bf16 or f16 and is quantized to it. 0, which is
	                                 f32: A is used as it is */
	const struct mxfp_quantize_options *a_quantize; /* how A is quantized; exec and counts are ignored, first_non_finite
	                                 is set under policy error only, first_index is that of A[0][0], and A[m][k] has
	                                 first_index + m * K + k. NULL: {0} */
	void (*epilogue)(void *context, const struct mxfp_gemm_tile *tile); /* called once for every part of C, on any
	                                 thread in the calling thread's floating-point state (mxfp/exec.h), after residual;
	                                 tiles depend on the sizes, the kernel, c_blocks and the number of threads. NULL:
	                                 none */
	void *epilogue_context;
	size_t *failed_product;       /* on an error of one product, set to its index; NULL: not wanted */
	const struct mxfp_exec *exec; /* NULL: {0}. `threads` is also how many tasks the caller's `run` is given; the
	                                 workspace depends on it */
	enum mxfp_function activation; /* of every number, after bias and before gate (mxfp/vector.h); 0: identity */
	const float *activation_parameter; /* as in mxfp_apply_options */
	const struct mxfp_quantize_options *c_quantize; /* how C becomes c_blocks; exec is ignored, and C[m][n] has
	                                 first_index + m * N + n in every product. Results are not known before they are
	                                 written, so policy `error`, first_non_finite, block_rows 32, and a tensor scale without
	                                 tensor_amax are MXFP_ERR_OPTION. NULL: {0} */
};

/*
 * Computes how many bytes of workspace mxfp_gemm_grouped() can use for these products, from their shapes, formats,
 * sparsity, w_packed, whether they have c_blocks, and the options; other pointers are ignored. The result depends on
 * the instruction set, and if exec->threads is 0, also on the processors that the process may use now. options may be
 * NULL: {0}. Errors as there.
 */
MXFP_API enum mxfp_status mxfp_gemm_workspace_size(const struct mxfp_product *products, size_t n,
                                                   const struct mxfp_gemm_options *options, size_t *bytes);

/*
 * Computes one product. The call may use the workspace_bytes of workspace as it likes. The size that
 * mxfp_gemm_workspace_size() gives for one thread is always enough; with less than for all threads, fewer threads run.
 *
 * Two block formats, acc exact: for every block of K (32, or 16 beside NVFP4) the sum of element products is exact; it
 * is rounded to 24 bits, scaled by both block scales with unbounded exponent, and added to P in binary32. After every
 * pass_k elements P is added to C and starts again from +0. Any other pair, and acc chain: elements are decoded to
 * binary32, P = fma(a, w, P) in ascending k; a pass has pass_k elements if both are block formats, else pass_k / 4.
 * Tensor scales multiply the sum at the end (exact), or the elements (chain).
 *
 * NaN and Inf follow IEEE 754; every NaN that is stored is 7FC00000 (7FC0). With k = 0 the product is +0.
 *
 * Each sum v, to which tensor scales have been applied and, if it accumulates, what C held has been added, then passes
 * through v = fl32(v + bias), v = activation(v), v = fl32(v * gate), v = fl32(v + residual) and the epilogue; c gets v
 * rounded to c_format, and c_blocks what mxfp_quantize() makes of all v, tensor scale included.
 *
 * On an error, only *failed_product and *first_non_finite are written. MXFP_ERR_NULL, also for c with accumulate;
 * MXFP_ERR_FORMAT: a format that
 * cannot be an operand, a c_format or psum other than f32 and bf16, an a_format that is neither 0 nor a block format,
 * an A in tf32 or another block format than a_format, a transposed matrix that is in blocks or sparse, a gate or
 * residual that is transposed or not in f32 or bf16, c_blocks not in a block format; MXFP_ERR_OPTION: an enum or pass_k out of range, an
 * activation_parameter that is NaN or Inf, psum_round other than rne and sr, an a_quantize that mxfp_quantize()
 * refuses or with block_rows 32, a c_quantize that it refuses or that is refused above, an unknown sparsity, a sparse matrix other than W,
 * exec->isa, a product of another size than the first; MXFP_ERR_SIZE: a->cols and w->cols differ, gate, residual or
 * c_blocks has another shape than C, a stride is shorter than a row, a size overflows, the workspace is too small;
 * MXFP_ERR_OVERLAP: c, the codes or scales of c_blocks, or the workspace overlaps anything else, except C as gate or
 * residual; MXFP_ERR_PACKED: w_packed was made for another kernel, another format of A or other options, does
 * not have n rows, or is cut off; MXFP_ERR_MASK: as mxfp_sparse_expand(); MXFP_ERR_NON_FINITE: as mxfp_quantize().
 */
MXFP_API enum mxfp_status mxfp_gemm(const struct mxfp_product *product, const struct mxfp_gemm_options *options,
                                    void *workspace, size_t workspace_bytes);

/* Computes n independent products of any shapes and formats with the same options; n may be 0. They share all
   threads, as the parts of one large product do. Bits and errors are those of mxfp_gemm() for each; tile.product
   counts from 0. */
MXFP_API enum mxfp_status mxfp_gemm_grouped(const struct mxfp_product *products, size_t n,
                                            const struct mxfp_gemm_options *options, void *workspace,
                                            size_t workspace_bytes);

/*
 * Computes the bytes that mxfp_pack() needs for W. Products with the packed weights must have an A in
 * options->a_format, or quantized to it, if that is a block format; if it is 0, an A of numbers in f32, tf32, bf16 or
 * f16. Errors as mxfp_gemm().
 */
MXFP_API enum mxfp_status mxfp_pack_size(const struct mxfp_matrix *w, const struct mxfp_gemm_options *options,
                                         size_t *bytes);

/*
 * Packs W into the order in which this machine's kernel reads it for products with these options: once, for many
 * products. `packed` may be saved and read again. It begins with the kernel's identity, and a product whose machine,
 * build or options need another order returns MXFP_ERR_PACKED. Of the options, a_format, acc, pass_k, psum and exec
 * count. bytes is at least what mxfp_pack_size() says. There is no checksum: changed bytes give other numbers, not an
 * error, but are safe to multiply.
 *
 * MXFP_ERR_SIZE: bytes is less than that; MXFP_ERR_OVERLAP: packed and W; else as mxfp_pack_size().
 */
MXFP_API enum mxfp_status mxfp_pack(void *packed, size_t bytes, const struct mxfp_matrix *w,
                                    const struct mxfp_gemm_options *options);

#ifdef __cplusplus
}
#endif
#endif
