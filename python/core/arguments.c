/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "module.h"

bool arguments_quantize(struct mxfp_quantize_options *o, PyObject *tuple)
{
	int rule, recipe, round, non_finite, no_negative_zero, via_bf16;
	unsigned long long seed, stream, first;
	Py_ssize_t block_rows;
	PyObject *amax;

	memset(o, 0, sizeof *o);
	o->size = sizeof *o;
	if (tuple == Py_None)
		return true;
	if (!arguments_parse(tuple, "iiiippnKKKO", &rule, &recipe, &round, &non_finite, &no_negative_zero, &via_bf16, &block_rows,
	                     &seed, &stream, &first, &amax))
		return false;
	o->rule = (enum mxfp_rule)rule;
	o->recipe = (enum mxfp_recipe)recipe;
	o->round = (enum mxfp_round)round;
	o->non_finite = (enum mxfp_non_finite)non_finite;
	o->no_negative_zero = no_negative_zero;
	o->via_bf16 = via_bf16;
	o->block_rows = (size_t)block_rows;
	o->seed = seed;
	o->stream = stream;
	o->first_index = first;
	return arguments_optional(&o->tensor_amax, amax);
}

bool arguments_quantize_optional(const struct mxfp_quantize_options **to, struct mxfp_quantize_options *options, PyObject *tuple)
{
	*to = tuple != Py_None ? options : NULL;
	return tuple == Py_None || arguments_quantize(options, tuple);
}

/* An integer of a tuple. Small calls spend most of their time on arguments, and PyArg_ParseTuple() is slower. */
static bool get_int(int *number, PyObject *tuple, Py_ssize_t i)
{
	const long value = PyLong_AsLong(PyTuple_GetItem(tuple, i));

	*number = (int)value;
	if (value == -1 && PyErr_Occurred() != NULL)
		return false;
	if (value != *number)
		PyErr_SetString(PyExc_OverflowError, "an integer is too large");
	return value == *number;
}

/* Whether an object is a tuple of n. */
static bool is_tuple(PyObject *tuple, Py_ssize_t n)
{
	if (PyTuple_Check(tuple) && PyTuple_Size(tuple) == n)
		return true;
	PyErr_Format(PyExc_TypeError, "a tuple of %zd is needed", n);
	return false;
}

bool arguments_optional(struct mxfp_optional *optional, PyObject *number)
{
	optional->given = number != Py_None;
	optional->value = 0;
	if (!optional->given)
		return true;
	optional->value = (float)PyFloat_AsDouble(number);
	return PyErr_Occurred() == NULL;
}

static bool read_blocks(struct operand *o, PyObject *tuple, const char *what)
{
	PyObject *codes, *scales;
	Py_ssize_t rows, cols;
	struct mxfp_sizes size;
	int format, divides;
	float tensor_scale;

	if (!arguments_parse(tuple, "OOinnfp", &codes, &scales, &format, &rows, &cols, &tensor_scale, &divides))
		return false;
	o->has_data = rows_read(&o->data, codes, FORMAT_BYTES, AXIS_LAST, what);
	o->has_scales = o->has_data && rows_read(&o->scales, scales, FORMAT_BYTES, AXIS_LAST, what);
	if (!o->has_scales)
		return false;
	o->matrix = mxfp_numbers((enum mxfp_format)format, (size_t)rows, (size_t)cols, o->data.data);
	o->matrix.stride = o->data.stride;
	o->matrix.scales = o->scales.data;
	o->matrix.scales_stride = o->scales.stride;
	o->matrix.tensor_scale = tensor_scale;
	o->matrix.tensor_scale_divides = divides;
	if (mxfp_blocks_size(&size, o->matrix.format, (size_t)rows, (size_t)cols) != MXFP_OK) {
		PyErr_Format(PyExc_ValueError, "%s: not a block format", what);
		return false;
	}
	if (rows != 0 && (o->data.rows != (size_t)rows || o->data.cols != size.codes_row_bytes || o->scales.rows != (size_t)rows ||
	                  o->scales.cols != size.scales_row_bytes)) {
		PyErr_Format(PyExc_ValueError, "%s: %zu rows of %zu bytes of codes and %zu rows of %zu scales are not %zd rows of "
		             "%zd elements of %s, which have %zu and %zu", what, o->data.rows, o->data.cols, o->scales.rows,
		             o->scales.cols, rows, cols, mxfp_format_get_info(o->matrix.format)->name, size.codes_row_bytes,
		             size.scales_row_bytes);
		return false;
	}
	return true;
}

