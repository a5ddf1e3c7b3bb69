/* SPDX-License-Identifier: MIT */
#include "charlm.h"

#include <math.h>
#include <sleef.h>
#include <string.h>

#include "linear.h"
#include "norm.h"

static void embed(struct charlm_batch *batch, const struct charlm *model)
{
	for (size_t i = 0; i < CHARLM_BATCH * CHARLM_CONTEXT; i++)
		memcpy(batch->input + i * CHARLM_EMBEDDING, model->embedding + (size_t)batch->context[i] * CHARLM_EMBEDDING,
		       CHARLM_EMBEDDING * sizeof(float));
}

/* Quantizes and dequantizes the rows of x in place, as the units of a W4A8 product would see them. */
static enum mxfp_status round_rows(float *x, size_t columns, const struct charlm_activations *activations)
{
	uint8_t codes[CHARLM_BATCH * LINEAR_MAX], scales[CHARLM_BATCH * LINEAR_MAX];
	struct mxfp_blocks blocks = {.rows = CHARLM_BATCH, .cols = columns, .codes = codes, .scales = scales};
	struct mxfp_quantize_options options = {.exec = &(struct mxfp_exec){.threads = 1}};
	enum mxfp_status status;

	if (!activations)
		return MXFP_OK;
	blocks.format = activations->format;
	options.rule = activations->rule;
	status = mxfp_quantize(&blocks, x, MXFP_FORMAT_F32, 0, &options);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	return status ? status : mxfp_dequantize(&matrix, x, MXFP_FORMAT_F32, 0, NULL);
}

/* y = layer * x with x rounded first. */
static enum mxfp_status quantized_product(float *y, const struct linear *layer, float *x,
                                          const struct charlm_activations *activations)
{
	enum mxfp_status status = round_rows(x, layer->inputs, activations);

	linear_forward(y, layer, x, CHARLM_BATCH);
	return status;
}

static void rectify(float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] > 0 ? x[i] : 0;
}

/* The residual after layer l from the one before it. */
static enum mxfp_status forward_layer(const struct charlm *model, struct charlm_batch *batch, size_t l,
                                      const struct charlm_activations *activations)
{
	const struct charlm_layer *layer = &model->layers[l];
	struct linear up = {layer->up, CHARLM_HIDDEN, CHARLM_WIDTH}, down = {layer->down, CHARLM_WIDTH, CHARLM_HIDDEN};
	enum mxfp_status status;

	norm_forward(batch->normed[l], layer->norm, batch->residual[l], CHARLM_BATCH, CHARLM_WIDTH);
	memset(batch->hidden[l], 0, sizeof(batch->hidden[l]));
	status = quantized_product(batch->hidden[l], &up, batch->normed[l], activations);
	if (status)
		return status;
	rectify(batch->hidden[l], CHARLM_BATCH * CHARLM_HIDDEN);
	memcpy(batch->residual[l + 1], batch->residual[l], sizeof(batch->residual[l]));
	return quantized_product(batch->residual[l + 1], &down, batch->hidden[l], activations);
}

enum mxfp_status charlm_forward(const struct charlm *model, struct charlm_batch *batch,
                                const struct charlm_activations *activations)
{
	struct linear input = {model->input, CHARLM_WIDTH, CHARLM_INPUT};
	struct linear head = {model->head, CHARLM_SYMBOLS, CHARLM_WIDTH};
	enum mxfp_status status;

	embed(batch, model);
	memset(batch->residual[0], 0, sizeof(batch->residual[0]));
	status = quantized_product(batch->residual[0], &input, batch->input, activations);
	for (size_t l = 0; !status && l < CHARLM_LAYERS; l++)
		status = forward_layer(model, batch, l, activations);
	norm_forward(batch->normed[CHARLM_LAYERS], model->norm, batch->residual[CHARLM_LAYERS], CHARLM_BATCH, CHARLM_WIDTH);
	memset(batch->logits, 0, sizeof(batch->logits));
	linear_forward(batch->logits, &head, batch->normed[CHARLM_LAYERS], CHARLM_BATCH);
	return status;
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

/* Fills a batch with held-out characters from *position on, moves it past them, and returns how many there were. */
static unsigned next_batch(struct charlm_batch *batch, const struct charlm_text *text, size_t *position)
{
	unsigned rows = 0;

	memset(batch->context, 0, sizeof(batch->context));
	for (; *position < text->n && rows < CHARLM_BATCH; ++*position)
		if (charlm_text_held_out(*position))
			charlm_batch_set(batch, rows++, text, *position);
	return rows;
}

enum mxfp_status charlm_loss(double *loss, const struct charlm *model, const struct charlm_text *text,
                             const struct charlm_activations *activations)
{
	struct charlm_batch batch;
	float probabilities[CHARLM_SYMBOLS];
	size_t position = CHARLM_CONTEXT, n = 0;
	double sum = 0;
	enum mxfp_status status = MXFP_OK;

	for (unsigned rows; !status && (rows = next_batch(&batch, text, &position)) > 0; n += rows) {
		status = charlm_forward(model, &batch, activations);
		for (size_t i = 0; i < rows; i++)
			sum += charlm_cross_entropy(probabilities, batch.logits + i * CHARLM_SYMBOLS, batch.target[i]);
	}
	*loss = sum / (double)n;
	return status;
}
