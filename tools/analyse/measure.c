/* SPDX-License-Identifier: MIT */
/*
 * Measuring one weight matrix: for each piece of rows, the exact products once and then every variant. NVFP4 needs the
 * matrix's largest magnitude first, which costs a reading of its own; pruning keeps it.
 */
#include "config.h"

#include "analyse/measure.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "analyse/lanes.h"
#include "analyse/product.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "internal.h"
#include "io/elements.h"
#include "model/operand.h"
#include "model/quantized.h"
#include "mxfp/quantize.h"

enum { COLUMN = 256 }; /* products that are gathered at once */

/* Adds the errors of products measured[tokens][rows] against exact[rows][stride]: row by row, as the exact ones lie, so
   that the order does not depend on the rows in a piece. */
static void add_products(struct stats *into, const double *exact, size_t stride, const float *measured, size_t rows,
                         size_t tokens)
{
	double column[COLUMN];

	for (size_t row = 0; row < rows; row++)
		for (size_t t = 0; t < tokens; t += COLUMN) {
			size_t n = tokens - t < COLUMN ? tokens - t : COLUMN;

			for (size_t i = 0; i < n; i++)
				column[i] = (double)measured[(t + i) * rows + row];
			stats_add_double(into, exact + row * stride + t, column, n);
		}
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
	total->errors.non_finite += part->errors.non_finite;
	total->errors.flushed += part->errors.flushed;
	stats_merge(&total->errors.stats, &part->errors.stats);
	for (int k = 0; k < N_ACTIVATION_KINDS; k++) {
		stats_merge(&total->products[k].weights_only, &part->products[k].weights_only);
		stats_merge(&total->products[k].both, &part->products[k].both);
	}
	for (unsigned i = 0; i < N_ERROR_BINS; i++)
		total->errors.relative[i] += part->errors.relative[i];
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
	if (mxfp_option_from_name(&value, recipe ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE, choice) != MXFP_OK)
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
		return fail(error, EXIT_INPUT, "%s: tensor '%s': has a different shape in %s", against->path, name,
		            layer->file->path);
	layer->measurements[0].variant = measure_variant_of(quantized, name);
	return EXIT_OK;
}

enum {
	PIECE = 1 << 21,     /* numbers that a piece of rows has, products included, unless one row has more: enough rows
	                        for the products to run at their speed */
	ROWS_ALIGN = 64,
	SQUARE = 32,         /* rows that a piece has a multiple of if a variant has squares */
	BAND = 1 << 14,      /* elements of a variant that are decoded at once, unless one row has more: those of all
	                        variants fit the second cache */
	AT_ONCE = LANES_MAX  /* variants whose elements are measured at once */
};

/* The piece in one of the variants that are measured at once. */
struct quantized_piece {
	struct mxfp_blocks blocks; /* points to codes and scales */
	uint8_t *codes, *scales;
	float *decoded;            /* a band */
};

/* What is held while a layer is measured. */
struct measuring {
	const struct measure_options *options;
	struct layer *layer;
	size_t cols, piece_rows, band_rows;
	struct input input;
	float amax;
	uint64_t stream;
	float *weights, *pruned; /* pruned: scratch of the current variant; unused unless it prunes */
	uint8_t *masks;             /* likewise */
	uint64_t n_product_rows;    /* rows of the layer whose products are measured */
	uint64_t next_product_row;  /* how many of them are before the piece */
	struct product_rows {
		size_t n, *items;
		float *weights;             /* copies, unless all rows are measured */
		uint8_t *codes, *scales;
	} product_rows;
	struct quantized quantized; /* of options->against */
	struct quantized_piece pieces[AT_ONCE];
	double *exact; /* products of the piece, [rows][tokens of every kind] */
	struct product_memory products; /* of quantized weights: with exact and with each kind of quantized activations */
	uint64_t (*histograms)[N_SCALE_CODES]; /* one a variant */
};

static void release(struct measuring *m)
{
	input_free(&m->input);
	free(m->exact);
	for (size_t i = 0; i < AT_ONCE; i++) {
		free(m->pieces[i].codes);
		free(m->pieces[i].scales);
		free(m->pieces[i].decoded);
	}
	free(m->weights);
	free(m->pruned);
	free(m->masks);
	free(m->product_rows.items);
	free(m->product_rows.weights);
	free(m->product_rows.codes);
	free(m->product_rows.scales);
	product_memory_free(&m->products);
	free(m->histograms);
}

