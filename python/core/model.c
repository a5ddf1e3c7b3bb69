/* SPDX-License-Identifier: MIT */
/* Models, which mxfp.open() maps. */
#include <string.h>

#include "arguments.h"
#include "module.h"
#include "reader.h"

static PyObject *fail(enum reader_status status, const char *text)
{
	PyObject *type = status == READER_IO ? PyExc_OSError : PyExc_ValueError;

	if (status == READER_MEMORY)
		return PyErr_NoMemory();
	/* Names in files are any bytes. */
	PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
	if (message != NULL)
		PyErr_SetObject(type, message);
	Py_XDECREF(message);
	return NULL;
}

static const char capsule_name[] = "mxfp._core.model";

static void close_model(PyObject *capsule)
{
	reader_close(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *shape_of(const struct reader_tensor *t)
{
	PyObject *shape = PyTuple_New((Py_ssize_t)t->rank);

	for (unsigned i = 0; shape != NULL && i < t->rank; i++) {
		PyObject *size = PyLong_FromUnsignedLongLong(t->shape[i]);

		if (size == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, size) != 0)
			Py_CLEAR(shape);
	}
	return shape;
}

/* [(name, kind, dtype, layout or None, shape, transposed, tensor_scale, tensor_scale_divides, bytes, scales_bytes), ...] */
static PyObject *list_tensors(const struct reader *reader)
{
	static const char *const kinds[] = {"numbers", "blocks", "opaque"};
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list != NULL && i < reader_count(reader); i++) {
		struct reader_tensor t;
		PyObject *row = NULL, *shape;

		reader_describe(reader, i, &t);
		shape = shape_of(&t);
		if (shape != NULL)
			row = Py_BuildValue("(ssszNNdNKK)", t.name, kinds[t.kind], t.dtype, t.layout, shape,
			                    PyBool_FromLong(t.transposed), (double)t.tensor_scale,
			                    PyBool_FromLong(t.tensor_scale_divides), (unsigned long long)t.bytes,
			                    (unsigned long long)t.scales_bytes);
		if (row == NULL || PyList_Append(list, row) != 0)
			Py_CLEAR(list);
		Py_XDECREF(row);
	}
	return list;
}

/* (path in bytes): (model, tensors) */
PyObject *core_model_open(PyObject *self, PyObject *path)
{
	char text[READER_TEXT], *name;
	PyObject *capsule, *tensors;
	enum reader_status status;
	struct reader *reader;

	(void)self;
	if (PyBytes_AsStringAndSize(path, &name, NULL) != 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = reader_open(&reader, name, text);
	Py_END_ALLOW_THREADS
	if (status != READER_OK)
		return fail(status, text);
	capsule = PyCapsule_New(reader, capsule_name, close_model);
	if (capsule == NULL) {
		reader_close(reader);
		return NULL;
	}
	tensors = list_tensors(reader);
	if (tensors == NULL) {
		Py_DECREF(capsule);
		return NULL;
	}
	return Py_BuildValue("(NN)", capsule, tensors);
}

/* Whether an array has n bytes side by side. */
static bool holds(const struct rows *r, uint64_t n)
{
	return r->rows * r->cols == n && (r->rows <= 1 || r->stride == r->cols);
}

/* (model, number, data, scales or None): both arrays of bytes. */
PyObject *core_model_read(PyObject *self, PyObject *args)
{
	PyObject *capsule, *of_data, *of_scales, *result = NULL;
	struct reader_tensor t;
	struct reader *reader;
	struct rows data, scales;
	enum reader_status status;
	char text[READER_TEXT];
	Py_ssize_t i;

	(void)self;
	if (!PyArg_ParseTuple(args, "OnOO", &capsule, &i, &of_data, &of_scales))
		return NULL;
	reader = PyCapsule_GetPointer(capsule, capsule_name);
	if (reader == NULL)
		return NULL;
	if (i < 0 || (size_t)i >= reader_count(reader)) {
		PyErr_SetString(PyExc_IndexError, "no such tensor");
		return NULL;
	}
	reader_describe(reader, (size_t)i, &t);
	if (!rows_write(&data, of_data, FORMAT_BYTES, "data"))
		return NULL;
	const bool blocks = of_scales != Py_None;
	if (!blocks || rows_write(&scales, of_scales, FORMAT_BYTES, "scales")) {
		if (t.kind == READER_OPAQUE || blocks != (t.kind == READER_BLOCKS) || !holds(&data, t.bytes) ||
		    (blocks && !holds(&scales, t.scales_bytes))) {
			PyErr_SetString(PyExc_ValueError, "the arrays do not hold the tensor");
		} else {
			Py_BEGIN_ALLOW_THREADS
			status = reader_read(reader, (size_t)i, data.data, blocks ? scales.data : NULL, text);
			Py_END_ALLOW_THREADS
			result = status == READER_OK ? Py_BuildValue("") : fail(status, text);
		}
		if (blocks)
			rows_release(&scales);
	}
	rows_release(&data);
	return result;
}
