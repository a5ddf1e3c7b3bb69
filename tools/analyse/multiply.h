/* SPDX-License-Identifier: MIT */
/* The work of `mxfp gemm`: a product of two operands in memory, its file, and a second opinion on its bits. */
#ifndef TOOLS_ANALYSE_MULTIPLY_H
#define TOOLS_ANALYSE_MULTIPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/operand.h"
#include "mxfp/gemm.h"

/* The caller fills `out`, `options` (a_quantize included), c_format and threads and reads a and w; everything else starts zeroed. */
struct multiplication {
	const char *out;  /* final name of the output: none of the files that are read here */
	struct mxfp_gemm_options options;
	enum mxfp_format c_format;
	unsigned threads; /* 0: all */
	struct operand a, w;
	float *bias;      /* NULL: none */
	void *c;          /* m x n numbers in c_format */
	size_t m, n, k;
	double seconds;   /* of the product alone */
};

/* The name of C among the tensors of a .safetensors file. */
#define MULTIPLY_TENSOR "c"

/* Checks the shapes and takes memory for C. EXIT_INPUT, EXIT_MEMORY. */
int multiply_begin(struct multiplication *x, const char *a_name, const char *w_name, struct error *error);

/* Reads n numbers that are added to each row. As operand_read(); EXIT_INPUT if it is not a vector of n; EXIT_USAGE: it is
   `out`. */
int multiply_read_bias(struct multiplication *x, const char *text, struct error *error);

/* Reads what the product is added to into C and sets options.accumulate. EXIT_INPUT if the shape is another, or
   c_format does not hold a number of it; EXIT_USAGE: it is `out`. */
int multiply_read_given(struct multiplication *x, const char *text, struct error *error);

/* Computes C; with `checks` by the reference too, which is slow: EXIT_CHECK, naming the first place, if a bit
   differs. EXIT_MEMORY. */
int multiply_run(struct multiplication *x, bool checks, struct error *error);

/* EXIT_INPUT if products of these formats cannot be summed as options.acc says. */
int multiply_check(const struct multiplication *x, struct error *error);

/* How products are summed. */
enum mxfp_acc multiply_acc(const struct multiplication *x);

/* Elements of K after which C = C + P; 0: a machine sums from C on. */
unsigned multiply_pass(const struct multiplication *x);

/* Whether A is quantized in the call, and the format that A has in the product. */
bool multiply_quantizes_a(const struct multiplication *x);
enum mxfp_format multiply_a_format(const struct multiplication *x);

/* Writes C as a new file `path`, as .npy (bf16 as f32, which holds it) or .safetensors. EXIT_IO, EXIT_MEMORY. */
int multiply_write(const struct multiplication *x, const char *path, bool as_npy, struct error *error);

/* Releases everything, options.a_quantize excepted. */
void multiply_end(struct multiplication *x);

#endif
