/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/compensate.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"
#include "mxfp/convert.h"
#include "mxfp/gemm.h"
#include "mxfp/quantize.h"

enum { BLOCK = 32, ROWS = 32 }; /* of an MX format; rows that a task takes */

/* A matrix of numbers; `transposed`: stored by columns. */
static struct mxfp_matrix numbers(const float *x, size_t rows, size_t cols, size_t stride, bool transposed)
{
	return (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = rows, .cols = cols, .data = x, .stride = stride,
	                            .transposed = transposed};
}

/* C = A W^T, or C += A W^T. The workspace grows to what is needed. */
static int multiply(float *c, size_t c_stride, const struct mxfp_matrix *a, const struct mxfp_matrix *w, bool accumulate,
                    void **workspace, size_t *workspace_bytes, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_product product = {.a = a, .w = w, .c = c, .c_stride = c_stride};
	const struct mxfp_gemm_options options = {.accumulate = accumulate, .exec = exec};
	size_t bytes;

	must_succeed(mxfp_gemm_workspace_size(&product, 1, &options, &bytes));
	if (bytes > *workspace_bytes || *workspace == NULL) {
		free(*workspace);
		*workspace = malloc(bytes + 1);
		*workspace_bytes = *workspace != NULL ? bytes : 0;
		if (*workspace == NULL)
			return fail_memory(error);
	}
	must_succeed(mxfp_gemm(&product, &options, *workspace, bytes));
	return EXIT_OK;
}

int moments_begin(struct moments *moments, size_t cols, struct error *error)
{
	const size_t n = cols * cols;

	*moments = (struct moments){
		.cols = cols,
		.inputs = calloc(n, sizeof(double)),
		.cross = calloc(n, sizeof(double)),
		.change = calloc(n, sizeof(double)),
		.product = malloc(n * sizeof(float)),
	};
	return moments->inputs != NULL && moments->cross != NULL && moments->change != NULL && moments->product != NULL
	               ? EXIT_OK : fail_memory(error);
}

/* sum += A^T B of rows of numbers. */
static int add_product(struct moments *m, double *sum, const float *a, const float *b, size_t rows,
                       const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_matrix left = numbers(a, m->cols, rows, 0, true), right = numbers(b, m->cols, rows, 0, true);
	const int code = multiply(m->product, 0, &left, &right, false, &m->workspace, &m->workspace_bytes, exec, error);

	for (size_t i = 0; code == EXIT_OK && i < m->cols * m->cols; i++)
		sum[i] += (double)m->product[i];
	return code;
}

int moments_add(struct moments *moments, const float *x, float *exact, size_t rows, const struct mxfp_exec *exec,
                struct error *error)
{
	for (size_t i = 0; i < rows * moments->cols; i++)
		exact[i] -= x[i];
	moments->tokens += rows;
	int code = add_product(moments, moments->inputs, x, x, rows, exec, error);
	if (code == EXIT_OK)
		code = add_product(moments, moments->cross, exact, x, rows, exec, error);
	return code == EXIT_OK ? add_product(moments, moments->change, exact, exact, rows, exec, error) : code;
}

void moments_free(struct moments *moments)
{
	free(moments->inputs);
	free(moments->cross);
	free(moments->change);
	free(moments->product);
	free(moments->workspace);
}

