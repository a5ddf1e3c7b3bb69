/* SPDX-License-Identifier: MIT */
/* Python's C API; in builds for the stable ABI that of 3.11, the first with buffers in it. */
#ifndef CORE_PYTHON_H
#define CORE_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#endif
