/* SPDX-License-Identifier: MIT */
/*
 * Training with MXFP8 weights: two linear layers with a ReLU between learn to tell four classes of random points. Each step
 * quantizes the f32 weights to squares of 32 x 32 (block_rows), which serve the forward product by themselves and the backward
 * one transposed (mxfp_blocks_transpose()), without quantizing them again. Log-softmax, means and the largest logit are row
 * operations. Every bit is defined, so it prints the same anywhere.
 *
 *     cc training.c $(pkg-config --cflags --libs libmxfp) -o training && ./training
 */
#include <stdio.h>
#include <stdlib.h>

#include <mxfp.h>

enum { SAMPLES = 128, INPUTS = 64, HIDDEN = 96, CLASSES = 4, STEPS = 60 };

/* A layer y = x W^T, its weights also as squares in MXFP8, and these transposed. */
struct layer {
	size_t outputs, inputs;
	float weights[HIDDEN * INPUTS], gradient[HIDDEN * INPUTS];
	struct mxfp_blocks squares, transposed;
};

static struct layer first = {.outputs = HIDDEN, .inputs = INPUTS}, second = {.outputs = CLASSES, .inputs = HIDDEN};
static float x[SAMPLES * INPUTS], hidden[SAMPLES * HIDDEN], logits[SAMPLES * CLASSES];
static float d_hidden[SAMPLES * HIDDEN], d_logits[SAMPLES * CLASSES]; /* derivatives of the loss */
static size_t classes[SAMPLES];

static void must(enum mxfp_status status, const char *what)
{
	if (status == MXFP_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, mxfp_status_text(status));
	exit(1);
}

static void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (memory == NULL)
		must(MXFP_ERR_WORKSPACE, "out of memory");
	return memory;
}

/* A number from -1 to 1: word i of a stream of Philox. */
static float number(uint64_t stream, uint64_t i)
{
	return (float)((int32_t)mxfp_philox_word(1, stream, i) / 2147483648.0);
}

static struct mxfp_blocks squares_of(size_t rows, size_t cols)
{
	struct mxfp_sizes size;

	must(mxfp_blocks_size(&size, MXFP_FORMAT_MXFP8_E4M3, rows, cols), "mxfp_blocks_size");
	return mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, rows, cols, allocate(size.codes_bytes), allocate(size.scales_bytes));
}

static void begin(struct layer *l, uint64_t stream)
{
	for (size_t i = 0; i < l->outputs * l->inputs; i++)
		l->weights[i] = 0.2F * number(stream, i);
	l->squares = squares_of(l->outputs, l->inputs);
	l->transposed = squares_of(l->inputs, l->outputs);
}

static void quantize(struct layer *l)
{
	const struct mxfp_quantize_options squares = {.size = sizeof squares, .block_rows = 32};
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, l->outputs, l->inputs, l->weights);
	const struct mxfp_result to = mxfp_to_blocks(&l->squares);
	const struct mxfp_matrix from = mxfp_blocks_matrix(&l->squares);

	must(mxfp_quantize(&to, &weights, &squares, NULL), "mxfp_quantize");
	must(mxfp_blocks_transpose(&l->transposed, &from, NULL), "mxfp_blocks_transpose");
}

/* y = a w^T, A quantized to MXFP8 on the way if W is in blocks. */
static void multiply(float *y, const struct mxfp_matrix *a, const struct mxfp_matrix *w)
{
	const bool blocks = w->format == MXFP_FORMAT_MXFP8_E4M3;
	const struct mxfp_gemm_options options = {.size = sizeof options,
	                                          .a_format = blocks ? MXFP_FORMAT_MXFP8_E4M3 : MXFP_FORMAT_F32};
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = a, .w = w};
	size_t bytes;

	must(mxfp_gemm_workspace_size(&bytes, &product, 1, &options, NULL), "mxfp_gemm_workspace_size");
	void *workspace = allocate(bytes);
	must(mxfp_gemm(&product, &options, workspace, bytes, NULL), "mxfp_gemm");
	free(workspace);
}

