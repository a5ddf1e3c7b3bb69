/* SPDX-License-Identifier: MIT */
/*
 * Trains the character model of charlm.h: Adam on the cross entropy of random batches of a text. If it is told formats for
 * weights and activations, the last third of the steps computes with what blocks hold of both (mxfp_fake_quantize()), as
 * the quantized model will, and passes gradients straight through: also those of numbers above the largest that their block
 * holds, for its scale follows them, and a number whose gradient stopped there could never grow. Adam moves the weights in
 * binary32. If it is told to, it also saves the model every so many steps, for curves.sh.
 */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "charlm.h"
#include "linear.h"
#include "norm.h"
#include "mxfp/philox.h"
#include "mxfp/quantize.h"

enum { STEPS = 3000, SEED = 1, WARM_UP = 100, REPORT = 500 };

static const float LEARNING_RATE = 0.005f, MEAN_DECAY = 0.9f, SQUARE_DECAY = 0.99f;

/* The linear layers that quantized models have in blocks: the first, and two in each of the others. */
enum { INPUT = 0, UP = 1, DOWN = 2, LAYER = 2, N_LINEAR = 1 + LAYER * CHARLM_LAYERS };

struct trainer {
	enum mxfp_format weights, activations; /* of this step: block formats, or f32, not quantized */
	struct charlm model, gradient;
	struct charlm fake;                    /* the model with its weights as the blocks hold them */
	float inputs[N_LINEAR][CHARLM_BATCH * LINEAR_MAX]; /* what such a layer multiplies */
	struct charlm mean, square; /* running means of the gradient and of its square */
	float mean_power, square_power; /* the decays raised to the number of steps */
	uint64_t seed, drawn;       /* random positions so far */
	struct charlm_batch batch;
	/* What the gradients need of the forward pass: matrices [CHARLM_BATCH][...], row-major. */
	float input[CHARLM_BATCH * CHARLM_INPUT];
	float residual[CHARLM_LAYERS + 1][CHARLM_BATCH * CHARLM_WIDTH];
	float normed[CHARLM_LAYERS + 1][CHARLM_BATCH * CHARLM_WIDTH];
	float hidden[CHARLM_LAYERS][CHARLM_BATCH * CHARLM_HIDDEN];
	float logits[CHARLM_BATCH * CHARLM_SYMBOLS];
	/* Their gradients. */
	float d_logits[CHARLM_BATCH * CHARLM_SYMBOLS];
	float d_normed[CHARLM_BATCH * CHARLM_WIDTH];
	float d_residual[CHARLM_BATCH * CHARLM_WIDTH];
	float d_hidden[CHARLM_BATCH * CHARLM_HIDDEN];
	float d_input[CHARLM_BATCH * CHARLM_INPUT];
};

/* Sets matrices to uniform numbers of variance gain / inputs, and the gains of norms to 1. */
static void initialize(struct charlm *model, uint64_t seed)
{
	for (size_t t = 0; t < CHARLM_TENSORS; t++) {
		const struct charlm_tensor *tensor = &charlm_tensors[t];
		float *values = charlm_values(model, tensor);
		float bound = tensor->rank == 2 ? sqrtf(3.0f * tensor->gain / (float)tensor->shape[1]) : 0;

		for (size_t i = 0; i < charlm_elements(tensor); i++) {
			uint32_t word = mxfp_philox_word(seed, t, i);
			float uniform = (float)(word >> 8) * 0x1p-23f - 1.0f;

			values[i] = tensor->rank == 2 ? uniform * bound : 1.0f;
		}
	}
}

/* Fills the batch with random characters of the text, none held out. */
static void draw_batch(struct trainer *trainer, const struct charlm_text *text)
{
	for (unsigned row = 0; row < CHARLM_BATCH;) {
		uint64_t word = mxfp_philox_word(trainer->seed, CHARLM_TENSORS, trainer->drawn++);
		size_t position = CHARLM_CONTEXT + (size_t)(word * (text->n - CHARLM_CONTEXT) >> 32);

		if (!charlm_text_held_out(position))
			charlm_batch_set(&trainer->batch, row++, text, position);
	}
}

/* As `mxfp quantize` makes blocks of weights, and charlm_loss of activations. */
static const struct mxfp_exec alone = {.size = sizeof alone, .threads = 1};
static const struct mxfp_quantize_options as_weights = {.size = sizeof as_weights, .recipe = MXFP_RECIPE_COMPRESSED_TENSORS};
static const struct mxfp_quantize_options as_activations = {.size = sizeof as_activations, .rule = MXFP_RULE_RCEIL};

