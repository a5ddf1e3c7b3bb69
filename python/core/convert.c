/* SPDX-License-Identifier: MIT */
/* Numbers and blocks. Formats and options come as the numbers of their enumerators. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "module.h"

/* (target, src, options): of numbers to numbers. options: (round, overflow, no_negative_zero, seed, stream, first_index) */
PyObject *core_convert(PyObject *self, PyObject *args)
{
	struct mxfp_convert_options o = {.size = sizeof o};
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *options, *outcome = NULL;
	unsigned long long seed, stream, first;
	int round, overflow, no_negative_zero;
	enum mxfp_status status;
	struct operand src;
	struct target target;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOO", &to, &from, &options) ||
	    !arguments_parse(options, "iipKKK", &round, &overflow, &no_negative_zero, &seed, &stream, &first))
		return NULL;
	o.round = (enum mxfp_round)round;
	o.overflow = (enum mxfp_overflow)overflow;
	o.no_negative_zero = no_negative_zero;
	o.seed = seed;
	o.stream = stream;
	o.first_index = first;
	if (!operand_read(&src, from, "x"))
		return NULL;
	if (target_write(&target, to, src.matrix.rows, src.matrix.cols, "cast")) {
		Py_BEGIN_ALLOW_THREADS
		status = mxfp_convert(&target.result, &src.matrix, &o, &exec);
		Py_END_ALLOW_THREADS
		outcome = status == MXFP_OK ? target_outcome(&target) : arguments_fail("cast", status, UINT64_MAX);
		target_release(&target);
	}
	operand_release(&src);
	return outcome;
}

/* (target, src, options) */
PyObject *core_quantize(PyObject *self, PyObject *args)
{
	struct mxfp_quantize_options o;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *options, *outcome = NULL;
	enum mxfp_status status;
	struct operand src;
	struct target target;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOO", &to, &from, &options) || !arguments_quantize(&o, options) ||
	    !operand_read(&src, from, "x"))
		return NULL;
	if (target_write(&target, to, src.matrix.rows, src.matrix.cols, "quantize")) {
		target.result.first_non_finite = o.non_finite == MXFP_NON_FINITE_ERROR ? &target.first_non_finite : NULL;
		Py_BEGIN_ALLOW_THREADS
		status = mxfp_quantize(&target.result, &src.matrix, &o, &exec);
		Py_END_ALLOW_THREADS
		outcome = status == MXFP_OK ? target_outcome(&target) : arguments_fail("quantize", status, target.first_non_finite);
		target_release(&target);
	}
	operand_release(&src);
	return outcome;
}

/* (target, format, src, options): the target has numbers, or clamped, or both. */
PyObject *core_fake_quantize(PyObject *self, PyObject *args)
{
	struct mxfp_quantize_options o;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *options, *outcome = NULL;
	enum mxfp_status status;
	struct operand src;
	struct target target;
	int format;

	(void)self;
	if (!PyArg_ParseTuple(args, "OiOO", &to, &format, &from, &options) || !arguments_quantize(&o, options) ||
	    !operand_read(&src, from, "x"))
		return NULL;
	if (target_write(&target, to, src.matrix.rows, src.matrix.cols, "fake_quantize")) {
		target.result.first_non_finite = o.non_finite == MXFP_NON_FINITE_ERROR ? &target.first_non_finite : NULL;
		Py_BEGIN_ALLOW_THREADS
		status = mxfp_fake_quantize(&target.result, (enum mxfp_format)format, &src.matrix, &o, &exec);
		Py_END_ALLOW_THREADS
		outcome = status == MXFP_OK ? target_outcome(&target)
		                            : arguments_fail("fake_quantize", status, target.first_non_finite);
		target_release(&target);
	}
	operand_release(&src);
	return outcome;
}

/* (target, blocks); the target of a transpose is blocks. */
static PyObject *from_blocks(PyObject *args, const char *name, bool transposes)
{
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *outcome = NULL;
	enum mxfp_status status;
	struct operand src;
	struct target target;

	if (!PyArg_ParseTuple(args, "OO", &to, &from) || !operand_read(&src, from, name))
		return NULL;
	const size_t rows = src.matrix.rows, cols = src.matrix.cols;
	if (target_write(&target, to, transposes ? cols : rows, transposes ? rows : cols, name)) {
		Py_BEGIN_ALLOW_THREADS
		status = transposes ? mxfp_blocks_transpose(target.result.blocks, &src.matrix, &exec)
		                    : mxfp_dequantize(&target.result, &src.matrix, &exec);
		Py_END_ALLOW_THREADS
		outcome = status == MXFP_OK ? target_outcome(&target) : arguments_fail(name, status, UINT64_MAX);
		target_release(&target);
	}
	operand_release(&src);
	return outcome;
}