/* The sum of products, in eight lanes. */
static double dot(const double *x, const double *y, size_t n)
{
	double lanes[8] = {0};
	size_t i = 0;

	for (; n - i >= 8; i += 8)
		for (size_t k = 0; k < 8; k++)
			lanes[k] += x[i + k] * y[i + k];
	for (size_t k = 0; i < n; i++, k++)
		lanes[k] += x[i] * y[i];
	return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* H = R R^T, R upper triangular, and the inverse of R by columns. */
struct factoring {
	size_t n, column;
	double *r;       /* H at first, of which the upper triangle becomes R */
	double *inverse; /* row j: column j of the inverse */
};

enum { PART = 64 }; /* rows of R, or columns of the inverse, that a task takes */

/* Some rows of a column of R, whose diagonal is known. */
static void factor_part(void *argument, size_t part)
{
	const struct factoring *f = argument;
	const size_t j = f->column, first = part * PART, end = first + PART < j ? first + PART : j;
	const double *row = f->r + j * f->n;

	for (size_t i = first; i < end; i++) {
		double *other = f->r + i * f->n;

		other[j] = (other[j] - dot(other + j + 1, row + j + 1, f->n - j - 1)) / row[j];
	}
}

static void invert_part(void *argument, size_t part)
{
	const struct factoring *f = argument;
	const size_t first = part * PART, end = first + PART < f->n ? first + PART : f->n;

	for (size_t j = first; j < end; j++) {
		double *column = f->inverse + j * f->n;

		column[j] = 1 / f->r[j * f->n + j];
		for (size_t i = j; i-- > 0;) {
			const double *row = f->r + i * f->n;

			column[i] = -dot(row + i + 1, column + i + 1, j - i) / row[i];
		}
	}
}

/* Factors a symmetric matrix with a positive diagonal. A pivot that rounding has made too small, where the damping is 0 or
   nearly so, takes the least that keeps the column what it would be alone. */
static void factor(struct factoring *f, const struct mxfp_exec *exec)
{
	for (size_t j = f->n; j-- > 0;) {
		double *row = f->r + j * f->n;
		const double least = row[j] * 0x1p-40, pivot = row[j] - dot(row + j + 1, row + j + 1, f->n - j - 1);

		row[j] = sqrt(pivot > least ? pivot : least);
		f->column = j;
		must_succeed(mxfp_parallel_for(exec, (j + PART - 1) / PART, factor_part, f));
	}
	must_succeed(mxfp_parallel_for(exec, (f->n + PART - 1) / PART, invert_part, f));
}

/* Adds the damping to the diagonal of H. */
static void damp(double *h, size_t n, double damping)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += h[i * n + i];
	for (size_t i = 0; i < n; i++)
		if (h[i * n + i] > 0)
			h[i * n + i] += damping * sum / (double)n;
		else
			h[i * n + i] = sum > 0 ? sum / (double)n : 1;
}

static void to_f32(float *y, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (float)x[i];
}

int compensate_prepare(float **prepared, struct moments *moments, double damping, const struct mxfp_exec *exec,
                       struct error *error)
{
	const size_t n = moments->cols, all = n * n;
	float *to = *prepared = malloc(4 * all * sizeof *to);

	if (to == NULL)
		return fail_memory(error);
	to_f32(to, moments->inputs, all);
	to_f32(to + all, moments->cross, all);
	to_f32(to + 2 * all, moments->change, all);
	/* The factor takes the place of H, and its inverse that of F. */
	struct factoring f = {.n = n, .r = moments->inputs, .inverse = moments->cross};
	memset(f.inverse, 0, all * sizeof *f.inverse);
	damp(f.r, n, damping);
	factor(&f, exec);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			to[3 * all + i * n + j] = (float)f.inverse[j * n + i];
	return EXIT_OK;
}

/* The weights of a layer at work. */
struct rounding {
	float *w;                /* [rows][cols]; columns before `first` are done */
	size_t rows, cols;
	const float *u;
	enum mxfp_format format, element;
	enum mxfp_rule rule;
	size_t first, n;         /* the block's columns */
	float *errors;           /* [rows][BLOCK], of a column over U's diagonal, negated */
};

/* The scales of a block for rows of numbers. */
static void choose_scales(const struct rounding *r, const float *rows, size_t n, float *scales)
{
	uint8_t codes[ROWS * BLOCK], scale_codes[ROWS];
	struct mxfp_blocks blocks = {.format = r->format, .rows = n, .cols = r->n, .codes = codes, .scales = scale_codes};
	const struct mxfp_exec one_thread = {.threads = 1};
	const struct mxfp_quantize_options options = {.rule = r->rule, .exec = &one_thread};

	must_succeed(mxfp_quantize(&blocks, rows, MXFP_FORMAT_F32, r->cols, &options));
	for (size_t i = 0; i < n; i++)
		scales[i] = ldexpf(1, (int)scale_codes[i] - 127);
}

