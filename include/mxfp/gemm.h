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
#include "matrix.h"
#include "options.h"
#include "quantize.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One product, with m = a->rows and k = a->cols. The products of an array all have the same `size`, which is the distance
   between them. */
struct mxfp_product {
	size_t size;                 /* sizeof(struct mxfp_product) */
	const struct mxfp_result *c; /* m rows of n numbers in f32 or bf16, or blocks made from the binary32 results, or both; not
	                                `clamped` */
	const struct mxfp_matrix *a; /* never sparse */
	const struct mxfp_matrix *w; /* n = w->rows. Ignored if w_packed is given */
	const void *w_packed;        /* W as packed by mxfp_pack(); NULL: W is `w` */
	size_t w_packed_bytes;
	size_t n;                    /* rows of w_packed, for which c has room. Ignored without w_packed */
	const float *bias;           /* n numbers to be added to every row; NULL: none */
	const struct mxfp_matrix *gate; /* m x n numbers in f32 or bf16, by which the results of the activation are
	                                multiplied; NULL: none */
	const struct mxfp_matrix *residual; /* likewise, added after that. Each of the two may be the numbers of C itself: their
	                                address, format and stride */
};

/* A part of a result that is finished except for the caller's epilogue, the rounding to C's format and the
   quantization. */
struct mxfp_gemm_tile {
	size_t product;               /* index in the group */
	size_t row, col, rows, cols;  /* place in C */
	float *values;                /* [rows][cols], to be changed in place */
	size_t stride;                /* elements from a row to the next */
};

/* All zero: exact block sums, passes of 512, C is overwritten, A is not quantized, no activation. */
struct mxfp_gemm_options {
	size_t size;                  /* sizeof(struct mxfp_gemm_options) */
	enum mxfp_acc acc;            /* exact: any pair but two block formats runs the chain. A machine: formats that it takes */
	unsigned pass_k;              /* 512, 256 or 128: the whole array, a half, one sub-array; 0: 512, a machine sums over all of
	                                 K */
	bool accumulate;              /* adds the product to what C's numbers hold */
	enum mxfp_format psum;        /* f32, or bf16: C is rounded to bf16 after every pass, by a machine without pass_k once */
	enum mxfp_round psum_round;   /* rne or sr */
	uint64_t seed, stream;        /* of that rounding, as in mxfp_convert_options; pass p uses stream + p, and C[m][n]
	                                 has the index m * N + n */
	enum mxfp_format a_format;    /* a block format: A is in it, or is f32, bf16 or f16 and is quantized to it. 0, which is
	                                 f32: A is used as it is */
	const struct mxfp_quantize_options *a_quantize; /* how A is quantized; first_index is that of A[0][0], and A[m][k] has
	                                 first_index + m * K + k. Under policy error, c->first_non_finite is set. NULL: the
	                                 defaults */
	enum mxfp_function activation; /* of every number, after bias and before gate (mxfp/rows.h); 0: identity */
	struct mxfp_optional activation_parameter; /* as in mxfp_function_options */
	void (*epilogue)(void *context, const struct mxfp_gemm_tile *tile); /* called once for every part of C, after residual,
	                                 on any thread, in the calling thread's floating-point state (mxfp/exec.h); tiles depend on
	                                 the sizes, the kernel, C's blocks and the number of threads. NULL: none */
	void *epilogue_context;
	const struct mxfp_quantize_options *c_quantize; /* how C becomes blocks; C[m][n] has first_index + m * N + n in every
	                                 product. Results are not known before they are written, so policy `error`, block_rows 32,
	                                 and a tensor scale without tensor_amax are refused. NULL: the defaults */
};

/*
 * Computes how many bytes of workspace mxfp_gemm_grouped() can use for these products, from their shapes, formats,
 * sparsity, w_packed, whether they have blocks, and the options; other pointers are ignored. The result depends on
 * the instruction set, and if exec->threads is 0, also on the processors that the process may use now. It is bounded in K: a
 * product with very many columns packs A in parts.
 *
 * Errors as mxfp_gemm(), but for MXFP_ERR_MASK, MXFP_ERR_NON_FINITE, MXFP_ERR_OVERLAP, MXFP_ERR_WORKSPACE
 */
MXFP_API enum mxfp_status mxfp_gemm_workspace_size(size_t *bytes, const struct mxfp_product *products, size_t n,
                                                   const struct mxfp_gemm_options *options, const struct mxfp_exec *exec);

