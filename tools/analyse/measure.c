/* SPDX-License-Identifier: MIT */
/*
 * Measuring one weight matrix: for each piece of rows, the exact products once and then every variant. NVFP4 needs the
 * matrix's largest magnitude first, which costs a reading of its own; pruning keeps it.
 */
#include "config.h"

#include "analyse/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "analyse/product.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "model/operand.h"
#include "model/quantized.h"
#include "mxfp/quantize.h"

/* One set of products of a piece. */
struct product_errors {
	struct stats *into;
	const double *exact;    /* [rows][tokens] */
	const float *measured;  /* [tokens][rows] */
	size_t rows, tokens;
};

/* The elements of a piece of weights. */
struct element_errors {
	struct stats *into;
	const float *exact, *measured;
	size_t n;
	uint64_t *flushed;      /* nonzero elements whose measured value is zero */
	uint64_t *relative;     /* [N_ERROR_BINS]: finite elements by the binary exponent of |measured - exact| / |exact| */
};

enum { COLUMN = 256 }; /* products that are gathered at once */

/* What is added up: each set of numbers on one thread, in its order. */
struct errors_work {
	const struct product_errors *products;
	size_t n;
	const struct element_errors *elements;
};

/* Row by row, as the exact products lie, so that the order does not depend on the rows in a piece. */
static void add_products(const struct product_errors *errors)
{
	double column[COLUMN];

	for (size_t row = 0; row < errors->rows; row++)
		for (size_t t = 0; t < errors->tokens; t += COLUMN) {
			size_t n = errors->tokens - t < COLUMN ? errors->tokens - t : COLUMN;

			for (size_t i = 0; i < n; i++)
				column[i] = (double)errors->measured[(t + i) * errors->rows + row];
			stats_add_double(errors->into, errors->exact + row * errors->tokens + t, column, n);
		}
}

/* The bin of two finite numbers. An error where the exact number is 0 has an infinite quotient: the last bin. */
static unsigned relative_bin(double exact, double measured)
{
	double quotient = fabs(measured - exact) / fabs(exact);
	uint64_t bits;

	if (exact == measured)
		return 0;
	memcpy(&bits, &quotient, sizeof bits);
	/* The exponent of a binary64 number above those that are subnormal: ilogb() is a call. */
	int exponent = (int)(bits >> 52) - 1023;
	if (exponent < ERROR_EXPONENT_MIN)
		exponent = ERROR_EXPONENT_MIN;
	if (exponent > ERROR_EXPONENT_MAX)
		exponent = ERROR_EXPONENT_MAX;
	return (unsigned)(exponent - ERROR_EXPONENT_MIN + 1);
}

static void add_relative(const struct element_errors *errors)
{
	for (size_t i = 0; i < errors->n; i++)
		if (isfinite(errors->exact[i]) && isfinite(errors->measured[i]))
			errors->relative[relative_bin((double)errors->exact[i], (double)errors->measured[i])]++;
}

static void add_elements(const struct element_errors *errors)
{
	uint64_t flushed = 0;

	for (size_t i = 0; i < errors->n; i++)
		flushed += errors->exact[i] != 0 && errors->measured[i] == 0;
	*errors->flushed += flushed;
	stats_add(errors->into, errors->exact, errors->measured, errors->n);
}

static void add_set(void *context, size_t set)
{
	const struct errors_work *work = context;

	if (set < work->n)
		add_products(&work->products[set]);
	else if (set == work->n)
		add_elements(work->elements);
	else
		add_relative(work->elements);
}

/* Adds n sets of products and, unless it is NULL, the elements. */
static void measure_errors(const struct product_errors *products, size_t n, const struct element_errors *elements,
                           unsigned threads)
{
	struct errors_work work = {products, n, elements};

	mxfp_parallel_for(&(struct mxfp_exec){.threads = threads}, n + (elements != NULL ? 2 : 0), add_set, &work);
}

int measurement_init(struct measurement *total, const struct variant *variant, struct error *error)
{
	*total = (struct measurement){.variant = *variant, .saturated_known = true, .n_scales = N_SCALE_CODES};
	total->scales = calloc(N_SCALE_CODES, sizeof *total->scales);
	return total->scales == NULL ? fail_memory(error) : EXIT_OK;
}

