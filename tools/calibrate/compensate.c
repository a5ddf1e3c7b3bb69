/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "calibrate/compensate.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "internal.h"
#include "model/layout.h"
#include "mxfp/convert.h"
#include "mxfp/gemm.h"
#include "mxfp/quantize.h"
#include "quantize/ranks.h"

enum {
	BLOCK = 32,    /* the longest */
	GROUP = 16,    /* of a sparsity: the longest */
	ROWS = 32,     /* that a task takes */
	SLAB = 256,    /* rows of sums that are added to at once */
	HELD_STEPS = 8 /* until an amax is held; one or two were seen */
};

/* A matrix of numbers; `transposed`: stored by columns. */
static struct mxfp_matrix numbers(const float *x, size_t rows, size_t cols, size_t stride, bool transposed)
{
	return (struct mxfp_matrix){.size = sizeof(struct mxfp_matrix), .format = MXFP_FORMAT_F32, .rows = rows, .cols = cols, .data = x, .stride = stride,
	                            .transposed = transposed};
}

void workspace_free(struct workspace *workspace)
{
	free(workspace->product);
	free(workspace->memory);
	*workspace = (struct workspace){.product = NULL};
}

/* Makes memory of at least so many bytes, of which what it held is lost. */
static int grow(void **memory, size_t *bytes, size_t wanted, struct error *error)
{
	if (wanted <= *bytes && *memory != NULL)
		return EXIT_OK;
	free(*memory);
	*memory = malloc(wanted + 1);
	*bytes = *memory != NULL ? wanted : 0;
	return *memory != NULL ? EXIT_OK : fail_memory(error);
}

/* C = A W^T, or C += A W^T. */
static int multiply(float *c, size_t c_stride, const struct mxfp_matrix *a, const struct mxfp_matrix *w, bool accumulate,
                    struct workspace *workspace, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_result result = {.size = sizeof result, .data = c, .stride = c_stride};
	const struct mxfp_product product = {.size = sizeof product, .c = &result, .a = a, .w = w};
	const struct mxfp_gemm_options options = {.size = sizeof options, .accumulate = accumulate};
	size_t bytes;
	int code = interrupt_check(error);

	must_succeed(mxfp_gemm_workspace_size(&bytes, &product, 1, &options, exec));
	if (code == EXIT_OK)
		code = grow(&workspace->memory, &workspace->bytes, bytes, error);
	if (code == EXIT_OK)
		must_succeed(mxfp_gemm(&product, &options, workspace->memory, bytes, exec));
	return code;
}

int moments_begin(struct moments *moments, size_t cols, struct error *error)
{
	const size_t n = cols * cols;

	*moments = (struct moments){
		.cols = cols,
		.inputs = calloc(n, sizeof(double)),
		.cross = calloc(n, sizeof(double)),
		.change = calloc(n, sizeof(double)),
	};
	return moments->inputs != NULL && moments->cross != NULL && moments->change != NULL ? EXIT_OK : fail_memory(error);
}

/* Rows of sums that are added to at once. Of a symmetric sum a slab has fewer columns the further down it is, so each rank has two
   slabs, as far from the top as from the bottom, or several such pairs. */
static size_t slab_of(size_t cols)
{
	const size_t half = (cols + 2 * ranks_number() - 1) / (2 * ranks_number()), least = half > ROWS ? half : ROWS;

	return least < SLAB ? least : SLAB;
}

static bool is_own_slab(size_t slab)
{
	const size_t turn = slab % (2 * ranks_number());

	return turn == ranks_own() || turn == 2 * ranks_number() - 1 - ranks_own();
}

/* sum += A^T B of rows of numbers, some rows of it at a time; if A is B, only what is not below the diagonal block. */
static int add_product(double *sum, size_t cols, const float *a, const float *b, size_t rows, struct workspace *workspace,
                       const struct mxfp_exec *exec, struct error *error)
{
	const size_t slab = slab_of(cols);
	void *memory = workspace->product;
	int code = grow(&memory, &workspace->product_bytes, slab * cols * sizeof *workspace->product, error);

	workspace->product = memory;
	for (size_t i = 0, n; i < cols && code == EXIT_OK; i += n) {
		const size_t first = a == b ? i : 0, width = cols - first;

		n = cols - i < slab ? cols - i : slab;
		if (!is_own_slab(i / slab))
			continue;
		const struct mxfp_matrix left = numbers(a + i, n, rows, cols, true),
		                         right = numbers(b + first, width, rows, cols, true);
		code = multiply(workspace->product, 0, &left, &right, false, workspace, exec, error);
		for (size_t k = 0; code == EXIT_OK && k < n; k++)
			for (size_t j = 0; j < width; j++)
				sum[(i + k) * cols + first + j] += (double)workspace->product[k * width + j];
	}
	return code;
}

