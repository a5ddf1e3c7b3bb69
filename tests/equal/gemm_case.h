/* SPDX-License-Identifier: MIT */
/*
 * Random calls of mxfp_gemm_grouped() and what they must give, composed from the reference alone: quantization, sums,
 * finish, activation, gate, residual, the caller's function, C's format and blocks.
 */
#ifndef TESTS_GEMM_CASE_H
#define TESTS_GEMM_CASE_H

#include "oracle/operands.h"

/* A matrix that is read beside C. */
struct gemm_case_like {
	bool wanted, is_c; /* is_c: it is C itself */
	struct operand numbers;
};

/* One product. */
struct gemm_case_product {
	struct operand a, w;
	struct mxfp_matrix seen;    /* A in its format and order within the product */
	void *seen_data, *seen_scales;
	struct mxfp_matrix seen_w;  /* W in that order */
	void *seen_w_data;
	size_t m, n, k, c_stride;
	enum mxfp_format c_format;
	size_t c_bytes;
	uint8_t *given, *want;      /* what C's memory holds before, and must hold after the call */
	float *bias;                /* NULL: none */
	struct gemm_case_like gate, residual;
	bool no_c;                  /* only the blocks are wanted; c_bytes is 0 */
	struct mxfp_blocks blocks;  /* what C's must be, in memory that was MATRIX_CANARY before; no codes: not wanted */
	size_t codes_bytes, scales_bytes;
	int counts;                 /* which of the case's it adds to; -1: none */
	enum mxfp_acc acc;          /* the one that is used */
};

enum { GEMM_CASE_MAX_PRODUCTS = 4 };

struct gemm_case {
	size_t n;
	struct gemm_case_product product[GEMM_CASE_MAX_PRODUCTS];
	struct mxfp_gemm_options options;
	enum mxfp_format c_blocks;           /* f32: no product has blocks */
	struct mxfp_quantize_options quantize, c_quantize;
	struct mxfp_counts counts[GEMM_CASE_MAX_PRODUCTS]; /* what quantizing C must count */
};

/* What is drawn. */
struct gemm_case_wish {
	enum mxfp_format a_format, w_format; /* within the product */
	enum mxfp_acc acc;
	size_t budget;                       /* of multiplications, about */
	size_t rows;                         /* of A, by scales as near to each other as a model's; 0: any, by any */
};

void gemm_case_init(struct gemm_case *c, struct random *r, const struct gemm_case_wish *wish);
void gemm_case_clear(struct gemm_case *c);

/* One line. */
void gemm_case_describe(const struct gemm_case *c, char *text, size_t size);

#endif
