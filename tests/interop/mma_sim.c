/* SPDX-License-Identifier: MIT */
/*
 * Products by a machine's accumulator, for mma_sim.py: ACC A W M N K, of records on standard input: A's codes and scales, W's codes and
 * scales, C in binary32. It writes a record of D. cc mma_sim.c -lmxfp
 */
#include <stdio.h>
#include <stdlib.h>

#include <mxfp.h>

static void *memory(size_t bytes)
{
	void *p = malloc(bytes + 1);

	if (p == NULL)
		exit(1);
	return p;
}

/* A matrix with memory of its own. */
static struct mxfp_matrix matrix(const char *name, size_t rows, size_t cols, size_t bytes[2])
{
	enum mxfp_format format;
	struct mxfp_sizes size = {0};

	if (mxfp_format_from_name(&format, name) != MXFP_OK)
		exit(2);
	if (mxfp_format_get_info(format)->kind != MXFP_KIND_BLOCK) {
		bytes[0] = rows * cols * mxfp_format_get_info(format)->storage_bytes;
		bytes[1] = 0;
		return mxfp_numbers(format, rows, cols, memory(bytes[0]));
	}
	if (mxfp_blocks_size(&size, format, rows, cols) != MXFP_OK)
		exit(2);
	bytes[0] = size.codes_bytes;
	bytes[1] = size.scales_bytes;
	struct mxfp_matrix coded = mxfp_coded(format, rows, cols, memory(bytes[0]), memory(bytes[1]));
	coded.tensor_scale = 1;
	return coded;
}

static int get(const struct mxfp_matrix *m, const size_t bytes[2])
{
	return fread((void *)m->data, 1, bytes[0], stdin) == bytes[0] &&
	       (bytes[1] == 0 || fread((void *)m->scales, 1, bytes[1], stdin) == bytes[1]);
}

int main(int argc, char **argv)
{
	int acc;

	if (argc != 7 || mxfp_option_from_name(&acc, MXFP_OPTION_ACC, argv[1]) != MXFP_OK)
		return 2;
	const size_t m = (size_t)atol(argv[4]), n = (size_t)atol(argv[5]), k = (size_t)atol(argv[6]);
	size_t a_bytes[2], w_bytes[2];
	const struct mxfp_matrix a = matrix(argv[2], m, k, a_bytes), w = matrix(argv[3], n, k, w_bytes);
	float *c = memory(4 * m * n);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &a, .w = &w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = (enum mxfp_acc)acc, .accumulate = true};
	const struct mxfp_exec one = {.size = sizeof one, .threads = 1};
	const size_t bytes = (size_t)1 << 24;
	void *workspace = memory(bytes);

	while (get(&a, a_bytes)) {
		const enum mxfp_status status = get(&w, w_bytes) && fread(c, 4, m * n, stdin) == m * n ?
		                                mxfp_gemm(&product, &options, workspace, bytes, &one) : MXFP_ERR_SIZE;

		if (status != MXFP_OK || fwrite(c, 4, m * n, stdout) != m * n || fflush(stdout) != 0) {
			fprintf(stderr, "mma_sim: %s: %s\n", argv[1], mxfp_status_text(status));
			return 1;
		}
	}
	return 0;
}