static void cut_rows(struct measuring *m)
{
	const size_t most = m->options->numbers != 0 && m->options->numbers < PIECE / 2 ? 2 * m->options->numbers : PIECE;
	const struct variants *variants = &m->options->variants;
	bool squares = false;

	m->piece_rows = most / (2 * m->cols + 4 * m->input.exact.rows);
	if (m->piece_rows > ROWS_ALIGN)
		m->piece_rows -= m->piece_rows % ROWS_ALIGN;
	for (size_t v = 0; v < variants->n; v++)
		squares |= variants->items[v].squares;
	if (squares)
		m->piece_rows = m->piece_rows < SQUARE ? SQUARE : m->piece_rows - m->piece_rows % SQUARE;
	if (m->piece_rows == 0)
		m->piece_rows = 1;
	if (m->piece_rows > m->layer->rows)
		m->piece_rows = (size_t)m->layer->rows;
	m->band_rows = BAND / m->cols;
	if (m->band_rows == 0)
		m->band_rows = 1;
	if (m->band_rows > m->piece_rows)
		m->band_rows = m->piece_rows;
}

static int allocate(struct measuring *m, struct error *error)
{
	const struct variants *variants = &m->options->variants;
	struct variant_storage storage = {0};
	bool complete = true, prunes = false;

	cut_rows(m);
	for (size_t v = 0; v < variants->n; v++) {
		const struct variant *variant = &m->layer->measurements[v].variant;

		if (!variant_raise_storage(&storage, variant, m->piece_rows, m->cols))
			return fail_memory(error);
		prunes |= variant->sparsity.m != 0;
	}
	for (size_t i = 0; i < AT_ONCE && i < variants->n; i++) {
		struct quantized_piece *piece = &m->pieces[i];

		piece->codes = malloc(storage.codes + 1);
		piece->scales = malloc(storage.scales + 1);
		piece->decoded = malloc(m->band_rows * m->cols * sizeof *piece->decoded);
		complete &= piece->codes != NULL && piece->scales != NULL && piece->decoded != NULL;
	}
	m->weights = malloc(m->piece_rows * m->cols * sizeof *m->weights);
	m->pruned = malloc(prunes ? m->piece_rows * m->cols * sizeof *m->pruned : 1);
	m->masks = malloc(storage.masks + 1);
	m->histograms = calloc(variants->n, sizeof *m->histograms);
	struct product_rows *r = &m->product_rows;
	const bool copies = m->n_product_rows < m->layer->rows;
	r->items = malloc((m->piece_rows + 1) * sizeof *r->items);
	r->weights = malloc(copies ? m->piece_rows * m->cols * sizeof *r->weights : 1);
	r->codes = malloc(copies ? storage.codes + 1 : 1);
	r->scales = malloc(copies ? storage.scales + 1 : 1);
	complete &= r->items != NULL && r->weights != NULL && r->codes != NULL && r->scales != NULL;
	m->exact = malloc((m->piece_rows * m->input.exact.rows + 1) * sizeof *m->exact);
	complete &= m->exact != NULL && m->weights != NULL && m->pruned != NULL && m->masks != NULL && m->histograms != NULL;
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
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = m->options->threads};
	int code = EXIT_OK;

	for (uint64_t first = 0; code == EXIT_OK && first < m->layer->rows; first += m->piece_rows) {
		size_t rows = rows_at(m, first);

		code = read_rows(m, first, rows, error);
		if (code == EXIT_OK)
			dense_amax(&m->amax, MXFP_FORMAT_F32, m->weights, rows * m->cols, &exec);
	}
	return code;
}

/* Some rows of the piece's weights, pruned if the variant is to be: then in `pruned`. */
static const float *prune_rows(const struct measuring *m, float *pruned, size_t first, size_t rows,
                               const struct variant *variant)
{
	const struct mxfp_sparse masks = {
		.size = sizeof masks, .format = MXFP_FORMAT_F32,
		.sparsity = variant->sparsity,
		.rows = rows,
		.cols = m->cols,
		.masks = m->masks,
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = m->options->threads};
	const float *weights = m->weights + first * m->cols;

	if (variant->sparsity.m == 0)
		return weights;
	must_succeed(dense_prune(&masks, pruned, MXFP_FORMAT_F32, weights, &exec));
	return pruned;
}

/* Quantizes the piece in memory. */
static void quantize_rows(struct measuring *m, struct quantized_piece *piece, uint64_t first, size_t rows,
                          struct measurement *into)
{
	const struct measure_options *o = m->options;
	struct mxfp_counts counts = {.size = sizeof counts};
	const struct mxfp_quantize_options options = {
		.size = sizeof options,
		.rule = into->variant.rule,
		.recipe = into->variant.recipe,
		.round = o->round,
		.block_rows = into->variant.squares ? SQUARE : 1,
		.seed = o->seed,
		.stream = m->stream,
		.first_index = first * m->cols,
		.tensor_amax = mxfp_some(m->amax),
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = o->threads};