int moments_add(struct moments *moments, const float *x, const float *difference, size_t rows, struct workspace *workspace,
                const struct mxfp_exec *exec, struct error *error)
{
	const size_t cols = moments->cols;

	moments->tokens += rows;
	int code = add_product(moments->inputs, cols, x, x, rows, workspace, exec, error);
	if (code == EXIT_OK)
		code = add_product(moments->cross, cols, difference, x, rows, workspace, exec, error);
	return code == EXIT_OK ? add_product(moments->change, cols, difference, difference, rows, workspace, exec, error) : code;
}

bool moments_are_finite(const struct moments *moments, size_t *column)
{
	for (size_t i = 0; i < moments->cols * moments->cols; i++)
		if (!isfinite(moments->inputs[i]) || !isfinite(moments->cross[i]) || !isfinite(moments->change[i])) {
			*column = i % moments->cols;
			return false;
		}
	return true;
}

void moments_join(struct moments *moments)
{
	const size_t bytes = moments->cols * moments->cols * sizeof *moments->inputs;

	/* Slabs of other ranks are still zeros here. */
	ranks_join(moments->inputs, bytes);
	ranks_join(moments->cross, bytes);
	ranks_join(moments->change, bytes);
}

void moments_free(struct moments *moments)
{
	free(moments->inputs);
	free(moments->cross);
	free(moments->change);
	*moments = (struct moments){.cols = 0};
}

/* Copies the upper triangle into the lower one. */
static void mirror(double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			x[i * n + j] = x[j * n + i];
}

/* The sum of products, in eight lanes, which are in pairs so that compilers keep them in registers. */
static double dot(const double *x, const double *y, size_t n)
{
	double a[2] = {0}, b[2] = {0}, c[2] = {0}, d[2] = {0};
	size_t i = 0;

	for (; n - i >= 8; i += 8)
		for (size_t k = 0; k < 2; k++) {
			a[k] += x[i + k] * y[i + k];
			b[k] += x[i + 2 + k] * y[i + 2 + k];
			c[k] += x[i + 4 + k] * y[i + 4 + k];
			d[k] += x[i + 6 + k] * y[i + 6 + k];
		}
	double lanes[8] = {a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]};
	for (size_t k = 0; i < n; i++, k++)
		lanes[k] += x[i] * y[i];
	return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

enum {
	PART = 64, /* rows of R, or columns of the inverse: of n ranks each has every n-th part */
	TASK = 8,  /* rows of R that a task takes, which stay in the cache for all columns of a part */
	PARTS = 16 /* of the inverse at once */
};

/* H = R R^T, R upper triangular, and the inverse of R by columns. */
struct factoring {
	size_t n;
	size_t first, end; /* rows of R that were made last, of which the same columns of the rows above are made */
	size_t turn;       /* how many parts of the inverse this rank has made */
	double *r;         /* H at first, of which the upper triangle becomes R */
	double *inverse;   /* row j: column j of the inverse */
};

/* Makes an element of R of those behind it in its row and of row j. */
static void factor_element(const struct factoring *f, size_t i, size_t j)
{
	double *row = f->r + i * f->n;
	const double *other = f->r + j * f->n;

	row[j] = (row[j] - dot(other + j + 1, row + j + 1, f->n - j - 1)) / other[j];
}

/* Makes the rows from first to end, of which all is made that is right of those columns. A pivot that rounding has made too small,
   where the damping is 0 or nearly so, takes the least that keeps the column what it would be alone. */
static void factor_diagonal(const struct factoring *f)
{
	for (size_t j = f->end; j-- > f->first;) {
		double *row = f->r + j * f->n;
		const double least = row[j] * 0x1p-40, pivot = row[j] - dot(row + j + 1, row + j + 1, f->n - j - 1);

		row[j] = sqrt(pivot > least ? pivot : least);
		for (size_t i = f->first; i < j; i++)
			factor_element(f, i, j);
	}
}

