/* SPDX-License-Identifier: MIT */
#include "array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/format.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE '<'
#else
#define NATIVE '>'
#endif

/* DLPack, whose structs do not change within a major version. */
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_MAJOR = 1, DL_READ_ONLY = 1 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };

struct dl_tensor {
	void *data;
	struct {
		int32_t type, id;
	} device;
	int32_t n_dims;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides; /* elements; strides may be NULL */
	uint64_t byte_offset;
};

/* Of a capsule "dltensor_versioned". One of before 1.0, "dltensor", points to the tensor itself. */
struct dl_versioned {
	uint32_t major, minor;
	void *context, *deleter;
	uint64_t flags;
	struct dl_tensor tensor;
};

/* Codes of DLPack's dtypes for formats of the library. */
static const struct {
	uint8_t code, bits;
	enum mxfp_format format;
} dl_formats[] = {
	{DL_BFLOAT, 16, MXFP_FORMAT_BF16},  {7, 8, MXFP_FORMAT_E3M4},  {8, 8, MXFP_FORMAT_E4M3IEEE}, {10, 8, MXFP_FORMAT_E4M3},
	{12, 8, MXFP_FORMAT_E5M2}, {14, 8, MXFP_FORMAT_E8M0}, {11, 8, MXFP_FORMAT_E4M3FNUZ}, {13, 8, MXFP_FORMAT_E5M2FNUZ},
};

static bool fail_dims(const char *what, long n)
{
	PyErr_Format(PyExc_ValueError, "%s: %ld dimensions; at most %d are read", what, n, ARRAY_DIMS);
	return false;
}

/* Strides of an array whose last dimension is contiguous, and so on. Sizes may be anything here: count() looks at them. */
static void set_strides(struct array *a)
{
	size_t stride = a->item;

	for (int i = a->n_dims; i-- > 0;) {
		a->strides[i] = (Py_ssize_t)stride;
		stride *= (size_t)a->shape[i];
	}
}

/* A letter of the struct module, or of typestr, and its bytes. */
static void set_kind(struct array *a, char letter)
{
	switch (letter) {
	case 'e': case 'f': case 'd':
		a->kind = ARRAY_FLOAT;
		break;
	case 'b': case 'B': case 'h': case 'H': case 'i': case 'I': case 'l': case 'L': case 'q': case 'Q': case 'u':
		a->kind = ARRAY_INTEGER;
		break;
	default:
		a->kind = ARRAY_OPAQUE;
	}
}

static bool from_view(struct array *a, const char *what)
{
	const char *format = a->view.format != NULL ? a->view.format : "B";

	if (a->view.ndim > ARRAY_DIMS)
		return fail_dims(what, a->view.ndim);
	a->data = a->view.buf;
	a->n_dims = a->view.ndim;
	a->item = (size_t)a->view.itemsize;
	a->readonly = a->view.readonly;
	for (int i = 0; i < a->n_dims; i++) {
		a->shape[i] = a->view.shape[i];
		a->strides[i] = a->view.strides[i];
	}
	if (*format == '@' || *format == '=' || *format == '<' || *format == '>' || *format == '!') {
		const char order = *format == '!' ? '>' : *format;

		a->swapped = (order == '<' || order == '>') && order != NATIVE && a->item > 1;
		format++;
	}
	if (format[0] != '\0' && format[1] == '\0')
		set_kind(a, format[0]);
	else
		a->kind = ARRAY_OPAQUE;
	return true;
}

