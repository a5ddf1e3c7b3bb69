/* SPDX-License-Identifier: MIT */
/* Products of a network's linear layers: inputs become blocks once for all of them. */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"

void *scratch_take(struct network *network, enum scratch_id id, size_t bytes)
{
	struct scratch *scratch = &network->scratch[id];

	if (bytes > scratch->bytes || scratch->memory == NULL) {
		free(scratch->memory);
		scratch->memory = malloc(bytes + 1);
		scratch->bytes = scratch->memory != NULL ? bytes : 0;
	}
	return scratch->memory;
}

void work_end(struct network *network, enum network_work work, double begun)
{
	network->done[network->at][work].seconds += clock_seconds() - begun;
}

struct mxfp_matrix linear_numbers(const float *x, size_t rows, size_t cols, size_t stride)
{
	return (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = MXFP_FORMAT_F32, .rows = rows, .cols = cols, .data = x, .stride = stride};
}

struct mxfp_matrix linear_blocks(const struct mxfp_blocks *blocks, size_t first, size_t rows)
{
	struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, blocks->format, rows, blocks->cols));
	matrix.rows = rows;
	matrix.data = (const uint8_t *)blocks->codes + first * size.codes_row_bytes;
	matrix.scales = (const uint8_t *)blocks->scales + first * size.scales_row_bytes;
	return matrix;
}

/* How activations become blocks. NVFP4: the tensor scale is 1, whatever else is in the batch. */
static struct mxfp_quantize_options activation_options(enum mxfp_rule rule)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options), .rule = rule, .tensor_amax = mxfp_some(0),
	};
}

void linear_quantize_into(struct network *network, struct mxfp_blocks *blocks, const float *x)
{
	const double begun = clock_seconds();
	const struct mxfp_quantize_options options = activation_options(network->options.activation_rule);

	must_succeed(dense_quantize(blocks, MXFP_FORMAT_F32, x, &options, &network->exec));
	work_end(network, NETWORK_QUANTIZE, begun);
}

void network_round_inputs(enum mxfp_format format, enum mxfp_rule rule, float *x, size_t rows, size_t cols,
                          const struct mxfp_exec *exec)
{
	const struct mxfp_result to = mxfp_to_numbers(MXFP_FORMAT_F32, x);
	const struct mxfp_matrix from = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, x);
	const struct mxfp_quantize_options options = activation_options(rule);

	must_succeed(mxfp_fake_quantize(&to, format, &from, &options, exec));
}

int linear_quantize(struct network *network, struct inputs *inputs, enum mxfp_format format, struct error *error)
{
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, format, inputs->rows, inputs->cols));
	uint8_t *memory = scratch_take(network, SCRATCH_BLOCKS, size.codes_bytes + size.scales_bytes);
	if (memory == NULL)
		return fail_memory(error);
	inputs->blocks = (struct mxfp_blocks){
		.size = sizeof(struct mxfp_blocks), .format = format,
		.rows = inputs->rows,
		.cols = inputs->cols,
		.codes = memory,
		.scales = memory + size.codes_bytes,
	};
	linear_quantize_into(network, &inputs->blocks, inputs->x);
	return EXIT_OK;
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

int linear_prepare(struct network *network, struct inputs *inputs, enum mxfp_format a_format, struct error *error)
{
	if (is_block(a_format))
		return inputs->blocks.rows > 0 ? EXIT_OK : linear_quantize(network, inputs, a_format, error);
	if (a_format == MXFP_FORMAT_F32 || (inputs->rounded.rows > 0 && inputs->rounded_to == a_format))
		return EXIT_OK;
	void *memory = scratch_take(network, SCRATCH_ROUNDED, numbers_inputs_bytes(network, inputs, a_format));
	if (memory == NULL)
		return fail_memory(error);
	numbers_round_inputs(network, inputs, a_format, memory);
	return EXIT_OK;
}

struct mxfp_matrix linear_inputs(const struct inputs *inputs, enum mxfp_format a_format, size_t first, size_t rows)
{
	struct mxfp_matrix matrix = inputs->rounded;

