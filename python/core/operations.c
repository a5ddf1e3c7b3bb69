/* SPDX-License-Identifier: MIT */
/* Functions of one number and operations on rows. What becomes blocks is quantized as the last argument says, or None. */
#include <string.h>

#include "arguments.h"
#include "module.h"

/* What a call ended with. Releases the target. */
static PyObject *finish(struct target *target, const char *function, enum mxfp_status status)
{
	PyObject *outcome = status == MXFP_OK ? target_outcome(target) : arguments_fail(function, status, UINT64_MAX);

	target_release(target);
	return outcome;
}

/* (target, function, src, parameter or None, quantize) */
PyObject *core_apply(PyObject *self, PyObject *args)
{
	struct mxfp_function_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *parameter, *blocks, *outcome = NULL;
	enum mxfp_status status;
	struct operand src;
	struct target target;
	int function;

	(void)self;
	if (!PyArg_ParseTuple(args, "OiOOO", &to, &function, &from, &parameter, &blocks) ||
	    !arguments_optional(&o.parameter, parameter) || !arguments_quantize_optional(&o.quantize, &quantize, blocks) ||
	    !operand_read(&src, from, "x"))
		return NULL;
	if (target_write(&target, to, src.matrix.rows, src.matrix.cols, "apply")) {
		Py_BEGIN_ALLOW_THREADS
		status = mxfp_function_apply(&target.result, (enum mxfp_function)function, &src.matrix, &o, &exec);
		Py_END_ALLOW_THREADS
		outcome = finish(&target, "apply", status);
	}
	operand_release(&src);
	return outcome;
}

/* (target, logarithm, src, scale or None, mask or None, head_rows, causal, causal_offset, sinks or None, quantize) */
PyObject *core_softmax(PyObject *self, PyObject *args)
{
	struct mxfp_softmax_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *scale, *of_mask, *of_sinks, *blocks, *outcome = NULL;
	Py_ssize_t head_rows, offset;
	enum mxfp_status status;
	int logarithm, causal;
	struct operand src, mask;
	struct floats sinks;
	struct target target;

	(void)self;
	if (!PyArg_ParseTuple(args, "OpOOOnpnOO", &to, &logarithm, &from, &scale, &of_mask, &head_rows, &causal, &offset, &of_sinks,
	                      &blocks) ||
	    !arguments_optional(&o.scale, scale) || !arguments_quantize_optional(&o.quantize, &quantize, blocks) ||
	    !operand_read(&src, from, "x"))
		return NULL;
	const size_t rows = src.matrix.rows;
	o.head_rows = (size_t)head_rows;
	o.causal = causal;
	o.causal_offset = offset;
	if (operand_read_optional(&mask, &o.mask, of_mask, "mask")) {
		const size_t heads = head_rows > 0 ? rows / (size_t)head_rows : 1;

		if (floats_read(&sinks, of_sinks, heads, "sinks")) {
			o.sinks = sinks.numbers;
			if (target_write(&target, to, rows, src.matrix.cols, "softmax")) {
				Py_BEGIN_ALLOW_THREADS
				status = (logarithm ? mxfp_log_softmax : mxfp_softmax)(&target.result, &src.matrix, &o, &exec);
				Py_END_ALLOW_THREADS
				outcome = finish(&target, logarithm ? "log_softmax" : "softmax", status);
			}
			floats_release(&sinks);
		}
		operand_release(&mask);
	}
	operand_release(&src);
	return outcome;
}

/* Whether a weight or bias is one of a row: an array of one dimension is a row. */
static bool is_row(const struct mxfp_matrix *m, size_t cols, const char *what)
{
	if (m == NULL || (m->rows == 1 && m->cols == cols))
		return true;
	PyErr_Format(PyExc_ValueError, "%s: %zu numbers in one dimension are needed", what, cols);
	return false;
}

/* (target, mean, src, epsilon, weight or None, bias or None, weight_plus_one, residual or None, residual_out target or None,
   quantize) */