/* y becomes what blocks hold of x; f32: x. */
static void fake_quantize(enum mxfp_format format, const struct mxfp_quantize_options *how, float *y, const float *x,
                          size_t rows, size_t cols)
{
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, x);
	enum mxfp_status status = MXFP_OK;

	if (format == MXFP_FORMAT_F32)
		memcpy(y, x, rows * cols * sizeof(*y));
	else
		status = mxfp_fake_quantize(&result, format, &matrix, how, &alone);
	assert(status == MXFP_OK);
	(void)status;
}

/* Whether a quantized model has the tensor in blocks. */
static bool is_quantized(const struct charlm_tensor *tensor)
{
	return tensor->rank == 2 && tensor->values != offsetof(struct charlm, embedding) &&
	       tensor->values != offsetof(struct charlm, head);
}

static void fake_weights(struct trainer *t)
{
	t->fake = t->model;
	for (size_t i = 0; i < CHARLM_TENSORS; i++) {
		const struct charlm_tensor *tensor = &charlm_tensors[i];

		if (is_quantized(tensor))
			fake_quantize(t->weights, &as_weights, charlm_values(&t->fake, tensor), charlm_values(&t->model, tensor),
			              tensor->shape[0], tensor->shape[1]);
	}
}

static const float *fake_input(struct trainer *t, size_t layer, const float *x, size_t cols)
{
	fake_quantize(t->activations, &as_activations, t->inputs[layer], x, CHARLM_BATCH, cols);
	return t->inputs[layer];
}

static struct linear up_layer(const struct charlm *model, size_t l)
{
	return (struct linear){model->layers[l].up, CHARLM_HIDDEN, CHARLM_WIDTH};
}

static struct linear down_layer(const struct charlm *model, size_t l)
{
	return (struct linear){model->layers[l].down, CHARLM_WIDTH, CHARLM_HIDDEN};
}

/* Computes the logits of the batch. linear_forward() adds to its output. */
static void forward(struct trainer *t)
{
	const struct charlm *model = &t->fake;
	struct linear input = {model->input, CHARLM_WIDTH, CHARLM_INPUT};
	struct linear head = {model->head, CHARLM_SYMBOLS, CHARLM_WIDTH};

	fake_weights(t);
	charlm_embed(t->input, model->embedding, &t->batch);
	memset(t->residual[0], 0, sizeof(t->residual[0]));
	linear_forward(t->residual[0], &input, fake_input(t, INPUT, t->input, CHARLM_INPUT), CHARLM_BATCH);
	for (size_t l = 0; l < CHARLM_LAYERS; l++) {
		struct linear up = up_layer(model, l), down = down_layer(model, l);

		norm_forward(t->normed[l], model->layers[l].norm, t->residual[l], CHARLM_BATCH, CHARLM_WIDTH);
		memset(t->hidden[l], 0, sizeof(t->hidden[l]));
		linear_forward(t->hidden[l], &up, fake_input(t, UP + LAYER * l, t->normed[l], CHARLM_WIDTH), CHARLM_BATCH);
		charlm_rectify(t->hidden[l], CHARLM_BATCH * CHARLM_HIDDEN);
		memcpy(t->residual[l + 1], t->residual[l], sizeof(t->residual[l]));
		linear_forward(t->residual[l + 1], &down, fake_input(t, DOWN + LAYER * l, t->hidden[l], CHARLM_HIDDEN),
		               CHARLM_BATCH);
	}
	norm_forward(t->normed[CHARLM_LAYERS], model->norm, t->residual[CHARLM_LAYERS], CHARLM_BATCH, CHARLM_WIDTH);
	memset(t->logits, 0, sizeof(t->logits));
	linear_forward(t->logits, &head, t->normed[CHARLM_LAYERS], CHARLM_BATCH);
}

/* Sets d_logits and returns the mean loss of the batch. */
static double backward_loss(struct trainer *trainer)
{
	double sum = 0;

	for (size_t row = 0; row < CHARLM_BATCH; row++) {
		float *d_logits = trainer->d_logits + row * CHARLM_SYMBOLS;
		unsigned target = trainer->batch.target[row];

		sum += charlm_cross_entropy(d_logits, trainer->logits + row * CHARLM_SYMBOLS, target);
		d_logits[target] -= 1.0f;
		for (size_t i = 0; i < CHARLM_SYMBOLS; i++)
			d_logits[i] /= CHARLM_BATCH;
	}
	return sum / CHARLM_BATCH;
}