/* Makes the columns from first to end of some rows above. */
static void factor_task(void *argument, size_t task)
{
	const struct factoring *f = argument;
	const size_t part = ranks_own() + task / (PART / TASK) * ranks_number(), first = part * PART + task % (PART / TASK) * TASK;

	for (size_t j = f->end; j-- > f->first;)
		for (size_t i = first; i < first + TASK; i++)
			factor_element(f, i, j);
}

static void invert_part(void *argument, size_t number)
{
	const struct factoring *f = argument;
	const size_t part = ranks_own() + (f->turn + number) * ranks_number();
	const size_t first = part * PART, end = first + PART < f->n ? first + PART : f->n;

	/* A row of R is read once for all columns. */
	for (size_t i = end; i-- > 0;) {
		const double *row = f->r + i * f->n;

		for (size_t j = i > first ? i : first; j < end; j++) {
			double *column = f->inverse + j * f->n;

			column[i] = j == i ? 1 / row[i] : -dot(row + i + 1, column + i + 1, j - i) / row[i];
		}
	}
}

/* How many of some parts this rank has. */
static size_t own_parts(size_t parts)
{
	return parts > ranks_own() ? (parts - ranks_own() - 1) / ranks_number() + 1 : 0;
}

/* Factors a symmetric matrix with a positive diagonal. A rank has all columns of its rows that can be made of the rows so far, and
   makes the next rows where they are its. Signals. */
static int factor(struct factoring *f, const struct mxfp_exec *exec, struct error *error)
{
	const size_t parts = (f->n + PART - 1) / PART, own = own_parts(parts);
	int code = EXIT_OK;

	for (size_t part = parts; part-- > 0 && code == EXIT_OK;) {
		const unsigned maker = (unsigned)(part % ranks_number());

		f->first = part * PART;
		f->end = f->first + PART < f->n ? f->first + PART : f->n;
		if (maker == ranks_own())
			factor_diagonal(f);
		code = ranks_share(interrupt_check(error), error);
		if (code != EXIT_OK)
			break;
		ranks_tell(maker, f->r + f->first * f->n, (f->end - f->first) * f->n * sizeof *f->r);
		must_succeed(mxfp_parallel_for(exec, own_parts(part) * (PART / TASK), factor_task, f));
	}
	for (f->turn = 0; f->turn < own && code == EXIT_OK; f->turn += PARTS) {
		must_succeed(mxfp_parallel_for(exec, own - f->turn < PARTS ? own - f->turn : PARTS, invert_part, f));
		code = interrupt_check(error);
	}
	code = ranks_share(code, error);
	if (code == EXIT_OK)
		ranks_join(f->inverse, f->n * f->n * sizeof *f->inverse);
	return code;
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

	int code = ranks_share(to != NULL ? EXIT_OK : fail_memory(error), error);

	if (code != EXIT_OK)
		return code;
	mirror(moments->inputs, n);
	mirror(moments->change, n);
	to_f32(to, moments->inputs, all);
	to_f32(to + all, moments->cross, all);
	to_f32(to + 2 * all, moments->change, all);
	/* The factor takes the place of H, and its inverse that of F. */
	struct factoring f = {.n = n, .r = moments->inputs, .inverse = moments->cross};
	memset(f.inverse, 0, all * sizeof *f.inverse);
	damp(f.r, n, damping);
	code = factor(&f, exec, error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		for (size_t j = 0; j < n; j++)
			to[3 * all + i * n + j] = (float)f.inverse[j * n + i];
	return code;
}

static struct mxfp_quantize_options options_of(const struct compensate_grid *grid)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.rule = grid->rule,
		.recipe = grid->recipe,
		.tensor_amax = mxfp_some(grid->amax),
	};
}

/* Rounds numbers in place to what the grid has. */
static void fake_quantize(float *w, size_t stride, size_t rows, size_t cols, const struct compensate_grid *grid,
                          const struct mxfp_exec *exec)
{
	const struct mxfp_result result = {.size = sizeof result, .format = MXFP_FORMAT_F32, .data = w, .stride = stride};
	const struct mxfp_quantize_options options = options_of(grid);
	struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, w);

	matrix.stride = stride;
	must_succeed(mxfp_fake_quantize(&result, grid->format, &matrix, &options, exec));
}

static bool has_tensor_scale(const struct compensate_grid *grid)
{
	return mxfp_format_get_info(grid->format)->tensor_scale && !layout_recipe_unscaled(grid->recipe);
}