	if (is_block(a_format))
		return linear_blocks(&inputs->blocks, first, rows);
	if (a_format == MXFP_FORMAT_F32)
		return linear_numbers(inputs->x + first * inputs->cols, rows, inputs->cols, 0);
	matrix.rows = rows;
	matrix.data = (const uint8_t *)matrix.data + first * inputs->cols * mxfp_format_get_info(matrix.format)->storage_bytes;
	if (matrix.scales != NULL)
		matrix.scales = (const float *)matrix.scales + first;
	return matrix;
}

struct mxfp_gemm_options linear_options(const struct network *network, enum mxfp_format a_format)
{
	return (struct mxfp_gemm_options){
		.size = sizeof(struct mxfp_gemm_options),
		.acc = network->options.acc,
		.pass_k = network->options.pass_k,
		.a_format = is_block(a_format) ? a_format : MXFP_FORMAT_F32,
	};
}

void linear_set_w(struct mxfp_product *product, const struct linear *linear)
{
	product->w = &linear->w;
	product->n = linear->n;
	product->bias = linear->bias;
	if (linear->packed_bytes > 0) {
		product->w_packed = linear->memory;
		product->w_packed_bytes = linear->packed_bytes;
	}
}

static double bytes_of(const struct mxfp_product *product)
{
	const struct mxfp_matrix *w = product->w;
	const struct mxfp_format_info *info = mxfp_format_get_info(w->format);
	struct mxfp_sizes size;

	if (product->w_packed != NULL)
		return (double)product->w_packed_bytes;
	if (info->kind != MXFP_KIND_BLOCK)
		return (double)w->rows * (double)w->cols * info->storage_bytes;
	must_succeed(mxfp_blocks_size(&size, w->format, w->rows, w->cols));
	return (double)(size.codes_bytes + size.scales_bytes);
}

/* Counts what products do. */
static struct network_done count(const struct mxfp_product *products, size_t n)
{
	struct network_done done = {0};

	for (size_t i = 0; i < n; i++) {
		const struct mxfp_product *p = &products[i];
		const size_t cols = p->w_packed != NULL ? p->n : p->w->rows;

		done.operations += 2 * (double)p->a->rows * (double)cols * (double)p->a->cols;
		done.bytes += bytes_of(p);
	}
	return done;
}

const struct mxfp_exec *work_exec(const struct network *network, double operations)
{
	return operations < 4e6 ? &network->one : &network->exec;
}

static int run_products(struct network *network, const struct mxfp_product *products, size_t n,
                        const struct mxfp_gemm_options *options, enum network_work work, struct error *error)
{
	const double begun = clock_seconds();
	const struct network_done done = count(products, n);
	const struct mxfp_exec *exec = work_exec(network, done.operations + 10 * done.bytes);
	struct network_done *sum = &network->done[network->at][work];
	size_t bytes;

	must_succeed(mxfp_gemm_workspace_size(&bytes, products, n, options, exec));
	void *workspace = scratch_take(network, SCRATCH_WORKSPACE, bytes);
	if (workspace == NULL)
		return fail_memory(error);
	must_succeed(mxfp_gemm_grouped(NULL, products, n, options, workspace, bytes, exec));
	sum->operations += done.operations;
	sum->bytes += done.bytes;
	work_end(network, work, begun);
	return EXIT_OK;
}

/* A product of FP8: sums times the scales of W and of the row, which are a gate that the residual follows; then, by a product
   without elements that adds to them, what comes after sums. */
static int run_scaled(struct network *network, const struct mxfp_product *product, const struct mxfp_gemm_options *options,
                      enum network_work work, struct error *error)
{
	const size_t rows = product->a->rows, cols = product->n;
	const float *row_scales = product->a->scales;
	float *scales = scratch_take(network, SCRATCH_SCALES, rows * cols * sizeof *scales);
	struct mxfp_gemm_options sum_options = *options, rest_options = {.size = sizeof rest_options, .accumulate = true};
	struct mxfp_product sum = *product, rest = *product;