/* A tuple of integers. */
static bool get_sizes(Py_ssize_t *sizes, int *n, PyObject *tuple, const char *what)
{
	const Py_ssize_t length = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;

	if (length < 0 || length > ARRAY_DIMS) {
		PyErr_Format(PyExc_ValueError, "%s: its __array_interface__ has no shape or strides that can be read", what);
		return false;
	}
	for (Py_ssize_t i = 0; i < length; i++) {
		sizes[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
		if (sizes[i] == -1 && PyErr_Occurred() != NULL)
			return false;
	}
	*n = (int)length;
	return true;
}

/* Reads __array_interface__, which the array owns. */
static bool from_interface(struct array *a, PyObject *interface, const char *what)
{
	PyObject *data = NULL, *shape = NULL, *strides = NULL, *typestr = NULL, *mask = NULL;
	const char *type = NULL;
	Py_ssize_t length = 0;
	int n;

	if (PyDict_Check(interface)) {
		data = PyDict_GetItemString(interface, "data");
		shape = PyDict_GetItemString(interface, "shape");
		strides = PyDict_GetItemString(interface, "strides");
		typestr = PyDict_GetItemString(interface, "typestr");
		mask = PyDict_GetItemString(interface, "mask");
	}
	if (mask != NULL && mask != Py_None) {
		PyErr_Format(PyExc_TypeError, "%s: its __array_interface__ has a mask, which is not read", what);
		return false;
	}
	if (typestr != NULL && PyUnicode_Check(typestr))
		type = PyUnicode_AsUTF8AndSize(typestr, &length);
	if (data == NULL || shape == NULL || type == NULL || length < 3 || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
		if (PyErr_Occurred() == NULL)
			PyErr_Format(PyExc_TypeError, "%s: its __array_interface__ lacks data, shape or typestr", what);
		return false;
	}
	a->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
	a->readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1)) != 0;
	a->item = strtoul(type + 2, NULL, 10);
	a->swapped = (type[0] == '<' || type[0] == '>') && type[0] != NATIVE && a->item > 1;
	a->kind = type[1] == 'f' ? ARRAY_FLOAT : type[1] == 'i' || type[1] == 'u' ? ARRAY_INTEGER : ARRAY_OPAQUE;
	if (PyErr_Occurred() != NULL || !get_sizes(a->shape, &a->n_dims, shape, what))
		return false;
	set_strides(a);
	if (strides != NULL && strides != Py_None) {
		if (!get_sizes(a->strides, &n, strides, what))
			return false;
		if (n != a->n_dims) {
			PyErr_Format(PyExc_ValueError, "%s: its __array_interface__ has %d strides for %d dimensions", what, n,
			             a->n_dims);
			return false;
		}
	}
	return true;
}

/* The attribute of an object, or NULL without an exception if it has none. */
static PyObject *attribute(PyObject *object, const char *name)
{
	PyObject *value = PyObject_GetAttrString(object, name);

	if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
		PyErr_Clear();
	return value;
}

static bool check_device(long type, const char *what)
{
	if (type == DL_CPU || type == DL_CUDA_HOST)
		return true;
	PyErr_Format(PyExc_TypeError, "%s: lies on another device; move it to the CPU first", what);
	return false;
}

/* Asks an object where it lies, before it makes its memory ready for others. */
static bool check_dlpack_device(PyObject *object, const char *what)
{
	PyObject *ask = attribute(object, "__dlpack_device__");
	PyObject *device = ask != NULL ? PyObject_CallNoArgs(ask) : NULL;
	PyObject *type = device != NULL ? PySequence_GetItem(device, 0) : NULL;
	const long number = type != NULL ? PyLong_AsLong(type) : DL_CPU;

	Py_XDECREF(type);
	Py_XDECREF(device);
	Py_XDECREF(ask);
	return PyErr_Occurred() == NULL && check_device(number, what);
}

/* Calls __dlpack__(max_version=(1, 0)), or as it was before 1.0. */
static PyObject *call_dlpack(PyObject *export)
{
	PyObject *arguments = PyTuple_New(0), *version = Py_BuildValue("{s(ii)}", "max_version", DL_MAJOR, 0);
	PyObject *capsule = arguments != NULL && version != NULL ? PyObject_Call(export, arguments, version) : NULL;

	Py_XDECREF(arguments);
	Py_XDECREF(version);
	if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		capsule = PyObject_CallNoArgs(export);
	}
	return capsule;
}

static const struct dl_tensor *dlpack_tensor(struct array *a, PyObject *capsule, const char *what)
{
	if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
		return PyCapsule_GetPointer(capsule, "dltensor");
	const struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");

	if (versioned->major != DL_MAJOR) {
		PyErr_Format(PyExc_TypeError, "%s: DLPack %d.0 is read, not %u.%u", what, DL_MAJOR, versioned->major, versioned->minor);
		return NULL;
	}
	a->readonly = (versioned->flags & DL_READ_ONLY) != 0;
	return &versioned->tensor;
}