PyObject *core_dequantize(PyObject *self, PyObject *args)
{
	(void)self;
	return from_blocks(args, "dequantize", false);
}

PyObject *core_transpose(PyObject *self, PyObject *args)
{
	(void)self;
	return from_blocks(args, "transpose", true);
}

/* (src): the largest finite magnitude */
PyObject *core_amax(PyObject *self, PyObject *args)
{
	const struct mxfp_exec exec = arguments_exec();
	enum mxfp_status status;
	struct operand src;
	PyObject *from;
	float amax = 0;

	(void)self;
	if (!PyArg_ParseTuple(args, "O", &from) || !operand_read(&src, from, "x"))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = mxfp_amax(&amax, &src.matrix, &exec);
	Py_END_ALLOW_THREADS
	operand_release(&src);
	return status == MXFP_OK ? PyFloat_FromDouble((double)amax) : arguments_fail("amax", status, UINT64_MAX);
}

/* Code `i` of a row, whose bits follow each other from the low bit of its first byte on. */
static uint8_t code_at(const uint8_t *row, size_t i, unsigned bits)
{
	const size_t bit = i * bits;
	unsigned word = row[bit / 8];

	if (bit % 8 + bits > 8)
		word |= (unsigned)row[bit / 8 + 1] << 8;
	return (uint8_t)(word >> bit % 8 & ((1U << bits) - 1));
}

static void put_code(uint8_t *row, size_t i, unsigned bits, unsigned code)
{
	const size_t bit = i * bits;

	row[bit / 8] |= (uint8_t)(code << bit % 8);
	if (bit % 8 + bits > 8)
		row[bit / 8 + 1] |= (uint8_t)(code >> (8 - bit % 8));
}

/* (target whose numbers are bytes, blocks): a code a byte */
PyObject *core_unpack(PyObject *self, PyObject *args)
{
	PyObject *to, *from, *outcome = NULL;
	struct operand src;
	struct target target;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &to, &from) || !operand_read(&src, from, "elements"))
		return NULL;
	const struct mxfp_matrix *m = &src.matrix;
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(m->format)->element)->bits;
	if (target_write(&target, to, m->rows, m->cols, "elements")) {
		Py_BEGIN_ALLOW_THREADS
		for (size_t row = 0; row < m->rows; row++)
			for (size_t col = 0; col < m->cols; col++)
				((uint8_t *)target.result.clamped)[row * target.result.clamped_stride + col] =
					code_at((const uint8_t *)m->data + row * m->stride, col, bits);
		Py_END_ALLOW_THREADS
		outcome = target_outcome(&target);
		target_release(&target);
	}
	operand_release(&src);
	return outcome;
}

/* (a, b), both arrays of bytes: whether they are the same rows */
PyObject *core_equal(PyObject *self, PyObject *args)
{
	PyObject *of_a, *of_b;
	struct rows a, b;
	bool equal;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &of_a, &of_b) || !rows_read(&a, of_a, FORMAT_BYTES, AXIS_LAST, "a"))
		return NULL;
	if (!rows_read(&b, of_b, FORMAT_BYTES, AXIS_LAST, "b")) {
		rows_release(&a);
		return NULL;
	}
	equal = a.rows == b.rows && a.cols == b.cols;
	for (size_t i = 0; i < a.rows && equal && a.cols > 0; i++)
		equal = memcmp(a.data + i * a.stride, b.data + i * b.stride, a.cols) == 0;
	rows_release(&a);
	rows_release(&b);
	return PyBool_FromLong(equal);
}

/* What core_difference() sums, of elements that are finite in both. */
struct difference {
	double x2, y2, xy, d2, largest;
	unsigned long long n, equal, saturated, flushed, not_finite;
};

/* tops: where rounding to nearest passes the largest number, or NULL; even: a tie there goes to that number. */
static void add_differences(struct difference *sum, const float *x, const float *y, const float *tops, bool even, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const double a = (double)x[i], b = (double)y[i], d = fabs(a - b);

		if (!isfinite(a) || !isfinite(b)) {
			sum->not_finite++;
			continue;
		}
		if (tops != NULL && (fabsf(x[i]) > tops[i] || (fabsf(x[i]) == tops[i] && !even)))
			sum->saturated++;
		sum->n++;
		sum->equal += a == b;
		sum->flushed += a != 0 && b == 0;
		sum->x2 += a * a;
		sum->y2 += b * b;
		sum->xy += a * b;
		sum->d2 += d * d;
		sum->largest = d > sum->largest ? d : sum->largest;
	}
}