static bool read_numbers(struct operand *o, PyObject *tuple, const char *what)
{
	int format, axis;

	if (!get_int(&format, tuple, 1) || !get_int(&axis, tuple, 2))
		return false;
	o->has_data = rows_read(&o->data, PyTuple_GetItem(tuple, 0), format, axis, what);
	if (!o->has_data)
		return false;
	o->matrix = mxfp_numbers((enum mxfp_format)o->data.format, o->data.rows, o->data.cols, o->data.data);
	o->matrix.stride = o->data.rows > 1 ? o->data.stride / o->data.item : 0;
	return true;
}

bool operand_read(struct operand *o, PyObject *tuple, const char *what)
{
	const bool numbers = PyTuple_Check(tuple) && PyTuple_Size(tuple) == 3;

	o->has_data = o->has_scales = false;
	if (numbers ? read_numbers(o, tuple, what) : read_blocks(o, tuple, what))
		return true;
	operand_release(o);
	return false;
}

bool operand_read_optional(struct operand *o, const struct mxfp_matrix **matrix, PyObject *tuple, const char *what)
{
	o->has_data = o->has_scales = false;
	*matrix = tuple != Py_None ? &o->matrix : NULL;
	return tuple == Py_None || operand_read(o, tuple, what);
}

void operand_release(struct operand *o)
{
	if (o->has_data)
		rows_release(&o->data);
	if (o->has_scales)
		rows_release(&o->scales);
	o->has_data = o->has_scales = false;
}

/* Whether rows that are written are those of rows x cols elements; an array of one dimension may hold all rows. */
static bool fits(struct rows *r, size_t rows, size_t cols, const char *what)
{
	if (r->rows == rows && r->cols == cols)
		return true;
	if (rows * cols == 0 && r->rows * r->cols == 0)
		return true;
	PyErr_Format(PyExc_ValueError, "%s: the result has %zu rows of %zu, not %zu of %zu", what, rows, cols, r->rows, r->cols);
	return false;
}

static bool write_blocks(struct target *t, PyObject *codes, PyObject *scales, int format, size_t rows, size_t cols,
                         const char *what)
{
	struct mxfp_sizes size;

	if (mxfp_blocks_size(&size, (enum mxfp_format)format, rows, cols) != MXFP_OK) {
		PyErr_Format(PyExc_ValueError, "%s: not a block format, or its size overflows", what);
		return false;
	}
	t->has_codes = rows_write(&t->codes, codes, FORMAT_BYTES, what);
	t->has_scales = t->has_codes && rows_write(&t->scales, scales, FORMAT_BYTES, what);
	if (!t->has_scales || !fits(&t->codes, rows, size.codes_row_bytes, what) ||
	    !fits(&t->scales, rows, size.scales_row_bytes, what))
		return false;
	t->blocks = mxfp_blocks_at((enum mxfp_format)format, rows, cols, t->codes.data, t->scales.data);
	t->blocks.codes_stride = t->codes.stride;
	t->blocks.scales_stride = t->scales.stride;
	t->result.blocks = &t->blocks;
	return true;
}