/* Keeps the used range of a histogram of scales. EXIT_MEMORY. */
static int keep_scales(struct measurement *measurement, const uint64_t histogram[N_SCALE_CODES], struct error *error)
{
	unsigned first = 0, end = N_SCALE_CODES;

	while (first < end && histogram[first] == 0)
		first++;
	while (end > first && histogram[end - 1] == 0)
		end--;
	measurement->first_scale = first;
	measurement->n_scales = end - first;
	measurement->scales = malloc((end - first + 1) * sizeof *measurement->scales);
	if (measurement->scales == NULL)
		return fail_memory(error);
	memcpy(measurement->scales, histogram + first, (end - first) * sizeof *measurement->scales);
	return EXIT_OK;
}

void measurement_merge(struct measurement *total, const struct measurement *part)
{
	total->elements += part->elements;
	total->bytes += part->bytes;
	total->saturated += part->saturated;
	total->saturated_known &= part->saturated_known;
	total->flushed += part->flushed;
	stats_merge(&total->weights, &part->weights);
	for (int k = 0; k < N_ACTIVATION_KINDS; k++) {
		stats_merge(&total->products[k].weights_only, &part->products[k].weights_only);
		stats_merge(&total->products[k].both, &part->products[k].both);
	}
	for (unsigned i = 0; i < N_ERROR_BINS; i++)
		total->relative[i] += part->relative[i];
	for (unsigned i = 0; i < part->n_scales; i++)
		total->scales[part->first_scale + i] += part->scales[i];
}

double measurement_bits(const struct measurement *measurement)
{
	return measurement->elements == 0 ? 0 : 8 * (double)measurement->bytes / (double)measurement->elements;
}

void measurement_free(struct measurement *measurement)
{
	free(measurement->scales);
	measurement->scales = NULL;
}

void layer_free(struct layer *layer, size_t n_variants)
{
	for (size_t v = 0; layer->measurements != NULL && v < n_variants; v++)
		measurement_free(&layer->measurements[v]);
	free(layer->measurements);
	layer->measurements = NULL;
}

/* The second word of what a file says of one tensor ("mxfp8-e4m3 mse"), or the fallback. */
static void noted_choice(const struct file *file, const char *name, const char *fallback, char choice[VARIANT_TEXT])
{
	size_t size = sizeof LAYOUT_TENSOR + strlen(name);
	char *key = malloc(size);
	const char *text = NULL;

	if (key != NULL) {
		snprintf(key, size, LAYOUT_TENSOR "%s", name);
		text = file_metadata(file, key);
	}
	free(key);
	if (text == NULL || sscanf(text, "%*s %63s", choice) != 1)
		snprintf(choice, VARIANT_TEXT, "%s", fallback != NULL ? fallback : "");
}

struct variant measure_variant_of(const struct quantized *quantized, const char *name)
{
	struct variant variant = {
		.format = quantized->choice.form->format,
		.sparsity = quantized->choice.sparsity,
		.as_written = true,
	};
	const struct file *file = quantized->files[LAYOUT_CODES];
	bool recipe = variant_has_recipe(&variant);
	char choice[VARIANT_TEXT];
	int value;

	noted_choice(file, name, file_metadata(file, recipe ? "mxfp.recipe" : "mxfp.rule"), choice);
	if (mxfp_option_from_name(recipe ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE, choice, &value) != MXFP_OK)
		return variant;
	variant.as_written = false;
	if (recipe)
		variant.recipe = (enum mxfp_recipe)value;
	else
		variant.rule = (enum mxfp_rule)value;
	return variant;
}

/* Finds the quantized form of a layer with rows and cols filled in, and makes it the layer's one variant. EXIT_MEMORY,
   EXIT_IO, EXIT_INPUT. */
static int find_against(struct quantized *quantized, const struct layer *layer, const struct model *against,
                         struct error *error)
{
	const char *name = layer->tensor->name;
	bool found;
	int code = quantized_find(quantized, &found, against, name, error);

	if (code != EXIT_OK)
		return code;
	if (!found)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': is not quantized", against->path, name);
	if (quantized->rows != layer->rows || quantized->cols != layer->cols)
		return fail(error, EXIT_INPUT, "%s: tensor '%s': has another shape than in %s", against->path, name,
		            layer->file->path);
	layer->measurements[0].variant = measure_variant_of(quantized, name);
	return EXIT_OK;
}

enum {
	PIECE = 1 << 22, /* numbers that a piece of rows has, products included, unless one row has more: enough rows for
	                    the products to run at their speed */
	ROWS_ALIGN = 64
};