	piece->blocks = (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = into->variant.format,
		.rows = rows,
		.cols = m->cols,
		.codes = piece->codes,
		.scales = piece->scales,
	};
	const float *weights = prune_rows(m, m->pruned, 0, rows, &into->variant);
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, rows, m->cols, weights);
	struct mxfp_result result = mxfp_to_blocks(&piece->blocks);
	result.counts = &counts;
	must_succeed(mxfp_quantize(&result, &matrix, &options, &exec));
	into->saturated += counts.saturated;
}

/* Reads the piece's codes and scales from the quantized model. */
static int read_quantized(struct measuring *m, struct quantized_piece *quantized, uint64_t first, size_t rows,
                          struct error *error)
{
	const struct piece piece = {.row = first, .rows = rows, .cols = m->cols};
	uint64_t n_bytes;

	quantized->blocks = quantized_blocks(&m->quantized, &piece, quantized->codes, quantized->scales);
	return quantized_read(&m->quantized, &piece, &quantized->blocks, &n_bytes, error);
}

/* Row i of those of a layer whose products are measured: evenly spaced. i * rows may be too large. */
static uint64_t product_row(const struct measuring *m, uint64_t i)
{
	uint64_t n = m->n_product_rows, rows = m->layer->rows;

	return i * (rows / n) + i * (rows % n) / n;
}

/* Finds those of the piece. */
static void find_product_rows(struct measuring *m, uint64_t first, size_t rows)
{
	struct product_rows *r = &m->product_rows;

	for (r->n = 0; m->next_product_row < m->n_product_rows; m->next_product_row++) {
		uint64_t row = product_row(m, m->next_product_row);

		if (row >= first + rows)
			break;
		r->items[r->n++] = (size_t)(row - first);
	}
}

/* Those of the piece's rows, which take `bytes` each, copied to `to` unless they are all. */
static const void *take_product_rows(const struct measuring *m, void *to, const void *from, size_t bytes)
{
	const struct product_rows *r = &m->product_rows;

	if (m->n_product_rows == m->layer->rows)
		return from;
	for (size_t i = 0; i < r->n; i++)
		memcpy((uint8_t *)to + i * bytes, (const uint8_t *)from + r->items[i] * bytes, bytes);
	return to;
}

static struct mxfp_matrix product_rows_of_weights(const struct measuring *m, const float *weights)
{
	return (struct mxfp_matrix){
		.size = sizeof(struct mxfp_matrix), .format = MXFP_FORMAT_F32,
		.rows = m->product_rows.n,
		.cols = m->cols,
		.data = take_product_rows(m, m->product_rows.weights, weights, m->cols * sizeof *weights),
	};
}

static struct mxfp_matrix product_rows_of_blocks(const struct measuring *m, const struct mxfp_blocks *blocks)
{
	struct mxfp_matrix matrix = matrix_of_blocks(blocks);
	struct mxfp_sizes row;

	must_succeed(mxfp_blocks_size(&row, blocks->format, 1, m->cols));
	matrix.rows = m->product_rows.n;
	matrix.data = take_product_rows(m, m->product_rows.codes, blocks->codes, row.codes_row_bytes);
	matrix.scales = take_product_rows(m, m->product_rows.scales, blocks->scales, row.scales_row_bytes);
	return matrix;
}

/* The products of the piece's weights with activations: exact ones if `with_exact`, and then quantized ones. */
static int multiply(struct measuring *m, const struct mxfp_matrix *weights, bool with_exact, struct error *error)
{
	struct mxfp_matrix x[PRODUCTS_MAX];
	size_t n = 0;

	if (with_exact)
		x[n++] = m->input.exact;
	for (unsigned i = 0; i < m->input.n_quantized; i++)
		x[n++] = m->input.quantized[i];
	return product_gemm(&m->products, x, n, weights, m->options->threads, error);
}

/* Adds the errors of what multiply() left of a kind of activations: in y, of all kinds or of this one. */
static void add_kind(struct stats *into, const struct measuring *m, unsigned kind, const float *y, bool of_all)
{
	size_t tokens = m->input.tokens, rows = m->product_rows.n;

	add_products(into, m->exact + kind * tokens, m->input.exact.rows, of_all ? y + kind * tokens * rows : y, rows,
	             tokens);
}

