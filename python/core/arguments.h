/* SPDX-License-Identifier: MIT */
/* Arguments that the Python layer passes: structs of the library as tuples, whose members stand in the order of the fields. */
#ifndef CORE_ARGUMENTS_H
#define CORE_ARGUMENTS_H

#include "array.h"
#include "mxfp.h"

/* Reads a tuple by a format of PyArg_ParseTuple(). */
#define arguments_parse(tuple, ...) \
	(PyTuple_Check(tuple) ? PyArg_ParseTuple(tuple, __VA_ARGS__) != 0 \
	                      : (PyErr_SetString(PyExc_TypeError, "a tuple is needed"), false))

/* (rule, recipe, round, non_finite, no_negative_zero, via_bf16, block_rows, seed, stream, first_index, tensor_amax or None); None:
   as the library has them. */
bool arguments_quantize(struct mxfp_quantize_options *options, PyObject *tuple);

/* The same in `options`, where None gives a NULL. */
bool arguments_quantize_optional(const struct mxfp_quantize_options **to, struct mxfp_quantize_options *options, PyObject *tuple);

/* A float, or None. */
bool arguments_optional(struct mxfp_optional *optional, PyObject *number);

/* A matrix that is read: (array, format, axis), or (codes, scales, format, rows, cols, tensor_scale, tensor_scale_divides). */
struct operand {
	struct mxfp_matrix matrix;
	struct rows data, scales;
	bool has_data, has_scales;
};

bool operand_read(struct operand *operand, PyObject *tuple, const char *what);
void operand_release(struct operand *operand);

/* The same, where None gives a NULL. */
bool operand_read_optional(struct operand *operand, const struct mxfp_matrix **matrix, PyObject *tuple, const char *what);

/* Where results go: (numbers or None, format, codes or None, scales, block format, clamped or None, counts wanted). */
struct target {
	struct mxfp_result result;
	struct mxfp_blocks blocks;
	struct mxfp_counts counts;
	uint64_t first_non_finite;
	struct rows data, codes, scales, clamped;
	bool has_data, has_codes, has_scales, has_clamped;
};

/* Results have rows x cols elements. */
bool target_write(struct target *target, PyObject *tuple, size_t rows, size_t cols, const char *what);
void target_release(struct target *target);

/* (tensor_scale, tensor_scale_divides, counts or None) */
PyObject *target_outcome(const struct target *target);

/* A row of floats of the caller, of n elements; None gives NULL. */
struct floats {
	struct rows rows;
	const float *numbers;
	bool has_rows;
};

bool floats_read(struct floats *floats, PyObject *object, size_t n, const char *what);
void floats_release(struct floats *floats);

/* How calls run: the threads that set_threads() set. */
struct mxfp_exec arguments_exec(void);

/* Raises ValueError with the text of a status, returns NULL. `first` is the element of MXFP_ERR_NON_FINITE. */
PyObject *arguments_fail(const char *function, enum mxfp_status status, uint64_t first);

#endif