/*
 * Computes one product. The call may use the workspace_bytes of workspace as it likes. The size that
 * mxfp_gemm_workspace_size() gives for one thread is always enough; with less than for all threads, fewer threads run.
 *
 * Two block formats, acc exact: for every block of K (32, or 16 beside NVFP4) the sum of element products is exact; it
 * is rounded to 24 bits, scaled by both block scales with unbounded exponent, and added to P in binary32. After every
 * pass_k elements P is added to C and starts again from +0. Any other pair, and acc chain: elements are decoded to
 * binary32, P = fma(a, w, P) in ascending k; a pass has pass_k elements if both are block formats, else pass_k / 4.
 * Tensor scales multiply the sum at the end (exact, machines), or the elements (chain).
 *
 * The acc of a machine: C passes from one of its instructions to the next, in ascending k, and zeros stand behind the last
 * element. With pass_k P starts from +0, and C = fl32(C + P) after that many elements: 128 is the promotion of DeepGEMM. A and W
 * are in the same format, or both in FP8, or both in mxfp8, mxfp6 or mxfp4: f16 (volta, turing, ampere, ada, hopper, blackwell,
 * cdna2, cdna3), bf16 (the same but for volta and turing; vdpbf16ps, tdpbf16ps), tf32 (ampere, ada, hopper, blackwell, cdna3), e4m3
 * and e5m2 (ada, hopper, hopper-mma, blackwell, fmmla, ace), e4m3fnuz and e5m2fnuz (cdna3), mxfp8 (blackwell, ace), mxfp6, mxfp4
 * and nvfp4 (blackwell), mxint8 (ace). No other acc takes FP8.
 *
 * NaN and Inf follow IEEE 754, in each operation that rounds; every NaN that is stored is 7FC00000 (7FC0). With k = 0 the product is +0.
 *
 * Each sum v, to which tensor scales have been applied and, if it accumulates, what C held has been added, then passes
 * through v = fl32(v + bias), v = activation(v), v = fl32(v * gate), v = fl32(v + residual) and the epilogue; C's numbers are v
 * rounded to their format, and its blocks what mxfp_quantize() makes of all v, tensor scale included.
 *
 * MXFP_ERR_NULL        neither numbers nor blocks in c, or no numbers with accumulate
 * MXFP_ERR_FORMAT      A or W in a format that cannot be an operand, or in two that acc does not take; c or psum in another
 *                      format than f32 and bf16; an a_format that is neither 0 nor a block format; an A in tf32 or another
 *                      block format than a_format; a transposed matrix in blocks or sparse; a sparse A; a gate or residual
 *                      that is transposed, sparse or not in f32 or bf16
 * MXFP_ERR_SHAPE       a->cols and the columns of w or w_packed differ; w_packed does not have n rows; gate, residual or blocks
 *                      have another shape than C
 * MXFP_ERR_OPTION      an enum or pass_k out of range; an activation_parameter that is NaN or Inf; an a_quantize that
 *                      mxfp_quantize() refuses, or with block_rows 32; a c_quantize that it refuses or that is refused above; an
 *                      unknown sparsity; a c with clamped, or with first_non_finite but without a_quantize's policy error
 * MXFP_ERR_VERSION     a product of another size than the first, too
 * MXFP_ERR_WORKSPACE   less than for one thread
 * MXFP_ERR_OVERLAP     not: C's numbers as gate or residual
 * MXFP_ERR_PACKED      w_packed was made for another kernel, another format of A or other options, or is cut off
 * MXFP_ERR_MASK        as mxfp_sparse_check()
 * MXFP_ERR_NON_FINITE  as mxfp_quantize(), of A
 */
MXFP_API enum mxfp_status mxfp_gemm(const struct mxfp_product *product, const struct mxfp_gemm_options *options,
                                    void *workspace, size_t workspace_bytes, const struct mxfp_exec *exec);

/*
 * Computes n independent products of any shapes and formats with the same options; n may be 0. They share all
 * threads, as the parts of one large product do. Bits are those of mxfp_gemm() for each; tile.product counts from 0.
 * On an error of one product, *failed is set to its index; failed may be NULL.
 *
 * Errors as mxfp_gemm()
 */
MXFP_API enum mxfp_status mxfp_gemm_grouped(size_t *failed, const struct mxfp_product *products, size_t n,
                                            const struct mxfp_gemm_options *options, void *workspace,
                                            size_t workspace_bytes, const struct mxfp_exec *exec);

/*
 * Computes the bytes that mxfp_pack() needs for W. Products with the packed weights must have an A in
 * options->a_format, or quantized to it, if that is a block format; if it is 0, an A of numbers.
 *
 * Errors as mxfp_pack(), but for MXFP_ERR_MASK, MXFP_ERR_OVERLAP, MXFP_ERR_WORKSPACE
 */
MXFP_API enum mxfp_status mxfp_pack_size(size_t *bytes, const struct mxfp_matrix *w, const struct mxfp_gemm_options *options,
                                         const struct mxfp_exec *exec);

/*
 * Packs W into the order in which this machine's kernel reads it for products with these options: once, for many
 * products. `packed` may be saved and read again. It begins with the kernel's identity, and a product whose machine,
 * build or options need another order returns MXFP_ERR_PACKED. Of the options, a_format, acc, pass_k and psum
 * count, and exec->isa. bytes is at least what mxfp_pack_size() says. There is no checksum: changed bytes give other numbers,
 * not an error, but are safe to multiply.
 *
 * MXFP_ERR_FORMAT     W in a format that cannot be an operand, or that acc does not take; or transposed and in blocks or
 *                     sparse; psum or a_format as in mxfp_gemm()
 * MXFP_ERR_OPTION     an enum or pass_k out of range; an activation_parameter that is NaN or Inf; an unknown sparsity
 * MXFP_ERR_WORKSPACE  bytes is less than that
 * MXFP_ERR_MASK       as mxfp_sparse_check()
 */
MXFP_API enum mxfp_status mxfp_pack(void *packed, size_t bytes, const struct mxfp_matrix *w,
                                    const struct mxfp_gemm_options *options, const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