/* Rounds a block's columns of some rows, one after the other. */
static void round_part(void *argument, size_t part)
{
	struct rounding *r = argument;
	const struct mxfp_exec one_thread = {.threads = 1};
	const struct mxfp_convert_options options = {.exec = &one_thread};
	const size_t from = part * ROWS, n = r->rows - from < ROWS ? r->rows - from : ROWS;
	float w[BLOCK][ROWS], scales[ROWS], ratios[ROWS], rounded[ROWS];
	uint8_t codes[ROWS];

	choose_scales(r, r->w + from * r->cols + r->first, n, scales);
	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; c < r->n; c++)
			w[c][i] = r->w[(from + i) * r->cols + r->first + c];
	for (size_t c = 0; c < r->n; c++) {
		const float *u = r->u + (r->first + c) * r->cols + r->first;

		for (size_t i = 0; i < n; i++)
			ratios[i] = w[c][i] / scales[i];
		must_succeed(mxfp_convert(codes, r->element, ratios, MXFP_FORMAT_F32, n, &options));
		must_succeed(mxfp_convert(rounded, MXFP_FORMAT_F32, codes, r->element, n, &options));
		for (size_t i = 0; i < n; i++) {
			const float q = rounded[i] * scales[i], e = (w[c][i] - q) / u[c];

			r->w[(from + i) * r->cols + r->first + c] = q;
			r->errors[(from + i) * BLOCK + c] = -e;
			for (size_t k = c + 1; k < r->n; k++)
				w[k][i] -= e * u[k];
		}
	}
}

/* Memory of compensate(), [rows][cols] each. */
struct room {
	float *original, *crossed, *other, *errors;
	void *workspace;
	size_t workspace_bytes;
};

/* T = W + W F H^-1; room->crossed becomes W F. */
static int aim(float *w, size_t rows, size_t cols, const float *factor, struct room *room, const struct mxfp_exec *exec,
               struct error *error)
{
	const float *cross = factor + cols * cols, *u = factor + 3 * cols * cols;
	const struct mxfp_matrix original = numbers(room->original, rows, cols, 0, false),
	                         crossed = numbers(room->crossed, rows, cols, 0, false),
	                         other = numbers(room->other, rows, cols, 0, false),
	                         f = numbers(cross, cols, cols, 0, true), by_rows = numbers(u, cols, cols, 0, false),
	                         by_columns = numbers(u, cols, cols, 0, true);
	int code = multiply(room->crossed, 0, &original, &f, false, &room->workspace, &room->workspace_bytes, exec, error);

	if (code == EXIT_OK)
		code = multiply(room->other, 0, &crossed, &by_rows, false, &room->workspace, &room->workspace_bytes, exec, error);
	return code == EXIT_OK ? multiply(w, 0, &other, &by_columns, true, &room->workspace, &room->workspace_bytes, exec, error)
	                       : code;
}

/* The sum of products of two matrices' numbers. */
static double sum_products(const float *x, const float *y, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)y[i];
	return sum;
}

/* The trace of A M B^T, where A and B are [rows][cols]. */
static int trace(double *sum, const float *a, const float *b, const float *m, size_t rows, size_t cols, struct room *room,
                 const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_matrix left = numbers(a, rows, cols, 0, false), right = numbers(m, cols, cols, 0, true);
	const int code = multiply(room->other, 0, &left, &right, false, &room->workspace, &room->workspace_bytes, exec, error);

	*sum = code == EXIT_OK ? sum_products(room->other, b, rows * cols) : 0;
	return code;
}

/* |R W^T - X Q^T|^2 over |R W^T|^2, room->crossed being W F. With E = W - Q, which takes the place of Q, the first is the trace
   of E H E^T + 2 W F E^T + W G W^T. */