/* Reads a capsule of DLPack, which stays unconsumed: its owner frees the tensor with it. */
static bool from_dlpack(struct array *a, PyObject *capsule, const char *what)
{
	const struct dl_tensor *t = dlpack_tensor(a, capsule, what);

	if (t == NULL || !check_device(t->device.type, what))
		return false;
	if (t->n_dims > ARRAY_DIMS)
		return fail_dims(what, t->n_dims);
	if (t->dtype.lanes != 1 || t->dtype.bits % 8 != 0) {
		PyErr_Format(PyExc_TypeError, "%s: packed numbers of %d bits; view it as uint8 and say what it is", what,
		             t->dtype.bits);
		return false;
	}
	a->data = (char *)t->data + t->byte_offset;
	a->n_dims = t->n_dims;
	a->item = t->dtype.bits / 8;
	a->kind = t->dtype.code == DL_FLOAT ? ARRAY_FLOAT : t->dtype.code <= DL_UINT ? ARRAY_INTEGER : ARRAY_OPAQUE;
	for (size_t i = 0; i < sizeof dl_formats / sizeof *dl_formats; i++)
		if (dl_formats[i].code == t->dtype.code && dl_formats[i].bits == t->dtype.bits) {
			a->kind = ARRAY_FORMAT;
			a->format = dl_formats[i].format;
		}
	for (int i = 0; i < a->n_dims; i++)
		a->shape[i] = (Py_ssize_t)t->shape[i];
	set_strides(a);
	for (int i = 0; i < a->n_dims && t->strides != NULL; i++)
		a->strides[i] = (Py_ssize_t)((size_t)t->strides[i] * a->item);
	return true;
}

bool array_get(struct array *a, PyObject *object, const char *what)
{
	PyObject *export;
	bool ok;

	memset(a, 0, sizeof *a);
	if (PyObject_CheckBuffer(object)) {
		if (PyObject_GetBuffer(object, &a->view, PyBUF_RECORDS_RO) == 0) {
			a->has_view = true;
			if (from_view(a, what))
				return true;
			array_release(a);
			return false;
		}
		/* numpy's arrays of dtypes that the struct module does not know say so with ValueError. */
		if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
			return false;
		PyErr_Clear();
	}
	a->owner = attribute(object, "__array_interface__");
	if (a->owner != NULL) {
		ok = from_interface(a, a->owner, what);
	} else {
		export = PyErr_Occurred() == NULL ? attribute(object, "__dlpack__") : NULL;
		if (export != NULL) {
			a->owner = check_dlpack_device(object, what) ? call_dlpack(export) : NULL;
			Py_DECREF(export);
		} else if (PyErr_Occurred() == NULL) {
			PyErr_Format(PyExc_TypeError, "%s: an array is needed, not %R", what, (PyObject *)Py_TYPE(object));
		}
		ok = a->owner != NULL && from_dlpack(a, a->owner, what);
	}
	if (!ok)
		array_release(a);
	return ok;
}

void array_release(struct array *a)
{
	if (a->has_view)
		PyBuffer_Release(&a->view);
	a->has_view = false;
	Py_CLEAR(a->owner);
}

/* Whether the rows lie as the library reads them; *stride is then the bytes from one to the next. */
static bool has_rows(const struct array *a, int axis, size_t cols, size_t *stride)
{
	size_t expected = 0;
	bool found = false;

	if (a->swapped || (cols > 1 && axis >= 0 && a->strides[axis] != (Py_ssize_t)a->item))
		return false;
	*stride = cols * a->item;
	for (int i = a->n_dims; i-- > 0;) {
		if (i == axis || a->shape[i] == 1)
			continue;
		if (!found) {
			if (a->strides[i] < (Py_ssize_t)*stride || a->strides[i] % (Py_ssize_t)a->item != 0)
				return false;
			*stride = (size_t)a->strides[i];
		} else if ((size_t)a->strides[i] != expected) {
			return false;
		}
		found = true;
		expected = (size_t)a->strides[i] * (size_t)a->shape[i];
	}
	return true;
}