/* What is held while a layer is measured. */
struct measuring {
	const struct measure_options *options;
	struct layer *layer;
	size_t cols, piece_rows;
	unsigned n_inputs;
	struct input inputs[N_ACTIVATION_KINDS];
	float amax;
	uint64_t stream;
	float *weights, *pruned, *decoded; /* pruned, and its masks: of the variant at hand, if it is to be */
	uint8_t *masks;
	struct quantized quantized; /* of options->against */
	uint8_t *codes, *scales;
	struct mxfp_blocks blocks;         /* of the variant at hand: these */
	double *exact[N_ACTIVATION_KINDS]; /* products of the piece, [rows][tokens] */
	struct product_memory products;    /* and quantized ones: of each kind with exact and quantized activations */
	uint64_t (*histograms)[N_SCALE_CODES]; /* one a variant */
};

static void release(struct measuring *m)
{
	for (unsigned k = 0; k < N_ACTIVATION_KINDS; k++) {
		input_free(&m->inputs[k]);
		free(m->exact[k]);
	}
	free(m->weights);
	free(m->pruned);
	free(m->masks);
	free(m->decoded);
	free(m->codes);
	free(m->scales);
	product_memory_free(&m->products);
	free(m->histograms);
}

static int allocate(struct measuring *m, struct error *error)
{
	size_t outputs = 0;
	struct variant_storage storage = {0};
	bool complete = true;

	for (unsigned k = 0; k < m->n_inputs; k++)
		outputs += m->inputs[k].exact.rows;
	m->piece_rows = PIECE / (2 * m->cols + 4 * outputs);
	if (m->piece_rows > ROWS_ALIGN)
		m->piece_rows -= m->piece_rows % ROWS_ALIGN;
	if (m->piece_rows == 0)
		m->piece_rows = 1;
	if (m->piece_rows > m->layer->rows)
		m->piece_rows = (size_t)m->layer->rows;
	for (size_t v = 0; v < m->options->variants.n; v++)
		if (!variant_raise_storage(&storage, &m->layer->measurements[v].variant, m->piece_rows, m->cols))
			return fail_memory(error);
	m->weights = malloc(m->piece_rows * m->cols * sizeof *m->weights);
	m->decoded = malloc(m->piece_rows * m->cols * sizeof *m->decoded);
	m->pruned = malloc(m->piece_rows * m->cols * sizeof *m->pruned);
	m->codes = malloc(storage.codes + 1);
	m->masks = malloc(storage.masks + 1);
	m->scales = malloc(storage.scales + 1);
	m->histograms = calloc(m->options->variants.n, sizeof *m->histograms);
	for (unsigned k = 0; k < m->n_inputs; k++) {
		m->exact[k] = malloc((m->piece_rows * m->inputs[k].exact.rows + 1) * sizeof *m->exact[k]);
		complete &= m->exact[k] != NULL;
	}
	complete &= m->weights != NULL && m->pruned != NULL && m->decoded != NULL && m->codes != NULL &&
	            m->masks != NULL && m->scales != NULL && m->histograms != NULL;
	return complete ? EXIT_OK : fail_memory(error);
}

/* Reads a piece of rows. */
static int read_rows(struct measuring *m, uint64_t first, size_t rows, struct error *error)
{
	const struct layer *layer = m->layer;
	int code = elements_read(layer->file, layer->tensor, first * m->cols, m->weights, rows * m->cols, error);
	if (code == EXIT_OK && m->options->advance != NULL)
		m->options->advance(m->options->context, rows * m->cols * dtype_info(layer->tensor->dtype)->bits / 8);
	return code;
}

static size_t rows_at(const struct measuring *m, uint64_t first)
{
	return m->layer->rows - first < m->piece_rows ? (size_t)(m->layer->rows - first) : m->piece_rows;
}

static int find_amax(struct measuring *m, struct error *error)
{
	const struct mxfp_exec exec = {.threads = m->options->threads};
	int code = EXIT_OK;

	for (uint64_t first = 0; code == EXIT_OK && first < m->layer->rows; first += m->piece_rows) {
		size_t rows = rows_at(m, first);

		code = read_rows(m, first, rows, error);
		if (code == EXIT_OK)
			mxfp_amax(m->weights, MXFP_FORMAT_F32, rows * m->cols, &m->amax, &exec);
	}
	return code;
}

/* The piece's weights, pruned if the variant is to be. */
static const float *prune_rows(const struct measuring *m, size_t rows, const struct variant *variant)
{
	const struct mxfp_sparse masks = {
		.format = MXFP_FORMAT_F32,
		.sparsity = variant->sparsity,
		.rows = rows,
		.cols = m->cols,
		.masks = m->masks,
	};
	const struct mxfp_exec exec = {.threads = m->options->threads};

	if (variant->sparsity.m == 0)
		return m->weights;
	must_succeed(mxfp_sparse_prune(&masks, m->pruned, 0, m->weights, 0, &exec));
	return m->pruned;
}

