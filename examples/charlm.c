/* SPDX-License-Identifier: MIT */
#include "charlm.h"

#include <sleef.h>
#include <stdlib.h>
#include <string.h>

#include "norm.h"

/* The forward pass of a batch. Matrices are [CHARLM_BATCH][...], row-major. */
struct evaluation {
	const struct charlm_matrices *model;
	struct charlm_batch batch;
	float input[CHARLM_BATCH * CHARLM_INPUT];
	float residual[CHARLM_BATCH * CHARLM_WIDTH];
	float normed[CHARLM_BATCH * CHARLM_WIDTH];
	float hidden[CHARLM_BATCH * CHARLM_HIDDEN];
	float logits[CHARLM_BATCH * CHARLM_SYMBOLS];
	void *workspace;
	size_t workspace_bytes;
	float *const *inputs; /* of charlm_inputs(), which get `rows` from `first` on; NULL: none */
	size_t first, rows;
};

static void keep_inputs(const struct evaluation *e, const float *x, const struct mxfp_matrix *w)
{
	const size_t place = (size_t)((const char *)w - (const char *)e->model);

	for (size_t i = 0; i < CHARLM_TENSORS; i++)
		if (charlm_tensors[i].matrix == place && e->inputs[i])
			memcpy(e->inputs[i] + e->first * w->cols, x, e->rows * w->cols * sizeof(float));
}

/* A linear layer: y = x W^T, or y += x W^T if `add`. If W is in blocks, mxfp_gemm() quantizes x. */
static enum mxfp_status linear(struct evaluation *e, float *y, const float *x, const struct mxfp_matrix *w, bool add)
{
	const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, CHARLM_BATCH, w->cols, x);
	const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_product product = {.size = sizeof product, .c = &c, .a = &a, .w = w};
	const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};
	const struct mxfp_gemm_options options = {
		.size = sizeof options,
		.a_format = w->format == MXFP_FORMAT_F32 ? MXFP_FORMAT_F32 : e->model->activations,
		.a_quantize = &e->model->how,
		.accumulate = add,
	};
	size_t bytes;
	enum mxfp_status status = mxfp_gemm_workspace_size(&bytes, &product, 1, &options, &one_thread);

	if (e->inputs)
		keep_inputs(e, x, w);
	if (status)
		return status;
	if (bytes > e->workspace_bytes) {
		free(e->workspace);
		e->workspace = malloc(bytes);
		e->workspace_bytes = e->workspace ? bytes : 0;
		if (!e->workspace)
			return MXFP_ERR_WORKSPACE;
	}
	return mxfp_gemm(&product, &options, e->workspace, e->workspace_bytes, &one_thread);
}

/* Computes the logits of the batch. */
static enum mxfp_status forward(struct evaluation *e)
{
	const struct charlm_matrices *model = e->model;
	enum mxfp_status status;

	charlm_embed(e->input, model->embedding.data, &e->batch);
	status = linear(e, e->residual, e->input, &model->input, false);
	for (size_t l = 0; !status && l < CHARLM_LAYERS; l++) {
		norm_forward(e->normed, model->layers[l].norm.data, e->residual, CHARLM_BATCH, CHARLM_WIDTH);
		status = linear(e, e->hidden, e->normed, &model->layers[l].up, false);
		if (status)
			break;
		charlm_rectify(e->hidden, CHARLM_BATCH * CHARLM_HIDDEN);
		status = linear(e, e->residual, e->hidden, &model->layers[l].down, true);
	}
	if (status)
		return status;
	norm_forward(e->normed, model->norm.data, e->residual, CHARLM_BATCH, CHARLM_WIDTH);
	return linear(e, e->logits, e->normed, &model->head, false);
}

void charlm_embed(float *input, const float *embedding, const struct charlm_batch *batch)
{
	for (size_t i = 0; i < CHARLM_BATCH * CHARLM_CONTEXT; i++)
		memcpy(input + i * CHARLM_EMBEDDING, embedding + (size_t)batch->context[i] * CHARLM_EMBEDDING,
		       CHARLM_EMBEDDING * sizeof(float));
}

void charlm_rectify(float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] > 0 ? x[i] : 0;
}

double charlm_cross_entropy(float probabilities[CHARLM_SYMBOLS], const float logits[CHARLM_SYMBOLS], unsigned target)
{
	float largest = logits[0], sum = 0;

	for (size_t i = 1; i < CHARLM_SYMBOLS; i++)
		largest = logits[i] > largest ? logits[i] : largest;
	for (size_t i = 0; i < CHARLM_SYMBOLS; i++) {
		probabilities[i] = Sleef_cinz_expf1_u10purec(logits[i] - largest);
		sum += probabilities[i];
	}
	for (size_t i = 0; i < CHARLM_SYMBOLS; i++)
		probabilities[i] /= sum;
	return (double)Sleef_cinz_logf1_u10purec(sum) - (double)(logits[target] - largest);
}

void charlm_batch_set(struct charlm_batch *batch, unsigned row, const struct charlm_text *text, size_t position)
{
	memcpy(batch->context + (size_t)row * CHARLM_CONTEXT, text->symbols + position - CHARLM_CONTEXT, CHARLM_CONTEXT);
	batch->target[row] = text->symbols[position];
}

/* Fills a batch with held-out characters from *position on and moves *position past them. Returns their number. */
static unsigned next_batch(struct charlm_batch *batch, const struct charlm_text *text, size_t *position)
{
	unsigned rows = 0;

	memset(batch->context, 0, sizeof(batch->context));
	for (; *position < text->n && rows < CHARLM_BATCH; ++*position)
		if (charlm_text_held_out(*position))
			charlm_batch_set(batch, rows++, text, *position);
	return rows;
}

enum mxfp_status charlm_loss(double *loss, const struct charlm_matrices *model, const struct charlm_text *text)
{
	struct evaluation e = {.model = model};
	float probabilities[CHARLM_SYMBOLS];
	size_t position = CHARLM_CONTEXT, n = 0;
	double sum = 0;
	enum mxfp_status status = MXFP_OK;

	for (unsigned rows; !status && (rows = next_batch(&e.batch, text, &position)) > 0; n += rows) {
		status = forward(&e);
		for (size_t i = 0; !status && i < rows; i++)
			sum += charlm_cross_entropy(probabilities, e.logits + i * CHARLM_SYMBOLS, e.batch.target[i]);
	}
	free(e.workspace);
	*loss = sum / (double)n;
	return status;
}

size_t charlm_trained(const struct charlm_text *text)
{
	size_t n = 0;

	for (size_t i = CHARLM_CONTEXT; i < text->n; i++)
		n += !charlm_text_held_out(i);
	return n;
}

enum mxfp_status charlm_inputs(float *const x[CHARLM_TENSORS], size_t n, const struct charlm_matrices *model,
                               const struct charlm_text *text)
{
	struct evaluation e = {.model = model, .inputs = x};
	const size_t all = charlm_trained(text);
	size_t position = CHARLM_CONTEXT, seen = 0;
	enum mxfp_status status = MXFP_OK;

	/* Character i of n is number floor(i * all / n) of those that there are. */
	for (; !status && e.first < n; e.first += e.rows) {
		memset(e.batch.context, 0, sizeof(e.batch.context));
		for (e.rows = 0; e.rows < CHARLM_BATCH && e.first + e.rows < n; position++) {
			if (charlm_text_held_out(position))
				continue;
			if (seen++ == (e.first + e.rows) * all / n)
				charlm_batch_set(&e.batch, (unsigned)e.rows++, text, position);
		}
		status = forward(&e);
	}
	free(e.workspace);
	return status;
}