	if (scales == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < rows * cols; i++)
		scales[i] = row_scales[i / cols] * product->w->tensor_scale;
	const struct mxfp_matrix gate = linear_numbers(scales, rows, cols, 0);
	sum_options.activation = MXFP_FUNCTION_IDENTITY;
	sum.bias = NULL;
	sum.gate = &gate;
	const int code = run_products(network, &sum, 1, &sum_options, work, error);
	if (code != EXIT_OK || (product->bias == NULL && product->gate == NULL && options->activation == MXFP_FUNCTION_IDENTITY))
		return code;
	const struct mxfp_matrix a = linear_numbers(scales, rows, 0, 0), w = linear_numbers(scales, cols, 0, 0);
	rest_options.activation = options->activation;
	rest.a = &a;
	rest.w = &w;
	rest.w_packed = NULL;
	rest.residual = NULL;
	return run_products(network, &rest, 1, &rest_options, work, error);
}

int linear_products(struct network *network, const struct mxfp_product *products, size_t n,
                    enum mxfp_function activation, enum mxfp_format a_format, enum network_work work,
                    struct error *error)
{
	struct mxfp_gemm_options options = linear_options(network, a_format);
	int code = EXIT_OK;

	options.activation = activation;
	if (work != NETWORK_PRODUCTS) {
		options.acc = MXFP_ACC_EXACT;
		options.pass_k = 0;
	}
	if (!numbers_are_fp8(a_format) || !acc_is_machine(options.acc))
		return run_products(network, products, n, &options, work, error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = run_scaled(network, &products[i], &options, work, error);
	return code;
}

/* The products of those weights that want inputs in this format. */
static int multiply_in(struct network *network, struct inputs *inputs, enum mxfp_function activation,
                       const struct result *results, size_t n, enum mxfp_format a_format, struct error *error)
{
	enum { RESULTS_MAX = 3 };
	struct mxfp_product products[RESULTS_MAX];
	struct mxfp_matrix gates[RESULTS_MAX], residuals[RESULTS_MAX], a;
	struct mxfp_result c[RESULTS_MAX];
	size_t used = 0;

	const int code = linear_prepare(network, inputs, a_format, error);
	if (code != EXIT_OK)
		return code;
	a = linear_inputs(inputs, a_format, 0, inputs->rows);
	for (size_t i = 0; i < n; i++) {
		const struct result *r = &results[i];

		if (r->linear->a_format != a_format)
			continue;
		c[used] = mxfp_to_numbers(MXFP_FORMAT_F32, r->c);
		products[used] = (struct mxfp_product){.size = sizeof *products, .c = &c[used], .a = &a};
		linear_set_w(&products[used], r->linear);
		if (r->gate != NULL) {
			gates[used] = linear_numbers(r->gate, inputs->rows, r->linear->n, 0);
			products[used].gate = &gates[used];
		}
		if (r->residual != NULL) {
			residuals[used] = linear_numbers(r->residual, inputs->rows, r->linear->n, 0);
			products[used].residual = &residuals[used];
		}
		used++;
	}
	return used > 0 ? linear_products(network, products, used, activation, a_format, NETWORK_PRODUCTS, error) : EXIT_OK;
}

int linear_multiply(struct network *network, struct inputs *inputs, enum mxfp_function activation,
                     const struct result *results, size_t n, struct error *error)
{
	int code = interrupt_check(error);

	if (code == EXIT_OK && network->watch != NULL && network->at < network->shape.layers)
		code = network->watch(network->watch_context, results[0].linear->site, inputs->x, inputs->rows, inputs->cols, error);
	for (size_t i = 0, first; i < n && code == EXIT_OK; i++) {
		const enum mxfp_format a_format = results[i].linear->a_format;

		for (first = 0; results[first].linear->a_format != a_format;)
			first++;
		if (first == i)
			code = multiply_in(network, inputs, activation, results, n, a_format, error);
	}
	return code;
}

