/* SPDX-License-Identifier: MIT */
/*
 * mxfp._core: the library for the Python layer beside it, which alone calls it. It sees arrays and numbers: whatever is a name
 * or an object of the layer's stays there. Nothing here keeps state but the number of threads.
 */
#include "module.h"

#include <string.h>

#include "array.h"
#include "mxfp.h"

/* (array, its name in errors) */
static PyObject *core_describe(PyObject *self, PyObject *args)
{
	PyObject *object;
	const char *what;

	(void)self;
	return PyArg_ParseTuple(args, "Os", &object, &what) ? array_describe(object, what) : NULL;
}

static PyObject *core_set_threads(PyObject *self, PyObject *number)
{
	const unsigned long n = PyLong_AsUnsignedLong(number);

	(void)self;
	if (PyErr_Occurred() != NULL)
		return NULL;
	arguments_set_threads((unsigned)n);
	return Py_BuildValue("");
}

/* (codes_row_bytes, scales_row_bytes) of a row of cols elements. */
static PyObject *core_row_bytes(PyObject *self, PyObject *args)
{
	struct mxfp_sizes size;
	enum mxfp_status status;
	Py_ssize_t cols;
	int format;

	(void)self;
	if (!PyArg_ParseTuple(args, "in", &format, &cols))
		return NULL;
	status = mxfp_blocks_size(&size, (enum mxfp_format)format, 1, (size_t)cols);
	if (status != MXFP_OK) {
		PyErr_SetString(PyExc_ValueError, mxfp_status_text(status));
		return NULL;
	}
	return Py_BuildValue("(KK)", (unsigned long long)size.codes_row_bytes, (unsigned long long)size.scales_row_bytes);
}

/* (names of all tiers that are there, the active one) */
static PyObject *core_isa(PyObject *self, PyObject *none)
{
	const uint32_t available = mxfp_isa_available();
	PyObject *names = PyList_New(0);
	int failed = names == NULL;
	const char *name;

	(void)self;
	(void)none;
	for (int i = 0; !failed && (name = mxfp_isa_name(i)) != NULL; i++)
		if (available >> i & 1) {
			PyObject *text = PyUnicode_FromString(name);

			failed = text == NULL || PyList_Append(names, text) != 0;
			Py_XDECREF(text);
		}
	if (failed) {
		Py_XDECREF(names);
		return NULL;
	}
	return Py_BuildValue("(Ns)", names, mxfp_isa_name(mxfp_isa_active()));
}

static PyObject *core_format_from_name(PyObject *self, PyObject *name)
{
	enum mxfp_format format;
	Py_ssize_t length;
	const char *text = PyUnicode_AsUTF8AndSize(name, &length);

	(void)self;
	if (text == NULL)
		return NULL;
	const bool known = strlen(text) == (size_t)length && mxfp_format_from_name(&format, text) == MXFP_OK;
	return PyLong_FromLong(known ? (long)format : -1);
}

static PyMethodDef methods[] = {
	{"describe", core_describe, METH_VARARGS, NULL},
	{"set_threads", core_set_threads, METH_O, NULL},
	{"row_bytes", core_row_bytes, METH_VARARGS, NULL},
	{"isa", core_isa, METH_NOARGS, NULL},
	{"format_from_name", core_format_from_name, METH_O, NULL},
	{"convert", core_convert, METH_VARARGS, NULL},
	{"quantize", core_quantize, METH_VARARGS, NULL},
	{"fake_quantize", core_fake_quantize, METH_VARARGS, NULL},
	{"dequantize", core_dequantize, METH_VARARGS, NULL},
	{"transpose", core_transpose, METH_VARARGS, NULL},
	{"amax", core_amax, METH_VARARGS, NULL},
	{"unpack", core_unpack, METH_VARARGS, NULL},
	{"difference", core_difference, METH_VARARGS, NULL},
	{"equal", core_equal, METH_VARARGS, NULL},
	{"gemm", core_gemm, METH_VARARGS, NULL},
	{"pack", core_pack, METH_VARARGS, NULL},
	{"takes", core_takes, METH_VARARGS, NULL},
	{"apply", core_apply, METH_VARARGS, NULL},
	{"softmax", core_softmax, METH_VARARGS, NULL},
	{"norm", core_norm, METH_VARARGS, NULL},
	{"add", core_add, METH_VARARGS, NULL},
	{"glu", core_glu, METH_VARARGS, NULL},
	{"rotary", core_rotary, METH_VARARGS, NULL},
	{"frequencies", core_frequencies, METH_VARARGS, NULL},
	{"reduce", core_reduce, METH_VARARGS, NULL},
	{"argmax", core_argmax, METH_VARARGS, NULL},
#ifdef HAVE_READERS
	{"model_open", core_model_open, METH_O, NULL},
	{"model_read", core_model_read, METH_VARARGS, NULL},
#endif
	{NULL, NULL, 0, NULL},
};