/* The derivatives of the weights from those of the outputs, dW = dY^T X in f32, and a step against them. */
static void descend(struct layer *l, const float *d_outputs, const float *inputs)
{
	struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, l->outputs, SAMPLES, d_outputs);
	struct mxfp_matrix w = mxfp_numbers(MXFP_FORMAT_F32, l->inputs, SAMPLES, inputs);

	a.transposed = w.transposed = true;
	multiply(l->gradient, &a, &w);
	for (size_t i = 0; i < l->outputs * l->inputs; i++)
		l->weights[i] -= 1.5F * l->gradient[i];
}

/* Runs the network on all samples. Returns the mean loss; *right is how many it gets right. */
static float forward(int *right)
{
	static float logs[SAMPLES * CLASSES], losses[SAMPLES];
	size_t best[SAMPLES];
	float mean;
	const struct mxfp_matrix in = mxfp_numbers(MXFP_FORMAT_F32, SAMPLES, INPUTS, x);
	const struct mxfp_matrix w1 = mxfp_blocks_matrix(&first.squares), w2 = mxfp_blocks_matrix(&second.squares);
	const struct mxfp_matrix middle = mxfp_numbers(MXFP_FORMAT_F32, SAMPLES, HIDDEN, hidden);
	const struct mxfp_matrix out = mxfp_numbers(MXFP_FORMAT_F32, SAMPLES, CLASSES, logits);
	const struct mxfp_matrix all = mxfp_numbers(MXFP_FORMAT_F32, 1, SAMPLES, losses);
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, logs), shares = mxfp_to_numbers(MXFP_FORMAT_F32, d_logits);

	multiply(hidden, &in, &w1);
	for (size_t i = 0; i < SAMPLES * HIDDEN; i++)
		hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
	multiply(logits, &middle, &w2);
	must(mxfp_log_softmax(&to, &out, NULL, NULL), "mxfp_log_softmax");
	must(mxfp_softmax(&shares, &out, NULL, NULL), "mxfp_softmax");
	must(mxfp_rows_argmax(best, &out, NULL), "mxfp_rows_argmax");
	*right = 0;
	for (size_t i = 0; i < SAMPLES; i++) {
		losses[i] = -logs[i * CLASSES + classes[i]];
		*right += best[i] == classes[i];
		d_logits[i * CLASSES + classes[i]] -= 1;
	}
	for (size_t i = 0; i < SAMPLES * CLASSES; i++)
		d_logits[i] /= SAMPLES;
	must(mxfp_rows_reduce(&mean, MXFP_REDUCTION_MEAN, &all, NULL), "mxfp_rows_reduce");
	return mean;
}

static void backward(void)
{
	const struct mxfp_matrix d_out = mxfp_numbers(MXFP_FORMAT_F32, SAMPLES, CLASSES, d_logits);
	const struct mxfp_matrix w2 = mxfp_blocks_matrix(&second.transposed);

	multiply(d_hidden, &d_out, &w2);
	for (size_t i = 0; i < SAMPLES * HIDDEN; i++)
		d_hidden[i] = hidden[i] > 0 ? d_hidden[i] : 0;
	descend(&second, d_logits, hidden);
	descend(&first, d_hidden, x);
}

int main(void)
{
	for (size_t i = 0; i < SAMPLES * INPUTS; i++)
		x[i] = number(0, i);
	for (size_t i = 0; i < SAMPLES; i++)
		classes[i] = (size_t)(x[i * INPUTS] > 0) + 2 * (size_t)(x[i * INPUTS + 1] > 0);
	begin(&first, 1);
	begin(&second, 2);
	for (int step = 0; step <= STEPS; step++) {
		int right;

		quantize(&first);
		quantize(&second);
		const float loss = forward(&right);
		if (step % 20 == 0)
			printf("step %2d: loss %.4f, %d of %d right\n", step, (double)loss, right, SAMPLES);
		backward();
	}
	free(first.squares.codes);
	free(first.squares.scales);
	free(first.transposed.codes);
	free(first.transposed.scales);
	free(second.squares.codes);
	free(second.squares.scales);
	free(second.transposed.codes);
	free(second.transposed.scales);
	return 0;
}
