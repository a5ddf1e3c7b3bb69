/* SPDX-License-Identifier: MIT */
/* Cases of the kind `sparse24`: torch's compression of f16 that has two of four already. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/sparse.h"
#include "interop/vectors.h"

static uint16_t *halves(const struct vector_array *a)
{
	uint16_t *out = malloc(a->n * sizeof *out);

	for (size_t i = 0; i < a->n; i++)
		out[i] = (uint16_t)a->at[i];
	return out;
}

/* 24: "of a group with fewer than two numbers that are not zero, which zeros are kept differs": theirs is the pair of
   ours in either order, and one of it is zero. */
static int excuse_pair(const uint16_t *ours, const struct vector_array *theirs, size_t i)
{
	size_t other = i ^ 1;

	return ours[i] == theirs->at[other] && ours[other] == theirs->at[i] && (ours[i] == 0 || ours[other] == 0)
	               ? 24
	               : VECTOR_NO_EXCUSE;
}

/* Pruning must leave the input as it is, and what is kept is theirs, in order. Their `meta`, which says where the kept
   ones stood, is in the order that one GPU's kernel loads and has no counterpart here. */
void vectors_run_sparse24(struct vector_set *set, struct vector_case *c)
{
	struct vector_array input = vectors_input(set, c->input), values = vectors_output(set, c, "values");
	uint16_t *dense = halves(&input), *pruned = malloc(input.n * sizeof *pruned);
	struct mxfp_sparse ours = {
		.size = sizeof ours, .format = MXFP_FORMAT_F16, .sparsity = {2, 4}, .rows = input.rows, .cols = input.cols};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F16, input.rows, input.cols, dense);
	const struct mxfp_result left = mxfp_to_numbers(MXFP_FORMAT_F16, pruned);
	struct mxfp_sparse_sizes sizes;

	ck_assert_int_eq(mxfp_sparse_size(&sizes, ours.format, ours.sparsity, ours.rows, ours.cols), MXFP_OK);
	ck_assert_uint_eq(values.n * sizeof *dense, sizes.codes_bytes);
	uint16_t *codes = malloc(sizes.codes_bytes);
	ours.codes = codes;
	ours.masks = malloc(sizes.masks_bytes);
	ck_assert_int_eq(mxfp_sparse_prune(&ours, &left, &source, NULL), MXFP_OK);
	ck_assert_int_eq(mxfp_sparse_compress(&ours, dense, 0, NULL), MXFP_OK);
	for (size_t i = 0; i < input.n; i++)
		vectors_compare(set, c, &(struct vector_pair){i, dense[i], pruned[i], dense[i], VECTOR_NO_EXCUSE});
	for (size_t i = 0; i < values.n; i++)
		vectors_compare(set, c,
		                &(struct vector_pair){i, 0, codes[i], values.at[i], excuse_pair(codes, &values, i)});
	free(ours.masks);
	free(codes);
	free(pruned);
	free(dense);
	free(values.at);
	free(input.at);
}