bool compensate_hold(struct compensate_grid *grid)
{
	if (!has_tensor_scale(grid) || !(grid->amax > 0))
		return true;
	for (unsigned i = 0; i < HELD_STEPS; i++) {
		float held = grid->amax;

		fake_quantize(&held, 0, 1, 1, grid, ONE_THREAD);
		if (held == grid->amax)
			return true;
		grid->amax = held;
	}
	return false;
}

/* The weights of a layer at work. */
struct rounding {
	float *w;                /* [rows][cols]; columns before `first` are done */
	size_t rows, cols;
	const float *u;
	const struct compensate_grid *grid;
	enum mxfp_format element;
	float tensor_scale;      /* 1 if there is none */
	bool divides;            /* by the tensor scale */
	size_t top;              /* the weight that keeps the tensor scale; SIZE_MAX: none */
	size_t first, n;         /* the block's columns */
	size_t window;           /* as many, up to the end of the last group that begins in the block */
	float *errors;           /* [rows][BLOCK], of a column over U's diagonal, negated */
	uint32_t *kept;          /* [rows], bit c: column first + c is kept, of a group that began in the block before; dense: NULL */
};

/* A block's columns of some rows. */
struct part {
	size_t from, n;
	uint8_t scales[ROWS];    /* bytes that the rule or recipe gives what stays */
	bool kept[BLOCK][ROWS];
	float w[BLOCK][ROWS];
	float stay[ROWS][BLOCK]; /* the block pruned, if it has a sparsity, and not rounded */
};

enum { NONE = BLOCK };

/* One way to round a part. */
struct attempt {
	bool tried[ROWS];
	float scales[ROWS];
	unsigned largest[ROWS]; /* the column that becomes the format's largest number, or NONE */
	float w[BLOCK][ROWS], errors[BLOCK][ROWS];
	double loss[ROWS];
};

/* Chooses which columns of a row's group of so many columns are kept, as bits: those whose loss would be the largest, and of equal
   ones the first. The weight that keeps the tensor scale stays in any case. */
static uint64_t choose_kept(const struct rounding *r, const float *w, size_t row, size_t col, size_t length)
{
	float losses[GROUP];
	uint64_t kept = 0;

	for (size_t k = 0; k < length; k++)
		losses[k] = r->top == row * r->cols + col + k ? INFINITY
		                                              : fminf(fabsf(w[k] / r->u[(col + k) * (r->cols + 1)]), FLT_MAX);
	for (size_t k = 0; k < length; k++) {
		unsigned before = 0;

		for (size_t j = 0; j < length; j++)
			before += losses[j] > losses[k] || (losses[j] == losses[k] && j < k);
		kept |= (uint64_t)(before < r->grid->sparsity.n) << k;
	}
	return kept;
}

/* Chooses which of a row's numbers are kept, group after group, while those to come take the loss of those that are not. Scales
   are made from the numbers that stay, so they have to be known before any of them is rounded. */
static void prune_row(const struct rounding *r, struct part *part, size_t i)
{
	const size_t row = part->from + i, m = r->grid->sparsity.m;
	uint64_t kept = r->kept[row];
	float w[BLOCK + GROUP];

	memcpy(w, r->w + row * r->cols + r->first, r->window * sizeof *w);
	for (size_t c = 0; c < r->n; c++) {
		const float *u = r->u + (r->first + c) * r->cols + r->first;

		if ((r->first + c) % m == 0)
			kept |= choose_kept(r, w + c, row, r->first + c, r->window - c < m ? r->window - c : m) << c;
		part->kept[c][i] = (kept >> c & 1) != 0;
		part->stay[i][c] = part->kept[c][i] ? w[c] : 0;
		const float e = (w[c] - part->stay[i][c]) / u[c];
		for (size_t k = c + 1; k < r->window; k++)
			w[k] -= e * u[k];
	}
	r->kept[row] = (uint32_t)(kept >> r->n);
}

static void take_part(const struct rounding *r, struct part *part, size_t number)
{
	const struct mxfp_quantize_options options = options_of(r->grid);
	struct mxfp_matrix stay = {.size = sizeof stay, .format = MXFP_FORMAT_F32, .cols = r->n, .data = part->stay, .stride = BLOCK};
	uint8_t codes[ROWS * BLOCK];
	struct mxfp_blocks blocks = {.size = sizeof blocks, .format = r->grid->format, .cols = r->n, .codes = codes, .scales = part->scales};

	part->from = number * ROWS;
	part->n = r->rows - part->from < ROWS ? r->rows - part->from : ROWS;
	const float *rows = r->w + part->from * r->cols + r->first;
	for (size_t i = 0; i < part->n; i++) {
		for (size_t c = 0; c < r->n; c++) {
			part->w[c][i] = part->stay[i][c] = rows[i * r->cols + c];
			part->kept[c][i] = true;
		}
		if (r->kept != NULL)
			prune_row(r, part, i);
	}
	blocks.rows = stay.rows = part->n;
	const struct mxfp_result result = mxfp_to_blocks(&blocks);
	must_succeed(mxfp_quantize(&result, &stay, &options, ONE_THREAD));
}

