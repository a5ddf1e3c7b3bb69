/* SPDX-License-Identifier: MIT */
/* Arrays of the caller: whatever has the buffer protocol, __array_interface__ or DLPack, as rows of numbers or bytes. */
#ifndef CORE_ARRAY_H
#define CORE_ARRAY_H

#include "python.h"

#include <stdbool.h>
#include <stddef.h>

enum { ARRAY_DIMS = 32 };

enum array_kind {
	ARRAY_FLOAT,   /* IEEE 754 of 2, 4 or 8 bytes */
	ARRAY_INTEGER,
	ARRAY_FORMAT,  /* numbers of `format` */
	ARRAY_OPAQUE   /* whatever: codes, if the caller says of which format */
};

struct array {
	char *data;
	int n_dims;
	Py_ssize_t shape[ARRAY_DIMS], strides[ARRAY_DIMS]; /* strides in bytes */
	size_t item;     /* bytes */
	enum array_kind kind;
	int format;      /* of ARRAY_FORMAT: enum mxfp_format */
	bool swapped;    /* numbers in the other byte order */
	bool readonly;
	bool has_view;
	Py_buffer view;
	PyObject *owner; /* keeps `data` alive; NULL: the view does */
};

/* Looks at an object, which `what` names in errors. array_release() follows a success. Returns false with an exception set. */
bool array_get(struct array *array, PyObject *object, const char *what);
void array_release(struct array *array);

/* An array whose `axis` comes last and whose other dimensions are rows; of no dimensions: one row of one. */
struct rows {
	struct array array;
	char *data;           /* of the first row */
	size_t rows, cols;
	size_t item;          /* bytes of an element here: 4 if binary64 was rounded to binary32 */
	size_t stride;        /* bytes from a row to the next */
	int format;           /* enum mxfp_format; -1: bytes */
	void *copy;           /* where `data` is, if the array itself lies otherwise; NULL: it does not */
};

enum { AXIS_LAST = -1, FORMAT_OWN = -1, FORMAT_BYTES = -2 };

/*
 * Rows that are read. format: FORMAT_OWN: what the array itself says, binary64 being rounded to binary32; FORMAT_BYTES: bytes,
 * whatever they mean; else the format of codes. Copies arrays that are not rows of elements side by side in the machine's order.
 * rows_release() follows a success.
 */
bool rows_read(struct rows *rows, PyObject *object, int format, Py_ssize_t axis, const char *what);

/* Rows that are written, never a copy. */
bool rows_write(struct rows *rows, PyObject *object, int format, const char *what);
void rows_release(struct rows *rows);

/* What an object, which `what` names in errors, holds: (kind, format or -1, whether it is read-only, bytes of an item, shape). */
PyObject *array_describe(PyObject *object, const char *what);

#endif
