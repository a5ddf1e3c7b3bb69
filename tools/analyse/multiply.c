/* SPDX-License-Identifier: MIT */
/* Products of operands in memory. */
#include "config.h"

#include "analyse/multiply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must_succeed.h"
#include "io/file_npy.h"
#include "model/model_output.h"
#include "mxfp/convert.h"

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

bool multiply_quantizes_a(const struct multiplication *x)
{
	return is_block(x->options.a_format) && !is_block(x->a.matrix.format);
}

enum mxfp_format multiply_a_format(const struct multiplication *x)
{
	return multiply_quantizes_a(x) ? x->options.a_format : x->a.matrix.format;
}

static bool both_are_blocks(const struct multiplication *x)
{
	return is_block(multiply_a_format(x)) && is_block(x->w.matrix.format);
}

enum mxfp_acc multiply_acc(const struct multiplication *x)
{
	return x->options.acc != MXFP_ACC_EXACT || both_are_blocks(x) ? x->options.acc : MXFP_ACC_CHAIN;
}

unsigned multiply_pass(const struct multiplication *x)
{
	enum { WHOLE_ARRAY = 512, FOUR_PRODUCTS = 4 }; /* that an element of the array sums, of block formats only */
	const bool machine = multiply_acc(x) != MXFP_ACC_EXACT && multiply_acc(x) != MXFP_ACC_CHAIN;
	const unsigned pass = x->options.pass_k != 0 || machine ? x->options.pass_k : WHOLE_ARRAY;

	return both_are_blocks(x) || machine ? pass : pass / FOUR_PRODUCTS;
}

static size_t c_width(const struct multiplication *x)
{
	return mxfp_format_get_info(x->c_format)->storage_bytes;
}

/* Bytes of C, or SIZE_MAX. */
static size_t c_bytes(const struct multiplication *x)
{
	if (x->n != 0 && x->m > (SIZE_MAX - 1) / c_width(x) / x->n)
		return SIZE_MAX;
	return x->m * x->n * c_width(x);
}

int multiply_begin(struct multiplication *x, const char *a_name, const char *w_name, struct error *error)
{
	x->m = x->a.matrix.rows;
	x->n = x->w.matrix.rows;
	x->k = x->a.matrix.cols;
	if (x->w.matrix.cols != x->k)
		return fail(error, EXIT_INPUT, "%.400s: is %zu x %zu, but %.400s is %zu x %zu; both need rows of one "
		            "length", a_name, x->m, x->k, w_name, x->n, x->w.matrix.cols);
	x->c = c_bytes(x) < SIZE_MAX ? calloc(c_bytes(x) + 1, 1) : NULL;
	return x->c == NULL ? fail_memory(error) : EXIT_OK;
}

/* Converts all of an operand without a change of value; *place is the first number that would change, or the count. */
static int convert_all(void *to, enum mxfp_format format, const struct operand *from, size_t *place,
                       struct error *error)
{
	const struct mxfp_matrix *matrix = &from->matrix;
	size_t n = matrix->rows * matrix->cols;
	float *before = malloc((n + 1) * sizeof *before), *after = malloc((n + 1) * sizeof *after);
	int code = before == NULL || after == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK) {
		enum mxfp_status status = mxfp_convert_array(to, format, matrix->data, matrix->format, n, NULL, NULL);

		if (status == MXFP_OK)
			status = mxfp_convert_array(before, MXFP_FORMAT_F32, matrix->data, matrix->format, n, NULL, NULL);
		if (status == MXFP_OK)
			status = mxfp_convert_array(after, MXFP_FORMAT_F32, to, format, n, NULL, NULL);
		must_succeed(status);
		for (*place = 0; *place < n; ++*place)
			if (before[*place] != after[*place] && !(isnan(before[*place]) && isnan(after[*place])))
				break;
	}
	free(before);
	free(after);
	return code;
}

/* Reads rows x n numbers into `to`. */
static int read_exactly(const struct multiplication *x, void *to, enum mxfp_format format, const char *text,
                        size_t rows, struct error *error)
{
	struct operand operand;
	size_t place = 0, cols = x->n;
	int code = operand_read(&operand, text, OPERAND_ROWS, "added", error);

	if (code != EXIT_OK)
		return code;
	code = model_output_check_apart(&operand.model, x->out, error);
	const struct mxfp_matrix *matrix = &operand.matrix;
	if (code == EXIT_OK && (is_block(matrix->format) || matrix->rows != rows || matrix->cols != cols))
		code = fail(error, EXIT_INPUT, "%.900s: is %zu x %zu%s; %zu x %zu numbers are needed", text,
		            matrix->rows, matrix->cols, is_block(matrix->format) ? ", quantized" : "", rows, cols);
	if (code == EXIT_OK)
		code = convert_all(to, format, &operand, &place, error);
	if (code == EXIT_OK && place < rows * cols)
		code = fail(error, EXIT_INPUT, "%.900s: number %zu: %s does not hold it; give --c-format f32", text,
		            place, mxfp_format_get_info(format)->name);
	operand_free(&operand);
	return code;
}

int multiply_read_bias(struct multiplication *x, const char *text, struct error *error)
{
	x->bias = calloc(x->n + 1, sizeof *x->bias);
	if (x->bias == NULL)
		return fail_memory(error);
	return read_exactly(x, x->bias, MXFP_FORMAT_F32, text, 1, error);
}

int multiply_read_given(struct multiplication *x, const char *text, struct error *error)
{
	x->options.accumulate = true;
	return read_exactly(x, x->c, x->c_format, text, x->m, error);
}