/* A number of a block, as it is decoded. */
static float decoded(const struct rounding *r, float number, float scale)
{
	return r->divides ? number * scale / r->tensor_scale : number * scale * r->tensor_scale;
}

/* Rounds the columns one after the other. */
static void round_columns(const struct rounding *r, const struct part *part, struct attempt *a)
{
	const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};
	/* Some recipes make +0 of -0, and so does pruning. */
	const struct mxfp_convert_options options = {
		.size = sizeof options, .no_negative_zero = mxfp_format_get_info(r->grid->format)->tensor_scale || r->kept != NULL};
	float ones[ROWS], ratios[ROWS], rounded[ROWS];
	uint8_t codes[ROWS];

	memcpy(a->w, part->w, sizeof a->w);
	for (size_t i = 0; i < part->n; i++) {
		ones[i] = decoded(r, 1, a->scales[i]);
		a->loss[i] = 0;
	}
	for (size_t c = 0; c < r->n; c++) {
		const float *u = r->u + (r->first + c) * r->cols + r->first;

		/* Under a scale of 0 all numbers become 0. */
		for (size_t i = 0; i < part->n; i++)
			ratios[i] = a->largest[i] == c ? copysignf(INFINITY, a->w[c][i])
			            : ones[i] == 0 ? 0 : a->w[c][i] / ones[i];
		must_succeed(mxfp_convert_array(codes, r->element, ratios, MXFP_FORMAT_F32, part->n, &options, &one_thread));
		must_succeed(mxfp_convert_array(rounded, MXFP_FORMAT_F32, codes, r->element, part->n, &options, &one_thread));
		for (size_t i = 0; i < part->n; i++) {
			const float q = part->kept[c][i] ? decoded(r, rounded[i], a->scales[i]) : 0, e = (a->w[c][i] - q) / u[c];

			a->w[c][i] = q;
			a->errors[c][i] = -e;
			a->loss[i] += (double)e * (double)e;
			for (size_t k = c + 1; k < r->n; k++)
				a->w[k][i] -= e * u[k];
		}
	}
}

/* Takes a row of an attempt as the result. */
static void keep_row(const struct rounding *r, const struct part *part, const struct attempt *a, size_t i)
{
	for (size_t c = 0; c < r->n; c++) {
		r->w[(part->from + i) * r->cols + r->first + c] = a->w[c][i];
		r->errors[(part->from + i) * BLOCK + c] = a->errors[c][i];
	}
}

static void round_mx_part(void *argument, size_t number)
{
	const struct rounding *r = argument;
	struct part part;
	struct attempt a;

	take_part(r, &part, number);
	for (size_t i = 0; i < part.n; i++) {
		a.scales[i] = ldexpf(1, (int)part.scales[i] - 127);
		a.largest[i] = NONE;
	}
	round_columns(r, &part, &a);
	for (size_t i = 0; i < part.n; i++)
		keep_row(r, &part, &a, i);
}

/* The column of a row whose number is the largest of those that stay. */
static unsigned largest_column(const struct rounding *r, const struct part *part, size_t i)
{
	unsigned largest = 0;

	for (unsigned c = 1; c < r->n; c++)
		if (fabsf(part->stay[i][c]) > fabsf(part->stay[i][largest]))
			largest = c;
	return largest;
}

/* Whether a row of a part has the weight that keeps the tensor scale. */
static bool has_top(const struct rounding *r, const struct part *part, size_t i)
{
	return r->top != SIZE_MAX && r->top / r->cols == part->from + i && r->top % r->cols >= r->first &&
	       r->top % r->cols < r->first + r->n;
}

enum { LARGEST_SCALE = 0x7E, LEAST_LARGEST = 3 };

static void scales_of_bytes(float *scales, const uint8_t *bytes, size_t n)
{
	const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};
	must_succeed(mxfp_convert_array(scales, MXFP_FORMAT_F32, bytes, MXFP_FORMAT_UE4M3, n, NULL, &one_thread));
}