/* Appends an object, which may be NULL, to a list; false on an error. */
static bool append(PyObject *list, PyObject *object)
{
	const bool ok = object != NULL && PyList_Append(list, object) == 0;

	Py_XDECREF(object);
	return ok;
}

/* [(name, kind, special, bits, exponent_bits, significand_bits, bias, max_code, storage_bytes, element, scale, block_length,
   tensor_scale), ...], by number. */
static PyObject *list_formats(void)
{
	static const char *const kinds[] = {"float", "ufloat", "fixed", "exponent", "block"};
	static const char *const specials[] = {"none", "nan", "ieee", "fnuz"};
	PyObject *list = PyList_New(0);
	const struct mxfp_format_info *f;

	for (int i = 0; list != NULL && (f = mxfp_format_get_info((enum mxfp_format)i)) != NULL; i++)
		if (!append(list, Py_BuildValue("(sssIIIiIIiiIN)", f->name, kinds[f->kind], specials[f->special], f->bits,
		                                f->exponent_bits, f->significand_bits, f->bias, (unsigned)f->max_code,
		                                f->storage_bytes, (int)f->element, (int)f->scale, f->block_length,
		                                PyBool_FromLong(f->tensor_scale))))
			Py_CLEAR(list);
	return list;
}

/* [(name, meaning), ...], by number. */
static PyObject *list_option(enum mxfp_option option)
{
	PyObject *list = PyList_New(0);
	const char *name;

	for (int i = 0; list != NULL && (name = mxfp_option_name(option, i)) != NULL; i++)
		if (!append(list, Py_BuildValue("(ss)", name, mxfp_option_meaning(option, i))))
			Py_CLEAR(list);
	return list;
}

/* Adds a value, which may be NULL, to the module; false on an error. */
static bool add(PyObject *module, const char *name, PyObject *value)
{
	const bool ok = value != NULL && PyModule_AddObjectRef(module, name, value) == 0;

	Py_XDECREF(value);
	return ok;
}

static int execute(PyObject *module)
{
	const bool ok = add(module, "version", PyUnicode_FromString(mxfp_version())) &&
	                add(module, "build_info", PyUnicode_FromString(mxfp_build_info())) &&
	                add(module, "formats", list_formats()) &&
	                add(module, "rounds", list_option(MXFP_OPTION_ROUND)) &&
	                add(module, "overflows", list_option(MXFP_OPTION_OVERFLOW)) &&
	                add(module, "rules", list_option(MXFP_OPTION_RULE)) &&
	                add(module, "recipes", list_option(MXFP_OPTION_RECIPE)) &&
	                add(module, "non_finites", list_option(MXFP_OPTION_NON_FINITE)) &&
	                add(module, "accs", list_option(MXFP_OPTION_ACC)) &&
	                add(module, "functions", list_option(MXFP_OPTION_FUNCTION));

	return ok ? 0 : -1;
}

/* Slots that Pythons before the named ones refuse, by their numbers, which the stable ABI of 3.11 does not name. */
enum { SLOT_INTERPRETERS = 3, SINCE_INTERPRETERS = 0x030C0000, SLOT_GIL = 4, SINCE_GIL = 0x030D0000 };
#define OWN_GIL ((void *)2)  /* Py_MOD_PER_INTERPRETER_GIL_SUPPORTED */
#define NO_GIL ((void *)1)   /* Py_MOD_GIL_NOT_USED */

static PyModuleDef_Slot slots[4];

static PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "mxfp._core",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
	size_t n = 0;

	/* Functions have no name in ISO C as void pointers. */
	int (*exec)(PyObject *) = execute;
	slots[n].slot = Py_mod_exec;
	memcpy(&slots[n++].value, &exec, sizeof exec);
	if (Py_Version >= SINCE_INTERPRETERS)
		slots[n++] = (PyModuleDef_Slot){SLOT_INTERPRETERS, OWN_GIL};
	if (Py_Version >= SINCE_GIL)
		slots[n++] = (PyModuleDef_Slot){SLOT_GIL, NO_GIL};
	slots[n] = (PyModuleDef_Slot){0, NULL};
	return PyModuleDef_Init(&definition);
}
