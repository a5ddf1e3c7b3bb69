/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "transform/change.h"

#include <math.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/must_succeed.h"
#include "io/elements.h"
#include "io/piece.h"
#include "mxfp/convert.h"

enum { STRIP = 16 }; /* columns whose rows rotate together */

bool change_is_any(const struct change *c)
{
	return c->ones || c->fold != NULL || c->rotated_cols > 0 || c->col_scales != NULL || c->rotated_rows > 0 ||
	       c->row_scales != NULL;
}

bool change_is_exact(const struct change *c)
{
	return !c->ones && c->fold == NULL && c->rotated_cols == 0 && c->rotated_rows == 0;
}

enum dtype change_dtype(const struct change *c)
{
	return c->source->dtype == DTYPE_BF16 && change_is_exact(c) ? DTYPE_BF16 : DTYPE_F32;
}

size_t change_rows(const struct change *c)
{
	const size_t group = c->rotated_rows > 0 ? c->rotated_rows : 1, most = PIECE_ELEMENTS / c->cols / group * group;

	return most > 0 ? most : group;
}

/* Multiplies x, [n][lanes], by the Hadamard matrix of n, a power of two, over the root of n. */
static void rotate(double *x, size_t n, size_t lanes)
{
	const double part = 1 / sqrt((double)n);

	for (size_t half = 1; half < n; half *= 2)
		for (size_t i = 0; i < n; i += 2 * half)
			for (size_t j = i * lanes; j < (i + half) * lanes; j++) {
				const double a = x[j], b = x[j + half * lanes];

				x[j] = a + b;
				x[j + half * lanes] = a - b;
			}
	for (size_t i = 0; i < n * lanes; i++)
		x[i] *= part;
}

/* The steps of columns on a row; `wide` has room for it. */
static void change_row(const struct change *c, float *x, double *wide)
{
	for (size_t j = 0; j < c->cols; j++)
		wide[j] = c->ones ? 1 : c->fold != NULL ? (double)x[j] * (double)c->fold[j] : (double)x[j];
	for (size_t j = 0; c->rotated_cols > 0 && j < c->cols; j += c->rotated_cols)
		rotate(wide + j, c->rotated_cols, 1);
	for (size_t j = 0; j < c->cols; j++)
		x[j] = (float)(c->col_scales != NULL ? wide[j] * (double)c->col_scales[j] : wide[j]);
}

/* Rotates a group of rows; `wide` has room for a strip of them. */
static void rotate_rows(const struct change *c, float *x, double *wide)
{
	for (size_t from = 0, lanes; from < c->cols; from += lanes) {
		lanes = c->cols - from < STRIP ? c->cols - from : STRIP;
		for (size_t i = 0; i < c->rotated_rows; i++)
			for (size_t j = 0; j < lanes; j++)
				wide[i * lanes + j] = (double)x[i * c->cols + from + j];
		rotate(wide, c->rotated_rows, lanes);
		for (size_t i = 0; i < c->rotated_rows; i++)
			for (size_t j = 0; j < lanes; j++)
				x[i * c->cols + from + j] = (float)wide[i * lanes + j];
	}
}

static int check_finite(const struct change *c, size_t first, const float *x, size_t n, const char *problem,
                        struct error *error)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return fail_tensor(error, c->file->path, c->source->name, "element %zu (row %zu, column %zu) %s",
			                   first * c->cols + i, first + i / c->cols, i % c->cols, problem);
	return EXIT_OK;
}

/* Counts results of powers of two alone that are not the exact products, being too small for the dtype. */
static uint64_t count_rounded(const struct change *c, size_t first, const float *before, const float *x, size_t n)
{
	const bool narrow = change_dtype(c) == DTYPE_BF16;
	uint64_t rounded = 0;

	for (size_t i = 0; i < n; i++) {
		double exact = (double)before[i];
		union {
			float number;
			uint32_t bits;
		} result = {.number = x[i]};

		if (c->col_scales != NULL)
			exact *= (double)c->col_scales[i % c->cols];
		if (c->row_scales != NULL)
			exact *= (double)c->row_scales[first + i / c->cols];
		rounded += (double)x[i] != exact || (narrow && (result.bits & 0xFFFF) != 0);
	}
	return rounded;
}