/* The number of elements, and of those without the axis; false if they overflow, or a size is negative. */
static bool count(const struct array *a, int axis, size_t *rows, size_t *cols)
{
	*rows = 1;
	*cols = axis >= 0 ? (size_t)a->shape[axis] : 1;
	for (int i = 0; i < a->n_dims; i++)
		if (a->shape[i] < 0 || (i != axis && __builtin_mul_overflow(*rows, (size_t)a->shape[i], rows)))
			return false;
	return true;
}

static void copy_item(char *to, const char *from, size_t item, bool swapped)
{
	if (!swapped) {
		memcpy(to, from, item);
		return;
	}
	for (size_t i = 0; i < item; i++)
		to[i] = from[item - 1 - i];
}

/* Copies the dimensions from `dim` on, but the axis, to `to`, and returns where that ends. */
static char *gather(char *to, const struct array *a, const char *from, int dim, int axis)
{
	if (dim == axis)
		dim++;
	if (dim < a->n_dims) {
		for (Py_ssize_t i = 0; i < a->shape[dim]; i++)
			to = gather(to, a, from + i * a->strides[dim], dim + 1, axis);
		return to;
	}
	if (axis < 0) {
		copy_item(to, from, a->item, a->swapped);
		return to + a->item;
	}
	const Py_ssize_t stride = a->strides[axis];
	for (Py_ssize_t i = 0; i < a->shape[axis]; i++, to += a->item)
		copy_item(to, from + i * stride, a->item, a->swapped);
	return to;
}

/* Rounds n numbers in binary64 to binary32 in place; false if a finite one is too large for that. */
static bool narrow(char *numbers, size_t n)
{
	bool fits = true;

	for (size_t i = 0; i < n; i++) {
		double wide;
		float narrowed;

		memcpy(&wide, numbers + i * sizeof wide, sizeof wide);
		narrowed = (float)wide;
		fits &= !((narrowed - narrowed != 0) && (wide - wide == 0));
		memcpy(numbers + i * sizeof narrowed, &narrowed, sizeof narrowed);
	}
	return fits;
}

static bool fail_dtype(const struct array *a, const char *what)
{
	const size_t bits = 8 * a->item;

	if (a->kind == ARRAY_INTEGER)
		PyErr_Format(PyExc_TypeError, "%s: integers of %zu bits; numbers are float32, bfloat16, float16 or float64, and "
		             "codes of a format are named by `source`", what, bits);
	else
		PyErr_Format(PyExc_TypeError, "%s: numbers of %zu bits that are not float32, bfloat16, float16 or float64", what,
		             bits);
	return false;
}

/* Sets the format of elements; *wide: they are binary64, to be rounded. */
static bool set_format(struct rows *r, int format, bool *wide, const char *what)
{
	const struct array *a = &r->array;

	*wide = false;
	r->item = a->item;
	if (format == FORMAT_BYTES) {
		r->format = -1;
		if (a->item == 1)
			return true;
		PyErr_Format(PyExc_TypeError, "%s: bytes are needed, not elements of %zu bits", what, 8 * a->item);
		return false;
	}
	if (format >= 0) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)format);

		const bool is_float = a->kind == ARRAY_FLOAT && format != MXFP_FORMAT_F32 && format != MXFP_FORMAT_TF32;

		r->format = format;
		if (info != NULL && info->storage_bytes == a->item && (a->kind != ARRAY_FORMAT || a->format == format) &&
		    (!is_float || format == MXFP_FORMAT_F16))
			return true;
		PyErr_Format(PyExc_TypeError, "%s: elements of %zu bits do not hold %s", what, 8 * a->item,
		             info != NULL ? info->name : "an unknown format");
		return false;
	}
	if (a->kind == ARRAY_FORMAT) {
		r->format = a->format;
		return true;
	}
	if (a->kind == ARRAY_FLOAT && (a->item == 2 || a->item == 4 || a->item == 8)) {
		*wide = a->item == 8;
		r->format = a->item == 2 ? MXFP_FORMAT_F16 : MXFP_FORMAT_F32;
		r->item = *wide ? sizeof(float) : a->item;
		return true;
	}
	return fail_dtype(a, what);
}

