/* SPDX-License-Identifier: MIT */
/*
 * A linear layer y = x W^T in W4A8: weights are quantized to MXFP4 and packed once, activations are quantized to MXFP8
 * in each call. Both formats hold these numbers exactly, so a plain loop gives the same y.
 *
 *     cc gemm.c $(pkg-config --cflags --libs libmxfp) -o gemm && ./gemm
 */
#include <stdio.h>
#include <stdlib.h>

#include <mxfp.h>

enum { TOKENS = 2, OUTPUTS = 4, INPUTS = 64 };

static float x[TOKENS][INPUTS], weights[OUTPUTS][INPUTS], y[TOKENS][OUTPUTS];

static void fill(void)
{
	static const float held[] = {0, 0.5F, 1, -1.5F, 2, 3, -4, 6}; /* numbers of E2M1 */

	for (int k = 0; k < INPUTS; k++) {
		for (int token = 0; token < TOKENS; token++)
			x[token][k] = (float)((token + k) % 5 - 2);
		for (int output = 0; output < OUTPUTS; output++)
			weights[output][k] = held[(output * k + k / 8) % 8];
	}
}

static float plain_sum(int token, int output)
{
	float sum = 0;

	for (int k = 0; k < INPUTS; k++)
		sum += x[token][k] * weights[output][k];
	return sum;
}

static void stop_unless_ok(enum mxfp_status status, const char *what)
{
	if (status == MXFP_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, mxfp_status_text(status));
	exit(1);
}

static void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (memory == NULL && bytes != 0)
		stop_unless_ok(MXFP_ERR_WORKSPACE, "out of memory");
	return memory;
}

int main(void)
{
	const struct mxfp_quantize_options rule = {.size = sizeof rule, .rule = MXFP_RULE_RCEIL};
	const struct mxfp_gemm_options options = {.size = sizeof options, .a_format = MXFP_FORMAT_MXFP8_E4M3, .a_quantize = &rule};
	struct mxfp_sizes size;
	size_t packed_bytes, workspace_bytes;

	/* Once: quantize the weights, then pack them for this machine's kernel. */
	fill();
	stop_unless_ok(mxfp_blocks_size(&size, MXFP_FORMAT_MXFP4, OUTPUTS, INPUTS), "mxfp_blocks_size");
	struct mxfp_blocks blocks =
		mxfp_blocks_at(MXFP_FORMAT_MXFP4, OUTPUTS, INPUTS, allocate(size.codes_bytes), allocate(size.scales_bytes));
	const struct mxfp_result to = mxfp_to_blocks(&blocks);
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, OUTPUTS, INPUTS, weights);
	stop_unless_ok(mxfp_quantize(&to, &numbers, &rule, NULL), "mxfp_quantize");
	const struct mxfp_matrix w = mxfp_blocks_matrix(&blocks);
	stop_unless_ok(mxfp_pack_size(&packed_bytes, &w, &options, NULL), "mxfp_pack_size");
	void *packed = allocate(packed_bytes);
	stop_unless_ok(mxfp_pack(packed, packed_bytes, &w, &options, NULL), "mxfp_pack");

	/* For every batch of tokens: multiply, in memory that the caller owns. */
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, TOKENS, INPUTS, x);
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_product product = {
		.size = sizeof product, .c = &c, .a = &a, .w_packed = packed, .w_packed_bytes = packed_bytes, .n = OUTPUTS,
	};
	stop_unless_ok(mxfp_gemm_workspace_size(&workspace_bytes, &product, 1, &options, NULL), "mxfp_gemm_workspace_size");
	void *workspace = allocate(workspace_bytes);
	stop_unless_ok(mxfp_gemm(&product, &options, workspace, workspace_bytes, NULL), "mxfp_gemm");

	int unequal = 0;
	for (int token = 0; token < TOKENS; token++) {
		for (int output = 0; output < OUTPUTS; output++) {
			printf("%s%g", output == 0 ? "y = " : " ", (double)y[token][output]);
			unequal += y[token][output] != plain_sum(token, output);
		}
		putchar('\n');
	}
	printf("%d of %d numbers differ from a plain loop\n", unequal, TOKENS * OUTPUTS);
	free(workspace);
	free(packed);
	free(blocks.scales);
	free(blocks.codes);
	return unequal != 0;
}