/* Backpropagates d_normed through norm l: adds to d_residual and d_gain. */
static void backward_norm(struct trainer *trainer, float *d_gain, const float *gain, size_t l)
{
	for (size_t row = 0; row < CHARLM_BATCH * CHARLM_WIDTH; row += CHARLM_WIDTH)
		norm_backward(trainer->d_residual + row, d_gain, gain, trainer->residual[l] + row,
		              trainer->d_normed + row, CHARLM_WIDTH);
}

/* Backpropagates d_y through a linear layer: sets d_x and adds to d_weight. */
static void backward_linear(float *d_x, float *d_weight, const struct linear *layer, const float *x, const float *d_y)
{
	memset(d_x, 0, CHARLM_BATCH * layer->inputs * sizeof(*d_x));
	linear_backward_weight(d_weight, layer, x, d_y, CHARLM_BATCH);
	linear_backward_input(d_x, layer, d_y, CHARLM_BATCH);
}

static void backward_layer(struct trainer *trainer, size_t l)
{
	const struct charlm_layer *layer = &trainer->fake.layers[l];
	struct charlm_layer *gradient = &trainer->gradient.layers[l];
	struct linear up = up_layer(&trainer->fake, l), down = down_layer(&trainer->fake, l);
	const float *hidden = trainer->hidden[l];

	backward_linear(trainer->d_hidden, gradient->down, &down, trainer->inputs[DOWN + LAYER * l], trainer->d_residual);
	for (size_t i = 0; i < CHARLM_BATCH * CHARLM_HIDDEN; i++)
		trainer->d_hidden[i] = hidden[i] > 0 ? trainer->d_hidden[i] : 0;
	backward_linear(trainer->d_normed, gradient->up, &up, trainer->inputs[UP + LAYER * l], trainer->d_hidden);
	backward_norm(trainer, gradient->norm, layer->norm, l);
}

/* Computes the gradient of the batch's mean loss from d_logits. */
static void backward(struct trainer *trainer)
{
	const struct charlm *model = &trainer->fake;
	struct charlm *gradient = &trainer->gradient;
	struct linear input = {model->input, CHARLM_WIDTH, CHARLM_INPUT};
	struct linear head = {model->head, CHARLM_SYMBOLS, CHARLM_WIDTH};

	memset(gradient, 0, sizeof(*gradient));
	memset(trainer->d_residual, 0, sizeof(trainer->d_residual));
	backward_linear(trainer->d_normed, gradient->head, &head, trainer->normed[CHARLM_LAYERS], trainer->d_logits);
	backward_norm(trainer, gradient->norm, model->norm, CHARLM_LAYERS);
	for (size_t l = CHARLM_LAYERS; l-- > 0;)
		backward_layer(trainer, l);
	backward_linear(trainer->d_input, gradient->input, &input, trainer->inputs[INPUT], trainer->d_residual);
	for (size_t c = 0; c < CHARLM_BATCH * CHARLM_CONTEXT; c++)
		for (size_t i = 0; i < CHARLM_EMBEDDING; i++)
			gradient->embedding[trainer->batch.context[c] * CHARLM_EMBEDDING + i] +=
				trainer->d_input[c * CHARLM_EMBEDDING + i];
}

/* Moves every parameter against its gradient (Kingma and Ba: "Adam: a method for stochastic optimization"). */
static void adam(struct trainer *trainer, float rate)
{
	float mean_scale, square_scale;

	trainer->mean_power *= MEAN_DECAY;
	trainer->square_power *= SQUARE_DECAY;
	mean_scale = 1.0f / (1.0f - trainer->mean_power);
	square_scale = 1.0f / (1.0f - trainer->square_power);
	for (size_t t = 0; t < CHARLM_TENSORS; t++) {
		float *values = charlm_values(&trainer->model, &charlm_tensors[t]);
		float *mean = charlm_values(&trainer->mean, &charlm_tensors[t]);
		float *square = charlm_values(&trainer->square, &charlm_tensors[t]);
		const float *gradient = charlm_values(&trainer->gradient, &charlm_tensors[t]);

		for (size_t i = 0; i < charlm_elements(&charlm_tensors[t]); i++) {
			mean[i] += (1.0f - MEAN_DECAY) * (gradient[i] - mean[i]);
			square[i] += (1.0f - SQUARE_DECAY) * (gradient[i] * gradient[i] - square[i]);
			values[i] -= rate * (mean[i] * mean_scale) / (sqrtf(square[i] * square_scale) + 1e-8f);
		}
	}
}

/* The rate falls linearly to zero, and rises during the first WARM_UP steps. */
static float learning_rate(unsigned step, unsigned steps)
{
	float falling = LEARNING_RATE * (float)(steps - step) / (float)steps;

	return step < WARM_UP ? falling * (float)(step + 1) / WARM_UP : falling;
}