int change_read(const struct change *c, size_t first, size_t n, float *x, uint64_t *rounded, struct error *error)
{
	const size_t strips = c->rotated_rows * STRIP, elements = n * c->cols;
	double *wide = malloc((c->cols > strips ? c->cols : strips) * sizeof *wide + 1);
	float *before = change_is_exact(c) ? malloc(elements * sizeof *before + 1) : NULL;
	int code = wide != NULL && (before != NULL || !change_is_exact(c)) ? interrupt_check(error) : fail_memory(error);

	if (code == EXIT_OK)
		code = elements_read(c->file, c->source, (uint64_t)first * c->cols, x, elements, error);
	if (code == EXIT_OK)
		code = check_finite(c, first, x, elements, "is NaN or Inf; repair the model", error);
	for (size_t i = 0; before != NULL && i < elements; i++)
		before[i] = x[i];
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		change_row(c, x + i * c->cols, wide);
	for (size_t i = 0; c->rotated_rows > 0 && i < n && code == EXIT_OK; i += c->rotated_rows)
		rotate_rows(c, x + i * c->cols, wide);
	for (size_t i = 0; c->row_scales != NULL && i < elements && code == EXIT_OK; i++)
		x[i] *= c->row_scales[first + i / c->cols];
	if (code == EXIT_OK)
		code = check_finite(c, first, x, elements, "becomes too large for binary32; leave out the transform", error);
	if (code == EXIT_OK && before != NULL)
		*rounded += count_rounded(c, first, before, x, elements);
	free(before);
	free(wide);
	return code;
}

/* Does something with all rows, some at a time. */
static int each_piece(const struct change *c, uint64_t *rounded,
                      int (*use)(void *context, size_t first, size_t n, float *x, struct error *error), void *context,
                      struct error *error)
{
	const size_t most = change_rows(c) < c->rows ? change_rows(c) : c->rows;
	float *x = malloc(most * c->cols * sizeof *x + 1);
	int code = x != NULL ? EXIT_OK : fail_memory(error);

	for (size_t row = 0, n; row < c->rows && code == EXIT_OK; row += n) {
		n = c->rows - row < most ? c->rows - row : most;
		code = change_read(c, row, n, x, rounded, error);
		if (code == EXIT_OK)
			code = use(context, row, n, x, error);
	}
	free(x);
	return code;
}

/* Where rows go. */
struct target {
	struct writer *writer;
	const struct tensor *tensor;
	size_t cols;
};

static int write_piece(void *context, size_t first, size_t n, float *x, struct error *error)
{
	const struct target *t = context;
	const struct dtype_info *info = dtype_info(t->tensor->dtype);
	const size_t width = info->bits / 8, elements = n * t->cols;
	const struct mxfp_convert_options options = {.size = sizeof options, .overflow = MXFP_OVERFLOW_OVF};

	void *narrow = NULL;

	if (info->format != MXFP_FORMAT_F32) {
		narrow = malloc(elements * width + 1);
		if (narrow == NULL)
			return fail_memory(error);
		must_succeed(mxfp_convert_array(narrow, info->format, x, MXFP_FORMAT_F32, elements, &options, NULL));
	}
	void *numbers = narrow != NULL ? narrow : x;
	dtype_swap(t->tensor->dtype, numbers, elements * width);
	const int code = writer_write(t->writer, t->tensor, (uint64_t)first * t->cols * width, numbers, elements * width, error);
	free(narrow);
	return code;
}

int change_write(const struct change *c, struct writer *writer, const struct tensor *target, uint64_t *rounded,
                 struct error *error)
{
	struct target t = {writer, target, c->cols};

	return each_piece(c, rounded, write_piece, &t, error);
}

/* Where maxima go. */
struct maxima {
	float *of_cols, *of_rows;
	size_t cols;
};

static int raise_maxima(void *context, size_t first, size_t n, float *x, struct error *error)
{
	const struct maxima *m = context;

	(void)error;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < m->cols; j++) {
			const float magnitude = fabsf(x[i * m->cols + j]);

			if (m->of_cols != NULL && magnitude > m->of_cols[j])
				m->of_cols[j] = magnitude;
			if (m->of_rows != NULL && magnitude > m->of_rows[first + i])
				m->of_rows[first + i] = magnitude;
		}
	return EXIT_OK;
}

int change_maxima(const struct change *c, float *of_cols, float *of_rows, struct error *error)
{
	struct maxima m = {of_cols, of_rows, c->cols};
	uint64_t rounded = 0;

	return each_piece(c, &rounded, raise_maxima, &m, error);
}