/* The same of the quantized activations, whose products begin with number `first`. */
static void add_quantized_kind(struct stats *into, const struct measuring *m, unsigned kind, size_t first)
{
	bool of_all = m->input.n_quantized == 1;

	add_kind(into, m, kind, m->products.y[of_all ? first : first + kind], of_all);
}

/* The piece quantized, its products measured and its scales counted. */
static int measure_variant(struct measuring *m, struct quantized_piece *piece, uint64_t first, size_t rows, size_t v,
                           struct error *error)
{
	struct measurement *into = &m->layer->measurements[v];
	struct mxfp_matrix weights;
	struct variant_storage storage;
	int code = EXIT_OK;

	variant_storage(&storage, &into->variant, rows, m->cols);
	into->bytes += storage.kept + storage.masks + storage.scales;
	if (!variant_is_quantized(&into->variant)) {
		weights = product_rows_of_weights(m, prune_rows(m, m->pruned, 0, rows, &into->variant));
	} else {
		if (m->options->against != NULL)
			code = read_quantized(m, piece, first, rows, error);
		else
			quantize_rows(m, piece, first, rows, into);
		if (code != EXIT_OK)
			return code;
		for (size_t i = 0; i < storage.scales; i++)
			m->histograms[v][piece->scales[i]]++;
		weights = product_rows_of_blocks(m, &piece->blocks);
	}
	if (m->product_rows.n > 0)
		code = multiply(m, &weights, true, error);
	for (unsigned k = 0; code == EXIT_OK && m->product_rows.n > 0 && k < m->input.n_kinds; k++) {
		add_kind(&into->products[k].weights_only, m, k, m->products.y[0], true);
		add_quantized_kind(&into->products[k].both, m, k, 1);
	}
	return code;
}

/* Some rows of the piece as they are in a variant. */
static const float *decode_band(struct measuring *m, const struct quantized_piece *piece, size_t first, size_t rows,
                                const struct variant *variant)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = m->options->threads};
	struct mxfp_blocks band = piece->blocks;
	struct mxfp_sizes size;

	if (!variant_is_quantized(variant))
		return prune_rows(m, piece->decoded, first, rows, variant);
	must_succeed(mxfp_blocks_size(&size, band.format, rows, band.cols));
	band.rows = rows;
	band.codes = piece->codes + first * size.codes_row_bytes;
	band.scales = piece->scales + first * size.scales_row_bytes;
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&band);
	must_succeed(dense_dequantize(piece->decoded, MXFP_FORMAT_F32, &matrix, &exec));
	return piece->decoded;
}

/* Adds the errors of the elements of n variants from v on, whose pieces are those in memory. */
static void measure_elements(struct measuring *m, size_t rows, size_t v, size_t n)
{
	struct measurement *measurements = m->layer->measurements + v;
	struct element_errors *errors[AT_ONCE];
	const float *decoded[AT_ONCE];

	for (size_t first = 0; first < rows; first += m->band_rows) {
		size_t band_rows = rows - first < m->band_rows ? rows - first : m->band_rows;

		for (size_t i = 0; i < n; i++) {
			errors[i] = &measurements[i].errors;
			decoded[i] = decode_band(m, &m->pieces[i], first, band_rows, &measurements[i].variant);
		}
		element_errors_add(errors, decoded, n, m->weights + first * m->cols, band_rows * m->cols,
		                   m->options->noise_only);
	}
}

/* The exact products of the piece, and what quantized activations alone do to them. */
static int measure_exact(struct measuring *m, struct error *error)
{
	const struct mxfp_matrix weights = product_rows_of_weights(m, m->weights);
	int code = multiply(m, &weights, false, error);

	product(m->exact, weights.data, weights.rows, m->input.x, m->input.exact.rows, m->cols, m->options->threads);
	for (unsigned k = 0; code == EXIT_OK && k < m->input.n_kinds; k++)
		add_quantized_kind(&m->layer->inputs[k].product, m, k, 0);
	return code;
}

static int measure_rows(struct measuring *m, uint64_t first, size_t rows, struct error *error)
{
	int code = read_rows(m, first, rows, error);

	if (m->input.n_kinds > 0)
		find_product_rows(m, first, rows);
	if (code == EXIT_OK && m->product_rows.n > 0)
		code = measure_exact(m, error);
	for (size_t v = 0; code == EXIT_OK && v < m->options->variants.n; v += AT_ONCE) {
		size_t n = m->options->variants.n - v < AT_ONCE ? m->options->variants.n - v : AT_ONCE;

		for (size_t i = 0; code == EXIT_OK && i < n; i++)
			code = measure_variant(m, &m->pieces[i], first, rows, v + i, error);
		if (code == EXIT_OK)
			measure_elements(m, rows, v, n);
	}
	return code;
}