PyObject *core_norm(PyObject *self, PyObject *args)
{
	struct mxfp_norm_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *of_weight, *of_bias, *of_residual, *to_sums, *blocks, *outcome = NULL;
	struct operand src, weight, bias, residual;
	struct target target, sums;
	enum mxfp_status status;
	int mean, plus_one;

	(void)self;
	memset(&weight, 0, sizeof weight);
	memset(&bias, 0, sizeof bias);
	memset(&residual, 0, sizeof residual);
	memset(&sums, 0, sizeof sums);
	if (!PyArg_ParseTuple(args, "OpOdOOpOOO", &to, &mean, &from, &o.epsilon, &of_weight, &of_bias, &plus_one, &of_residual,
	                      &to_sums, &blocks) ||
	    !arguments_quantize_optional(&o.quantize, &quantize, blocks) || !operand_read(&src, from, "x"))
		return NULL;
	const size_t rows = src.matrix.rows, cols = src.matrix.cols;
	o.weight_plus_one = plus_one;
	if (operand_read_optional(&weight, &o.weight, of_weight, "weight") && is_row(o.weight, cols, "weight") &&
	    operand_read_optional(&bias, &o.bias, of_bias, "bias") && is_row(o.bias, cols, "bias") &&
	    operand_read_optional(&residual, &o.residual, of_residual, "residual") &&
	    (to_sums == Py_None || target_write(&sums, to_sums, rows, cols, "residual_out")) &&
	    target_write(&target, to, rows, cols, "norm")) {
		o.residual_out = to_sums != Py_None ? &sums.result : NULL;
		Py_BEGIN_ALLOW_THREADS
		status = (mean ? mxfp_layer_norm : mxfp_rms_norm)(&target.result, &src.matrix, &o, &exec);
		Py_END_ALLOW_THREADS
		outcome = finish(&target, mean ? "layer_norm" : "rms_norm", status);
	}
	target_release(&sums);
	operand_release(&weight);
	operand_release(&bias);
	operand_release(&residual);
	operand_release(&src);
	return outcome;
}

/* (target, a, b, quantize) */
PyObject *core_add(PyObject *self, PyObject *args)
{
	struct mxfp_add_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *of_a, *of_b, *blocks, *outcome = NULL;
	enum mxfp_status status;
	struct operand a, b;
	struct target target;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOO", &to, &of_a, &of_b, &blocks) || !arguments_quantize_optional(&o.quantize, &quantize, blocks) ||
	    !operand_read(&a, of_a, "a"))
		return NULL;
	if (operand_read(&b, of_b, "b")) {
		if (target_write(&target, to, a.matrix.rows, a.matrix.cols, "add")) {
			Py_BEGIN_ALLOW_THREADS
			status = mxfp_rows_add(&target.result, &a.matrix, &b.matrix, &o, &exec);
			Py_END_ALLOW_THREADS
			outcome = finish(&target, "add", status);
		}
		operand_release(&b);
	}
	operand_release(&a);
	return outcome;
}

/* (target, function, gate, up or None, parameter or None, limit or None, up_plus_one, quantize) */
PyObject *core_glu(PyObject *self, PyObject *args)
{
	struct mxfp_glu_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *of_gate, *of_up, *parameter, *limit, *blocks, *outcome = NULL;
	const struct mxfp_matrix *ups;
	enum mxfp_status status;
	struct operand gate, up;
	struct target target;
	int function, plus_one;

	(void)self;
	if (!PyArg_ParseTuple(args, "OiOOOOpO", &to, &function, &of_gate, &of_up, &parameter, &limit, &plus_one, &blocks) ||
	    !arguments_optional(&o.parameter, parameter) || !arguments_optional(&o.limit, limit) ||
	    !arguments_quantize_optional(&o.quantize, &quantize, blocks) || !operand_read(&gate, of_gate, "gate"))
		return NULL;
	o.up_plus_one = plus_one;
	if (operand_read_optional(&up, &ups, of_up, "up")) {
		if (target_write(&target, to, gate.matrix.rows, ups != NULL ? gate.matrix.cols : gate.matrix.cols / 2, "glu")) {
			Py_BEGIN_ALLOW_THREADS
			status = mxfp_glu(&target.result, (enum mxfp_function)function, &gate.matrix, ups, &o, &exec);
			Py_END_ALLOW_THREADS
			outcome = finish(&target, "glu", status);
		}
		operand_release(&up);
	}
	operand_release(&gate);
	return outcome;
}

/* (target, src, frequencies, head_cols, rotary_cols, interleaved, positions as uint32 or None, first_position, attention_factor or
   None, quantize) */
PyObject *core_rotary(PyObject *self, PyObject *args)
{
	struct mxfp_rotary_options o = {.size = sizeof o};
	struct mxfp_quantize_options quantize;
	const struct mxfp_exec exec = arguments_exec();
	PyObject *to, *from, *of_frequencies, *of_positions, *factor, *blocks, *outcome = NULL;
	Py_ssize_t head_cols, rotary_cols;
	struct floats frequencies, positions;
	enum mxfp_status status;
	struct operand src;
	struct target target;
	unsigned first;
	int interleaved;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOnnpOIOO", &to, &from, &of_frequencies, &head_cols, &rotary_cols, &interleaved,
	                      &of_positions, &first, &factor, &blocks) ||
	    !arguments_optional(&o.attention_factor, factor) || !arguments_quantize_optional(&o.quantize, &quantize, blocks) ||
	    !operand_read(&src, from, "x"))
		return NULL;
	const size_t cols = rotary_cols > 0 ? (size_t)rotary_cols : head_cols > 0 ? (size_t)head_cols : src.matrix.cols;
	o.head_cols = (size_t)head_cols;
	o.rotary_cols = (size_t)rotary_cols;
	o.interleaved = interleaved;
	o.first_position = first;
	if (floats_read(&frequencies, of_frequencies, cols / 2, "frequencies")) {
		/* Words of 32 bits, as those of a float. */
		positions.has_rows = false;
		if (of_positions == Py_None || rows_read(&positions.rows, of_positions, MXFP_FORMAT_TF32, AXIS_LAST, "positions")) {
			positions.has_rows = of_positions != Py_None;
			if (positions.has_rows && positions.rows.cols != src.matrix.rows) {
				PyErr_Format(PyExc_ValueError, "positions: %zu are needed, one a row", src.matrix.rows);
			} else if (target_write(&target, to, src.matrix.rows, src.matrix.cols, "rotary")) {
				o.positions = positions.has_rows ? (const uint32_t *)(const void *)positions.rows.data : NULL;
				Py_BEGIN_ALLOW_THREADS
				status = mxfp_rotary(&target.result, &src.matrix, frequencies.numbers, &o, &exec);
				Py_END_ALLOW_THREADS
				outcome = finish(&target, "rotary", status);
			}
			floats_release(&positions);
		}
		floats_release(&frequencies);
	}
	operand_release(&src);
	return outcome;
}