static bool write_target(struct target *t, PyObject *tuple, size_t rows, size_t cols, const char *what)
{
	PyObject *data, *codes, *scales, *clamped;
	int format, block_format, counted;

	if (!is_tuple(tuple, 7) || !get_int(&format, tuple, 1) || !get_int(&block_format, tuple, 4))
		return false;
	data = PyTuple_GetItem(tuple, 0);
	codes = PyTuple_GetItem(tuple, 2);
	scales = PyTuple_GetItem(tuple, 3);
	clamped = PyTuple_GetItem(tuple, 5);
	counted = PyObject_IsTrue(PyTuple_GetItem(tuple, 6));
	if (counted < 0)
		return false;
	if (data != Py_None) {
		t->has_data = rows_write(&t->data, data, format, "out");
		if (!t->has_data || !fits(&t->data, rows, cols, "out"))
			return false;
		t->result.format = (enum mxfp_format)t->data.format;
		t->result.data = t->data.data;
		t->result.stride = rows > 1 ? t->data.stride / t->data.item : 0;
	}
	if (codes != Py_None && !write_blocks(t, codes, scales, block_format, rows, cols, what))
		return false;
	if (clamped != Py_None) {
		t->has_clamped = rows_write(&t->clamped, clamped, FORMAT_BYTES, what);
		if (!t->has_clamped || !fits(&t->clamped, rows, cols, what))
			return false;
		t->result.clamped = (uint8_t *)t->clamped.data;
		t->result.clamped_stride = rows > 1 ? t->clamped.stride : 0;
	}
	if (counted)
		t->result.counts = &t->counts;
	return true;
}

bool target_write(struct target *t, PyObject *tuple, size_t rows, size_t cols, const char *what)
{
	t->has_data = t->has_codes = t->has_scales = t->has_clamped = false;
	t->result = mxfp_to_numbers(MXFP_FORMAT_F32, NULL);
	t->blocks.tensor_scale = 0;
	t->blocks.tensor_scale_divides = false;
	memset(&t->counts, 0, sizeof t->counts);
	t->counts.size = sizeof t->counts;
	t->first_non_finite = UINT64_MAX;
	if (write_target(t, tuple, rows, cols, what))
		return true;
	target_release(t);
	return false;
}

void target_release(struct target *t)
{
	if (t->has_data)
		rows_release(&t->data);
	if (t->has_codes)
		rows_release(&t->codes);
	if (t->has_scales)
		rows_release(&t->scales);
	if (t->has_clamped)
		rows_release(&t->clamped);
	t->has_data = t->has_codes = t->has_scales = t->has_clamped = false;
}

PyObject *target_outcome(const struct target *t)
{
	PyObject *divides = t->blocks.tensor_scale_divides ? Py_True : Py_False;
	const double scale = (double)t->blocks.tensor_scale;
	const struct mxfp_counts *c = &t->counts;

	/* References to None are counted by the interpreter alone: the stable ABI of 3.11 would count those that later ones do not. */
	if (t->result.counts == NULL)
		return Py_BuildValue("(dOO)", scale, divides, Py_None);
	return Py_BuildValue("(dO(KKKKK))", scale, divides, (unsigned long long)c->saturated, (unsigned long long)c->overflowed,
	                     (unsigned long long)c->flushed, (unsigned long long)c->nan, (unsigned long long)c->inf);
}

bool floats_read(struct floats *f, PyObject *object, size_t n, const char *what)
{
	f->numbers = NULL;
	f->has_rows = false;
	if (object == Py_None)
		return true;
	f->has_rows = rows_read(&f->rows, object, MXFP_FORMAT_F32, AXIS_LAST, what);
	if (!f->has_rows)
		return false;
	if (f->rows.array.n_dims != 1 || f->rows.cols != n) {
		PyErr_Format(PyExc_ValueError, "%s: %zu numbers in one dimension are needed", what, n);
		floats_release(f);
		return false;
	}
	f->numbers = (const float *)(const void *)f->rows.data;
	return true;
}

void floats_release(struct floats *f)
{
	if (f->has_rows)
		rows_release(&f->rows);
	f->has_rows = false;
}

static _Atomic unsigned threads;

void arguments_set_threads(unsigned n)
{
	atomic_store(&threads, n);
}

struct mxfp_exec arguments_exec(void)
{
	struct mxfp_exec exec;

	memset(&exec, 0, sizeof exec);
	exec.size = sizeof exec;
	exec.threads = atomic_load(&threads);
	return exec;
}

PyObject *arguments_fail(const char *function, enum mxfp_status status, uint64_t first)
{
	char place[64] = "";

	if (status == MXFP_ERR_NON_FINITE && first != UINT64_MAX)
		PyOS_snprintf(place, sizeof place, ": element %" PRIu64, first);
	PyErr_Format(PyExc_ValueError, "%s: %s%s", function, mxfp_status_text(status), place);
	return NULL;
}
