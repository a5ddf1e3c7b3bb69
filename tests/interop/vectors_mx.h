/* SPDX-License-Identifier: MIT */
/* Blocks of 32: what vectors_mx.c, which runs the cases, and vectors_mx_scale.c, which knows the scales, share. */
#ifndef TESTS_VECTORS_MX_H
#define TESTS_VECTORS_MX_H

#include "minifloat.h"
#include "interop/vectors.h"

enum { VECTOR_BLOCK = 32, VECTOR_BIAS = 127 };

/* One block of a case. */
struct vector_block {
	struct vector_set *set;
	struct vector_case *c;
	const struct mxfp_format_info *element;
	struct mxfp_rounding rounding;
	size_t row;
	const uint32_t *x;
	uint32_t amax, ours, theirs; /* the two scales */
	bool has_nan, has_inf;
};

bool vectors_by_ggml(const struct vector_case *c); /* libggml or gguf-py */
bool vectors_by_microxcaling(const struct vector_case *c);
bool vectors_by_mlx(const struct vector_case *c);

/* The rule a case names. */
enum mxfp_rule vectors_rule(const struct vector_case *c);

/* Takes 32 numbers: x, row, amax, has_nan, has_inf. */
void vectors_load_block(struct vector_block *b, const uint32_t *x, size_t row);

/* What the difference between the two scales can be laid to. */
int vectors_excuse_scale(const struct vector_block *b);

#endif