/* The attempt whose result can be quantized again in any case: with the recipe's scales, where the largest number of a block
   becomes 6, from which the recipe makes that scale. Blocks too small for that, under the least scale or that of a zero, become
   zeros. */
static void set_safe_scales(const struct rounding *r, const struct part *part, struct attempt *a)
{
	uint8_t bytes[ROWS];

	for (size_t i = 0; i < part->n; i++)
		bytes[i] = has_top(r, part, i) ? LARGEST_SCALE : part->scales[i];
	scales_of_bytes(a->scales, bytes, part->n);
	for (size_t i = 0; i < part->n; i++) {
		const unsigned largest = largest_column(r, part, i);

		a->tried[i] = true;
		a->largest[i] = has_top(r, part, i) ? (unsigned)(r->top % r->cols - r->first) : largest;
		if (a->scales[i] == 0 ||
		    (!has_top(r, part, i) && fabsf(part->stay[i][largest]) < decoded(r, LEAST_LARGEST, a->scales[i]))) {
			a->scales[i] = 0;
			a->largest[i] = NONE;
		}
	}
}

/* Scales that are tried, in steps from the recipe's. */
static const int steps[] = {0, -1, -2, -3, -4, -5, 1, 2};

enum { N_STEPS = sizeof steps / sizeof steps[0] };

static void set_scales(const struct rounding *r, const struct part *part, struct attempt *a, int step)
{
	uint8_t bytes[ROWS];

	for (size_t i = 0; i < part->n; i++) {
		const int byte = part->scales[i] + step;

		/* A block that is NaN stays so. */
		a->tried[i] = !has_top(r, part, i) && part->scales[i] <= LARGEST_SCALE && byte > 0 && byte <= LARGEST_SCALE;
		bytes[i] = (uint8_t)(a->tried[i] ? byte : 0);
		a->largest[i] = NONE;
	}
	scales_of_bytes(a->scales, bytes, part->n);
}

/* Drops rows that would become other numbers if they were quantized again. */
static void drop_changing(const struct rounding *r, const struct part *part, struct attempt *a)
{
	float w[ROWS][BLOCK], again[ROWS][BLOCK];

	for (size_t i = 0; i < part->n; i++)
		for (size_t c = 0; c < r->n; c++)
			w[i][c] = again[i][c] = a->w[c][i];
	fake_quantize(again[0], BLOCK, part->n, r->n, r->grid, ONE_THREAD);
	for (size_t i = 0; i < part->n; i++)
		a->tried[i] = a->tried[i] && memcmp(w[i], again[i], r->n * sizeof(float)) == 0;
}

static void round_nvfp4_part(void *argument, size_t number)
{
	const struct rounding *r = argument;
	struct part part;
	struct attempt a;
	double least[ROWS];

	take_part(r, &part, number);
	set_safe_scales(r, &part, &a);
	round_columns(r, &part, &a);
	for (size_t i = 0; i < part.n; i++) {
		keep_row(r, &part, &a, i);
		least[i] = a.loss[i];
	}
	for (size_t k = 0; k < N_STEPS; k++) {
		set_scales(r, &part, &a, steps[k]);
		round_columns(r, &part, &a);
		drop_changing(r, &part, &a);
		for (size_t i = 0; i < part.n; i++)
			if (a.tried[i] && a.loss[i] < least[i]) {
				keep_row(r, &part, &a, i);
				least[i] = a.loss[i];
			}
	}
}

/* Memory of compensate(), [rows][cols] each, and what struct rounding has. */
struct room {
	float *original, *crossed, *other, *errors;
	uint32_t *kept;
	double *moved;           /* [rows] */
	struct workspace workspace;
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
	int code = multiply(room->crossed, 0, &original, &f, false, &room->workspace, exec, error);

	if (code == EXIT_OK)
		code = multiply(room->other, 0, &crossed, &by_rows, false, &room->workspace, exec, error);
	return code == EXIT_OK ? multiply(w, 0, &other, &by_columns, true, &room->workspace, exec, error)
	                       : code;
}

static double sum_products(const float *x, const float *y, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)y[i];
	return sum;
}

/* The diagonal of A M B^T, where A and B are [rows][cols]. */
static int diagonal(double *sums, const float *a, const float *b, const float *m, size_t rows, size_t cols, struct room *room,
                    const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_matrix left = numbers(a, rows, cols, 0, false), right = numbers(m, cols, cols, 0, true);
	const int code = multiply(room->other, 0, &left, &right, false, &room->workspace, exec, error);

	for (size_t i = 0; i < rows && code == EXIT_OK; i++)
		sums[i] = sum_products(room->other + i * cols, b + i * cols, cols);
	return code;
}