static int measure(double *part, float *q, size_t rows, size_t cols, const float *factor, struct room *room,
                   const struct mxfp_exec *exec, struct error *error)
{
	const size_t n = rows * cols;
	const float *w = room->original, *h = factor, *g = factor + 2 * cols * cols;
	double moved, energy, error_sum = 0;

	int code = trace(&moved, w, w, g, rows, cols, room, exec, error);
	if (code == EXIT_OK)
		code = trace(&energy, w, w, h, rows, cols, room, exec, error);
	for (size_t i = 0; i < n; i++)
		q[i] = w[i] - q[i];
	if (code == EXIT_OK)
		code = trace(&error_sum, q, q, h, rows, cols, room, exec, error);
	if (code != EXIT_OK)
		return code;
	energy += 2 * sum_products(room->crossed, w, n) + moved;
	error_sum += 2 * sum_products(room->crossed, q, n) + moved;
	*part = energy > 0 ? error_sum / energy : 0;
	return EXIT_OK;
}

/* Rounds T, which w holds, block after block. */
static int round_blocks(struct rounding *r, struct room *room, const struct mxfp_exec *exec, struct error *error)
{
	int code = EXIT_OK;

	for (r->first = 0; r->first < r->cols && code == EXIT_OK; r->first += r->n) {
		r->n = r->cols - r->first < BLOCK ? r->cols - r->first : BLOCK;
		must_succeed(mxfp_parallel_for(exec, (r->rows + ROWS - 1) / ROWS, round_part, r));
		const size_t next = r->first + r->n, left = r->cols - next;
		const struct mxfp_matrix errors = numbers(r->errors, r->rows, r->n, BLOCK, false),
		                         u = numbers(r->u + r->first * r->cols + next, left, r->n, r->cols, true);

		if (left > 0)
			code = multiply(r->w + next, r->cols, &errors, &u, true, &room->workspace, &room->workspace_bytes, exec, error);
	}
	return code;
}

int compensate(float *w, size_t rows, size_t cols, const float *factor, enum mxfp_format format, enum mxfp_rule rule,
               struct compensation *done, const struct mxfp_exec *exec, struct error *error)
{
	const size_t bytes = rows * cols * sizeof *w;
	struct room room = {
		.original = malloc(bytes + 1),
		.crossed = malloc(bytes + 1),
		.other = malloc(bytes + 1),
		.errors = malloc(rows * BLOCK * sizeof *w + 1),
	};
	struct rounding r = {
		.w = w,
		.rows = rows,
		.cols = cols,
		.u = factor + 3 * cols * cols,
		.format = format,
		.element = mxfp_format_get_info(format)->element,
		.rule = rule,
		.errors = room.errors,
	};
	int code = EXIT_OK;

	if (room.original == NULL || room.crossed == NULL || room.other == NULL || room.errors == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		memcpy(room.original, w, bytes);
		code = aim(w, rows, cols, factor, &room, exec, error);
	}
	if (code == EXIT_OK)
		code = round_blocks(&r, &room, exec, error);
	float *copy = malloc(bytes + 1);
	const struct mxfp_fake_output nearest = {.data = copy, .format = MXFP_FORMAT_F32};
	const struct mxfp_quantize_options options = {.rule = rule, .exec = exec};
	if (code == EXIT_OK && copy == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		memcpy(copy, w, bytes);
		code = measure(&done->compensated, copy, rows, cols, factor, &room, exec, error);
	}
	if (code == EXIT_OK) {
		must_succeed(mxfp_fake_quantize(format, &nearest, room.original, MXFP_FORMAT_F32, 0, rows, cols, &options));
		code = measure(&done->rounded, copy, rows, cols, factor, &room, exec, error);
	}
	free(copy);
	free(room.original);
	free(room.crossed);
	free(room.other);
	free(room.errors);
	free(room.workspace);
	return code;
}