/* m->blocks to m->decoded. */
static void decode(struct measuring *m)
{
	const struct mxfp_exec exec = {.threads = m->options->threads};
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&m->blocks);
	must_succeed(mxfp_dequantize(&matrix, m->decoded, MXFP_FORMAT_F32, 0, &exec));
}

/* Quantizes the piece in memory into m->blocks and m->decoded. */
static void quantize_rows(struct measuring *m, uint64_t first, size_t rows, struct measurement *into)
{
	const struct measure_options *o = m->options;
	struct mxfp_counts counts = {0};
	const struct mxfp_quantize_options options = {
		.rule = into->variant.rule,
		.recipe = into->variant.recipe,
		.round = o->round,
		.seed = o->seed,
		.stream = m->stream,
		.first_index = first * m->cols,
		.tensor_amax = &m->amax,
		.exec = &(struct mxfp_exec){.threads = o->threads},
		.counts = &counts,
	};
	m->blocks = (struct mxfp_blocks){
		.format = into->variant.format,
		.rows = rows,
		.cols = m->cols,
		.codes = m->codes,
		.scales = m->scales,
	};
	const float *weights = prune_rows(m, rows, &into->variant);
	must_succeed(mxfp_quantize(&m->blocks, weights, MXFP_FORMAT_F32, 0, &options));
	decode(m);
	into->saturated += counts.saturated;
}

/* Reads the piece's scales and decoded numbers from the quantized model. */
static int read_quantized(struct measuring *m, uint64_t first, size_t rows, struct error *error)
{
	const struct piece piece = {.row = first, .rows = rows, .cols = m->cols};
	uint64_t n_bytes;

	m->blocks = quantized_blocks(&m->quantized, &piece, m->codes, m->scales);
	int code = quantized_read(&m->quantized, &piece, &m->blocks, &n_bytes, error);
	if (code != EXIT_OK)
		return code;
	decode(m);
	return EXIT_OK;
}

/* The products of the piece's weights, of which there are `rows`, with every kind of activations: quantized, and before
   these exact ones if `with_exact`. */
static int multiply(struct measuring *m, const struct mxfp_matrix *weights, bool with_exact, struct error *error)
{
	struct mxfp_matrix x[PRODUCTS_MAX];
	size_t n = 0;

	for (unsigned k = 0; k < m->n_inputs; k++) {
		if (with_exact)
			x[n++] = m->inputs[k].exact;
		x[n++] = m->inputs[k].quantized;
	}
	return product_gemm(&m->products, x, n, weights, m->options->threads, error);
}

/* Adds the errors of the variant's elements and products, the exact ones of which are in m->weights and m->exact. */
static void add_errors(struct measuring *m, size_t rows, const float *measured, struct measurement *into)
{
	const struct element_errors elements = {
		&into->weights, m->weights, measured, rows * m->cols, &into->flushed, into->relative,
	};
	struct product_errors products[PRODUCTS_MAX];
	size_t n = 0;

	for (unsigned k = 0; k < m->n_inputs; k++) {
		struct product_stats *stats = &into->products[k];
		size_t tokens = m->inputs[k].exact.rows;

		products[n] = (struct product_errors){&stats->weights_only, m->exact[k], m->products.y[n], rows, tokens};
		n++;
		products[n] = (struct product_errors){&stats->both, m->exact[k], m->products.y[n], rows, tokens};
		n++;
	}
	measure_errors(products, n, &elements, m->options->threads);
}

/* The piece quantized and decoded, in m->blocks and m->decoded, and its scales counted. */
static int make_blocks(struct measuring *m, uint64_t first, size_t rows, size_t v, struct error *error)
{
	struct measurement *into = &m->layer->measurements[v];
	struct mxfp_sizes size;
	int code = EXIT_OK;

	if (m->options->against != NULL)
		code = read_quantized(m, first, rows, error);
	else
		quantize_rows(m, first, rows, into);
	if (code != EXIT_OK)
		return code;
	mxfp_blocks_size(into->variant.format, rows, m->cols, &size);
	for (size_t i = 0; i < size.scales_bytes; i++)
		m->histograms[v][m->scales[i]]++;
	return EXIT_OK;
}

