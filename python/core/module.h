/* SPDX-License-Identifier: MIT */
/* The functions of mxfp._core, each a row of the table in module.c. */
#ifndef CORE_MODULE_H
#define CORE_MODULE_H

#include "python.h"

/* Numbers and blocks: convert.c */
PyObject *core_convert(PyObject *self, PyObject *args);
PyObject *core_quantize(PyObject *self, PyObject *args);
PyObject *core_fake_quantize(PyObject *self, PyObject *args);
PyObject *core_dequantize(PyObject *self, PyObject *args);
PyObject *core_transpose(PyObject *self, PyObject *args);
PyObject *core_amax(PyObject *self, PyObject *args);
PyObject *core_unpack(PyObject *self, PyObject *args);
PyObject *core_difference(PyObject *self, PyObject *args);
PyObject *core_equal(PyObject *self, PyObject *args);

/* Products: product.c */
PyObject *core_gemm(PyObject *self, PyObject *args);
PyObject *core_pack(PyObject *self, PyObject *args);
PyObject *core_takes(PyObject *self, PyObject *args);

/* Operations on rows: operations.c */
PyObject *core_apply(PyObject *self, PyObject *args);
PyObject *core_softmax(PyObject *self, PyObject *args);
PyObject *core_norm(PyObject *self, PyObject *args);
PyObject *core_add(PyObject *self, PyObject *args);
PyObject *core_glu(PyObject *self, PyObject *args);
PyObject *core_rotary(PyObject *self, PyObject *args);
PyObject *core_frequencies(PyObject *self, PyObject *args);
PyObject *core_reduce(PyObject *self, PyObject *args);
PyObject *core_argmax(PyObject *self, PyObject *args);

/* Models, in builds with the command's readers: model.c */
PyObject *core_model_open(PyObject *self, PyObject *path);
PyObject *core_model_read(PyObject *self, PyObject *args);

/* How many threads calls take at most: arguments.c. 0: all. */
void arguments_set_threads(unsigned n);

#endif