/* |R W^T|^2 and |R W^T - X Q^T|^2 of each row, room->crossed being W F. With E = W - Q, which takes the place of Q, the second is
   the diagonal of E H E^T + 2 W F E^T + W G W^T. */
static int measure(double *energy, double *lost, float *q, size_t rows, size_t cols, const float *factor, struct room *room,
                   const struct mxfp_exec *exec, struct error *error)
{
	const float *w = room->original, *h = factor, *g = factor + 2 * cols * cols;

	int code = diagonal(room->moved, w, w, g, rows, cols, room, exec, error);
	if (code == EXIT_OK)
		code = diagonal(energy, w, w, h, rows, cols, room, exec, error);
	for (size_t i = 0; i < rows * cols; i++)
		q[i] = w[i] - q[i];
	if (code == EXIT_OK)
		code = diagonal(lost, q, q, h, rows, cols, room, exec, error);
	for (size_t i = 0; i < rows && code == EXIT_OK; i++) {
		energy[i] += 2 * sum_products(room->crossed + i * cols, w + i * cols, cols) + room->moved[i];
		lost[i] += 2 * sum_products(room->crossed + i * cols, q + i * cols, cols) + room->moved[i];
	}
	return code;
}

static size_t window_of(const struct rounding *r)
{
	const size_t m = r->grid->sparsity.m, end = r->first + r->n, last = m != 0 ? (end + m - 1) / m * m : end;

	return (last < r->cols ? last : r->cols) - r->first;
}

/* Rounds T, which w holds, block after block. */
static int round_blocks(struct rounding *r, struct room *room, const struct mxfp_exec *exec, struct error *error)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(r->grid->format);
	const size_t length = info->block_length;
	int code = EXIT_OK;

	for (r->first = 0; r->first < r->cols && code == EXIT_OK; r->first += r->n) {
		r->n = r->cols - r->first < length ? r->cols - r->first : length;
		r->window = window_of(r);
		must_succeed(mxfp_parallel_for(exec, (r->rows + ROWS - 1) / ROWS,
		                               info->tensor_scale ? round_nvfp4_part : round_mx_part, r));
		const size_t next = r->first + r->n, left = r->cols - next;
		const struct mxfp_matrix errors = numbers(r->errors, r->rows, r->n, BLOCK, false),
		                         u = numbers(r->u + r->first * r->cols + next, left, r->n, r->cols, true);

		if (left > 0)
			code = multiply(r->w + next, r->cols, &errors, &u, true, &room->workspace, exec, error);
	}
	return code;
}

/* Finds the tensor scale, and the weight that has to stay the largest for it, if it is one of these. */
static void settle_tensor_scale(struct rounding *r, const struct mxfp_exec *exec)
{
	struct mxfp_blocks none = {.size = sizeof none, .format = r->grid->format};
	const struct mxfp_quantize_options options = options_of(r->grid);
	const size_t n = r->rows * r->cols;
	struct compensate_grid own = *r->grid;
	float amax = 0;

	r->tensor_scale = 1;
	r->top = SIZE_MAX;
	if (!has_tensor_scale(r->grid))
		return;
	must_succeed(dense_quantize(&none, MXFP_FORMAT_F32, NULL, &options, exec));
	r->tensor_scale = none.tensor_scale;
	r->divides = none.tensor_scale_divides;
	must_succeed(dense_amax(&amax, MXFP_FORMAT_F32, r->w, n, exec));
	own.amax = amax;
	if (amax == 0 || !compensate_hold(&own) || own.amax != r->grid->amax)
		return;
	for (r->top = 0; fabsf(r->w[r->top]) != amax;)
		r->top++;
}

/* What mxfp quantize makes of numbers: it keeps the largest of each group, and rounds them to nearest. EXIT_MEMORY. */
static int round_to_nearest(float *w, size_t rows, size_t cols, const struct compensate_grid *grid, const struct mxfp_exec *exec,
                            struct error *error)
{
	struct mxfp_sparse sparse = {.size = sizeof sparse, .format = MXFP_FORMAT_F32, .sparsity = grid->sparsity, .rows = rows, .cols = cols};
	struct mxfp_sparse_sizes size;