/* (frequencies, base, scaling, factor, original_positions, low_freq_factor, high_freq_factor, beta_fast, beta_slow, truncate,
   mscale, mscale_all_dim): the attention factor */
PyObject *core_frequencies(PyObject *self, PyObject *args)
{
	struct mxfp_frequency_options o = {.size = sizeof o};
	enum mxfp_status status;
	struct rows to;
	PyObject *frequencies;
	float attention_factor;
	int scaling, truncate;
	unsigned positions;

	(void)self;
	if (!PyArg_ParseTuple(args, "OdidIddddpdd", &frequencies, &o.base, &scaling, &o.factor, &positions, &o.low_freq_factor,
	                      &o.high_freq_factor, &o.beta_fast, &o.beta_slow, &truncate, &o.mscale, &o.mscale_all_dim) ||
	    !rows_write(&to, frequencies, MXFP_FORMAT_F32, "rotary_frequencies"))
		return NULL;
	o.scaling = (enum mxfp_rotary_scaling)scaling;
	o.original_positions = positions;
	o.no_truncate = !truncate;
	status = mxfp_rotary_frequencies((float *)(void *)to.data, &attention_factor, 2 * to.cols, &o);
	rows_release(&to);
	return status == MXFP_OK ? PyFloat_FromDouble((double)attention_factor)
	                         : arguments_fail("rotary_frequencies", status, UINT64_MAX);
}

/* (numbers, reduction, src) */
PyObject *core_reduce(PyObject *self, PyObject *args)
{
	const struct mxfp_exec exec = arguments_exec();
	PyObject *numbers, *from, *result = NULL;
	enum mxfp_status status;
	struct operand src;
	struct rows to;
	int reduction;

	(void)self;
	if (!PyArg_ParseTuple(args, "OiO", &numbers, &reduction, &from) || !operand_read(&src, from, "x"))
		return NULL;
	if (rows_write(&to, numbers, MXFP_FORMAT_F32, "reduce")) {
		if (to.rows * to.cols != src.matrix.rows || (to.rows > 1 && to.stride != to.cols * to.item)) {
			PyErr_SetString(PyExc_ValueError, "reduce: the result has a number for each row");
		} else {
			Py_BEGIN_ALLOW_THREADS
			status = mxfp_rows_reduce((float *)(void *)to.data, (enum mxfp_reduction)reduction, &src.matrix, &exec);
			Py_END_ALLOW_THREADS
			result = status == MXFP_OK ? Py_BuildValue("") : arguments_fail("reduce", status, UINT64_MAX);
		}
		rows_release(&to);
	}
	operand_release(&src);
	return result;
}

/* (integers as wide as a pointer, src) */
PyObject *core_argmax(PyObject *self, PyObject *args)
{
	const struct mxfp_exec exec = arguments_exec();
	PyObject *integers, *from, *result = NULL;
	enum mxfp_status status;
	struct operand src;
	struct array to;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &integers, &from) || !operand_read(&src, from, "x"))
		return NULL;
	if (array_get(&to, integers, "argmax")) {
		/* The Python layer makes the result. */
		if (to.n_dims != 1 || to.readonly || to.item != sizeof(size_t) || (size_t)to.shape[0] != src.matrix.rows ||
		    (to.shape[0] > 1 && to.strides[0] != (Py_ssize_t)to.item)) {
			PyErr_SetString(PyExc_ValueError, "argmax: the result has an integer for each row");
		} else {
			Py_BEGIN_ALLOW_THREADS
			status = mxfp_rows_argmax((size_t *)(void *)to.data, &src.matrix, &exec);
			Py_END_ALLOW_THREADS
			result = status == MXFP_OK ? Py_BuildValue("") : arguments_fail("argmax", status, UINT64_MAX);
		}
		array_release(&to);
	}
	operand_release(&src);
	return result;
}