int multiply_check(const struct multiplication *x, struct error *error)
{
	const struct mxfp_result result = mxfp_to_numbers(x->c_format, x->c);
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = &x->a.matrix, .w = &x->w.matrix};
	size_t bytes;

	if (mxfp_gemm_workspace_size(&bytes, &product, 1, &x->options, NULL) != MXFP_ERR_FORMAT)
		return EXIT_OK;
	return fail(error, EXIT_INPUT, "gemm: --acc %s does not take %s times %s; mxfp-gemm(1) says what it takes",
	            mxfp_option_name(MXFP_OPTION_ACC, (int)x->options.acc), mxfp_format_get_info(multiply_a_format(x))->name,
	            mxfp_format_get_info(x->w.matrix.format)->name);
}

/* C by the kernels of a tier; NULL: of the one in use. */
static int multiply_on(struct multiplication *x, const char *isa, void *c, struct error *error)
{
	const struct mxfp_result result = mxfp_to_numbers(x->c_format, c);
	const struct mxfp_product product = {
		.size = sizeof product, .c = &result, .a = &x->a.matrix, .w = &x->w.matrix, .bias = x->bias,
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = x->threads, .isa = isa};
	size_t bytes = 0;

	enum mxfp_status status = mxfp_gemm_workspace_size(&bytes, &product, 1, &x->options, &exec);
	void *workspace = status == MXFP_OK ? malloc(bytes + 1) : NULL;

	if (workspace == NULL)
		return status == MXFP_OK ? fail_memory(error) : fail(error, EXIT_INPUT, "gemm: %s",
		                                                     mxfp_status_text(status));
	double start = clock_seconds();
	status = mxfp_gemm(&product, &x->options, workspace, bytes, &exec);
	x->seconds = clock_seconds() - start;
	free(workspace);
	return status == MXFP_OK ? EXIT_OK : fail(error, EXIT_INPUT, "gemm: %s", mxfp_status_text(status));
}

static int compare(const struct multiplication *x, const void *reference, struct error *error)
{
	const unsigned char *a = x->c, *b = reference;
	size_t width = c_width(x);

	for (size_t i = 0; i < x->m * x->n; i++)
		if (memcmp(a + i * width, b + i * width, width) != 0)
			return fail(error, EXIT_CHECK, "gemm: C[%zu][%zu]: differs from the reference; please report "
			            "this", i / x->n, i % x->n);
	return EXIT_OK;
}

int multiply_run(struct multiplication *x, bool checks, struct error *error)
{
	void *reference = checks ? malloc(c_bytes(x) + 1) : NULL;

	if (!checks)
		return multiply_on(x, NULL, x->c, error);
	if (reference == NULL)
		return fail_memory(error);
	memcpy(reference, x->c, c_bytes(x));
	int code = multiply_on(x, "ref", reference, error);
	if (code == EXIT_OK)
		code = multiply_on(x, NULL, x->c, error);
	if (code == EXIT_OK)
		code = compare(x, reference, error);
	free(reference);
	return code;
}

static int write_npy(const struct multiplication *x, const char *path, struct error *error)
{
	size_t n = x->m * x->n;
	float *wide = x->c_format == MXFP_FORMAT_F32 ? NULL : malloc((n + 1) * sizeof *wide);

	if (x->c_format == MXFP_FORMAT_F32)
		return npy_write(path, x->c, x->m, x->n, error);
	if (wide == NULL)
		return fail_memory(error);
	must_succeed(mxfp_convert_array(wide, MXFP_FORMAT_F32, x->c, x->c_format, n, NULL, NULL));
	int code = npy_write(path, wide, x->m, x->n, error);
	free(wide);
	return code;
}

/* The file says by which rule C was summed. */
static int write_safetensors(const struct multiplication *x, const char *path, struct error *error)
{
	const uint64_t shape[] = {x->m, x->n};
	char pass[16];
	struct metadata metadata[] = {
		{"mxfp.gemm.a", mxfp_format_get_info(multiply_a_format(x))->name},
		{"mxfp.gemm.w", mxfp_format_get_info(x->w.matrix.format)->name},
		{"mxfp.gemm.acc", mxfp_option_name(MXFP_OPTION_ACC, (int)multiply_acc(x))},
		{"mxfp.gemm.pass", pass},
	};
	struct tensor tensor = {
		.name = MULTIPLY_TENSOR,
		.dtype = x->c_format == MXFP_FORMAT_F32 ? DTYPE_F32 : DTYPE_BF16,
		.rank = 2,
		.shape = shape,
	};
	struct writer writer = {.path = path, .n_tensors = 1, .tensors = &tensor, .metadata = metadata, .fd = -1};

	writer.n_metadata = sizeof metadata / sizeof metadata[0];
	snprintf(pass, sizeof pass, "%u", multiply_pass(x));
	int code = writer_open(&writer, error);
	if (code == EXIT_OK) {
		dtype_swap(tensor.dtype, x->c, c_bytes(x));
		code = writer_write(&writer, &writer.tensors[0], 0, x->c, c_bytes(x), error);
		dtype_swap(tensor.dtype, x->c, c_bytes(x));
	}
	if (code == EXIT_OK)
		code = writer_close(&writer, error);
	writer_abandon(&writer);
	return code;
}

int multiply_write(const struct multiplication *x, const char *path, bool as_npy, struct error *error)
{
	return as_npy ? write_npy(x, path, error) : write_safetensors(x, path, error);
}

void multiply_end(struct multiplication *x)
{
	operand_free(&x->a);
	operand_free(&x->w);
	free(x->bias);
	free(x->c);
	x->bias = NULL;
	x->c = NULL;
}