static int measure_variant(struct measuring *m, uint64_t first, size_t rows, size_t v, struct error *error)
{
	struct measurement *into = &m->layer->measurements[v];
	struct mxfp_matrix weights = {.format = MXFP_FORMAT_F32, .rows = rows, .cols = m->cols};
	const float *measured = m->decoded;
	struct variant_storage storage;
	int code = EXIT_OK;

	if (variant_is_quantized(&into->variant)) {
		code = make_blocks(m, first, rows, v, error);
		weights = matrix_of_blocks(&m->blocks);
	} else {
		measured = prune_rows(m, rows, &into->variant);
		weights.data = measured;
	}
	if (code == EXIT_OK)
		code = multiply(m, &weights, true, error);
	if (code != EXIT_OK)
		return code;
	add_errors(m, rows, measured, into);
	variant_storage(&storage, &into->variant, rows, m->cols);
	into->bytes += storage.kept + storage.masks + storage.scales;
	return EXIT_OK;
}

/* The exact products of the piece, and what quantized activations alone do to them. */
static int measure_exact(struct measuring *m, size_t rows, struct error *error)
{
	const struct mxfp_matrix weights = {.format = MXFP_FORMAT_F32, .rows = rows, .cols = m->cols, .data = m->weights};
	struct product_errors errors[N_ACTIVATION_KINDS];
	int code = multiply(m, &weights, false, error);

	for (unsigned k = 0; code == EXIT_OK && k < m->n_inputs; k++) {
		size_t tokens = m->inputs[k].exact.rows;

		product(m->exact[k], m->weights, rows, m->inputs[k].exact.data, tokens, m->cols, m->options->threads);
		errors[k] = (struct product_errors){
			&m->layer->inputs[k].product, m->exact[k], m->products.y[k], rows, tokens,
		};
	}
	if (code == EXIT_OK)
		measure_errors(errors, m->n_inputs, NULL, m->options->threads);
	return code;
}

static int measure_rows(struct measuring *m, uint64_t first, size_t rows, struct error *error)
{
	int code = read_rows(m, first, rows, error);

	if (code != EXIT_OK)
		return code;
	code = measure_exact(m, rows, error);
	for (size_t v = 0; code == EXIT_OK && v < m->options->variants.n; v++)
		code = measure_variant(m, first, rows, v, error);
	return code;
}

/* Completes what does not come piece by piece. */
static int complete(struct measuring *m, struct error *error)
{
	int code = EXIT_OK;

	for (unsigned k = 0; k < m->n_inputs; k++)
		m->layer->inputs[k].input = m->inputs[k].stats;
	for (size_t v = 0; code == EXIT_OK && v < m->options->variants.n; v++) {
		struct measurement *measurement = &m->layer->measurements[v];

		measurement->elements = m->layer->rows * m->layer->cols;
		if (mxfp_format_get_info(measurement->variant.format)->tensor_scale)
			measurement->bytes += sizeof(float);
		code = keep_scales(measurement, m->histograms[v], error);
	}
	return code;
}

static int measure(struct measuring *m, struct error *error)
{
	const struct model *against = m->options->against;
	int code = EXIT_OK;

	if (against != NULL)
		code = find_against(&m->quantized, m->layer, against, error);
	for (unsigned k = 0; code == EXIT_OK && k < input_kinds(&m->options->input); k++) {
		code = input_make(&m->inputs[k], &m->options->input, k, m->layer->tensor, m->cols, error);
		m->n_inputs += m->inputs[k].exact.rows > 0;
	}
	if (code == EXIT_OK)
		code = allocate(m, error);
	if (code == EXIT_OK && measure_readings(m->options) > 1)
		code = find_amax(m, error);
	for (uint64_t first = 0; code == EXIT_OK && first < m->layer->rows; first += m->piece_rows)
		code = measure_rows(m, first, rows_at(m, first), error);
	return code == EXIT_OK ? complete(m, error) : code;
}

unsigned measure_readings(const struct measure_options *options)
{
	/* A quantized model has its tensor scales already. */
	for (size_t v = 0; options->against == NULL && v < options->variants.n; v++)
		if (mxfp_format_get_info(options->variants.items[v].format)->tensor_scale)
			return 2;
	return 1;
}

int measure_layer(struct layer *layer, const struct measure_options *options, struct error *error)
{
	const char *name = layer->tensor->name;
	struct measuring m = {.options = options, .layer = layer, .stream = XXH3_64bits(name, strlen(name))};

	tensor_matrix(layer->tensor, &layer->rows, &layer->cols);
	m.cols = (size_t)layer->cols;
	layer->measurements = calloc(options->variants.n, sizeof *layer->measurements);
	if (layer->measurements == NULL)
		return fail_memory(error);
	for (size_t v = 0; v < options->variants.n; v++) {
		layer->measurements[v].variant = options->variants.items[v];
		layer->measurements[v].saturated_known = options->against == NULL;
	}
	int code = measure(&m, error);
	release(&m);
	return code;
}