/* What is to be trained: formats as in struct trainer. */
struct request {
	const char *text_path, *model_path;
	unsigned steps, seed;
	unsigned every; /* steps after which the model is saved as it is then, or 0 */
	enum mxfp_format weights, activations;
};

/* Saves a copy of the model as MODEL.safetensors.STEP. */
static int save_step(const struct trainer *trainer, const struct request *request, unsigned step, struct error *error)
{
	size_t bytes = strlen(request->model_path) + sizeof(".4294967295");
	char *path = malloc(bytes);
	struct charlm *copy = malloc(sizeof(*copy));
	int code = fail_memory(error);

	if (path && copy) {
		snprintf(path, bytes, "%s.%u", request->model_path, step);
		*copy = trainer->model;
		code = charlm_save(copy, path, error);
	}
	free(copy);
	free(path);
	return code;
}

static int train(struct trainer *trainer, const struct charlm_text *text, const struct request *request,
                 struct error *error)
{
	const unsigned steps = request->steps, plain_steps = steps - steps / 3;
	double sum = 0;
	unsigned n = 0;
	int code = 0;

	trainer->mean_power = trainer->square_power = 1;
	trainer->seed = request->seed;
	initialize(&trainer->model, request->seed);
	for (unsigned step = 0; !code && step < steps; step++) {
		trainer->weights = step < plain_steps ? MXFP_FORMAT_F32 : request->weights;
		trainer->activations = step < plain_steps ? MXFP_FORMAT_F32 : request->activations;
		draw_batch(trainer, text);
		forward(trainer);
		sum += backward_loss(trainer);
		backward(trainer);
		adam(trainer, learning_rate(step, steps));
		if (request->every && (step + 1) % request->every == 0)
			code = save_step(trainer, request, step + 1, error);
		if (++n < REPORT && step + 1 < steps)
			continue;
		printf("step %u of %u: loss of the last %u batches %.4f nats/character\n", step + 1, steps, n, sum / n);
		fflush(stdout);
		sum = 0;
		n = 0;
	}
	return code;
}

static void print_held_out(struct charlm *model, const struct charlm_text *text)
{
	const struct charlm_matrices matrices = charlm_matrices(model);
	double loss;

	if (!charlm_loss(&loss, &matrices, text))
		printf("on the characters left out of training: %.4f nats/character\n", loss);
}

static int run(const struct request *request, struct error *error)
{
	const char *model_path = request->model_path;
	struct charlm_text text;
	struct trainer *trainer;
	int code;

	if (access(model_path, F_OK) == 0)
		return fail(error, EXIT_USAGE, "%s: exists: remove it or give another name", model_path);
	trainer = calloc(1, sizeof(*trainer));
	code = trainer ? charlm_text_read(&text, request->text_path, error) : fail_memory(error);
	if (!code) {
		code = train(trainer, &text, request, error);
		/* That of a model to be quantized is what charlm_loss says of it once it is. */
		if (!code && request->weights == MXFP_FORMAT_F32)
			print_held_out(&trainer->model, &text);
		charlm_text_free(&text);
		if (!code)
			code = charlm_save(&trainer->model, model_path, error);
	}
	free(trainer);
	return code;
}

/* The number at argv[i], at least `least`, or `otherwise` if there is none. */
static bool number(unsigned *n, int argc, char **argv, int i, long least, unsigned otherwise)
{
	char *end = "";
	long value = i < argc ? strtol(argv[i], &end, 10) : otherwise;

	*n = (unsigned)value;
	return value >= least && value <= 1000000 && *end == '\0';
}

int main(int argc, char **argv)
{
	struct error error;
	struct request request = {.weights = MXFP_FORMAT_F32, .activations = MXFP_FORMAT_F32};
	int code;

	if ((argc != 3 && argc != 4 && argc != 6 && argc != 8) || !number(&request.steps, argc, argv, 3, 1, STEPS) ||
	    (argc >= 6 && (!charlm_activations(&request.weights, argv[4]) ||
	                   !charlm_activations(&request.activations, argv[5]))) ||
	    !number(&request.seed, argc, argv, 6, 0, SEED) || !number(&request.every, argc, argv, 7, 0, 0)) {
		fprintf(stderr, "usage: charlm_train TEXT MODEL.safetensors [STEPS [WEIGHTS ACTIVATIONS [SEED EVERY]]]   "
		        "(%d steps and seed %d by default)\n", STEPS, SEED);
		return EXIT_USAGE;
	}
	request.text_path = argv[1];
	request.model_path = argv[2];
	code = run(&request, &error);
	if (code)
		fprintf(stderr, "charlm_train: %s\n", error.text);
	return code;
}
