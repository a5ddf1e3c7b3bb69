/* SPDX-License-Identifier: MIT */
/* Products, and weights that are packed for them. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "module.h"

/* What a product reads besides A and W. */
struct product {
	struct mxfp_product product;
	struct mxfp_gemm_options options;
	struct mxfp_quantize_options a_quantize, c_quantize;
	struct operand a, w, gate, residual;
	struct floats bias;
	struct rows packed;
	bool has_packed;
};

/* (acc, pass_k, psum, psum_round, seed, stream, a_format, a_quantize or None) */
static bool read_kernel(struct product *p, PyObject *tuple)
{
	struct mxfp_gemm_options *o = &p->options;
	unsigned long long seed, stream;
	int acc, psum, psum_round, a_format;
	PyObject *a_quantize;

	if (!arguments_parse(tuple, "iIiiKKiO", &acc, &o->pass_k, &psum, &psum_round, &seed, &stream, &a_format, &a_quantize))
		return false;
	o->acc = (enum mxfp_acc)acc;
	o->psum = (enum mxfp_format)psum;
	o->psum_round = (enum mxfp_round)psum_round;
	o->seed = seed;
	o->stream = stream;
	o->a_format = (enum mxfp_format)a_format;
	return arguments_quantize_optional(&o->a_quantize, &p->a_quantize, a_quantize);
}

/* W: a matrix, or (packed bytes, n). */
static bool read_weights(struct product *p, PyObject *w)
{
	PyObject *packed;
	Py_ssize_t n;

	if (!PyTuple_Check(w) || PyTuple_Size(w) != 2)
		return operand_read_optional(&p->w, &p->product.w, w, "w");
	if (!PyArg_ParseTuple(w, "On", &packed, &n))
		return false;
	p->has_packed = rows_read(&p->packed, packed, FORMAT_BYTES, AXIS_LAST, "w");
	if (!p->has_packed)
		return false;
	p->product.w_packed = p->packed.data;
	p->product.w_packed_bytes = p->packed.cols;
	p->product.n = (size_t)n;
	return true;
}

/* (bias or None, activation, activation_parameter or None, gate or None, residual or None, accumulate, c_quantize or None) */
static bool read_finish(struct product *p, PyObject *tuple, size_t n)
{
	PyObject *bias, *parameter, *gate, *residual, *c_quantize;
	int activation, accumulate;

	if (!arguments_parse(tuple, "OiOOOpO", &bias, &activation, &parameter, &gate, &residual, &accumulate, &c_quantize))
		return false;
	p->options.activation = (enum mxfp_function)activation;
	p->options.accumulate = accumulate;
	if (!arguments_optional(&p->options.activation_parameter, parameter) ||
	    !arguments_quantize_optional(&p->options.c_quantize, &p->c_quantize, c_quantize) || !floats_read(&p->bias, bias, n, "bias"))
		return false;
	p->product.bias = p->bias.numbers;
	return operand_read_optional(&p->gate, &p->product.gate, gate, "gate") &&
	       operand_read_optional(&p->residual, &p->product.residual, residual, "residual");
}

static void product_release(struct product *p)
{
	operand_release(&p->a);
	operand_release(&p->w);
	operand_release(&p->gate);
	operand_release(&p->residual);
	floats_release(&p->bias);
	if (p->has_packed)
		rows_release(&p->packed);
}

static PyObject *run(struct product *p, PyObject *to)
{
	const struct mxfp_exec exec = arguments_exec();
	const size_t n = p->has_packed ? p->product.n : p->w.matrix.rows;
	enum mxfp_status status;
	PyObject *outcome = NULL;
	struct target target;
	void *workspace;
	size_t bytes;

	if (!target_write(&target, to, p->a.matrix.rows, n, "gemm"))
		return NULL;
	if (p->a_quantize.non_finite == MXFP_NON_FINITE_ERROR && p->options.a_quantize != NULL)
		target.result.first_non_finite = &target.first_non_finite;
	p->product.c = &target.result;
	status = mxfp_gemm_workspace_size(&bytes, &p->product, 1, &p->options, &exec);
	if (status != MXFP_OK) {
		arguments_fail("gemm", status, UINT64_MAX);
	} else if ((workspace = malloc(bytes > 0 ? bytes : 1)) == NULL) {
		PyErr_NoMemory();
	} else {
		Py_BEGIN_ALLOW_THREADS
		status = mxfp_gemm(&p->product, &p->options, workspace, bytes, &exec);
		Py_END_ALLOW_THREADS
		free(workspace);
		outcome = status == MXFP_OK ? target_outcome(&target) : arguments_fail("gemm", status, target.first_non_finite);
	}
	target_release(&target);
	return outcome;
}