/* The rows of a matrix from `row` on. */
static struct mxfp_matrix rows_of(const struct mxfp_matrix *m, size_t row, size_t n)
{
	struct mxfp_matrix part = *m;
	const struct mxfp_format_info *info = mxfp_format_get_info(m->format);

	part.rows = n;
	part.data = (const char *)m->data + row * (m->stride != 0 ? m->stride : m->cols) *
	            (info->kind == MXFP_KIND_BLOCK ? 1 : info->storage_bytes);
	if (info->kind == MXFP_KIND_BLOCK)
		part.scales = (const char *)m->scales + row * m->scales_stride;
	return part;
}

/* A row's numbers. */
static enum mxfp_status decode(float *numbers, const struct mxfp_matrix *m, size_t row)
{
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, numbers);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix part = rows_of(m, row, 1);

	return mxfp_format_get_info(m->format)->kind == MXFP_KIND_BLOCK ? mxfp_dequantize(&result, &part, &exec)
	                                                                : mxfp_convert(&result, &part, NULL, &exec);
}

/* Row by row; memory: three rows of numbers, and zeros for two of codes. */
static enum mxfp_status difference(struct difference *sum, const struct mxfp_matrix *x, const struct mxfp_matrix *y, float *memory)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(mxfp_format_get_info(y->format)->element);
	const bool blocks = mxfp_format_get_info(y->format)->kind == MXFP_KIND_BLOCK;
	float *const xs = memory, *const ys = memory + x->cols, *const tops = blocks ? memory + 2 * x->cols : NULL;
	uint8_t *codes = (uint8_t *)(memory + 3 * x->cols);
	enum mxfp_status status = MXFP_OK;
	struct mxfp_matrix codes_of;
	struct mxfp_sizes size = {0};

	if (blocks) {
		status = mxfp_blocks_size(&size, y->format, 1, x->cols);
		if (status != MXFP_OK)
			return status;
		for (size_t i = 0; i < size.codes_row_bytes * 8 / info->bits; i++)
			put_code(codes, i, info->bits, info->max_code);
		for (size_t i = 0; i < size.codes_row_bytes * 8 / info->bits; i++)
			put_code(codes + size.codes_row_bytes, i, info->bits, info->max_code - 1U);
	}
	for (size_t row = 0; row < x->rows && status == MXFP_OK; row++) {
		if (blocks) {
			/* Half a step above the largest. */
			codes_of = rows_of(y, row, 1);
			codes_of.data = codes;
			status = decode(tops, &codes_of, 0);
			codes_of.data = codes + size.codes_row_bytes;
			if (status == MXFP_OK)
				status = decode(xs, &codes_of, 0);
			for (size_t i = 0; i < x->cols && status == MXFP_OK; i++)
				tops[i] += (tops[i] - xs[i]) / 2;
		}
		if (status == MXFP_OK)
			status = decode(xs, x, row);
		if (status == MXFP_OK)
			status = decode(ys, y, row);
		if (status == MXFP_OK)
			add_differences(sum, xs, ys, tops, info->max_code % 2 == 0, x->cols);
	}
	return status;
}

/* (x, y): both matrices that are read; (n, not_finite, equal, saturated, flushed, x2, y2, xy, d2, largest) */
PyObject *core_difference(PyObject *self, PyObject *args)
{
	struct difference sum = {0};
	enum mxfp_status status;
	PyObject *of_x, *of_y, *result = NULL;
	struct operand x, y;
	float *memory;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &of_x, &of_y) || !operand_read(&x, of_x, "error"))
		return NULL;
	if (operand_read(&y, of_y, "error")) {
		if (x.matrix.rows != y.matrix.rows || x.matrix.cols != y.matrix.cols) {
			PyErr_SetString(PyExc_ValueError, "error: the two have different shapes");
		} else if ((memory = calloc(x.matrix.cols + 8, 4 * sizeof *memory)) == NULL) {
			PyErr_NoMemory();
		} else {
			Py_BEGIN_ALLOW_THREADS
			status = difference(&sum, &x.matrix, &y.matrix, memory);
			Py_END_ALLOW_THREADS
			free(memory);
			result = status != MXFP_OK ? arguments_fail("error", status, UINT64_MAX)
			                           : Py_BuildValue("(KKKKKddddd)", sum.n, sum.not_finite, sum.equal, sum.saturated,
			                                           sum.flushed, sum.x2, sum.y2, sum.xy, sum.d2, sum.largest);
		}
		operand_release(&y);
	}
	operand_release(&x);
	return result;
}