static bool set_axis(const struct array *a, Py_ssize_t axis, int *place, const char *what)
{
	*place = -1;
	if (a->n_dims == 0 && (axis == -1 || axis == 0))
		return true;
	if (axis < -a->n_dims || axis >= a->n_dims) {
		PyErr_Format(PyExc_ValueError, "%s: axis %zd of an array of %d dimensions", what, axis, a->n_dims);
		return false;
	}
	*place = (int)(axis < 0 ? axis + a->n_dims : axis);
	return true;
}

static bool copy_rows(struct rows *r, int axis, bool wide, const char *what)
{
	const size_t elements = r->rows * r->cols;
	bool fits = true;

	r->copy = malloc(elements > 0 ? elements * r->array.item : 1);
	if (r->copy == NULL) {
		PyErr_NoMemory();
		return false;
	}
	Py_BEGIN_ALLOW_THREADS
	if (elements > 0)
		gather(r->copy, &r->array, r->array.data, 0, axis);
	if (wide)
		fits = narrow(r->copy, elements);
	Py_END_ALLOW_THREADS
	if (!fits) {
		PyErr_Format(PyExc_ValueError, "%s: a number in binary64 is above the largest of binary32", what);
		return false;
	}
	r->data = r->copy;
	r->stride = r->cols * r->item;
	return true;
}

bool rows_read(struct rows *r, PyObject *object, int format, Py_ssize_t axis, const char *what)
{
	bool wide;
	int place;
	size_t elements;

	r->copy = NULL;
	if (!array_get(&r->array, object, what))
		return false;
	if (set_format(r, format, &wide, what) && set_axis(&r->array, axis, &place, what)) {
		if (!count(&r->array, place, &r->rows, &r->cols) || __builtin_mul_overflow(r->rows, r->cols, &elements) ||
		    __builtin_mul_overflow(elements, r->array.item, &elements)) {
			PyErr_Format(PyExc_ValueError, "%s: its size overflows", what);
		} else {
			r->data = r->array.data;
			if ((!wide && has_rows(&r->array, place, r->cols, &r->stride)) || copy_rows(r, place, wide, what))
				return true;
		}
	}
	rows_release(r);
	return false;
}

bool rows_write(struct rows *r, PyObject *object, int format, const char *what)
{
	bool wide;
	int place;

	r->copy = NULL;
	if (!array_get(&r->array, object, what))
		return false;
	if (r->array.readonly) {
		PyErr_Format(PyExc_ValueError, "%s: is read-only", what);
	} else if (set_format(r, format, &wide, what) && set_axis(&r->array, AXIS_LAST, &place, what)) {
		r->data = r->array.data;
		if (!wide && count(&r->array, place, &r->rows, &r->cols) && has_rows(&r->array, place, r->cols, &r->stride))
			return true;
		PyErr_Format(PyExc_ValueError, "%s: results go to rows of numbers side by side in the machine's byte order, at one "
		             "distance from each other", what);
	}
	rows_release(r);
	return false;
}

void rows_release(struct rows *r)
{
	array_release(&r->array);
	free(r->copy);
	r->copy = NULL;
}

PyObject *array_describe(PyObject *object, const char *what)
{
	static const char *const kinds[] = {"float", "integer", "format", "opaque"};
	struct array a;
	PyObject *shape, *result = NULL;

	if (!array_get(&a, object, what))
		return NULL;
	shape = PyTuple_New(a.n_dims);
	for (int i = 0; shape != NULL && i < a.n_dims; i++) {
		PyObject *size = PyLong_FromSsize_t(a.shape[i]);

		if (size == NULL || PyTuple_SetItem(shape, i, size) != 0)
			Py_CLEAR(shape);
	}
	if (shape != NULL)
		result = Py_BuildValue("(siinN)", kinds[a.kind], a.kind == ARRAY_FORMAT ? a.format : -1, (int)a.readonly,
		                       (Py_ssize_t)a.item, shape);
	array_release(&a);
	return result;
}