/* (target, a, w, kernel, finish) */
PyObject *core_gemm(PyObject *self, PyObject *args)
{
	PyObject *to, *a, *w, *kernel, *finish, *outcome = NULL;
	struct product p;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOOOO", &to, &a, &w, &kernel, &finish))
		return NULL;
	memset(&p, 0, sizeof p);
	p.product.size = sizeof p.product;
	p.options.size = sizeof p.options;
	if (read_kernel(&p, kernel) && operand_read(&p.a, a, "a") && read_weights(&p, w) &&
	    read_finish(&p, finish, p.has_packed ? p.product.n : p.w.matrix.rows)) {
		p.product.a = &p.a.matrix;
		outcome = run(&p, to);
	}
	product_release(&p);
	return outcome;
}

/* (w, kernel): bytes */
PyObject *core_pack(PyObject *self, PyObject *args)
{
	const struct mxfp_exec exec = arguments_exec();
	PyObject *w, *kernel, *packed = NULL;
	enum mxfp_status status;
	struct product p;
	size_t bytes;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &w, &kernel))
		return NULL;
	memset(&p, 0, sizeof p);
	p.options.size = sizeof p.options;
	if (!read_kernel(&p, kernel) || !operand_read(&p.w, w, "w"))
		return NULL;
	status = mxfp_pack_size(&bytes, &p.w.matrix, &p.options, &exec);
	if (status == MXFP_OK) {
		packed = bytes <= PY_SSIZE_T_MAX ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes) : PyErr_NoMemory();
		if (packed != NULL) {
			void *to = PyBytes_AsString(packed);

			Py_BEGIN_ALLOW_THREADS
			status = mxfp_pack(to, bytes, &p.w.matrix, &p.options, &exec);
			Py_END_ALLOW_THREADS
		}
	}
	if (status != MXFP_OK) {
		Py_CLEAR(packed);
		arguments_fail("pack", status, UINT64_MAX);
	}
	product_release(&p);
	return packed;
}

/* (acc): [(format of A, format of W), ...] of the products that are summed so */
PyObject *core_takes(PyObject *self, PyObject *args)
{
	struct mxfp_gemm_options o = {.size = sizeof o};
	PyObject *pairs = PyList_New(0);
	int acc;

	(void)self;
	if (pairs == NULL || !PyArg_ParseTuple(args, "i", &acc)) {
		Py_XDECREF(pairs);
		return NULL;
	}
	o.acc = (enum mxfp_acc)acc;
	for (int i = 0; mxfp_format_get_info((enum mxfp_format)i) != NULL; i++)
		for (int j = 0; mxfp_format_get_info((enum mxfp_format)j) != NULL; j++) {
			const struct mxfp_matrix a = mxfp_numbers((enum mxfp_format)i, 1, 1, NULL);
			const struct mxfp_matrix w = mxfp_numbers((enum mxfp_format)j, 1, 1, NULL);
			const struct mxfp_product product = {.size = sizeof product, .a = &a, .w = &w};
			PyObject *pair;
			size_t bytes;

			if (mxfp_gemm_workspace_size(&bytes, &product, 1, &o, NULL) != MXFP_OK)
				continue;
			pair = Py_BuildValue("(ii)", i, j);
			if (pair == NULL || PyList_Append(pairs, pair) != 0) {
				Py_XDECREF(pair);
				Py_DECREF(pairs);
				return NULL;
			}
			Py_DECREF(pair);
		}
	return pairs;
}