/* Completes what does not come piece by piece. */
static int complete(struct measuring *m, struct error *error)
{
	int code = EXIT_OK;

	for (unsigned k = 0; k < m->input.n_kinds; k++) {
		m->layer->inputs[k].input = m->input.stats[k];
		stats_scale(&m->layer->inputs[k].product, m->input.unit);
		for (size_t v = 0; v < m->options->variants.n; v++) {
			stats_scale(&m->layer->measurements[v].products[k].weights_only, m->input.unit);
			stats_scale(&m->layer->measurements[v].products[k].both, m->input.unit);
		}
	}
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
	if (code == EXIT_OK)
		code = input_make(&m->input, &m->options->input, m->layer->tensor, m->cols, error);
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

uint64_t measure_product_rows(const struct measure_options *options, uint64_t rows)
{
	return options->product_rows != 0 && options->product_rows < rows ? options->product_rows : rows;
}

int measure_layer(struct layer *layer, const struct measure_options *options, struct error *error)
{
	const char *name = layer->tensor->name;
	struct measuring m = {.options = options, .layer = layer, .stream = XXH3_64bits(name, strlen(name))};

	tensor_matrix(layer->tensor, &layer->rows, &layer->cols);
	m.cols = (size_t)layer->cols;
	m.n_product_rows = measure_product_rows(options, layer->rows);
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

/* Layers that are measured before they are taken: enough that threads seldom wait for the last, and few enough that
   what was measured fits beside the pieces. */
enum { BATCH = 256, FEW_LAYERS = 4 };

struct batch {
	struct measure_options options;     /* of each layer: one thread, bytes read added to `bytes` */
	const struct measure_options *outer;
	_Atomic uint64_t bytes;             /* read, and not told to `outer` yet */
	atomic_flag telling;
	struct layer layers[BATCH];
	int codes[BATCH];
	struct error errors[BATCH];
};

/* Tells what was read, unless another thread does at the moment: then the next call will. */
static void advance_batch(void *context, uint64_t bytes)
{
	struct batch *batch = context;

	atomic_fetch_add(&batch->bytes, bytes);
	if (batch->outer->advance == NULL || atomic_flag_test_and_set(&batch->telling))
		return;
	batch->outer->advance(batch->outer->context, atomic_exchange(&batch->bytes, 0));
	atomic_flag_clear(&batch->telling);
}

static void measure_in_batch(void *context, size_t i)
{
	struct batch *batch = context;

	batch->codes[i] = measure_layer(&batch->layers[i], &batch->options, &batch->errors[i]);
}

/* Layers first .. first + n. */
static int measure_batch(struct batch *batch, const struct measure_queue *queue, size_t first, size_t n,
                         struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = queue->n < FEW_LAYERS ? 1 : batch->outer->threads};
	int code = EXIT_OK;

	for (size_t i = 0; i < n; i++) {
		batch->layers[i] = (struct layer){.file = NULL};
		queue->give(queue->context, first + i, &batch->layers[i]);
	}
	mxfp_parallel_for(&exec, n, measure_in_batch, batch);
	for (size_t i = 0; i < n; i++) {
		if (code == EXIT_OK && batch->codes[i] != EXIT_OK) {
			code = batch->codes[i];
			*error = batch->errors[i];
		}
		if (code == EXIT_OK)
			code = queue->take(queue->context, first + i, &batch->layers[i], error);
		layer_free(&batch->layers[i], batch->outer->variants.n);
	}
	return code;
}

int measure_layers(const struct measure_queue *queue, const struct measure_options *options, struct error *error)
{
	struct batch *batch = calloc(1, sizeof *batch);
	int code = EXIT_OK;

	if (batch == NULL)
		return fail_memory(error);
	batch->outer = options;
	batch->options = *options;
	batch->options.advance = advance_batch;
	batch->options.context = batch;
	atomic_flag_clear(&batch->telling);
	/* The threads of a few layers work within each. */
	if (queue->n >= FEW_LAYERS)
		batch->options.threads = batch->options.input.threads = 1;
	for (size_t first = 0; code == EXIT_OK && first < queue->n; first += BATCH)
		code = measure_batch(batch, queue, first, queue->n - first < BATCH ? queue->n - first : BATCH, error);
	free(batch);
	return code;
}