	if (sparse.sparsity.m != 0) {
		must_succeed(mxfp_sparse_size(&size, sparse.format, sparse.sparsity, rows, cols));
		sparse.masks = malloc(size.masks_bytes + 1);
		if (sparse.masks == NULL)
			return fail_memory(error);
		must_succeed(dense_prune(&sparse, w, MXFP_FORMAT_F32, w, exec));
		free(sparse.masks);
	}
	fake_quantize(w, 0, rows, cols, grid, exec);
	return EXIT_OK;
}

/* What is done to each row: energies, as struct compensation has them of all rows. */
struct rows_done {
	double *energy, *rounded, *compensated;
};

/* Compensates the rows of a rounding, and measures that. */
static int compensate_rows(struct rounding *r, const float *factor, const struct rows_done *done, const struct mxfp_exec *exec,
                           struct error *error)
{
	const size_t rows = r->rows, cols = r->cols, bytes = rows * cols * sizeof *r->w;
	struct room room = {
		.original = malloc(bytes + 1),
		.crossed = malloc(bytes + 1),
		.other = malloc(bytes + 1),
		.errors = malloc(rows * BLOCK * sizeof *r->w + 1),
		.kept = calloc(rows + 1, sizeof *room.kept),
		.moved = malloc(rows * sizeof *room.moved + 1),
	};
	int code = EXIT_OK;

	r->errors = room.errors;
	r->kept = r->grid->sparsity.m != 0 ? room.kept : NULL;
	if (room.original == NULL || room.crossed == NULL || room.other == NULL || room.errors == NULL ||
	    room.kept == NULL || room.moved == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		memcpy(room.original, r->w, bytes);
		code = aim(r->w, rows, cols, factor, &room, exec, error);
	}
	if (code == EXIT_OK)
		code = round_blocks(r, &room, exec, error);
	float *copy = malloc(bytes + 1);
	if (code == EXIT_OK && copy == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		memcpy(copy, r->w, bytes);
		code = measure(done->energy, done->compensated, copy, rows, cols, factor, &room, exec, error);
	}
	if (code == EXIT_OK) {
		memcpy(copy, room.original, bytes);
		code = round_to_nearest(copy, rows, cols, r->grid, exec, error);
	}
	if (code == EXIT_OK)
		code = measure(done->energy, done->rounded, copy, rows, cols, factor, &room, exec, error);
	free(copy);
	free(room.original);
	free(room.crossed);
	free(room.other);
	free(room.errors);
	free(room.kept);
	free(room.moved);
	workspace_free(&room.workspace);
	return code;
}

/* The first of a rank's rows: they are whole parts. */
static size_t first_row(size_t rows, unsigned rank)
{
	const size_t first = (rows + ROWS - 1) / ROWS * rank / ranks_number() * ROWS;

	return first < rows ? first : rows;
}

int compensate(float *w, size_t rows, size_t cols, const float *factor, const struct compensate_grid *grid,
               struct compensation *done, const struct mxfp_exec *exec, struct error *error)
{
	const size_t first = first_row(rows, ranks_own()), end = first_row(rows, ranks_own() + 1);
	double *sums = calloc(3 * rows + 1, sizeof *sums);
	struct rounding r = {
		.w = w,
		.rows = rows,
		.cols = cols,
		.u = factor + 3 * cols * cols,
		.grid = grid,
		.element = mxfp_format_get_info(grid->format)->element,
	};
	int code = sums != NULL ? EXIT_OK : fail_memory(error);

	settle_tensor_scale(&r, exec);
	r.w += first * cols;
	r.rows = end - first;
	r.top = r.top >= first * cols && r.top < end * cols ? r.top - first * cols : SIZE_MAX;
	if (code == EXIT_OK && r.rows > 0) {
		const struct rows_done own = {sums + first, sums + rows + first, sums + 2 * rows + first};

		code = compensate_rows(&r, factor, &own, exec, error);
	}
	code = ranks_share(code, error);
	if (code == EXIT_OK) {
		memset(w, 0, first * cols * sizeof *w);
		memset(w + end * cols, 0, (rows - end) * cols * sizeof *w);
		ranks_join(w, rows * cols * sizeof *w);
		ranks_join(sums, 3 * rows * sizeof *sums);
		for (size_t i = 0; i < rows; i++) {
			done->energy += sums[i];
			done->rounded += sums[rows + i];
			done->compensated += sums[2 * rows + i];
		}
	}
	free(sums);
	return code;
}
